"""What training saw, and a rollout that leaves it.

Two questions are asked.  Is the start like those of the training part?  Its last frames are
measured by a few numbers for each field:

    low, high, mean, spread     of the values
    rough s                     rms difference of cells that lie s = 1, 2, 4 … apart: the spectrum
    steep                       the largest difference of neighbours
    change, jump                rms and largest change from the frame before
    moved                       change ÷ rough 1: cells moved a step
    law, off                    rms and largest distance of the last frame from what a linear local
                                law, fitted on the training part, makes of those before it
    missed, most                the same for the model itself: it is asked for the last frame that
                                is given, which it can be compared with.  The frame that its
                                history lacks then is continued backwards by a linear law

and the distance of these numbers z from the training part is that of Mahalanobis, which knows
how they go together:  d² = (z − μ)ᵀ Σ⁻¹ (z − μ) / n.  A start is unlike the training data where
d, or what the model missed in standard deviations, is larger than in all but three of two hundred
trajectories of the validation part.  A few dozen of these leave the limit of d uncertain, so it
is also taken of them together with the starts of the training part, from which d has learned no
more than means and covariances; the larger of the two counts.  Both are counted from their mean
over the validation starts, so that a typical start is at zero and the limit at one, and the larger
is taken: where the model already misses much at every start, what it misses does not hide the
other.

And does the rollout stay where the training data are?  The least and the largest value of each
frame are looked at right after it is computed.  Beyond the range of training the rollout is
warned of, far beyond it, or at a NaN, it stops.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import product
from statistics import NormalDist
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fino.data.dataset import Dataset, Part
from fino.given import Given
from fino.model.convolution import pad
from fino.shapes import Field, Trajectory

__all__ = [
    "FAR",
    "Diverged",
    "Seen",
    "Watch",
    "beyond",
    "describe_start",
    "limit_by",
    "rounded",
    "see",
]

#: Frames that a start is measured by, values that are read to know the training part, and windows
#: of it that are measured at the least and at the most.
_FRAMES, _VALUES, _FEWEST, _MOST = 10, 2**24, 64, 512
#: Equations of the linear law, and what it is damped by.
_EQUATIONS, _RIDGE = 2**15, 1e-8
#: Numbers below this share of a field's own spread are rounding.
_ROUNDING = 1e-7
#: What is added to the variances, as a share of them.
_SHRINK = 1e-3
#: Powers of ten by which what the model misses varies at the least.
_NARROW = 0.05
#: The share of the validation part that is like the training data, by each of two measures.
_ALIKE = 0.985
#: With fewer validation starts only what lies outside of the range of the training data is said:
#: how numbers go together is not known well enough, and alarms on it would be false.
_FEW = 20
#: The range of training is widened by this share of itself before anything is warned of, and by
#: this factor before a rollout is stopped.  Validation rollouts widen it at the most by the last.
_SLACK, FAR, _WIDEST = 0.05, 10.0, 0.5
#: Values that are measured at a time.
_AT_ONCE = 2**20

#: (sample, the (start, stop) of its cells on each axis)
Place = tuple[int, Sequence[tuple[int, int]]]


class Diverged(ValueError):
    """A rollout that is no longer finite, or outside of what training saw.

    `field`, `sample`, `cell` and `step` say where and when; steps count from 1.  `frames` are
    those before it, also where they are in a file.
    """

    def __init__(
        self,
        value: float,
        field: str,
        sample: int,
        cell: tuple[int, ...],
        step: int,
        steps: int,
        reason: str = "diverged",
        seen: str = "",
    ) -> None:
        super().__init__(value, field, sample, cell, step, steps, reason, seen)
        self.value, self.field, self.sample, self.cell = value, field, sample, cell
        self.step, self.steps, self.reason, self.seen = step, steps, reason, seen
        self.frames: Any = None
        self.kept = ""

    @property
    def line(self) -> str:
        """What happened, where and when, in one sentence."""
        where = f"cell ({', '.join(map(str, self.cell))}) of sample {self.sample}"
        found = f"{self.field} is {self.value:.3g} at {where}{self.seen}"
        return f"The rollout {self.reason} in step {self.step} of {self.steps}: {found}."

    def __str__(self) -> str:
        return f"{self.line} {self.kept}".rstrip()

    def keep(self, frames: Any, count: int, place: object = None) -> None:
        """Remember what was computed before, and the file that holds it."""
        self.frames = frames
        where = "`.frames` of this error" if place is None else str(place)
        self.kept = f"The {count} frames kept before it are in {where}."


class Watch:
    """Looks at predicted frames: warns once where they leave the range of training, stops beyond.

    With `strict` it stops at the first value outside of the range.
    """

    def __init__(
        self, model: Any, steps: int, points: Sequence[int], *, strict: bool = False
    ) -> None:
        self.fields = getattr(getattr(model, "settings", None), "fields", ())
        self.steps, self.points, self.strict = steps, points, strict
        self.seen, self.warned = Seen.of(model), False

    def __call__(self, frames: Tensor, time: int, places: Sequence[Place]) -> None:
        """Look at the cells (n, c, *box) of some places in the frame `time`, counted from 0."""
        low, high = (u.cpu() for u in torch.aminmax(frames.movedim(1, 0).flatten(1), dim=1))
        if not bool(torch.isfinite(high - low).all()):
            raise self._find(frames, time, places, ~torch.isfinite(frames), "diverged")
        if self.seen is None or (self.warned and not self.strict and self.seen.holds(low, high, 0)):
            return
        for reason, factor in (("diverged", FAR), ("left what training saw", 0.0)):
            if not self.seen.holds(low, high, factor):
                least, most = self.seen.bounds(factor)
                over = (-1, *[1] * (frames.dim() - 2))
                bad = (frames < least.to(frames).view(over)) | (frames > most.to(frames).view(over))
                if not bool(bad.any()):  # A bound that rounds to the value itself is not crossed.
                    continue
                stop = self._find(frames, time, places, bad, reason)
                if factor or self.strict:
                    raise stop
                if not self.warned:
                    warnings.warn(stop.line, stacklevel=2)
                    self.warned = True

    def _find(
        self, frames: Tensor, time: int, places: Sequence[Place], bad: Tensor, reason: str
    ) -> Diverged:
        row, channel, *cell = (int(i) for i in bad.nonzero()[0])
        sample, box = places[row]
        spans = zip(box, cell, self.points, strict=True)
        where = tuple((start + i) % n for (start, _), i, n in spans)
        name = self.fields[channel] if self.fields else f"channel {channel}"
        value, seen = float(frames[(row, channel, *cell)]), ""
        if self.seen is not None:
            low, high = self.seen.range[channel]
            seen = f", training saw {low:.3g} to {high:.3g}"
        return Diverged(value, name, sample, where, time + 1, self.steps, reason, seen)


@dataclass(frozen=True)
class Seen:
    """What the training part of some data is like, as plain numbers that go to a file.

    range      the least and the largest value of each field, widened by what the validation
               rollouts needed
    scale      the spread of each field
    frames     frames that a start is measured by
    apart      the distances, in cells, over which roughness is measured
    law        weights of the linear local law, (frames − 1, stencil, field, field), and constants
    back       the same backwards in time: what came before the first frame
    mean, whiten, low, high    of the numbers of a start: their mean, W with Σ⁻¹ = W Wᵀ, and the
               range of each
    limit      the distance beyond which a start is unlike the training data, and the same for
               what the model missed
    starts     how many starts the limits were set by
    usual      the mean of both over these starts
    """

    range: list[list[float]]
    scale: list[float]
    frames: int
    apart: list[int]
    law: dict[str, Any] | None
    back: dict[str, Any] | None
    mean: list[float]
    whiten: list[list[float]]
    low: list[float]
    high: list[float]
    limit: list[float]
    starts: int = _FEW
    usual: tuple[float, ...] | list[float] = (0.0, 0.0)

    @classmethod
    def of(cls, model: Any) -> Seen | None:
        """What the training of a model saw; None if it does not say."""
        found = (getattr(model, "trust", None) or {}).get("seen")
        names = {field.name for field in fields(cls)}
        return None if found is None else cls(**{k: v for k, v in found.items() if k in names})

    def bounds(self, factor: float) -> tuple[Tensor, Tensor]:
        """The range of each field, widened on both sides by a factor of itself."""
        low, high = torch.tensor(self.range, dtype=torch.float64).T
        slack = factor * (high - low)
        return low - slack, high + slack

    def holds(self, low: Tensor, high: Tensor, factor: float) -> bool:
        """Whether the least and the largest value (c,) lie in the range."""
        least, most = self.bounds(factor)
        return bool(((low.double() >= least) & (high.double() <= most)).all())

    @cached_property
    def limits(self) -> Tensor:
        """What one frame after another can be checked by, for each field: (c, 4).

        The least and the largest value, the largest difference of neighbours, and the largest
        change in a step; the last two are infinite where training did not measure them.
        """
        # The names do not depend on the domain: a line of three cells has all of them.
        _, names = self.measure(Given(torch.zeros(1, self.frames, len(self.scale), 3)))
        found = torch.full((len(self.scale), 4), torch.inf, dtype=torch.float64)
        found[:, :2] = torch.tensor(self.range, dtype=torch.float64)
        for place, (channel, name, _) in enumerate(names):
            if name in ("steep", "jump"):
                most = (1 + _SLACK) * 10 ** self.high[place] * self.scale[channel]
                found[channel, 2 if name == "steep" else 3] = most
        return found

    def distance(self, given: Given, model: Any = None) -> Tensor:
        """How far starts are from the training data, one where they begin to be unlike: (b,).

        A typical start is at zero.  Without the `model` nobody asks what it misses.
        """
        return self.in_limits(*self.measure(given, model)).amax(1)

    def in_limits(self, numbers: Tensor, names: Sequence[tuple[int, str, Tensor]]) -> Tensor:
        """Both distances, zero where a typical start is and one at the limit: (b, 2)."""
        limit, usual = (torch.tensor(v, dtype=torch.float64) for v in (self.limit, self.usual))
        return (self.distances(numbers, names) - usual) / (limit - usual).clamp_min(1e-9)

    def distances(self, numbers: Tensor, names: Sequence[tuple[int, str, Tensor]]) -> Tensor:
        """The distance of Mahalanobis, and what the model missed in deviations: (b, 2)."""
        from_mean = self._from_mean(numbers)
        away = (from_mean @ self._whiten).norm(dim=1) / numbers.shape[1] ** 0.5
        own = [i for i, (_, name, _) in enumerate(names) if name in ("missed", "most")]
        if not own:
            return torch.stack([away, torch.zeros_like(away)], dim=1)
        precision = self._whiten @ self._whiten.T
        deviation = torch.linalg.inv(precision).diagonal()[own].sqrt().clamp_min(_NARROW)
        return torch.stack([away, (from_mean[:, own] / deviation).amax(1)], dim=1)

    def weigh(
        self, numbers: Tensor, names: Sequence[tuple[int, str, Tensor]]
    ) -> tuple[Tensor, Tensor]:
        """How far starts are (b,), and how far their numbers are out of the range of training.

        The latter (b, n) is −1 for numbers that did not decide on the distance.  Limits that were
        set by few starts count only where a number is out of its range, too.
        """
        both = self.in_limits(numbers, names)
        low, high = (torch.tensor(v, dtype=torch.float64) for v in (self.low, self.high))
        outside = torch.maximum(numbers - high, low - numbers) / (high - low).clamp_min(1e-6)
        is_own = torch.tensor([name in _OWN for _, name, _ in names])
        decided = is_own | (both[:, 1] < both[:, 0]).unsqueeze(1)
        outside = torch.nan_to_num(outside, nan=-1.0).where(decided, -1.0)
        distance = both.amax(1)
        if self.starts < _FEW:
            distance = distance.where(outside.amax(1) > 0, 0.0)
        return distance, outside

    def _from_mean(self, numbers: Tensor) -> Tensor:
        """A number that a small domain does not have counts as that of the training data."""
        return torch.nan_to_num(numbers - torch.tensor(self.mean, dtype=torch.float64), nan=0.0)

    @cached_property
    def _whiten(self) -> Tensor:
        return torch.tensor(self.whiten, dtype=torch.float64)

    def measure(
        self, given: Given, model: Any = None
    ) -> tuple[Tensor, list[tuple[int, str, Tensor]]]:
        """The numbers of each start (b, n), and for each: field, name, and where it is (b, dims).

        Those that belong to no cell have an empty place; those that are not known are NaN.
        """
        history = given.history[:, max(0, given.history.shape[1] - self.frames) :]
        scale = torch.tensor(self.scale, dtype=torch.float64)
        u = history.double().cpu() / scale.view(-1, *[1] * len(given.space))
        mask = None if given.mask is None else given.mask.double().cpu()
        found = [*_measure_frames(u, mask, self.apart)]
        if self.law is not None:
            missed = (_inner(u[:, -1]) - _apply_law(self.law, u)).abs()
            inside = None if mask is None else _law_cells(mask)
            found += _measure_missed(missed, inside, ("law", "off"), 1)
        if self.back is not None:
            own = self._miss(given, model, u) if model is not None else None
            unknown = torch.full_like(u[:, -1], torch.nan)
            found += _measure_missed(unknown if own is None else own, mask, _OWN, 0)
        numbers = torch.stack([value for *_, value, _ in found], dim=1)
        return numbers, [(field, name, where) for field, name, _, where in found]

    def _miss(self, given: Given, model: Any, u: Trajectory) -> Tensor | None:
        """How far the model is off the last frame that is given, in units of the spread."""
        if given.forcing is not None or given.signals is not None or self.back is None:
            return None  # what drove the last step is not given
        scale = torch.tensor(self.scale, dtype=torch.float64).view(-1, *[1] * (u.dim() - 3))
        known, needed = given.history[:, :-1], model.history
        if known.shape[1] < needed:
            past = pad(u[:, :-1].flip(1).flatten(0, 1), (1,) * (u.dim() - 3), model.grid.boundary)
            past = past.unflatten(0, (len(u), -1))
            first = _apply_law(self.back, torch.cat([past, past[:, -1:]], dim=1)) * scale
            known = torch.cat([first.unsqueeze(1).to(known), known], dim=1)
        weight = next(model.parameters(), known)
        start = replace(given, history=known).to(weight)
        with torch.no_grad():
            found = model(start).double().cpu()
        return (found / scale - u[:, -1]).abs()


def describe_start(
    model: Any, seen: Seen, given: Given, origin: Sequence[int], whole: bool = True
) -> tuple[float, str]:
    """How far the worst of some starts is from the training data, and a line that says in what.

    One and less is like the training data.  `origin` is the cell that the start begins with, and
    `whole` says whether it is the whole domain, on which the model can be asked for a step.
    """
    broken = ~torch.isfinite(given.history).flatten(1).all(1)
    if broken.any():
        return math.inf, f"Sample {int(broken.nonzero()[0])} starts with a NaN or an infinity."
    numbers, names = seen.measure(given, model if whole else None)
    distance, out = seen.weigh(numbers, names)
    row = int(distance.argmax())
    if not float(distance[row]) > 0:
        return 0.0, ""
    z, away, outside = numbers[row], seen._from_mean(numbers[row]), out[row]
    low, high = (torch.tensor(v, dtype=torch.float64) for v in (seen.low, seen.high))
    share = away * (seen._whiten @ (away @ seen._whiten))
    share = share.where(outside > -1, -1.0)
    worst = int(outside.argmax()) if float(outside.max()) > 0 else int(share.argmax())
    channel, name, where = names[worst]
    field, scale = model.settings.fields[channel], seen.scale[channel]
    cell = [o + i for o, i in zip(origin, where[row].tolist(), strict=True)] if len(where) else []
    place = f" at cell ({', '.join(map(str, cell))})" if cell else ""
    found, least, most = (
        _amount(name, float(v), scale) for v in (z[worst], low[worst], high[worst])
    )
    words = _WORDS[name.split()[0]].format(field=field, found=found, apart=name.split()[-1])
    saw = f"training saw {least} to {most}" if name in _PLAIN else f"training saw up to {most}"
    if float(z[worst]) < float(low[worst]):
        saw = f"training saw {least} to {most}"
    together = "" if float(outside.max()) > 0 else ", which is unlike it together with the rest"
    line = f"Sample {row} starts unlike the training data: {words}{place}, {saw}{together}."
    return float(distance[row]), line


#: How a number of a start is said.
_WORDS = {
    "low": "{field} falls to {found}",
    "high": "{field} reaches {found}",
    "mean": "the mean of {field} is {found}",
    "spread": "{field} spreads by {found}",
    "rough": "{field} varies by {found} over a distance of {apart} cells",
    "steep": "neighbours differ in {field} by {found}",
    "change": "{field} changes by {found} a step",
    "jump": "{field} changes by {found} in a step",
    "moved": "{field} moves {found} cells a step",
    "law": "the motion of {field} is {found} off the linear law of the training data",
    "off": "the motion of {field} is {found} off the linear law of the training data",
    "missed": "asked for the last frame given, the model misses {field} by {found}",
    "most": "asked for the last frame given, the model misses {field} by {found}",
}
#: What the model itself misses.
_OWN = ("missed", "most")
#: Those that are no logarithms.
_PLAIN = ("low", "high", "mean")


def _amount(name: str, value: float, scale: float) -> str:
    """A number of a start in the field's own unit."""
    if name in _PLAIN:
        return f"{value * scale:.3g}"
    return f"{10**value * (1.0 if name == 'moved' else scale):.3g}"


