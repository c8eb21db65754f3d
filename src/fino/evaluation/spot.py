"""Spot checks: how wrong one rollout is, found with the real solver for a few per cent of its cost.

A place at a later time depends on its surroundings alone.  So the solver that made the data is
run on a few crops of the domain, each with a margin as wide as anything moves until then, and what
it finds in the middle is exact.  How far ahead and how much of the domain is solved follows from
the share of the cost that may be spent:

    cost = cells of the crops · steps ahead ÷ (all cells · all steps)

Where everything is felt everywhere before one step is over, whole frames are solved for fewer
steps, on coarser cells if one step on the data's own is already too dear.

From the places to the domain the errors go by what the bands of the model follow,
Σ e² / Σ s² · mean s².  From the steps that were checked to the others they go as the mirror image
of the start has it (`fino.trust.mirror`), or, where the data have no symmetry, as errors grew in
validation.  Off the training data they may grow otherwise, so a third of the cost goes to the whole
rollout on coarse cells, and on still coarser ones.  How far the former are from the truth, C, is
known for the steps that were checked, is taken to grow as a power of time from there, and is no
less than the difference of the two tells.  That is sure to a fifth, so with their distance D from
the prediction the error E of the prediction lies between

    D − 1.2 C ≤ E ≤ D + 1.2 C

As long as what is expected of later errors is within these bounds it is believed.  Where it is
below them E² = D² − C², as if the errors of model and solver had nothing in common, and errors
grow on from there.  Own data have no solver: there the last frames that are known are held out.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fino.data.dataset import Part
from fino.data.generate import restrict
from fino.evaluation.worth import Truth, find_truth
from fino.given import Given
from fino.grid import Grid
from fino.inference.boxes import Box
from fino.metrics import resting
from fino.model.rollout import rollout
from fino.streams import numpy_stream
from fino.training.run import Run, find_run
from fino.trust.bands import Bands
from fino.trust.mirror import LAST, Mirror

__all__ = ["SpotCheck", "hold_out", "spot_check"]

Array = np.ndarray

#: The share of the domain that the middles of crops should cover, how many there are, and how many
#: times farther than whole frames they should reach: errors lie unevenly, so few places say little.
_COVER, _PLACES, _FARTHER = 0.05, (8, 4), 3
#: Cells of the solver that are added to every margin, for what its scheme spreads.
_SPARE = 24
#: The share of the cost that the first steps may take; the rest is for coarse cells up to the end.
_FIRST = 0.65
#: C is known to that share of itself: a distance nearer to it says nothing of a small error.
_SURE = 0.2
#: A coarse solution that differs from the coarser one by more than that share of the field does
#: not resolve it, and says nothing.
_RESOLVED = 0.25
#: Cells along each axis of a coarse grid at the least.
_FEWEST = 16


@dataclass(frozen=True)
class SpotCheck:
    """What a spot check found.

    method      "solver" or "hold-out"
    lead        steps ahead that were checked, of `steps`
    found       the nRMSE of the domain at each of these steps, as the places have it
    estimate    the nRMSE of the whole rollout; None for a model without calibrated bands
    bounds      what it lies between by the coarse solution; None without one
    places      the cells that were checked, a box each
    cover       the share of the domain that they are
    cost        cells · steps that were solved, as a share of the whole rollout's
    seconds     what that took; CPU-seconds
    points      cells of the solver along each axis of the domain
    """

    method: str
    lead: int
    steps: int
    found: list[float]
    estimate: float | None
    places: list[Box] = field(default_factory=list)
    cover: float = 1.0
    cost: float = 0.0
    seconds: float = 0.0
    points: tuple[int, ...] = ()
    bounds: tuple[float, float] | None = None

    def __str__(self) -> str:
        mean = sum(self.found) / len(self.found)
        ahead = f"{self.lead} of {self.steps} steps ahead"
        rest = "" if self.estimate is None else f", about {self.estimate:.3g} over all"
        if self.method == "hold-out":
            return f"Held out: nRMSE {mean:.3g} on the last {self.lead} known frames{rest}."
        number = f"{len(self.places)} place{'s' if len(self.places) > 1 else ''}"
        where = f"in {number}, {self.cover:.0%} of the cells" if self.cover < 1 else "everywhere"
        spent = f"{self.cost:.1%} of a full solution, {self.seconds:.2g} s"
        return f"Spot check: nRMSE {mean:.3g} {where}, {ahead}{rest}. Solved: {spent}."


def spot_check(
    run: Any, sample: int, frames: Any = None, *, share: float = 0.05, part: Part | None = None
) -> SpotCheck:
    """Check a rollout from a test sample against the solver of its equation.

    run       a run or the name of a shipped model; with `part`, also a model
    sample    the number of the sample in the test part
    frames    the rollout, (t, c, *space), every frame; computed here if not given
    share     of the cost of a full solution that may be spent; 0.05 to begin with
    part      the samples, if they are not the run's own test part
    """
    if not 0 < share <= 1:
        raise ValueError(f"check should be a share of the cost such as 0.05, got {share}.")
    run = find_run(run, part.data if part is not None else None)
    part = run.test_data(sample + 1).test if part is None else part
    task = part.data.task(getattr(run.model, "history", None))
    truth = None if part.data.steady else find_truth(run, part[sample : sample + 1], task, 1)
    given, future = part.begin([sample], getattr(run.model, "history", None))
    if frames is None:
        frames = run.predict(given, future.shape[1])[0]
    predicted = torch.from_numpy(np.asarray(frames).astype(np.float64))
    if truth is None:
        known = future[0, : len(predicted)].double()
        mirror = _ask_mirror(run, given, predicted)
        return _compare(run, predicted, known, [], 0.0, part.data.grid, "hold-out", mirror=mirror)
    bands = Bands.of(run.model)
    crops = _choose(truth, predicted, _FIRST * share, bands, part.data.card.dt)
    coarse = _solve_coarse(truth, len(predicted), share - crops.cost)
    return crops.check(run, predicted, coarse, _ask_mirror(run, given, predicted))


def hold_out(run: Any, history: Any, share: float = 0.2) -> SpotCheck:
    """Predict the last frames of a known history (k, c, *space) from those before, and compare.

    `share` of the frames are held out, as far as the model has enough to start from.
    """
    run = find_run(run)
    known = torch.from_numpy(np.asarray(history).copy())
    count = min(len(known) - run.model.history, max(1, round(share * len(known))))
    if count < 1:
        raise ValueError(
            f"a hold-out needs more than the {run.model.history} frames that the model starts "
            f"from, got {len(known)}. Give a longer history, or leave --check out."
        )
    predicted = rollout(run.model, Given(known[None, :-count].float()), count)[0]
    held = known[-count:].double()
    return _compare(run, predicted.double(), held, [], 0.0, run.model.grid, "hold-out")


@dataclass(frozen=True)
class _Mirrored:
    """What the mirror image of the start says of the error at every step: (t, c)."""

    mirror: Mirror
    estimate: Tensor


def _ask_mirror(run: Run, given: Given, predicted: Tensor) -> _Mirrored | None:
    """The estimate of the mirror image for a rollout (t, c, *space); None where there is none."""
    mirror = Mirror.of(run.model)
    if mirror is None:
        return None
    estimate = mirror.estimate(run.model, given, predicted[None])[0]
    return _Mirrored(mirror, estimate) if estimate.isfinite().all() else None


@dataclass(frozen=True)
class _Crops:
    """Boxes of data cells to solve, the margin around them in solver cells, and how far ahead."""

    truth: Truth
    grid: Grid
    boxes: list[Box]
    margin: int
    lead: int
    cost: float

    def check(
        self,
        run: Run,
        predicted: Tensor,
        coarse: _Coarse | None = None,
        mirror: _Mirrored | None = None,
    ) -> SpotCheck:
        """Solve every crop, and compare with what was predicted: (t, c, *space)."""
        target = self.truth.target
        solved = torch.full((self.lead, *predicted.shape[1:]), torch.nan, dtype=torch.float64)
        began = time.process_time()
        for box in self.boxes:
            frames = torch.from_numpy(self._solve(box))
            cells = [torch.arange(a, b) % n for (a, b), n in zip(box, target.points, strict=True)]
            place: Any = (slice(None), slice(None), *torch.meshgrid(*cells, indexing="ij"))
            solved[place] = frames
        spent = time.process_time() - began
        ways: Any = {"crops": self, "coarse": coarse, "mirror": mirror}
        return _compare(run, predicted, solved, self.boxes, spent, target, "solver", **ways)

    def _solve(self, box: Box) -> Array:
        """The true frames of a box of data cells: (lead, c, *box)."""
        truth, steps = self.truth, self.lead + 1
        if self.grid != truth.full:
            frames, _ = truth.solve(0, self.grid, {}, steps)
            return next(truth.read(frames, self.grid))[1:]
        window = _window(truth, box, self.margin)
        frames = truth.solve_window(window, steps)
        inner: list[Any] = []
        ratios = zip(box, window, truth.target.points, truth.full.points, strict=True)
        for (a, b), (start, _), m, n in ratios:
            ratio = -(-n // m)
            inner.append(slice(a * ratio - start, min(b * ratio, n * (1 + b // m)) - start))
        kept: list[Any] = [slice(None, None, s) for s in truth.strides]
        core = restrict(frames[1:, :, *inner], truth.refine, truth.full.dims)
        return core[:, :, *kept]


@dataclass(frozen=True)
class _Coarse:
    """A solution on coarse cells at the data's points.

    frames (t, c, *space), gap (t, c): what still coarser cells say of its rms error
    """

    frames: Tensor
    gap: Tensor
    cost: float
    seconds: float

    def doubt(self, known: Tensor, is_exact: bool) -> Tensor:
        """How far it may be off, from what is known exactly or on finer cells: (t, c)."""
        lead = min(len(known), len(self.frames))
        own = (known[:lead] - self.frames[:lead]).square().flatten(2).nanmean(2).sqrt()
        own = own.clamp_min(1e-30)
        # On cells twice as fine half of the error is left, so that it is twice the difference.
        last = own[-1] if is_exact else 2 * own[-1]
        power = torch.ones_like(last)
        if lead > 1:
            power = ((own[-1] / own[0]).log() / math.log(lead)).clamp(0.0, 1.0)
        ahead = torch.arange(1, len(self.frames) + 1, dtype=own.dtype).view(-1, 1) / lead
        return torch.maximum(self.gap, last * ahead.clamp_min(1.0) ** power)


def _solve_coarse(truth: Truth, steps: int, room: float) -> _Coarse | None:
    """The rollout on the finest cells whose cost is allowed, and on still coarser ones."""
    full, known = truth.full, min(steps, len(truth.times) - 1)
    power = full.dims + 1
    for fold in (2, 4, 8, 16, 32):
        apart = 4 if min(full.points) // (4 * fold) >= _FEWEST else 2
        cost = known / steps * (fold**-power + (apart * fold) ** -power)
        if min(full.points) // (apart * fold) < _FEWEST:
            return None
        if cost > room:
            continue
        began, found = time.process_time(), []
        for times in (fold, apart * fold):
            grid = truth.problems[0].grid_of([n // times for n in full.points])
            solved, _ = truth.solve(0, grid, {}, known + 1)
            found.append(torch.from_numpy([*truth.read(solved, grid)][-1][1:]).double())
        # With an error of the first order at the least, e of the finer and apart · e of the other.
        gap = _rms(found[0] - found[1]) / (apart - 1)
        gap = gap.where(gap.isfinite(), torch.inf)
        return _Coarse(found[0], gap, cost, time.process_time() - began)
    return None


def _rms(u: Tensor) -> Tensor:
    """(t, c, *space) → (t, c)"""
    return u.square().flatten(2).mean(2).sqrt()


def _choose(
    truth: Truth, predicted: Tensor, share: float, bands: Bands | None, dt: float
) -> _Crops:
    """As far ahead as the cost allows, in crops that cover enough of the domain."""
    steps, full, target = len(predicted), truth.full, truth.target
    budget, known = share * steps, len(truth.times) - 1
    for lead in range(min(steps, known), 0, -1):
        if int(budget) < lead < _FARTHER * int(budget):
            continue
        felt = truth.problems[0].reach(lead * dt, predicted[:lead].numpy()) / min(full.spacing)
        margin = math.ceil(min(felt, 2 * max(full.points))) + _SPARE
        if lead <= budget:
            return _Crops(truth, full, [_whole(target)], 0, lead, lead / steps)
        for count in _PLACES:
            side = _side(full, target, budget / lead / count, margin)
            if side and count * side**full.dims >= _COVER * math.prod(target.points):
                boxes = _places(truth, predicted[lead - 1], count, side, bands, lead)
                cells = sum(_cells(_window(truth, box, margin)) for box in boxes)
                cost = cells * lead / (math.prod(full.points) * steps)
                return _Crops(truth, full, boxes, margin, lead, cost)
    for fold in (2, 4, 8, 16):
        lead = int(budget * fold ** (full.dims + 1))
        if lead >= max(1, min(steps // 5, known)):
            lead = min(lead, steps, known)
            grid = truth.problems[0].grid_of([n // fold for n in full.points])
            cost = lead / steps / fold ** (full.dims + 1)
            return _Crops(truth, grid, [_whole(target)], 0, lead, cost)
    raise ValueError(f"a check of {share:g} of the cost is too little for one step. Allow more.")


def _whole(grid: Grid) -> Box:
    return tuple((0, n) for n in grid.points)


def _side(full: Grid, target: Grid, share: float, margin: int) -> int:
    """Data cells along each axis of a crop whose window costs that share of the domain."""
    room = (share * math.prod(full.points)) ** (1 / full.dims) - 2 * margin
    side = int(room // -(-full.points[0] // target.points[0]))
    return side if 0 < side < min(target.points) else 0


def _cells(window: Box) -> int:
    return math.prod(stop - start for start, stop in window)


def _window(truth: Truth, box: Box, margin: int) -> Box:
    """The solver's cells around a box of data cells; it ends at walls."""
    window = []
    axes = zip(box, truth.target.points, truth.full.points, truth.full.is_periodic, strict=True)
    for (a, b), m, n, periodic in axes:
        ratio = -(-n // m)
        low, high = a * ratio - margin, b * ratio + margin
        if periodic and high - low >= n:
            low, high = a * ratio, a * ratio + n
        window.append((low, high) if periodic else (max(low, 0), min(high, n)))
    return tuple(window)


def _places(
    truth: Truth, frame: Tensor, count: int, side: int, bands: Bands | None, lead: int
) -> list[Box]:
    """Places that do not overlap: half of them where errors are likely, the others anywhere."""
    target, draw = truth.target, numpy_stream(truth.seed, "spot check", truth.numbers[0])
    likely = _likely(frame, bands, lead, target)
    blocks = [n // side for n in target.points]
    numbers = list(np.ndindex(*blocks))
    weight = np.array(
        [likely[tuple(slice(i * side, (i + 1) * side) for i in at)].mean() for at in numbers]
    )
    by_weight = weight / weight.sum() if weight.sum() > 0 else np.full(len(weight), 1 / len(weight))
    chance = 0.5 * by_weight + 0.5 / len(numbers)
    chosen = draw.choice(len(numbers), min(count, len(numbers)), replace=False, p=chance)
    return [tuple((i * side, (i + 1) * side) for i in numbers[k]) for k in sorted(chosen)]


def _likely(frame: Tensor, bands: Bands | None, lead: int, grid: Grid) -> Array:
    """What the squares of errors follow in each cell: (*space)."""
    if bands is None:
        return np.ones(grid.points)
    scale = bands.scale(frame[None], lead, grid.is_periodic)[0].square()
    scale = scale / scale.flatten(1).mean(1).view(-1, *[1] * grid.dims).clamp_min(1e-30)
    return np.asarray(scale.mean(0).nan_to_num(1.0))


def _compare(
    run: Run,
    predicted: Tensor,
    known: Tensor,
    boxes: Sequence[Box],
    spent: float,
    grid: Grid,
    method: str,
    crops: _Crops | None = None,
    coarse: _Coarse | None = None,
    mirror: _Mirrored | None = None,
) -> SpotCheck:
    """Errors in the cells that are known (t, c, *space), NaN elsewhere, and what follows."""
    bands, steps, lead = Bands.of(run.model), len(predicted), len(known)
    errors = (predicted[:lead] - known).square()
    inside = ~errors.isnan()
    scales = torch.stack([_scale(u, bands, t, grid) for t, u in enumerate(predicted, start=1)])
    size = _sizes(predicted, known, coarse)
    total = torch.where(inside, errors, 0.0).flatten(2).sum(2)
    here = torch.where(inside, scales[:lead].square(), 0.0).flatten(2).sum(2)
    rms = _rms(scales)
    found = (total / here.clamp_min(1e-60)).sqrt() * rms[:lead] / size[:lead]
    usual = None if bands is None else bands.growth(steps) * rms / size
    is_exact = crops is None or crops.grid == crops.truth.full
    if coarse is not None and usual is not None and not is_exact:
        doubt = _rms(known - coarse.frames[:lead]) / size[:lead]
        guess = usual if mirror is None else mirror.estimate
        found = _within(guess[:lead], found, doubt)
    whole, bounds = None, None
    if usual is not None:
        level = (found / usual[:lead])[-LAST:].log().mean(0).exp()
        whole = torch.cat([found, (level * usual)[lead:]])
        is_usual = False
        if mirror is not None:
            whole, is_usual = mirror.mirror.carry_on(mirror.estimate, found, whole)
        if coarse is not None:
            count = len(coarse.frames)
            distance = _rms(predicted[:count] - coarse.frames) / size[:count]
            doubt = coarse.doubt(known, is_exact) / size[:count]
            doubt = doubt.where(coarse.gap <= _RESOLVED * size[:count], torch.inf)
            whole, bounds = _bound(whole, distance, doubt, lead, is_usual)
    return SpotCheck(
        method=method,
        lead=lead,
        steps=steps,
        found=found.mean(1).tolist(),
        estimate=None if whole is None else float(whole.mean()),
        places=list(boxes),
        cover=float(inside[0, 0].double().mean()),
        cost=(0.0 if crops is None else crops.cost) + (0.0 if coarse is None else coarse.cost),
        seconds=spent + (0.0 if coarse is None else coarse.seconds),
        points=() if crops is None else crops.grid.points,
        bounds=bounds,
    )


def _sizes(predicted: Tensor, known: Tensor, coarse: _Coarse | None) -> Tensor:
    """What errors are relative to, from the best that is known of the truth: (t, c)."""
    size = _rms(predicted)
    for better in (None if coarse is None else coarse.frames, known):
        if better is not None:
            own = _rms(better)  # NaN where places alone are known
            size[: len(own)] = torch.where(own.isfinite(), own, size[: len(own)])
    # As in nRMSE, a field that comes to rest counts as a hundredth of its size.
    return torch.maximum(size, resting(size[None])[0]).clamp_min(1e-30)


def _within(guess: Tensor, distance: Tensor, doubt: Tensor) -> Tensor:
    """A guess of the error, moved to where D − C ≤ E ≤ D + C."""
    return torch.minimum(torch.maximum(guess, distance - doubt), distance + doubt)


def _bound(
    whole: Tensor, distance: Tensor, doubt: Tensor, lead: int, is_usual: bool = False
) -> tuple[Tensor, tuple[float, float] | None]:
    """Errors after the checked steps within what a coarse solution allows, and both ends of it.

    `whole` are the errors that are expected (t, c), distances and doubts of the coarse solution
    (known, c).  What they change at one step, they change at the later ones as well.  A mirror
    image that agrees with the first steps (`is_usual`) is believed against the lower bound of a
    coarse solution that does not resolve the field to the end.
    """
    found, low, high = whole.clone(), whole.clone(), whole.clone()
    level = torch.ones_like(whole[0])
    resolved = bool((distance.isfinite() & doubt.isfinite())[lead:].all())
    for t in range(lead, len(whole)):
        found[t] = level * whole[t]
        if t < len(distance):
            # Where the coarse solution is not finite it allows anything.
            d = distance[t].nan_to_num(0.0)
            c = torch.where(distance[t].isfinite(), doubt[t], torch.inf)
            low[t], high[t] = (d - (1 + _SURE) * c).clamp_min(0), d + (1 + _SURE) * c
            alone = ((d - c).clamp_min(0) * (d + c)).sqrt()  # of D² − C²
            least = low[t] if resolved or not is_usual else torch.zeros_like(d)
            found[t] = torch.minimum(torch.where(least > found[t], alone, found[t]), high[t])
            level = found[t] / whole[t].clamp_min(1e-30)
    ends = float(low.mean()), float(high.mean())
    return found, ends if math.isfinite(ends[1]) else None


def _scale(frame: Tensor, bands: Bands | None, lead: int, grid: Grid) -> Tensor:
    if bands is None:
        return torch.ones_like(frame)
    return bands.scale(frame[None].nan_to_num(), lead, grid.is_periodic)[0].clamp_min(1e-30)
