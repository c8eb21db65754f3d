"""Generate data: draw initial conditions, solve, keep what is asked for, lose no finished shard.

    fino.generate("advection", samples=100, seed=0, stride_space=8, stride_time=5, beta=4.0)

Samples are solved in shards of a fixed size, so memory stays bounded and the numbers do not
depend on the machine.  Each finished shard is put on disk before the next is begun; a run that
was interrupted goes on from there and ends with the very bytes of one that was not.

    FILE.parts/card.json       what is being solved; another card is refused
    FILE.parts/00000000.shard  a line of JSON (checksums, seconds), then float32 numbers
"""

from __future__ import annotations

import json
import platform
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

import fino
from fino.data.card import Card, Cost
from fino.data.conditions import Conditions
from fino.data.dataset import Dataset, sample_digest
from fino.data.frames import MOST_SAMPLES, ArrayFrames, find_broken
from fino.data.split import Split, split_by_rule, split_by_share
from fino.data.store import read_native, tell_full_disk, write_cards, write_native
from fino.durable import (
    check_no_link,
    clear_leftovers,
    hold_alone,
    replace,
    whole_file,
    write_whole,
)
from fino.pde import Problem, find_problem
from fino.pde.problem import Progress, cores
from fino.settings import did_you_mean
from fino.streams import numpy_stream

__all__ = ["Plan", "generate", "plan", "shard_size"]

#: Bytes of double-precision numbers that one shard may hold while it is solved.
_SHARD_BYTES = 2**28
_SHARD_SAMPLES = 64

#: Starts on two grids are the same where no cell differs by more than this share of the largest.
_SAME_START = 0.2

#: The line before the numbers of a shard is filled up to a multiple of this.
_LINE = 4096

#: Facts that a card takes over from its problem.
_OF_THE_PROBLEM = (
    *("name", "title", "equation", "description", "fields", "units", "inputs", "steady"),
    *("directions", "turning", "speed", "solver", "flaws"),
)

#: The names of the parts of an unfinished file.
_PARTS = r"card\.json|\d{8,}\.shard|whole\.h5"

#: The checksum of each sample of a shard, and the seconds that it took.
Head = tuple[list[bytes], float]


def generate(
    problem: str | type[Problem] | Problem,
    samples: int,
    seed: int = 0,
    *,
    stride_space: int | Sequence[int] = 1,
    stride_time: int = 1,
    refine: int | None = None,
    initial: str | None = None,
    vary: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
    **settings: Any,
) -> Dataset:
    """Solve a problem for many random initial conditions; in memory, or in the file `out`.

    problem         a name that `fino list` shows, such as "advection" or "shallow-water", a class
                    such as Advection, or an instance, Advection(beta=2.0)
    samples         how many trajectories; 200 to begin with, 1000 for results to compare
    seed            another seed gives other trajectories; sample i depends on (seed, i) alone
    stride_space    keep every n-th cell of the full solution, one number or one for each axis: a
                    fine solution seen on a coarse grid
    stride_time     keep every n-th frame
    refine          solve on cells so many times finer along each axis and keep the means over the
                    problem's own cells; None: as many times as the problem recommends
    initial         "ours", or "pdebench" for the initial conditions of the released files, where
                    the problem has them
    vary            parameters that are drawn anew for every trajectory, and from what:
                    {"beta": (0.1, 4.0)} evenly, {"nu": "log:1e-3:1"} evenly in the logarithm,
                    {"rho": [1, 2, 5]} one of these; models are given them
    out             an HDF5 file (.h5) to write, with its card beside it.  The same call again goes
                    on where it was interrupted, or returns what is there.
    overwrite       replace a file that holds something else
    progress        called with the share that is done, 0 … 1
    settings        the problem's own, such as beta=4.0, points=128 (cells along each axis),
                    frames=101, duration=2.0 (time of the last frame)
    """
    settings |= {
        "stride_space": stride_space,
        "stride_time": stride_time,
        "refine": refine,
        "initial": initial,
        "vary": vary,
    }
    return plan(problem, samples, seed, **settings).make(out, overwrite, progress)


