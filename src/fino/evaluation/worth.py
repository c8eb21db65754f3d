"""Is it worth it?  What the classical solver costs that is as good as the model.

    S = cost of the matched solver / cost of the model            at equal error
    N* = (data + training) / (matched solver − model)             trajectories until it pays off

The problem's own method is tried on coarser and finer cells and in every variant that the problem
names, until it is as good as the model.  It is treated well: it starts from the true state at the
last frame that the model is shown, with what is hidden from the model, averaged over its cells;
walls stay where they are; it steps only as far as the frames that are asked for; and its answer is
read at the data's points in the best of several ways.  A model that is nearer to its data than they
are to the equation's solution is matched at the data's own error.

Everything is measured in this process on one thread, in CPU-seconds for a trajectory, one
trajectory at a time, model and solvers in turn.  Neither is checked while it runs: what the guards
of `fino.rollout` cost is not counted.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import torch

from fino.data.card import Card
from fino.data.dataset import Part, Task
from fino.data.generate import restrict
from fino.export.engine import CompiledStep, compile_step
from fino.given import Given
from fino.grid import Grid
from fino.machine import threads
from fino.metrics import METRICS
from fino.model.rollout import rollout
from fino.pde import PROBLEMS, Problem
from fino.pde.problem import on_one_core
from fino.training.run import Run

__all__ = ["Solved", "Truth", "Worth", "find_truth", "measure_worth"]

Array = np.ndarray

#: The metric at which model and solver are matched.
_METRIC = "nrmse"
#: Trajectories of a batch, where the model takes several at once.
_BATCH = 16
#: Times that the model is timed at most.
_REPEATS = 7
#: How far a start that is drawn again may be from the first frame of the data, relative to it.
_SAME = 1e-3
#: Solves that take fewer CPU-seconds are timed three times.
_SHORT = 0.2
#: Fewest cells along an axis.
_FEWEST = 8


@dataclass(frozen=True)
class Solved:
    """One solver: its cells along each axis, what was set, its error and CPU-seconds."""

    points: tuple[int, ...]
    settings: dict[str, Any]
    nrmse: float
    seconds: float


@dataclass(frozen=True)
class Worth:
    """What the model and the solvers cost for one trajectory, and how they compare.

    nrmse                       the model's error against the data
    truth_error                 how far the data are from the equation's solution, if known; errors
                                are matched at the larger of the two, as a smaller one says nothing
    seconds, seconds_batched    CPU-seconds of the model, alone and as one of a batch
    curve                       every solver that was tried
    matched, matched_batched    CPU-seconds of the cheapest solver of the model's error, between
                                two grids by interpolation; None if none was as good
    solver                      the member of the curve that is nearest to it, or the best one
    same_start                  CPU-seconds of the cheapest solver of that error that knows the
                                start on the data's own cells alone, as the model does; None if
                                none was as good, or it was not measured
    data, training              seconds that data and training took; None if unknown
    engine                      what computed the model's steps: torch, or c, compiled code
    """

    nrmse: float
    truth_error: float | None
    seconds: float
    seconds_batched: float
    samples: int
    curve: list[Solved]
    matched: float | None
    matched_batched: float | None
    solver: Solved | None
    data: float | None = None
    training: float | None = None
    batch: int = _BATCH
    cut: bool = False
    engine: str = "torch"
    same_start: float | None = None

    @property
    def speed_up(self) -> float | None:
        return None if self.matched is None else self.matched / self.seconds

    @property
    def speed_up_batched(self) -> float | None:
        if self.matched_batched is None:
            return None
        return self.matched_batched / self.seconds_batched

    @property
    def break_even(self) -> float | None:
        """Trajectories until data and training are paid for; inf if never, None if unknown."""
        if self.matched_batched is None or self.data is None or self.training is None:
            return None
        gain = self.matched_batched - self.seconds_batched
        return (self.data + self.training) / gain if gain > 0 else math.inf

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers for `scores.json`; what never pays off is None there, as no number is."""
        pays = self.break_even
        found = {"speed_up": self.speed_up, "speed_up_batched": self.speed_up_batched}
        finite = pays if pays is not None and math.isfinite(pays) else None
        return {**asdict(self), **found, "break_even": finite}


