"""About how long a step takes, said before it is begun.

Budgets in minutes or CPU-seconds are taken at their word.  The rest is counted in multiply–adds
or solved cells and divided by the speed of an ordinary core: right within a factor of a few,
which tells a coffee from a weekend.
"""

from __future__ import annotations

import math
import os
from typing import Any

import fino
from fino.pde import PROBLEMS
from fino.recipe.recipe import DataChoice
from fino.recipe.sweep import Case

__all__ = ["seconds_to_evaluate", "seconds_to_generate", "seconds_to_report", "seconds_to_train"]

#: Core-seconds a trajectory at each problem's own settings (docs/log.md), and to compile kernels.
_SOLVE = {
    "advection": 0.05,
    "diffusion-reaction-1d": 0.01,
    "compressible-1d": 0.27,
    "darcy": 0.05,
    "darcy-pdebench": 0.1,
    "diffusion-reaction-2d": 0.17,
    "shallow-water": 0.23,
    "shallow-water-momenta": 0.23,
}
_COMPILE = 5.0
#: Multiply–adds a second that training reaches on one core, and on a large GPU.
_CORE, _GPU = 5e9, 1e12
_REPORT = 10.0
#: The paper's weather maps: ten years of days.
_CLIMATE = (3650, 2, 1, 72, 72)


def seconds_to_generate(choice: DataChoice) -> float:
    """The solver's cost grows with the cells, and with them the steps in time."""
    if choice.problem is None or choice.samples is None:
        return 5.0
    problem = PROBLEMS[choice.problem]
    usual, asked = problem(), problem(**choice.settings)
    work = 1.0
    for name, power in (("points", len(usual.grid.points) + 1), ("duration", 1)):
        if hasattr(usual, name):
            work *= (getattr(asked, name) / getattr(usual, name)) ** power
    if hasattr(usual, "beta") and choice.problem == "advection":
        work *= abs(asked.beta / usual.beta)  # type: ignore[attr-defined]
    each = _SOLVE.get(choice.problem, 0.1) * work
    return _COMPILE + choice.samples * each / _cores()


def seconds_to_train(case: Case) -> float:
    """The tightest of the budgets, those in steps by counting."""
    from fino.training.choices import DEFAULT_MINUTES

    budget = case.train
    known = []
    if budget.get("minutes"):
        known.append(60.0 * budget["minutes"])
    if budget.get("cpu_seconds"):
        known.append(budget["cpu_seconds"] / min(budget.get("threads") or _cores(), _cores()))
    if budget.get("steps") or budget.get("epochs"):
        known.append(_counted(case))
    return min(known, default=60.0 * DEFAULT_MINUTES)


def seconds_to_evaluate(case: Case) -> float:
    samples, frames, channels, *points = _shape(case.data)
    return 3.0 + samples * frames * channels * math.prod(points) / 2e6


def seconds_to_report() -> float:
    return _REPORT


def _counted(case: Case) -> float:
    """Steps × frames × three times the multiply–adds of a forward pass, over the speed."""
    samples, frames, channels, *points = _shape(case.data)
    learnt = min(case.data.train or samples, math.ceil(0.81 * samples))
    usual = 1 if frames == 2 else max(1, min(10, frames // 2))
    history = case.build.get("history") or case.data.history or usual
    batch = case.train.get("batch") or max(2, min(64, learnt, 8192 // math.prod(points)))
    limits = [case.train["steps"]] if case.train.get("steps") else []
    if case.train.get("epochs"):
        limits.append(math.ceil(case.train["epochs"] * learnt / batch))
    horizon = min(case.train.get("horizon", 4) or frames, frames - history)
    forward = _multiply_adds(case, history * channels, channels, points)
    speed = _GPU if str(case.train.get("device", "cpu")) != "cpu" else _CORE * _cores()
    return min(limits) * batch * horizon * 3 * forward / speed


def _multiply_adds(case: Case, inputs: int, outputs: int, points: list[int]) -> int:
    from fino.model import MODELS
    from fino.model.cost import multiply_adds

    kind = MODELS[case.model]
    settings = {**kind.sizes.get(case.build.get("size", ""), {}), **case.build}
    for name in ("size", "history", "predict", "coordinates", "edges"):
        settings.pop(name, None)
    network = kind(dims=len(points), inputs=inputs, outputs=outputs, **settings)
    return multiply_adds(network, (1, inputs, *points))


def _shape(choice: DataChoice) -> tuple[int, ...]:
    """(sample, time, channel, *space) of the data that are there or would be made."""
    if choice.file is not None:
        samples, frames, channels, *points = fino.open(choice.file).shape
    elif choice.problem is not None:
        problem = PROBLEMS[choice.problem](**choice.settings)
        samples, channels = choice.samples or 0, len(problem.fields)
        frames = 2 if problem.steady else len(problem.times)
        points = list(problem.grid.points)
    else:
        return _CLIMATE
    frames = frames if frames == 2 else -(-frames // choice.stride_time)
    return (samples, frames, channels, *(-(-n // choice.stride_space) for n in points))


def _cores() -> int:
    """The cores that this process may use."""
    affinity: Any = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