def _measure_frames(
    u: Trajectory, mask: Tensor | None, distances: Sequence[int]
) -> Iterator[tuple[int, str, Tensor, Tensor]]:
    """What the last frame, and its change, is like: (field, name, (b,), where)."""
    dims, nowhere = u.dim() - 3, torch.empty(0)
    for channel, now in enumerate(u[:, -1].unbind(1)):
        inside = None if mask is None else mask[:, 0]
        flat = now.flatten(1)
        least = flat if inside is None else flat.where(inside.flatten(1) > 0, torch.inf)
        most = flat if inside is None else flat.where(inside.flatten(1) > 0, -torch.inf)
        yield channel, "low", least.amin(1), _cell(least.argmin(1), now)
        yield channel, "high", most.amax(1), _cell(most.argmax(1), now)
        mean = _mean(now, inside)
        yield channel, "mean", mean, nowhere
        centred = now - mean.view(-1, *[1] * dims)
        yield channel, "spread", _log(_mean(centred.square(), inside).sqrt()), nowhere
        neighbours = now.new_full((len(now),), torch.nan)
        for apart in distances:
            if apart >= min(now.shape[1:]):
                yield channel, f"rough {apart}", now.new_full((len(now),), torch.nan), nowhere
                continue
            pairs = [_differences(now, inside, 1 + axis, apart) for axis in range(dims)]
            rough = sum(_mean(d.square(), w) for d, w in pairs) / dims
            yield channel, f"rough {apart}", _log(torch.as_tensor(rough).sqrt()), nowhere
            if apart == 1:
                neighbours = _log(torch.as_tensor(rough).sqrt())
                steep = _steepest(pairs, now)
                yield channel, "steep", _log(steep.flatten(1).amax(1)), _place_of(steep)
        if u.shape[1] > 1:
            change = now - u[:, -2, channel]
            change = change if inside is None else change * inside
            rms = _log(_mean(change.square(), inside).sqrt())
            yield channel, "change", rms, nowhere
            yield channel, "jump", _log(change.abs().flatten(1).amax(1)), _place_of(change.abs())
            yield channel, "moved", rms - neighbours, nowhere