def measure_worth(
    run: Run,
    part: Part,
    task: Task,
    *,
    samples: int = 4,
    budget: float = 20.0,
    engine: str = "torch",
    same_start: bool = False,
) -> Worth | None:
    """Measure a run against its problem's solvers on the first `samples` of a part.

    `budget` is in CPU-seconds; finer solvers are not tried when it is spent.  `same_start` asks as
    well for solvers that know the start on the data's cells alone, where the truth is finer than
    these.  None where the equation is not known, or the data's starts cannot be drawn again.
    """
    samples = min(samples, len(part))
    weight = next(run.model.parameters(), None) if isinstance(run.model, torch.nn.Module) else None
    if weight is not None and weight.device.type != "cpu":
        return None
    truth = find_truth(run, part, task, samples)
    if truth is None:
        return None
    given, future = part.begin(range(samples), task.shown)
    with threads(1):
        race = _Race(run, truth, given, future, engine)
        race.time_model()
        error, truth_off = race.model_error, race.truth_error(part.data.card, budget)
        target = max(error, truth_off or 0.0)
        cut = race.climb(target, budget)
        matched, solver = match(race.curve, target, truth.full.points)
        batched, share = race.time_batch(), race.gain_of_a_batch(solver)
        blind = race.match_same_start(target, budget) if same_start and truth.refine > 1 else None
    cost, metrics = part.data.card.cost, run.metrics if run.results_folder is not None else []
    return Worth(
        nrmse=error,
        truth_error=truth_off,
        seconds=statistics.median(race.seconds),
        seconds_batched=batched,
        samples=samples,
        curve=race.curve,
        matched=matched,
        matched_batched=None if matched is None else matched * share,
        solver=solver,
        data=None if cost is None else cost.seconds,
        training=metrics[-1]["cpu_seconds"] if metrics else None,
        cut=cut,
        engine=engine,
        same_start=blind,
    )


def match(
    curve: Sequence[Solved], target: float, full: tuple[int, ...] = ()
) -> tuple[float | None, Solved | None]:
    """CPU-seconds of the cheapest solver of that error, and the nearest one that was measured.

    Between two grids of one variant cost is taken as a power of the error.  On the `full` grid of
    the data the error is zero by definition, so the power before it is prolonged up to its cost.
    """
    best: tuple[float, Solved] | None = None
    for variant in {str(s.settings): s.settings for s in curve}.values():
        own = sorted((s for s in curve if s.settings == variant), key=lambda s: s.seconds)
        good = next((i for i, solved in enumerate(own) if solved.nrmse <= target), None)
        if good is None:
            continue
        solved, pair = own[good], own[max(0, good - 1) : good + 1]
        if solved.points == full:
            pair = own[max(0, good - 2) : good]
        seconds = _between(pair, target) if len(pair) == 2 else solved.seconds
        seconds = min(seconds, solved.seconds)
        if best is None or seconds < best[0]:
            best = seconds, solved
    if best is None:
        return None, min(curve, key=lambda s: s.nrmse, default=None)
    return best


def _between(pair: Sequence[Solved], target: float) -> float:
    """The cost at an error, if cost is a power of the error through two solvers."""
    worse, better = pair
    if not worse.nrmse > better.nrmse > 0:
        return math.inf
    share = math.log(worse.nrmse / target) / math.log(worse.nrmse / better.nrmse)
    return worse.seconds * (better.seconds / worse.seconds) ** share