def plan(
    problem: str | type[Problem] | Problem,
    samples: int,
    seed: int = 0,
    *,
    stride_space: int | Sequence[int] = 1,
    stride_time: int = 1,
    refine: int | None = None,
    initial: str | None = None,
    vary: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Plan:
    """What `generate` would do, checked but not done; the arguments are the same."""
    chosen = _choose_problem(problem, initial, settings)
    full = _card(chosen, samples, seed, chosen.refinement if refine is None else refine)
    full = _varied(chosen, full, vary or {})
    return Plan(chosen, full, full.strided(stride_space, stride_time))


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
        shards = _Shards(Path(out or "."), self.card, shard_size(self.full))
        if out is None:
            began = time.perf_counter()
            numbers = np.empty(self.card.shape, dtype=np.float32)
            for start, stop in shards.ranges():
                numbers[start:stop] = self.solve(start, stop, progress)
            card = _with_cost(self.card, time.perf_counter() - began)
            return Dataset(card, ArrayFrames(numbers), conditions=self.conditions)
        if not shards.is_finished(overwrite):
            with shards.locked(overwrite):
                shards.check_room()
                self._solve_missing(shards, progress)
                seconds = shards.assemble(self.conditions)
                card = _with_cost(self.card, seconds, self._truth_error(shards.path))
                write_cards(shards.path, card)
                shards.clear()
        elif shards.folder.exists() or shards.lock.exists():
            # What a kill left of this very file; the parts of another are not ours to clear.
            with suppress(ValueError, OSError), shards.locked(overwrite):
                write_cards(shards.path, read_native(shards.path).card)
                shards.clear()
        return read_native(shards.path)

    @cached_property
    def conditions(self) -> Conditions:
        """The parameters of every sample, where they differ, and what drives it."""
        problem, card, found = self.problem, self.card, draw_conditions(self.card, self.problem)
        if not problem.forces:
            return found
        forcing = np.empty((card.samples, card.frames, len(problem.forces), *card.points), "f4")
        for sample, row in enumerate(forcing):
            whole = problem.draw_forcing(self.full.grid, card.times, card.seed or 0, [sample])
            row[...] = whole[0][(slice(None), slice(None), *_every(card.stride_space))]
        return Conditions(parameters=found.parameters, forcing=forcing)

    def _truth_error(self, path: Path) -> float | None:
        """How far the first sample is from itself solved once finer; only for what was refined."""
        if self.card.refine == 1:
            return None
        finer = {"refine": 2 * self.card.refine}
        twin = Plan(self.problem, self.full.changed(**finer), self.card.changed(**finer))
        better, kept = twin.solve(0, 1)[0], read_native(path).read([0]).numpy()[0]
        space = tuple(range(2, better.ndim))
        size = np.sqrt(np.square(better).mean(space))
        error = np.sqrt(np.square(kept - better).mean(space)) / np.maximum(size, 1e-30)
        # A start that differs, such as white noise, is another sample on finer cells.
        same = np.abs(kept[0] - better[0]).max() < _SAME_START * np.abs(better[0]).max()
        return float(error[1:].mean()) if same else None

    def _solve_missing(self, shards: _Shards, progress: Progress | None) -> None:
        """One shard goes to the disk while the next is solved; leaving waits for it."""
        with ThreadPoolExecutor(1) as disk:
            pending: Future[None] | None = None
            for start, stop in shards.missing():
                began = time.perf_counter()
                block = self.solve(start, stop, progress)
                if pending is not None:
                    pending.result()
                pending = disk.submit(shards.keep, start, block, time.perf_counter() - began)
            if pending is not None:
                pending.result()

    def solve(self, start: int, stop: int, progress: Progress | None = None) -> np.ndarray:
        """Samples start … stop, strided and checked: (b, t, c, *space) in float32."""
        problem, samples = self.problem, range(start, stop)

        def share(done: float) -> None:
            if progress:
                progress((start + done * (stop - start)) / self.card.samples)

        if self.card.varying:
            frames = self._solve_each(samples, share)
        else:
            frames = self._solve_with(problem, samples, share)
        wanted = (len(samples), *self.full.shape[1:])
        if frames.shape != wanted:
            raise ValueError(
                f"{problem.name} should return (b, t, c, *space) = {wanted}, got {frames.shape}."
            )
        kept = frames[:, :: self.card.stride_time, :, *_every(self.card.stride_space)]
        kept = np.ascontiguousarray(kept, dtype=np.float32)
        broken = find_broken(kept)
        if broken:
            raise ValueError(
                f"{problem.name}: sample {samples[broken[0]]} is not a finite number any more at "
                f"frame {broken[1]}. Use gentler settings."
            )
        return kept

    def _solve_with(
        self, problem: Problem, samples: Sequence[int], progress: Progress | None = None
    ) -> np.ndarray:
        """Samples with the same parameters, solved on the finer cells: (b, t, c, *space)."""
        refine, seed = self.card.refine, self.card.seed or 0
        grid, times = problem.grid, problem.times
        fine = grid if refine == 1 else grid.refined([n * refine for n in grid.points])
        forcing = problem.draw_forcing(fine, times, seed, samples) if problem.forces else None
        frames = problem.solve(fine, problem.draw(fine, seed, samples), times, progress, forcing)
        return restrict(frames, refine, grid.dims)

    def _solve_each(self, samples: range, progress: Progress) -> np.ndarray:
        """Every sample by itself, with its own parameters: (b, t, c, *space)."""
        table = self.conditions.parameters
        assert table is not None
        grid, times = self.problem.grid, self.problem.times

        def one(sample: int) -> np.ndarray:
            own = dict(zip(self.card.varying, map(float, table[sample]), strict=True))
            problem = self.problem.changed(**own)
            if problem.grid != grid or not np.array_equal(problem.times, times):
                raise ValueError(
                    f"{', '.join(own)} cannot vary: it changes the grid or the saved times."
                )
            return self._solve_with(problem, [sample])

        solved = []
        with ThreadPoolExecutor(cores()) as pool:
            for done, frames in enumerate(pool.map(one, samples), start=1):
                solved.append(frames)
                progress(done / len(samples))
        return np.concatenate(solved)


def restrict(u: np.ndarray, times: int, dims: int) -> np.ndarray:
    """The means over blocks of cells: (…, *space) → (…, *space / times)."""
    for axis in range(u.ndim - dims, u.ndim) if times > 1 else ():
        blocks = (u.shape[axis] // times, times)
        u = u.reshape(*u.shape[:axis], *blocks, *u.shape[axis + 1 :]).mean(axis=axis + 1)
    return u


def _every(strides: Sequence[int]) -> tuple[slice, ...]:
    return tuple(slice(None, None, stride) for stride in strides)


def shard_size(card: Card) -> int:
    """How many samples are solved together: a fact of the data, not of the machine."""
    _, *rest = card.shape
    bytes_each = 8 * int(np.prod(rest, dtype=object)) * card.refine ** len(card.points)
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


def _card(problem: Problem, samples: int, seed: int, refine: int) -> Card:
    """The facts of the full solution, before any stride."""
    if not 1 <= samples <= MOST_SAMPLES:
        raise ValueError(
            f"samples should be a positive number of trajectories, at most {MOST_SAMPLES} in a "
            f"file, got {samples}."
        )
    grid, times = problem.grid, np.asarray(problem.times, dtype=float)
    steps = np.diff(times)
    if len(steps) > 1 and not np.allclose(steps, steps.mean(), rtol=1e-6):
        raise ValueError(f"{problem.name} should be saved at even times to be stored.")
    return Card(
        **{name: getattr(problem, name) for name in _OF_THE_PROBLEM},
        **vars(grid),
        start=float(times[0]),
        dt=float(steps.mean()) if len(steps) and not problem.steady else 1.0,
        frames=2 if problem.steady else len(times),
        samples=samples,
        parameters=problem.model_dump(mode="json"),
        forcing=problem.forces,
        symmetries=problem.kept_symmetries,
        seed=seed,
        initial=getattr(problem, "initial", "ours"),
        version=fino.__version__,
        refine=refine,
        history=problem.shown if (problem.shown or 0) < len(times) else None,
        split=_split(samples, problem.held_out),
    )


def _split(samples: int, held_out: int | None) -> Split:
    if held_out is None or samples < 3 * held_out:
        return split_by_rule(samples)
    return split_by_share(samples, test=held_out, validation=held_out)


def _varied(problem: Problem, card: Card, vary: Mapping[str, Any]) -> Card:
    """The card of data whose parameters are drawn for every trajectory."""
    drawn = problem.draw_parameters(card.seed or 0, [0])
    names = [*drawn, *vary]
    if not names:
        return card
    numbers = {n for n, v in card.parameters.items() if isinstance(v, int | float)}
    for name, choice in vary.items():
        if name in drawn:
            raise ValueError(f"{name} cannot vary: {card.name} draws it for every trajectory.")
        if name not in numbers or isinstance(card.parameters[name], bool):
            hint = did_you_mean(name, sorted(numbers))
            raise ValueError(f"{card.name} has no parameter '{name}' that can vary. {hint}")
        read_choice(name, choice)
    words = {name: _spell(choice) for name, choice in vary.items()}
    parameters = {n: v for n, v in card.parameters.items() if n not in names}
    card = card.changed(vary=words, varying=dict.fromkeys(names, ""), parameters=parameters)
    table = draw_conditions(card, problem).parameters
    assert table is not None
    own = [problem.changed(**dict(zip(names, map(float, row), strict=True))) for row in table]
    speeds = [one.speed for one in own if one.speed is not None]
    return card.changed(speed=max(speeds, default=None))


def draw_conditions(card: Card, problem: Problem | None = None) -> Conditions:
    """The parameters of every sample of a card, each a pure function of (seed, name, sample).

    Those that the problem draws itself come first, then those of `card.vary`.
    """
    seed, samples = card.seed or 0, range(card.samples)
    drawn = problem.draw_parameters(seed, samples) if problem is not None else {}
    columns = [np.asarray(values, np.float64) for values in drawn.values()]
    for name, words in card.vary.items():
        choose = read_choice(name, words)
        shares = [numpy_stream(seed, "vary", name, i).random() for i in samples]
        columns.append(np.array([choose(share) for share in shares]))
    return Conditions(parameters=np.stack(columns, axis=1)) if columns else Conditions()


def read_choice(name: str, choice: Any) -> Callable[[float], float]:
    """A share between 0 and 1 → a value: "0.1:4", "log:1e-3:1", "1,2,5", (0.1, 4) or [1, 2, 5]."""
    words = _spell(choice)
    try:
        if "," in words:
            values = [float(word) for word in words.split(",")]
            return lambda share: values[min(int(share * len(values)), len(values) - 1)]
        *kind, low, high = words.split(":")
        a, b = float(low), float(high)
        if kind == ["log"] and 0 < a < b:
            return lambda share: float(a * (b / a) ** share)
        if not kind and a < b:
            return lambda share: a + (b - a) * share
    except ValueError:
        pass
    raise ValueError(
        f"vary {name} should be a range low:high, log:low:high with 0 < low < high, or values "
        f"a,b,c, got '{words}'."
    )


def _spell(choice: Any) -> str:
    if isinstance(choice, str):
        return choice
    if isinstance(choice, tuple) and len(choice) == 2:
        return f"{choice[0]:g}:{choice[1]:g}"
    if isinstance(choice, list | tuple | np.ndarray):
        return ",".join(f"{value:g}" for value in choice)
    return str(choice)


def _with_cost(card: Card, seconds: float, truth_error: float | None = None) -> Card:
    machine = f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}"
    cost = Cost(seconds=round(seconds, 3), machine=machine, truth_error=truth_error)
    return card.changed(cost=cost)


@dataclass(frozen=True)
class _Shards:
    """The finished shards of an unfinished file.

    A shard is written under a temporary name, flushed and renamed.  When all are there, the file
    is put together beside them and given its name; only then do the shards go.
    """

    path: Path
    card: Card
    size: int
    checked: dict[int, Head] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return self.path.with_name(self.path.name + ".parts")

    @property
    def lock(self) -> Path:
        return self.path.with_name(f".{self.path.name}.lock")

    def is_finished(self, overwrite: bool) -> bool:
        """Whether the very file is there already; another one is refused, not overwritten."""
        if not self.path.exists() or overwrite:
            return False
        try:
            same = read_native(self.path).card.changed(cost=None) == self.card
        except (ValueError, OSError, KeyError, RuntimeError):
            same = False
        if not same:
            raise ValueError(
                f"{self.path} exists already and holds something else. Choose another name, or "
                "allow overwriting."
            )
        return True

    @contextmanager
    def locked(self, overwrite: bool) -> Iterator[None]:
        """Hold the folder of shards alone, and check that it is about the same data."""
        check_no_link(self.folder)
        plan, wanted = self.folder / "card.json", self.card.to_json().encode()
        with hold_alone(self.lock, f"Another process is making {self.path}"):
            self.folder.mkdir(exist_ok=True)
            clear_leftovers(self.folder, _PARTS)
            clear_leftovers(self.path.parent, rf"{re.escape(self.path.name)}\.card\.(json|md)")
            if plan.exists() and plan.read_bytes() != wanted:
                if not overwrite:
                    raise ValueError(
                        f"{self.folder} holds an unfinished file with other settings. Finish it "
                        "with the same settings, or allow overwriting to begin again."
                    )
                self._remove_parts()
            write_whole(plan, wanted)
            kept = f"What is solved is kept in {self.folder}: make room and call again"
            with tell_full_disk(self.path, kept):
                yield

    def _shard(self, start: int) -> Path:
        return self.folder / f"{start:08d}.shard"

    def check_room(self) -> None:
        """Refuse what does not fit on the disk: the shards, and the file put together from them."""
        size = 4 * prod(self.card.shape)
        there = sum(shard.stat().st_size for shard in self.folder.glob("*.shard"))
        needed, free = 2 * size - there, shutil.disk_usage(self.folder).free
        if needed > free:
            raise ValueError(
                f"{self.path} needs {needed / 1e9:.3g} GB while it is made, twice its size, and "
                f"{free / 1e9:.3g} GB are free. Make fewer samples, or keep fewer cells and frames."
            )

    def ranges(self) -> Iterator[tuple[int, int]]:
        """The first and last sample of each shard, [start, stop)."""
        for start in range(0, self.card.samples, self.size):
            yield start, min(start + self.size, self.card.samples)

    def missing(self) -> Iterator[tuple[int, int]]:
        """The ranges of samples that are still to be solved."""
        for start, stop in self.ranges():
            try:
                numbers, head = self._read(start, stop)
                if [sample_digest(sample) for sample in numbers] != head[0]:
                    raise ValueError("damaged shard")
                self.checked[start] = head
            except (OSError, ValueError, KeyError, TypeError):
                yield start, stop

    def keep(self, start: int, block: np.ndarray, seconds: float) -> None:
        """Put a finished shard on the disk for good."""
        numbers = np.ascontiguousarray(block, dtype="<f4")
        digests = [sample_digest(sample) for sample in numbers]
        facts = {"sha256": [digest.hex() for digest in digests], "seconds": seconds}
        head = json.dumps(facts).encode()
        head = head.ljust(-(-(len(head) + 1) // _LINE) * _LINE - 1) + b"\n"
        with whole_file(self._shard(start)) as temporary, temporary.open("wb") as file:
            file.write(head)
            file.write(numbers.data)
        self.checked[start] = (digests, seconds)

    def _read(self, start: int, stop: int) -> tuple[np.ndarray, Head]:
        """A shard's numbers, mapped, and what its first line says of them."""
        with self._shard(start).open("rb") as file:
            line = file.readline()
        facts = json.loads(line)
        shape = (stop - start, *self.card.shape[1:])
        numbers = np.memmap(self._shard(start), "<f4", "r", offset=len(line), shape=shape)
        return numbers, ([bytes.fromhex(d) for d in facts["sha256"]], float(facts["seconds"]))

    def assemble(self, conditions: Conditions) -> float:
        """Put the file together from its shards; returns the seconds that they took."""
        blocks = (
            (self._read(start, stop)[0], self.checked[start][0]) for start, stop in self.ranges()
        )
        whole = self.folder / "whole.h5"
        self.check_room()  # others may have filled the disk meanwhile
        try:
            write_native(whole, self.card, blocks, conditions=conditions)
        except BaseException:
            whole.unlink(missing_ok=True)  # half a file only takes room
            raise
        replace(whole, self.path)
        return sum(seconds for _, seconds in self.checked.values())

    def clear(self) -> None:
        """Remove the parts; what cannot be removed, or is not ours, does no harm."""
        with suppress(OSError):
            self._remove_parts()
            self.folder.rmdir()

    def _remove_parts(self) -> None:
        for path in self.folder.iterdir():
            if re.fullmatch(_PARTS, path.name) and not path.is_symlink():
                path.unlink()
