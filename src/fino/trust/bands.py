"""How far off a prediction may be: bands that held for nine validation cells in ten.

Split conformal prediction.  On trajectories that were not learned from, the error of every cell
is divided by what locally predicts it,

    s = √(a² + ā²),      a = the chosen activity of the predicted frame, ā its usual size,

and for every field and lead time the quantiles of |error| ÷ s over cells and trajectories are kept.
A band of 90 % is  û ± q(0.9) · s.  Activities are looked at in this order and the one with the
narrowest bands is chosen:

    even          no difference between cells
    curvature     second differences, averaged over the cells nearby
    gradient      first differences, averaged likewise

What it promises is marginal: 90 % of all cells of trajectories like the calibration ones, not of
every trajectory, nor of any other data.  A quantile of n trajectories holds fewer cells of the next
one.  How many fewer is measured by leaving one trajectory out at a time: q(0.9) is the quantile at
the level ℓ at which

    1/n Σᵢ share of the cells of trajectory i below the quantile of the others at ℓ   =   0.9
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fino.data.dataset import Dataset, Part
from fino.given import Given
from fino.model.emulator import Emulator
from fino.model.rollout import frames
from fino.shapes import Field
from fino.streams import torch_stream
from fino.trust.equation import Equation
from fino.trust.guards import limit_by, rounded, see
from fino.trust.mirror import Measured

__all__ = ["LEVELS", "REACH", "Bands", "calibrate"]

#: The coverages that are measured.
LEVELS = (0.5, 0.8, 0.9, 0.95)
#: Where the quantiles are kept; between them they are interpolated.
_KEPT = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.92, 0.94, 0.96, 0.98, 0.99, 1.0)
#: Cells on either side that an activity is averaged over, and how far it looks in all.
_NEARBY = 3
REACH = _NEARBY + 2
#: Trajectories and lead times at the most, and values of one lead time that are sorted.
_MOST, _LEADS, _VALUES = 128, 24, 2**16
#: Training starts that are looked at, at the most.
_STARTS = 512
#: What the width of a band may follow.
_ACTIVITIES = ("even", "curvature", "gradient")
#: Places between the smallest and the largest error at which quantiles are looked for.
_RANKS = 2000
#: An error that is as good as infinite, in units of an activity.
_FAR = 1e30
#: Values that are rolled out at a time.
_AT_ONCE = 2**22

Progress = Callable[[float], None]


@dataclass(frozen=True)
class Bands:
    """The calibrated quantiles of a model, as plain numbers that go to a file.

    activity        what the width of a band follows
    usual           its usual size at each lead time and field: (lead, field)
    leads           the steps ahead that were calibrated
    levels          the shares that the quantiles belong to
    quantiles       of |error| ÷ s: (lead, field, level)
    trajectories    how many they were calibrated on
    left_out        whether quantiles were found by leaving one trajectory out at a time; bands of
                    earlier versions are taken at level · (n + 1)/n instead
    typical         rms of the error ÷ rms of s in a trajectory, the median of them: (lead, field)
    """

    activity: str
    usual: list[list[float]]
    leads: list[int]
    levels: list[float]
    quantiles: list[list[list[float]]]
    trajectories: int
    typical: list[list[float]]
    left_out: bool = False

    @classmethod
    def of(cls, model: Any, interval: float | None = None) -> Bands | None:
        """The bands of a model; None if it has none, or a line that says so for an `interval`."""
        found = (getattr(model, "trust", None) or {}).get("bands")
        names = {field.name for field in fields(cls)}
        bands = None if found is None else cls(**{k: v for k, v in found.items() if k in names})
        if interval is None:
            return bands
        if bands is None:
            raise ValueError(
                "This model has no calibrated bands. Calibrate its run on the validation part of "
                "its data with `fino calibrate RUN`."
            )
        bands.level(interval)
        return bands

    def allows(self, interval: float) -> bool:
        """Whether there were enough trajectories for a band that holds so many cells."""
        return interval * (self.trajectories + 1) <= self.trajectories

    def level(self, interval: float) -> float:
        """Where the band's quantile stands among those that are kept, or why there is none."""
        if not 0 < interval < 1:
            raise ValueError(f"interval should be a share such as 0.9, got {interval}.")
        if not self.allows(interval):
            raise ValueError(
                f"an interval of {interval:g} needs at least "
                f"{math.ceil(interval / (1 - interval))} validation trajectories, this model was "
                f"calibrated on {self.trajectories}. Ask for a smaller one, or validate on more."
            )
        if self.left_out:
            return interval
        return interval * (self.trajectories + 1) / self.trajectories

    def width(self, frame: Field, lead: int, interval: float, wraps: Sequence[bool]) -> Field:
        """Half the width of the band `lead` steps ahead: (b, c, *space) → the same.

        `wraps` says which axes the frame holds once around.
        """
        quantile = self.quantile(lead, interval).to(frame)
        return quantile.view(-1, *[1] * (frame.dim() - 2)) * self.scale(frame, lead, wraps)

    def scale(self, frame: Field, lead: int, wraps: Sequence[bool]) -> Field:
        """What errors are measured by, s: (b, c, *space) → the same."""
        if self.activity == "even":
            return torch.ones_like(frame)
        usual = torch.from_numpy(self._at(np.array(self.usual), lead)).to(frame)
        usual = usual.view(-1, *[1] * (frame.dim() - 2))
        return (_active(frame, self.activity, wraps).square() + usual.square()).sqrt()

    def quantile(self, lead: int, interval: float) -> Tensor:
        """How many s a band is wide on either side, for each field: (c,).

        Past the last calibrated step bands go on to grow as they did over its second half.
        """
        level, last = self.level(interval), self.leads[-1]
        table = [[np.interp(level, self.levels, q) for q in row] for row in self.quantiles]
        found = self._at(np.array(table), min(lead, last))
        if lead > last and last > 1:
            half = self._at(np.array(table), last / 2)
            growth = np.log2(np.maximum(found, 1e-30) / np.maximum(half, 1e-30))
            found = found * (lead / last) ** np.maximum(growth, 0.0)
        return torch.from_numpy(found)

    def growth(self, steps: int) -> Tensor:
        """How the error of a trajectory grew in validation, in units of s: (steps, field)."""
        leads, table = range(1, steps + 1), np.array(self.typical)
        rows = np.stack([self._at(table, min(lead, self.leads[-1])) for lead in leads])
        return torch.from_numpy(rows).clamp_min(1e-30)

    def _at(self, table: np.ndarray, lead: float) -> np.ndarray:
        """A table (lead, field) between the steps that were calibrated: (field,)."""
        return np.array([np.interp(lead, self.leads, column) for column in table.T])


