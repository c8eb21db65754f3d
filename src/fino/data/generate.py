"""Make data: draw initial conditions, solve, keep what is asked for, never lose a finished shard.

    fino.generate("advection", samples=100, seed=0, stride_space=8, stride_time=5, beta=4.0)

Samples are solved in shards of a fixed size, so memory stays bounded and the numbers do not
depend on the machine.  Each finished shard is put on disk before the next is begun; a run that
was interrupted goes on from there and ends with the very bytes of one that was not.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
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
from fino.pde import Problem, find_problem
from fino.pde.problem import Progress

__all__ = ["Plan", "generate", "plan", "shard_size"]

#: Bytes of double-precision numbers that one shard may hold while it is solved.
_SHARD_BYTES = 2**28
_SHARD_SAMPLES = 64


def generate(
    problem: str | type[Problem] | Problem,
    samples: int,
    seed: int = 0,
    *,
    out: str | Path | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
    **settings: Any,
) -> Dataset:
    """Solve a problem for many initial conditions; in memory, or in the file `out`.

    `problem` is a name of PROBLEMS, a class such as Advection, or an instance, Advection(beta=2.0).
    `settings` are the problem's own, such as beta=4.0, and three more: stride_space and
    stride_time keep every n-th cell and frame of the full solution; initial="pdebench" draws the
    initial conditions of the released PDEBench files.  The same call with the same `out`
    continues or simply returns what is there.
    """
    return plan(problem, samples, seed, **settings).make(out, overwrite, progress)


def plan(
    problem: str | type[Problem] | Problem,
    samples: int,
    seed: int = 0,
    *,
    stride_space: int | Sequence[int] = 1,
    stride_time: int = 1,
    initial: str | None = None,
    **settings: Any,
) -> Plan:
    """What `generate` would do, checked but not done."""
    chosen = _choose_problem(problem, initial, settings)
    full = _card(chosen, samples, seed)
    space = (stride_space,) * len(full.points) if isinstance(stride_space, int) else stride_space
    card = _strided(full, tuple(int(s) for s in space), stride_time)
    return Plan(chosen, full, card)


@dataclass(frozen=True)
class Plan:
    """A problem, the card of its full solution, and that of what is kept."""

    problem: Problem
    full: Card
    card: Card

    def make(
        self,
        out: str | Path | None = None,
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> Dataset:
        """Solve, shard by shard; in memory, or in the file `out`."""
        return self._in_memory(progress) if out is None else self._in_file(out, overwrite, progress)

    def _in_memory(self, progress: Progress | None) -> Dataset:
        numbers = np.empty(self.card.shape, dtype=np.float32)
        began = time.perf_counter()
        size = shard_size(self.full)
        for start in range(0, self.card.samples, size):
            stop = min(start + size, self.card.samples)
            numbers[start:stop] = self.solve(start, stop, progress)
        return Dataset(_with_cost(self.card, time.perf_counter() - began), ArrayFrames(numbers))

    def _in_file(self, out: str | Path, overwrite: bool, progress: Progress | None) -> Dataset:
        path = Path(out)
        shards = Shards(path, self.card, shard_size(self.full))
        if not shards.is_finished(overwrite):
            with shards.locked(overwrite):
                # One shard goes to the disk while the next is solved; leaving waits for it.
                with ThreadPoolExecutor(1) as disk:
                    pending: Future[None] | None = None
                    for start, stop in shards.missing():
                        began = time.perf_counter()
                        block = self.solve(start, stop, progress)
                        if pending is not None:
                            pending.result()
                        took = time.perf_counter() - began
                        pending = disk.submit(shards.keep, start, block, took)
                    if pending is not None:
                        pending.result()
                seconds = shards.assemble()
                write_cards(path, _with_cost(self.card, seconds))
                shards.clear()
        return read_native(path)

    def solve(self, start: int, stop: int, progress: Progress | None = None) -> np.ndarray:
        """Samples start … stop, strided and checked: (b, t, c, *space) in float32."""
        problem, samples = self.problem, range(start, stop)
        grid, times = problem.grid, problem.times
        state = problem.draw(grid, self.card.seed or 0, samples)
        share = _part(progress, start, stop, self.card.samples)
        frames = problem.solve(grid, state, times, share)
        wanted = (len(samples), *self.full.shape[1:])
        if frames.shape != wanted:
            raise ValueError(
                f"{problem.name} should return (b, t, c, *space) = {wanted}, got {frames.shape}."
            )
        keep = (
            slice(None),
            slice(None, None, 1 if self.card.steady else self.card.stride_time),
            slice(None),
            *(slice(None, None, s) for s in self.card.stride_space),
        )
        kept = np.ascontiguousarray(frames[keep], dtype=np.float32)
        _check_finite(problem.name, samples, kept)
        return kept


def shard_size(card: Card) -> int:
    """How many samples are solved together: a fact of the data, not of the machine."""
    _, *rest = card.shape
    bytes_each = 8 * int(np.prod(rest, dtype=object))
    return max(1, min(_SHARD_SAMPLES, _SHARD_BYTES // bytes_each))


def _choose_problem(
    problem: str | type[Problem] | Problem, initial: str | None, settings: dict[str, Any]
) -> Problem:
    found = find_problem(problem) if isinstance(problem, str) else problem
    kind = found if isinstance(found, type) else type(found)
    if not issubclass(kind, Problem):
        raise ValueError(f"problem should be a name or a fino.pde.Problem, got {problem!r}.")
    if initial is not None and "initial" in kind.model_fields:
        settings = {"initial": initial, **settings}
    elif initial not in (None, "ours"):
        raise ValueError(
            f"{kind.name} has one kind of initial conditions only, 'ours', got '{initial}'."
        )
    return kind(**settings) if isinstance(found, type) else found.changed(**settings)


def _card(problem: Problem, samples: int, seed: int) -> Card:
    """The facts of the full solution, before any stride."""
    if samples < 1:
        raise ValueError(f"samples should be a positive number of trajectories, got {samples}.")
    grid, times = problem.grid, np.asarray(problem.times, dtype=float)
    steps = np.diff(times)
    if len(steps) > 1 and not np.allclose(steps, steps.mean(), rtol=1e-6):
        raise ValueError(f"{problem.name} should be saved at even times to be stored.")
    return Card(
        name=problem.name,
        title=problem.title,
        equation=problem.equation,
        description=problem.description,
        fields=problem.fields,
        units=problem.units,
        inputs=problem.inputs,
        points=grid.points,
        extent=grid.extent,
        boundary=grid.boundary,
        offset=grid.offset,
        start=float(times[0]),
        dt=float(steps.mean()) if len(steps) and not problem.steady else 1.0,
        frames=2 if problem.steady else len(times),
        samples=samples,
        steady=problem.steady,
        parameters=problem.model_dump(mode="json"),
        symmetries=tuple(s for s in problem.symmetries if s != "shift" or all(grid.is_periodic)),
        directions=problem.directions,
        speed=problem.speed,
        seed=seed,
        solver=problem.solver,
        initial=getattr(problem, "initial", "ours"),
        version=fino.__version__,
        flaws=problem.flaws,
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
