"""Make data: draw initial conditions, solve, keep what is asked for, never lose a finished shard.

    fino.generate("advection", samples=100, seed=0, stride_space=8, stride_time=5, beta=4.0)

Samples are solved in shards of a fixed size, so memory stays bounded and the numbers do not
depend on the machine.  Each finished shard is put on disk before the next is begun; a run that
was interrupted goes on from there and ends with the very bytes of one that was not.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import fino
from fino.data.card import Card, Cost
from fino.data.dataset import Dataset
from fino.data.frames import ArrayFrames
from fino.data.shards import Shards
from fino.data.split import split_by_rule
from fino.data.store import read_native, write_cards
from fino.pde import PROBLEMS
from fino.pde.problem import Problem, Progress
from fino.settings import did_you_mean

__all__ = ["generate", "shard_size"]

#: Bytes of double-precision numbers that one shard may hold while it is solved.
_SHARD_BYTES = 2**28
_SHARD_SAMPLES = 64


def generate(
    name: str | Problem,
    samples: int,
    seed: int = 0,
    *,
    out: str | Path | None = None,
    stride_space: int | Sequence[int] = 1,
    stride_time: int = 1,
    initial: str = "ours",
    overwrite: bool = False,
    progress: Progress | None = None,
    **settings: Any,
) -> Dataset:
    """Solve a problem for many initial conditions; in memory, or in the file `out`.

    `settings` are the problem's own, such as beta=4.0; initial="pdebench" draws the initial
    conditions of the released PDEBench files.  Strides keep every n-th cell and frame of the
    full solution.  The same call with the same `out` continues or simply returns what is there.
    """
    problem = _problem(name)
    chosen = _settings(problem, initial, settings)
    full = _card(problem, chosen, samples, seed, initial)
    space = (stride_space,) * len(full.points) if isinstance(stride_space, int) else stride_space
    card = _strided(full, tuple(int(s) for s in space), stride_time)
    solve = _solver(problem, chosen, full, card, seed)
    size = shard_size(full)
    if out is None:
        numbers = np.empty(card.shape, dtype=np.float32)
        began = time.perf_counter()
        for start in range(0, samples, size):
            stop = min(start + size, samples)
            numbers[start:stop] = solve(range(start, stop), _part(progress, start, stop, samples))
        return Dataset(_with_cost(card, time.perf_counter() - began), ArrayFrames(numbers))
    path = Path(out)
    shards = Shards(path, card, size)
    if shards.is_finished(overwrite):
        return read_native(path)
    with shards.locked(overwrite):
        for start, stop in shards.missing():
            began = time.perf_counter()
            block = solve(range(start, stop), _part(progress, start, stop, samples))
            shards.keep(start, block, time.perf_counter() - began)
        seconds = shards.assemble()
        write_cards(path, _with_cost(card, seconds))
        shards.clear()
    return read_native(path)


def shard_size(card: Card) -> int:
    """How many samples are solved together: a fact of the data, not of the machine."""
    _, *rest = card.shape
    bytes_each = 8 * int(np.prod(rest, dtype=object))
    return max(1, min(_SHARD_SAMPLES, _SHARD_BYTES // bytes_each))


def _problem(name: str | Problem) -> Problem:
    if not isinstance(name, str):
        return name
    if name not in PROBLEMS:
        raise ValueError(f"Unknown problem '{name}'. {did_you_mean(name, list(PROBLEMS))}")
    return PROBLEMS[name]


def _settings(problem: Problem, initial: str, settings: dict[str, Any]) -> Any:
    if "initial" in problem.settings.model_fields:
        settings = {"initial": initial, **settings}
    elif initial != "ours":
        raise ValueError(
            f"{problem.name} has one kind of initial conditions only, 'ours', got '{initial}'."
        )
    return problem.settings(**settings)


def _card(problem: Problem, settings: Any, samples: int, seed: int, initial: str) -> Card:
    """The facts of the full solution, before any stride."""
    if samples < 1:
        raise ValueError(f"samples should be a positive number of trajectories, got {samples}.")
    grid, times = problem.grid(settings), np.asarray(problem.times(settings), dtype=float)
    steps = np.diff(times)
    if len(steps) > 1 and not np.allclose(steps, steps.mean(), rtol=1e-6):
        raise ValueError(f"{problem.name} should be saved at even times to be stored.")
    return Card(
        name=problem.name,
        title=problem.title,
        equation=problem.equation,
        description=" ".join((type(problem).__doc__ or "").split()),
        fields=problem.fields,
        units=problem.units,
        inputs=getattr(problem, "inputs", ()),
        points=grid.points,
        extent=grid.extent,
        boundary=grid.boundary,
        offset=grid.offset,
        start=float(times[0]),
        dt=float(steps.mean()) if len(steps) and not problem.steady else 1.0,
        frames=2 if problem.steady else len(times),
        samples=samples,
        steady=problem.steady,
        parameters=settings.model_dump(mode="json"),
        symmetries=problem.symmetries,
        speed=problem.speed(settings),
        seed=seed,
        solver=problem.solver(settings),
        initial=initial,
        version=fino.__version__,
        flaws=problem.flaws(settings),
        split=split_by_rule(samples),
    )


def _strided(card: Card, space: tuple[int, ...], time: int) -> Card:
    if len(space) != len(card.points) or min(space) < 1 or time < 1:
        raise ValueError(
            f"strides should be positive whole numbers, one for time and one for each of "
            f"{len(card.points)} axes, got space {list(space)} and time {time}."
        )
    if card.steady and time != 1:
        raise ValueError(f"{card.name} is steady: it has no time to stride over.")
    return card.strided(space, time)


def _solver(
    problem: Problem, settings: Any, full: Card, card: Card, seed: int
) -> Callable[[range, Progress | None], np.ndarray]:
    """Sample numbers → (b, t, c, *space) in float32, strided and checked."""
    grid, times = problem.grid(settings), problem.times(settings)
    keep = (
        slice(None),
        slice(None, None, 1 if card.steady else card.stride_time),
        slice(None),
        *(slice(None, None, s) for s in card.stride_space),
    )

    def solve(samples: range, progress: Progress | None) -> np.ndarray:
        state = problem.draw(settings, grid, seed, samples)
        frames = problem.solve(settings, grid, state, times, progress)
        if frames.shape != (len(samples), *full.shape[1:]):
            raise ValueError(
                f"{problem.name} should return (b, t, c, *space) = "
                f"{(len(samples), *full.shape[1:])}, got {frames.shape}."
            )
        kept = np.ascontiguousarray(frames[keep], dtype=np.float32)
        _check_finite(problem.name, samples, kept)
        return kept

    return solve


def _check_finite(name: str, samples: range, frames: np.ndarray) -> None:
    good = np.isfinite(frames).reshape(*frames.shape[:2], -1).all(axis=2)
    if not good.all():
        row, frame = (int(i) for i in np.argwhere(~good)[0])
        raise ValueError(
            f"{name}: sample {samples[row]} is not a finite number any more at frame {frame}. "
            "Use gentler settings."
        )


def _part(progress: Progress | None, start: int, stop: int, samples: int) -> Progress | None:
    """Progress of one shard as progress of the whole."""
    if progress is None:
        return None
    return lambda share: progress((start + share * (stop - start)) / samples)


def _with_cost(card: Card, seconds: float) -> Card:
    machine = f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}"
    return card.changed(cost=Cost(seconds=round(seconds, 3), machine=machine))