def _active(frame: Field, activity: str, wraps: Sequence[bool]) -> Field:
    """First or second differences of a frame, averaged over the cells nearby."""
    dims, sides = frame.dim() - 2, [REACH * turn for turn in wraps]
    for axis, side in enumerate(sides, start=2):
        n = frame.shape[axis]
        around = torch.arange(-side, n + side, device=frame.device) % n
        frame = frame.index_select(axis, around) if side else frame
    total = torch.zeros_like(frame)
    for axis in range(2, 2 + dims):
        change = frame.diff(dim=axis, n=1 if activity == "gradient" else 2).abs()
        # A first difference belongs to both of its cells, a second one to the middle cell.
        for start in (0, 1) if activity == "gradient" else (1,):
            if change.shape[axis]:
                total.narrow(axis, start, change.shape[axis]).add_(change)
    total = _average(total, dims)
    for axis, side in enumerate(sides, start=2):
        total = total.narrow(axis, side, total.shape[axis] - 2 * side)
    return total


def _average(u: Field, dims: int) -> Field:
    """The mean over a box of cells around each, which ends at the edges of the array."""
    pool = {1: functional.avg_pool1d, 2: functional.avg_pool2d, 3: functional.avg_pool3d}[dims]
    return pool(u, 2 * _NEARBY + 1, stride=1, padding=_NEARBY, count_include_pad=False)