def _apply_law(law: dict[str, Any], u: Trajectory) -> Field:
    """What a linear law makes of all frames but the last, in the cells that have neighbours."""
    weights = torch.tensor(law["weights"], dtype=torch.float64)
    constant = torch.tensor(law["constant"], dtype=torch.float64)
    predicted: Any = constant.view(-1, *[1] * (u.dim() - 3))
    for place, column in enumerate(_columns(u)):
        predicted = predicted + torch.einsum("bi...,ij->bj...", column, weights[place])
    return predicted


def _measure_missed(
    missed: Field, inside: Tensor | None, names: tuple[str, str], first: int
) -> Iterator[tuple[int, str, Tensor, Tensor]]:
    """The rms and the largest of what was missed in each field; cells count from `first`."""
    for channel, off in enumerate(missed.unbind(1)):
        off = off if inside is None else off * inside[:, 0]
        within = None if inside is None else inside[:, 0]
        yield channel, names[0], _log(_mean(off.square(), within).sqrt()), torch.empty(0)
        yield channel, names[1], _log(off.flatten(1).amax(1)), _place_of(off) + first


def _columns(u: Trajectory) -> Iterator[Tensor]:
    """What the linear law looks at: a cell and its neighbours in every frame but the last."""
    dims = u.dim() - 3
    steps = [(0,) * dims]
    for axis, side in product(range(dims), (-1, 1)):
        steps.append(tuple(side if other == axis else 0 for other in range(dims)))
    for frame, step in product(range(u.shape[1] - 1), steps):
        yield _inner(u[:, frame], step)


