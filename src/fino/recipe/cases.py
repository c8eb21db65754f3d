"""The cases of a recipe: one for each value of what is varied, each model and each seed.

    [sweep]
    "model.blocks" = [1, 2, 3, 4]        →  fino-blocks-1, fino-blocks-2, …
    "data.train" = [50, 100]             →  every axis with every other

An axis that does not concern a model, such as "model.fino.gate" for FNO, does not repeat it.

How long a case takes is estimated before it is begun.  Budgets in minutes or CPU-seconds are taken
as they are.  The rest is counted in multiply–adds or solved cells and divided by the speed of an
ordinary core: right within a factor of a few.
"""

from __future__ import annotations

import inspect
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from fino.model import MODELS
from fino.pde import PROBLEMS
from fino.pde.problem import cores
from fino.recipe.data import Files
from fino.recipe.recipe import DataChoice, Recipe, check_keys, parse_recipe, set_key
from fino.training.schedule import steps_allowed
from fino.training.settings import TrainingSettings

__all__ = ["Case", "choose_case", "estimate_seconds", "find_settings", "list_cases"]

#: What a recipe's [model] may not say, because it follows from the data.
_FROM_DATA = ("dims", "inputs", "outputs", "boundary", "data")

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
    "gray-scott": 3.0,
}
_COMPILE, _REPORT = 5.0, 10.0
#: Multiply–adds a second that training reaches on one core, and on a large GPU.
_CORE, _GPU = 5e9, 1e12
#: The paper's weather maps: ten years of days.
_CLIMATE = (3650, 2, 1, 72, 72)


@dataclass(frozen=True)
class Case:
    """One training run: what is built, on which data, how it is trained, and what is varied."""

    name: str
    model: str
    seed: int
    data: DataChoice
    build: dict[str, Any]
    train: dict[str, Any]
    varied: dict[str, Any]


def list_cases(recipe: Recipe) -> tuple[Case, ...]:
    """Every case of a recipe, each checked, in the order in which they are run."""
    found: dict[str, Case] = {}
    for one, varied in _vary(recipe):
        for row, seed in product(one.models, one.seeds):
            case = _case(one, row, seed, varied)
            data = case.data.model_dump(mode="json")
            parts = [case.model, case.seed, data, case.build, case.train]
            found.setdefault(json.dumps(parts, sort_keys=True), case)
    names = [case.name for case in found.values()]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"Two cases of {recipe.name} would both be called '{name}'.")
    return tuple(found.values())


def choose_case(recipe: Recipe, model: str | None = None) -> Case:
    """One model of a recipe with its first seed, for `fino train`; what it sweeps is left out."""
    return _case(recipe, model or recipe.models[0], recipe.seeds[0], {})


def find_settings(recipe: Recipe, row: str) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """The network, the settings to build it and to train it that a recipe has for one model."""
    build = _settings_of_row(recipe.model, row, recipe.models)
    train = _settings_of_row(recipe.train, row, recipe.models)
    kind = build.pop("name", row)
    where = " ".join(filter(None, (recipe.where, f"for model {kind}")))
    check_keys(build, _build_keys(MODELS[kind]), "model", where)
    for name, type_, meaning in (("history", int, "a number of frames"), ("size", str, "a word")):
        if not isinstance(build.get(name), type_ | None) or isinstance(build.get(name), bool):
            raise ValueError(f"model.{name} {where} should be {meaning}, got {build[name]!r}.")
    return kind, build, _choose_scheme(train, recipe.where)


def _vary(recipe: Recipe) -> Iterator[tuple[Recipe, dict[str, Any]]]:
    """The recipe for each value of what it sweeps, and the settings that are varied."""
    for key, values in recipe.sweep.items():
        table, dot, _ = key.partition(".")
        if not dot or table not in ("data", "model", "train"):
            raise ValueError(
                f"A sweep varies data.…, model.… or train.…, such as \"model.blocks\", got '{key}'."
            )
        if not values:
            raise ValueError(f"The sweep of {key} should have at least one value.")
    content = recipe.model_dump(mode="json", exclude_unset=True, exclude={"name", "sweep"})
    for values in product(*recipe.sweep.values()):
        varied = dict(zip(recipe.sweep, values, strict=True))
        changed = json.loads(json.dumps(content))
        for key, value in varied.items():
            set_key(changed, key, value)
        yield parse_recipe(recipe.name, changed), varied


def _case(recipe: Recipe, row: str, seed: int, varied: dict[str, Any]) -> Case:
    kind, build, train = find_settings(recipe, row)
    others = {name for name in recipe.models if name != row}
    concerns = {key: key.startswith("data.") or key.split(".")[1] not in others for key in varied}
    own = {key: value for key, value in varied.items() if concerns[key]}
    words = [row, *(f"{key.rpartition('.')[2]}-{_word(value)}" for key, value in own.items())]
    words += [f"seed-{seed}"] if len(recipe.seeds) > 1 else []
    return Case("-".join(words), kind, seed, recipe.data, build, {**train, "seed": seed}, own)