@dataclass
class Truth:
    """The true states at the last frame that is shown, on the grid that the data were solved on.

    Each has its own problem where parameters differ; `numbers` are those of the samples.  With a
    `coarse_start` solvers are told no more of it than its means over the data's cells.
    """

    problems: list[Problem]
    numbers: list[int]
    states: list[Array]
    full: Grid
    times: Array
    seed: int
    refine: int
    strides: tuple[int, ...]
    target: Grid
    coarse_start: bool = False

    def solve(
        self,
        row: int,
        grid: Grid,
        settings: dict[str, Any],
        frames: int | None = None,
        batch: int = 1,
    ) -> tuple[Array, float]:
        """One trajectory on other cells: its frames (t, c, *space), and CPU-seconds.

        In a `batch` the trajectory is solved so many times at once.
        """
        problem, times = self.problems[row].changed(**settings), self.times[:frames]
        state = self._state_on(grid, self.states[row])
        drive = problem.draw_forcing(grid, times, self.seed, [self.numbers[row]])
        start, drive = np.repeat(state[None], batch, 0), np.repeat(drive, batch, 0)
        with on_one_core():
            began = time.thread_time()
            solved = problem.solve(grid, start, times, forcing=drive)[0]
            return solved, (time.thread_time() - began) / batch

    def solve_window(self, window: Sequence[tuple[int, int]], frames: int) -> Array:
        """The first trajectory on a part of its own grid, which may wrap: (t, c, *window).

        Beyond the window's edges the solver sees its boundary instead of the rest of the domain.
        """
        problem, times, state, extent = self.problems[0], self.times[:frames], self.states[0], []
        axes = zip(window, self.full.extent, self.full.points, strict=True)
        for axis, ((start, stop), (low, high), n) in enumerate(axes, start=1):
            state = np.take(state, np.arange(start, stop) % n, axis=axis)
            step = (high - low) / n
            extent.append((low + start * step, low + stop * step))
        grid = Grid(state.shape[1:], tuple(extent), self.full.boundary, self.full.offset)
        drive = problem.draw_forcing(grid, times, self.seed, [self.numbers[0]])
        return problem.solve(grid, state[None], times, forcing=drive)[0]

    def _picked(self, u: Array) -> Array:
        cells: tuple[Any, ...] = (..., *(slice(None, None, s) for s in self.strides))
        return np.asarray(u[cells])

    def _state_on(self, grid: Grid, state: Array) -> Array:
        if self.coarse_start:
            return average(average(state, self.full, self.target), self.target, grid)
        if grid == self.full:
            return state
        if grid == self.target and self.refine == 1:
            return self._picked(state)
        if grid.points > self.full.points:
            low, high = (
                extreme(state.reshape(len(state), -1), axis=1) for extreme in (np.min, np.max)
            )
            shape = (-1, *[1] * grid.dims)
            return np.clip(
                interpolate(state, self.full, grid, 4), low.reshape(shape), high.reshape(shape)
            )
        return average(state, self.full, grid)

    def read(self, frames: Array, grid: Grid) -> Iterator[Array]:
        """The frames at the data's points, in every way that suits: (t, c, *space)."""
        dims = grid.dims
        if grid == self.full:
            yield self._picked(restrict(frames, self.refine, dims))
            return
        if grid == self.target:
            yield frames
            return
        blocks = {m / n for m, n in zip(grid.points, self.target.points, strict=True)}
        whole = blocks.pop() if len(blocks) == 1 else 0.0
        if whole >= 1 and whole.is_integer() and set(self.target.offset) == {0.5}:
            yield restrict(frames, int(whole), dims)
        for count in (2, 4):
            yield interpolate(frames, grid, self.target, count)


def find_truth(run: Run, part: Part, task: Task, samples: int) -> Truth | None:
    data, card = part.data, part.data.card
    if card.name not in PROBLEMS or card.seed is None:
        return None
    try:
        problem = PROBLEMS[card.name](**card.parameters)
    except ValueError:
        return None
    full = problem.grid.refined([n * card.refine for n in problem.grid.points])
    times = problem.times if data.steady else card.times[task.shown - 1 :]
    rows = [part.samples[i] for i in range(samples)]
    thetas = [{n: float(v[row]) for n, v in data.parameters.items()} for row in rows]
    first = part.read(range(samples), 0, 1)[:, 0].numpy()
    kept = run.data_card.split if run.is_shipped else None
    known = [list(map(int, np.asarray(data.samples)[rows]))]
    # Test data of a shipped model are solved again without the others, and numbered anew.
    if kept is not None and len(kept.samples("test")) > max(rows):
        known.append([kept.samples("test")[row] for row in rows])
    for numbers in known:
        truth = Truth(
            problems=[problem.changed(**theta) for theta in thetas],
            numbers=numbers,
            states=[],
            full=full,
            times=times,
            seed=card.seed,
            refine=card.refine,
            strides=card.stride_space,
            target=data.grid,
        )
        before = np.zeros(1) if data.steady else card.times[: task.shown]
        try:
            if _draw_states(truth, before, first):
                return truth
        except ValueError:
            continue
    return None


def _draw_states(truth: Truth, before: Array, first: Array) -> bool:
    """Solve again up to the last shown frame; False if the starts are not those of the data."""
    span = before if len(before) > 1 else truth.times[:2]
    for problem, number, frame in zip(truth.problems, truth.numbers, first, strict=True):
        drive = problem.draw_forcing(truth.full, span, truth.seed, [number])
        state: Array | None = problem.draw(truth.full, truth.seed, [number])
        frames = problem.whole.solve(truth.full, state, span, forcing=drive)
        drawn = next(truth.read(frames[0, :1, : len(frame)], truth.full))[0]
        if np.abs(drawn - frame).max() > _SAME * max(float(np.abs(frame).max()), 1e-12):
            return False
        if len(before) > 1:
            state = problem.whole.state(truth.full, frames[:, -1])
        if state is None:
            return False
        truth.states.append(state[0])
    return True