def calibrate(
    model: Emulator, data: Dataset, *, long: Dataset | None = None, progress: Progress | None = None
) -> dict[str, Any]:
    """What training saw, bands and mirror images of the validation part: what `trust.json` holds.

    With them goes the equation that the data were made with, as their card says.

    `long` are the same trajectories over a longer time, to calibrate bands further ahead.  Without
    a validation part there are no bands, and the limits of a start are those of the training part.
    """
    seen, equation = see(model, data), Equation.of_card(data.card).facts
    part = (long or data).validation
    if not len(part):
        some = data.train.begin(range(min(len(data.train), _MOST)), model.history)[0]
        low, high = seen.bounds(0.0)
        return {"seen": vars(limit_by(seen, model, some, low, high)), "equation": equation}
    count = min(len(part), _MOST)
    starts = part.begin(range(count), model.history)[0]
    errors = _Errors(model, part, count, data.task(model.history).steps)
    for rows in _chunks(part, count):
        errors.add(rows)
        if progress:
            progress(rows.stop / count)
    learned = _starts(data.train, model.history)
    seen = limit_by(seen, model, starts, errors.low, errors.high, learned)
    found = {"seen": vars(seen), "bands": vars(errors.bands()), "equation": equation}
    mirror = errors.mirror.facts()
    return found if mirror is None else {**found, "mirror": mirror}


def _starts(part: Part, history: int) -> Iterator[Given]:
    """What rollouts of a part begin with, some trajectories at a time."""
    task, count = part.data.task(history), min(len(part), _STARTS)
    for rows in _chunks(part, count):
        yield part.window(rows, task.start, task.shown - task.start, 0)[0]