def _settings_of_row(table: dict[str, Any], row: str, rows: tuple[str, ...]) -> dict[str, Any]:
    """What a table says for one model: what it says for all, then what it says for that one."""
    named = {row, *rows, *MODELS}
    shared = {k: v for k, v in table.items() if not (k in named and isinstance(v, dict))}
    own = table.get(row, {})
    return {**shared, **own} if isinstance(own, dict) else shared


@cache
def _build_keys(kind: Any) -> tuple[str, ...]:
    """What can be set about a model: by its network, or by how it is built."""
    from fino.model.build import build

    network = kind(dims=1, inputs=1, outputs=1)
    shared = [n for n, p in inspect.signature(build).parameters.items() if p.kind != p.VAR_KEYWORD]
    fields = type(network.settings).model_fields
    return tuple(n for n in (*shared, *fields) if n not in _FROM_DATA)


def _choose_scheme(train: dict[str, Any], where: str) -> dict[str, Any]:
    """Training settings, checked; `scheme` says what they are changes of, ours or the paper's."""
    known = ["scheme", *(name for name in TrainingSettings.model_fields if name != "seed")]
    check_keys(train, known, "train", where)
    changes = {key: value for key, value in train.items() if key != "scheme"}
    scheme = train.get("scheme", "ours")
    if scheme not in ("ours", "paper"):
        raise ValueError(f"train.scheme should be 'ours' or 'paper', got '{scheme}'.")
    if scheme == "paper":
        return TrainingSettings.paper(**changes).model_dump(mode="json", exclude_unset=True)
    TrainingSettings(**changes)
    return changes


def _word(value: Any) -> str:
    """A value as part of a folder's name: 0.001, true, 1-2, learn."""
    text = "-".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-").lower() or "none"


def estimate_seconds(kind: str, case: Case, files: Files) -> float:
    """About how long it takes to generate the data of a case, to train, evaluate or report it."""
    if kind == "generate":
        return _estimate_generation(case.data)
    if kind == "train":
        return _estimate_training(case, files)
    return 3.0 + math.prod(_shape(case.data, files)) / 2e6 if kind == "evaluate" else _REPORT


def _estimate_generation(choice: DataChoice) -> float:
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
    return _COMPILE + choice.samples * _SOLVE.get(choice.problem, 0.1) * work / cores()


def _estimate_training(case: Case, files: Files) -> float:
    """The tightest of the budgets, those in steps by counting."""
    from fino.training.choices import DEFAULT_MINUTES

    budget, known = case.train, []
    if budget.get("minutes"):
        known.append(60.0 * budget["minutes"])
    if budget.get("cpu_seconds"):
        known.append(budget["cpu_seconds"] / min(budget.get("threads") or cores(), cores()))
    if budget.get("steps") or budget.get("epochs"):
        known.append(_count(case, _shape(case.data, files)))
    return min(known, default=60.0 * DEFAULT_MINUTES)


def _count(case: Case, shape: tuple[int, ...]) -> float:
    """Steps × frames × three times the multiply–adds of a forward pass, over the speed."""
    from fino.model.cost import check_room, multiply_adds

    train, (samples, frames, channels, *points) = case.train, shape
    learnt = min(case.data.train or samples, math.ceil(0.81 * samples))
    usual = 1 if frames == 2 else max(1, min(10, frames // 2))
    history = case.build.get("history") or case.data.history or usual
    batch = train.get("batch") or max(2, min(64, learnt, 8192 // math.prod(points)))
    steps = steps_allowed(TrainingSettings(**train), learnt, batch) or 0
    horizon = min(train.get("horizon", 4) or frames, frames - history)
    kind, inputs = MODELS[case.model], history * channels
    settings = {**kind.sizes.get(case.build.get("size", ""), {}), **case.build}
    for name in ("size", "history", "predict", "coordinates", "edges", "seed"):
        settings.pop(name, None)
    settings |= {"dims": len(points), "inputs": inputs, "outputs": channels}
    check_room(kind, **settings)
    network = kind(**settings)
    speed = _GPU if str(train.get("device", "cpu")) != "cpu" else _CORE * cores()
    forward = multiply_adds(network, (1, inputs, *points))
    return steps * batch * horizon * 3 * forward / speed


def _shape(choice: DataChoice, files: Files) -> tuple[int, ...]:
    """(sample, time, channel, *space) of the data that are there or would be made."""
    if choice.file is not None:
        samples, frames, channels, *points = files.open(Path(choice.file), choice.reading).shape
    elif choice.problem is not None:
        problem = PROBLEMS[choice.problem]
        asked = problem(**choice.settings)
        samples, channels = choice.samples or 0, len(problem.fields)
        frames = 2 if problem.steady else len(asked.times)
        points = list(asked.grid.points)
    else:
        return _CLIMATE
    frames = frames if frames == 2 else -(-frames // choice.stride_time)
    return (samples, frames, channels, *(-(-n // choice.stride_space) for n in points))