@dataclass
class _Race:
    """Model and solvers on the same trajectories, in turn."""

    run: Run
    truth: Truth
    given: Given
    future: torch.Tensor
    engine: str = "torch"
    curve: list[Solved] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    compiled: CompiledStep | None = None

    @property
    def model_error(self) -> float:
        return self._error(self._predict(self.given))

    def _predict(self, given: Given) -> torch.Tensor:
        steps = self.future.shape[1]
        if self.engine == "torch":
            return self.run.predict(given, steps)
        if self.compiled is None:
            self.compiled = compile_step(self.run.model)
        return rollout(self.compiled, given, steps)

    def _error(self, prediction: torch.Tensor) -> float:
        return float(METRICS[_METRIC](prediction, self.future))

    def time_model(self) -> None:
        """Time one trajectory; the first time warms up and is not counted."""
        one = self.given.row(len(self.seconds) % len(self.future))
        for _ in range(1 if self.seconds else 2):
            seconds = _cpu_seconds(lambda: self._predict(one))
        self.seconds.append(seconds)

    def truth_error(self, card: Card, budget: float) -> float | None:
        """How far the data are from the equation's solution; None if that is too dear to know.

        As the card says; else against the exact solution, or the truth solved once finer.
        """
        if card.cost is not None and card.cost.truth_error is not None:
            return card.cost.truth_error
        truth = self.truth
        full, exact = truth.full, truth.problems[0].exact
        grid = full if exact else truth.problems[0].grid_of([2 * n for n in full.points])
        dearer = 1 if exact else 2 ** (full.dims + 1)
        ways: list[list[float]] = []
        began = time.process_time()
        try:
            for row in range(len(truth.states)):
                own = next(truth.read(truth.solve(row, full, {})[0], full))
                spent = (time.process_time() - began) / (row + 1)
                if row == 0 and spent * dearer > 0.5 * budget:
                    return None
                if row and time.process_time() - began > 0.5 * budget:
                    break
                better = truth.read(truth.solve(row, grid, exact or {})[0], grid)
                ways.append([_error(own[1:], answer[1:]) for answer in better])
        except ValueError:
            return None
        return min(float(np.mean(errors)) for errors in zip(*ways, strict=True))

    def time_batch(self) -> float:
        """CPU-seconds of one trajectory in a batch."""
        rows = [self.given.row(i % len(self.future)) for i in range(_BATCH)]
        many = Given.join(rows)
        return min(_cpu_seconds(lambda: self._predict(many)) for _ in range(3)) / _BATCH

    def gain_of_a_batch(self, solver: Solved | None) -> float:
        """What a solver takes for a trajectory of a batch, as a share of what it takes alone."""
        alike = all(problem == self.truth.problems[0] for problem in self.truth.problems)
        if solver is None or not alike or solver.seconds > _SHORT:
            return 1.0
        grid = next(grid for grid in self._grids() if grid.points == solver.points)
        spent = [self.truth.solve(0, grid, solver.settings, batch=b)[1] for b in (1, _BATCH) * 2]
        return min(1.0, min(spent[1::2]) / min(spent[::2]))

    def climb(self, target: float, budget: float) -> bool:
        """Try finer and finer cells until the solver is as good; True if the budget ended it."""
        began, cheapest = time.process_time(), math.inf
        # The data's own settings come last: on the data's own cells they give the data.
        open_variants = [*type(self.truth.problems[0]).variants]
        open_variants += [] if {} in open_variants else [{}]
        for grid in self._grids():
            # A grid is begun or left out as a whole: the cheapest of its variants may come last.
            if time.process_time() - began > budget and self.curve:
                return True
            for settings in list(open_variants):
                solved = self._measure(grid, settings)
                if solved is None:
                    continue
                self.curve.append(solved)
                if solved.nrmse <= target:
                    cheapest = min(cheapest, solved.seconds)
                if solved.nrmse <= target or solved.seconds > cheapest:
                    open_variants.remove(settings)
                if len(self.seconds) < _REPEATS:
                    self.time_model()
        return False

    def match_same_start(self, target: float, budget: float) -> float | None:
        """CPU-seconds of the cheapest solver of that error that knows the start as the model does.

        On every grid it is wrong about the start, so there is none on which its error is zero.
        """
        truth = replace(self.truth, coarse_start=True)
        race = replace(self, truth=truth, curve=[], seconds=[math.nan] * _REPEATS)
        race.climb(target, budget)
        return match(race.curve, target)[0]

    def _grids(self) -> list[Grid]:
        """From half of the data's cells to those of the truth, each with about √2 times as many."""
        full, few = self.truth.full, min(self.truth.target.points)
        most = min(full.points)
        steps = math.ceil(2 * math.log2(most / max(_FEWEST, few // 2)) - 1e-9)
        grids = [full]
        for step in range(1, steps + 1):
            points = [4 * max(2, round(n / 2 ** (step / 2) / 4)) for n in full.points]
            grids.append(self.truth.problems[0].grid_of(points))
        if self.truth.refine == 1 and full != self.truth.target:
            grids.append(self.truth.target)
        return sorted(grids, key=lambda grid: math.prod(grid.points))

    def _measure(self, grid: Grid, settings: dict[str, Any]) -> Solved | None:
        """One solver on all trajectories; None if it breaks down."""
        answers: list[list[Array]] = []
        seconds = []
        try:
            self.truth.solve(0, grid, settings, 2)  # compiles
            for row in range(len(self.truth.states)):
                frames, spent = self.truth.solve(row, grid, settings)
                answers.append([answer[1:] for answer in self.truth.read(frames, grid)])
                again = range(2 if spent < _SHORT else 0)
                seconds.append(
                    min(spent, *(self.truth.solve(row, grid, settings)[1] for _ in again), spent)
                )
        except ValueError:
            return None
        ways = [torch.from_numpy(np.stack(way)) for way in zip(*answers, strict=True)]
        errors = [self._error(way.to(self.future.dtype)) for way in ways]
        found = [error for error in errors if math.isfinite(error)]
        if not found:
            return None
        return Solved(grid.points, settings, min(found), statistics.median(seconds))


def _error(prediction: Array, truth: Array) -> float:
    """The error of one trajectory (t, c, *space)."""
    return float(METRICS[_METRIC](*(torch.from_numpy(u[None]) for u in (prediction, truth))))


def _cpu_seconds(work: Callable[[], Any]) -> float:
    """CPU-seconds of this thread: others of the process may wait for work by spinning."""
    began = time.thread_time()
    work()
    return time.thread_time() - began


def average(u: Array, fine: Grid, coarse: Grid) -> Array:
    """The means over other cells of the same domain: (c, *space) → (c, *space)."""
    for axis in range(fine.dims):
        edges, cells = _edges(fine, axis), _edges(coarse, axis)
        low = np.maximum(cells[:-1, None], edges[None, :-1])
        high = np.minimum(cells[1:, None], edges[None, 1:])
        share = np.clip(high - low, 0, None)
        u = _along(u, share / share.sum(axis=1, keepdims=True), axis - fine.dims)
    return u


def interpolate(u: Array, source: Grid, target: Grid, count: int) -> Array:
    """Values at the points of another grid, by the polynomials through `count` neighbours."""
    for axis in range(source.dims):
        x, wanted = source.coordinates()[axis], target.coordinates()[axis]
        n, periodic = source.points[axis], source.is_periodic[axis]
        width = x[1] - x[0]
        first = np.floor((wanted - x[0]) / width).astype(int) - count // 2 + 1
        if not periodic:
            first = np.clip(first, 0, n - count)
        weights = np.zeros((len(wanted), n))
        for j in range(count):
            weight = np.ones(len(wanted))
            for other in range(count):
                if other != j:
                    away = (wanted - x[0]) / width - (first + other)
                    weight *= away / (j - other)
            np.add.at(weights, (np.arange(len(wanted)), (first + j) % n), weight)
        u = _along(u, weights, axis - source.dims)
    return u


def _edges(grid: Grid, axis: int) -> Array:
    return np.linspace(*grid.extent[axis], grid.points[axis] + 1)


def _along(u: Array, weights: Array, axis: int) -> Array:
    """A matrix (m, n) applied along one axis."""
    return np.moveaxis(np.moveaxis(u, axis, -1) @ weights.T, -1, axis)