def _chunks(part: Part, count: int) -> Iterator[range]:
    size = max(1, _AT_ONCE // math.prod(part.shape[2:]))
    return (range(first, min(first + size, count)) for first in range(0, count, size))


class _Errors:
    """Errors and activities of validation rollouts, in some cells at some lead times."""

    def __init__(self, model: Emulator, part: Part, count: int, own: int) -> None:
        self.model, self.part, self.count = model, part, count
        steps = part.data.task(model.history).steps
        self.leads = np.unique(np.geomspace(1, steps, min(_LEADS, steps)).round().astype(int))
        cells = math.prod(part.shape[3:])
        kept = max(1, min(cells, _VALUES // count))
        order = torch.randperm(cells, generator=torch_stream(0, "calibration cells"))
        self.cells = order[:kept].sort().values
        #: lead → [(|error|, activity …) of some trajectories, (b, c, cells) each]
        self.found: dict[int, list[tuple[Tensor, ...]]] = {int(lead): [] for lead in self.leads}
        self.low = torch.full((part.shape[2],), torch.inf, dtype=torch.float64)
        self.high = -self.low
        self.mirror = Measured(model, part.data.card, own)

    @torch.no_grad()
    def add(self, rows: range) -> None:
        """Roll some trajectories out and compare them with the truth."""
        given, future = self.part.begin(rows, self.model.history)
        weight = next(self.model.parameters(), given.history)
        start = given.to(weight.device)
        self.mirror.begin(start, future.shape[1])
        for lead, frame in enumerate(frames(self.model, start, future.shape[1]), start=1):
            frame = frame.to(future)
            self.mirror.add(frame, future[:, lead - 1])
            flat = torch.nan_to_num(frame.double().movedim(1, 0).flatten(1))
            self.low = torch.minimum(self.low, flat.amin(1))
            self.high = torch.maximum(self.high, flat.amax(1))
            if lead in self.found:
                error = (frame - future[:, lead - 1]).abs().nan_to_num(torch.inf)
                if given.mask is not None:
                    error = error.where(given.mask > 0, torch.nan)
                wraps = self.part.data.grid.is_periodic
                actives = (_active(frame, name, wraps) for name in _ACTIVITIES[1:])
                kept = (u.flatten(2)[:, :, self.cells].double() for u in (error, *actives))
                self.found[lead].append(tuple(kept))

    def bands(self) -> Bands:
        """The quantiles of the activity that makes the bands narrowest."""
        tried = [self._quantiles(name) for name in _ACTIVITIES]
        name = _ACTIVITIES[int(np.argmin([width for *_, width in tried]))]
        usual, quantiles, typical, _ = tried[_ACTIVITIES.index(name)]
        leads = [int(lead) for lead in self.leads]
        tables = [rounded(torch.tensor(table)) for table in (usual, quantiles, typical)]
        return Bands(
            name, tables[0], leads, [*_KEPT], tables[1], self.count, tables[2], self.count > 1
        )

    def _quantiles(self, name: str) -> tuple[list[Any], list[Any], list[Any], float]:
        """(lead, field) usual activity, (lead, field, level) quantiles, the typical error of a
        trajectory in scales (lead, field), and the relative width."""
        usual, quantiles, each, widths = [], [], [], []
        for rows in self.found.values():
            error, *actives = (torch.cat(parts) for parts in zip(*rows, strict=True))
            place = _ACTIVITIES.index(name) - 1
            active = torch.zeros_like(error) if place < 0 else actives[place]
            active = active.nan_to_num(0.0, 0.0, 0.0)  # of rollouts that diverged
            size = active.square().mean((0, 2)).sqrt()
            scale = torch.ones_like(error)
            if place >= 0:
                scale = (active.square() + size.view(1, -1, 1).square()).sqrt().clamp_min(1e-30)
            ratios = (error / scale).unbind(1)
            kept = [_quantiles_left_out(ratio) for ratio in ratios]
            usual.append(size.tolist())
            quantiles.append(kept)
            each.append(_rms_in_scales(error, scale).median(0).values.tolist())
            middle = [row[_KEPT.index(0.9)] for row in kept]
            width = torch.tensor(middle) * scale.mean((0, 2))
            typical = error.nan_to_num(0.0, 0.0, 0.0).mean((0, 2)).clamp_min(1e-30)
            widths.append((width / typical).clamp(1e-30, _FAR))
        return usual, quantiles, each, float(torch.stack(widths).log().mean())


def _rms_in_scales(error: Tensor, scale: Tensor) -> Tensor:
    """The rms of the error over the cells of a mask ÷ that of the scale: (b, c, cells) → (b, c).

    Not the rms of their ratio: where the scale is small it would count small errors as large ones,
    and these grow otherwise than the error of the whole field.
    """
    inside = ~error.isnan()
    error = error.where(inside, 0.0).clamp_max(_FAR)
    own, usual = error.square().sum(2), (scale.square() * inside).sum(2)
    return (own / usual.clamp_min(1e-60)).sqrt()


def _quantiles_left_out(ratios: Tensor) -> list[float]:
    """What holds each share in `_KEPT` of a trajectory's cells, as seen from the others.

    (n, cells) → one value for each share.  Cells outside of a mask are NaN and left out; a rollout
    that diverged counts as far off.
    """
    there = ~ratios.isnan()
    number = torch.arange(len(ratios)).unsqueeze(1).expand_as(ratios)[there]
    values, order = ratios[there].clamp_max(_FAR).sort()
    if not len(values):
        return [0.0] * len(_KEPT)
    # Cells of each trajectory among the first `ranks` of all: (n, ranks).
    ranks = torch.linspace(0, len(values), min(len(values), _RANKS) + 1).round().long()
    place = torch.bucketize(torch.arange(len(values)), ranks[1:], right=True)
    counts = torch.zeros(len(ratios), len(ranks) - 1, dtype=torch.float64)
    counts.index_put_((number[order], place), torch.ones(1, dtype=torch.float64), accumulate=True)
    below = counts.cumsum(1)
    own, others = below[:, -1:].clamp_min(1), (len(values) - below[:, -1:]).clamp_min(1)
    levels = ranks[1:].double() / len(values)
    if len(ratios) == 1:
        held = levels
    else:
        # Where the others reach a level, and what of the one that was left out is below that.
        rest = (ranks[1:] - below) / others
        at = torch.searchsorted(rest.contiguous(), levels.repeat(len(ratios), 1))
        shares = below.gather(1, at.clamp_max(len(levels) - 1)) / own
        held = shares[below[:, -1] > 0].mean(0)
    wanted = torch.tensor(_KEPT, dtype=torch.float64)
    first = torch.searchsorted(held.cummax(0).values.contiguous(), wanted - 1e-12)
    return values[ranks[1:][first.clamp_max(len(levels) - 1)] - 1].tolist()