def _inner(u: Tensor, step: Sequence[int] = ()) -> Tensor:
    """The cells that have neighbours on both sides, seen from so many cells away."""
    dims = u.dim() - 2
    for axis, shift in enumerate(step or (0,) * dims):
        u = u.narrow(2 + axis, 1 + shift, u.shape[2 + axis] - 2)
    return u


def _law_cells(mask: Tensor) -> Tensor:
    """One where a cell of the mask (b, 1, *space) and all of its neighbours are inside."""
    pair = mask.unsqueeze(1).expand(-1, 2, *mask.shape[1:])
    inside = _inner(mask)
    for column in _columns(pair):
        inside = inside * column
    return inside


def _differences(
    now: Tensor, inside: Tensor | None, axis: int, apart: int
) -> tuple[Tensor, Tensor | None]:
    """Differences of cells that lie so far apart, and which of them are inside of the mask."""
    rest = now.shape[axis] - apart
    change = now.narrow(axis, apart, rest) - now.narrow(axis, 0, rest)
    if inside is None:
        return change, None
    return change, inside.narrow(axis, apart, rest) * inside.narrow(axis, 0, rest)


def _steepest(pairs: Sequence[tuple[Tensor, Tensor | None]], now: Tensor) -> Tensor:
    """The largest difference of each cell to the next along any axis: (b, *space)."""
    steep = torch.zeros_like(now)
    for axis, (change, inside) in enumerate(pairs, start=1):
        size = change.abs() if inside is None else change.abs() * inside
        part = steep.narrow(axis, 0, size.shape[axis])
        part.copy_(torch.maximum(part, size))
    return steep


def _mean(values: Tensor, inside: Tensor | None) -> Tensor:
    """The mean over space, in the cells of a mask: (b, *space) → (b,)."""
    if inside is None:
        return values.flatten(1).mean(1)
    return (values * inside).flatten(1).sum(1) / inside.flatten(1).sum(1).clamp_min(1.0)


def _log(values: Tensor) -> Tensor:
    return torch.log10(values + _ROUNDING)


def _place_of(values: Tensor) -> Tensor:
    return _cell(values.flatten(1).argmax(1), values)


def _cell(number: Tensor, field: Tensor) -> Tensor:
    """The place of numbered cells of (b, *space): (b, dims)."""
    return torch.stack(torch.unravel_index(number, field.shape[1:]), dim=1)


def see(model: Any, data: Dataset) -> Seen:
    """Look at the training part; its limits are one as long as no other data have set them.

    Of large data some windows are measured, evenly spread over trajectories and times, and the
    range of the values is that of their trajectories.
    """
    part, frames = data.train, 1 if data.steady else min(model.history, _FRAMES)
    size = frames * int(np.prod(data.shape[2:]))
    last = 1 if data.steady else data.shortest - frames + 1
    count = max(_FEWEST, min(_MOST, _VALUES // size))
    starts = sorted({(i % len(part), (i // len(part) + i) % last) for i in range(count)})
    low, high, spread = _value_range(part, [i for i, _ in starts])
    shortest = min(data.grid.points)
    has_law = frames > 1 and shortest > 2
    asks = has_law and model.history <= _FRAMES
    seen = Seen(
        range=torch.stack([low, high], dim=1).tolist(),
        scale=spread.tolist(),
        frames=frames,
        apart=[apart for apart in (1, 2, 4, 8, 16) if 2 * apart < shortest],
        law=_fit_law(part, starts, frames, spread) if has_law else None,
        back=_fit_law(part, starts, frames, spread, back=True) if asks else None,
        mean=[],
        whiten=[],
        low=[],
        high=[],
        limit=[1.0, 1.0],
    )
    windows = _windows(part, starts, frames)
    numbers = torch.cat([seen.measure(given, model)[0] for given in windows])
    mean = numbers.mean(0).nan_to_num()
    centred = (numbers - mean).nan_to_num()
    covariance = centred.T @ centred / max(1, len(numbers) - 1)
    covariance += torch.diag(_SHRINK * covariance.diagonal() + 1e-6)
    whiten = torch.linalg.cholesky(torch.linalg.inv(covariance))
    found = {"mean": mean, "whiten": whiten}
    found |= {"low": numbers.amin(0).nan_to_num(), "high": numbers.amax(0).nan_to_num()}
    return replace(seen, **{name: rounded(value) for name, value in found.items()})


def limit_by(
    seen: Seen,
    model: Any,
    given: Given,
    low: Tensor,
    high: Tensor,
    learned: Iterable[Given] = (),
) -> Seen:
    """Set the limits by starts and rollouts of data that were not learned from.

    `given` are the starts, `low` and `high` (c,) the least and the largest value of the rollouts;
    `learned` are starts of the training part.
    """
    away, missed = seen.distances(*seen.measure(given, model)).T
    more = [seen.distances(*seen.measure(start, model))[:, 0] for start in learned]
    # What the model missed is counted in powers of ten already.
    farthest = max(beyond(_log_of(away)), beyond(_log_of(torch.cat([away, *more]))))
    limits = [math.exp(farthest), max(beyond(missed), 1e-6)]
    least, most = seen.bounds(_SLACK)
    # A rollout that diverged says nothing about where the others stay.
    lowest, highest = seen.bounds(_WIDEST)
    if given.mask is not None:  # Cells outside of it are predicted as zero.
        lowest, highest = lowest.clamp_max(0.0), highest.clamp_min(0.0)
    low, high = low.double().clamp_min(lowest), high.double().clamp_max(highest)
    both = torch.minimum(least, low), torch.maximum(most, high)
    return replace(
        seen,
        limit=rounded(torch.tensor(limits)),
        usual=rounded(torch.stack([away.mean(), missed.mean()])),
        range=rounded(torch.stack(both, dim=1)),
        starts=len(away),
    )


def _log_of(away: Tensor) -> Tensor:
    return away.clamp_min(1e-9).log()


def beyond(values: Tensor) -> float:
    """What one more value will stay below in all but a few of a hundred cases.

    That is the value itself that so many of them do not exceed, and at least what is likely if
    they are normal: mean + t·s·√(1 + 1/n), which matters where there are few.  The quantile t of
    Student's distribution is expanded about that of the normal one.
    """
    n = len(values)
    highest = float(values.sort().values[min(math.ceil(_ALIKE * (n + 1)), n) - 1])
    if n < 3:
        return highest + 1.0
    z = NormalDist().inv_cdf(_ALIKE)
    t = z + (z**3 + z) / (4 * (n - 1)) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * (n - 1) ** 2)
    return max(highest, float(values.mean()) + t * float(values.std()) * math.sqrt(1 + 1 / n))


def _windows(part: Part, starts: Sequence[tuple[int, int]], frames: int) -> Iterator[Given]:
    """Windows of a part as what a rollout would be given after them, some at a time."""
    size = max(1, _AT_ONCE // (frames * int(np.prod(part.shape[2:]))))
    for first in range(0, len(starts), size):
        yield Given.join([_window(part, i, t, frames) for i, t in starts[first : first + size]])


def _window(part: Part, sample: int, start: int, frames: int) -> Given:
    """Some frames of a trajectory as if a rollout began after them."""
    return part.window([sample], start, frames, 0)[0]


def _value_range(part: Part, samples: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
    """The least and the largest value of what is predicted, the spread of what is given: (c,)."""
    lows, highs, means, squares = [], [], [], []
    for sample in sorted(set(samples)):
        u, mask = part.trajectory(sample).double(), part.mask(sample)
        flat = (u.flatten(2) if mask is None else u[:, :, mask]).transpose(0, 1)
        # The first frame of steady data is given, the second predicted.
        given, found = (flat[:, :1], flat[:, 1:]) if part.data.steady else (flat, flat)
        lows.append(found.flatten(1).amin(1))
        highs.append(found.flatten(1).amax(1))
        means.append(given.flatten(1).mean(1))
        squares.append(given.flatten(1).square().mean(1))
    mean = torch.stack(means).mean(0)
    spread = (torch.stack(squares).mean(0) - mean.square()).clamp_min(0).sqrt()
    spread = torch.where(spread > 1e-7 * mean.abs().clamp_min(1e-30), spread, 1.0)
    return torch.stack(lows).amin(0), torch.stack(highs).amax(0), spread


def _fit_law(
    part: Part,
    starts: Sequence[tuple[int, int]],
    frames: int,
    scale: Tensor,
    back: bool = False,
) -> dict[str, Any] | None:
    """The linear local law of the training part, by least squares over some of its cells.

    Backwards in time it gives the frame before the first.
    """
    squares: Any = 0.0
    targets: Any = 0.0
    each = max(1, _EQUATIONS // len(starts))
    for number, (sample, start) in enumerate(starts):
        given = _window(part, sample, start, frames)
        u = given.history.double() / scale.view(-1, *[1] * len(given.space))
        u = u.flip(1) if back else u
        inside = None if given.mask is None else _law_cells(given.mask.double()).flatten() > 0
        rows = torch.cat([column.flatten(2) for column in _columns(u)], dim=1)[0].T
        wanted = _inner(u[:, -1]).flatten(2)[0].T
        rows, wanted = (rows, wanted) if inside is None else (rows[inside], wanted[inside])
        if not len(rows):
            continue
        stride = max(1, len(rows) // each)
        rows, wanted = rows[number % stride :: stride], wanted[number % stride :: stride]
        rows = torch.cat([rows, rows.new_ones(len(rows), 1)], dim=1)
        squares, targets = squares + rows.T @ rows, targets + rows.T @ wanted
    if not isinstance(squares, Tensor):
        return None
    damped = squares + torch.diag(_RIDGE * squares.diagonal().clamp_min(1e-12))
    solved = torch.linalg.solve(damped, targets)
    channels = targets.shape[1]
    weights = solved[:-1].view(-1, channels, channels)
    return {"weights": rounded(weights), "constant": rounded(solved[-1])}


def rounded(values: Tensor) -> Any:
    """Numbers for a file: nine digits are enough."""
    return np.vectorize(lambda v: float(f"{v:.9g}"))(values.numpy()).tolist()
