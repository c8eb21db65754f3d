"""How far off one prediction is, asked of the mirror image of its start.

A symmetry S of the equation, such as a mirror image, takes solutions to solutions, so a perfect
model would predict the same for a start u₀ as for S u₀.  A learned one does not quite:

    D(t) = ‖ û(t) − S⁻¹ û_S(t) ‖,        û_S = the rollout from S u₀

Both rollouts are wrong in ways of their own, and disagree as two members of an ensemble would,
without another training.  On trajectories that were not learned from, error and disagreement are
compared at every lead time, and their usual ratio r(t) makes an estimate of the error of a new one,

    E(t) = r(t) · D(t)

for the cost of a second rollout.  What both get wrong alike is not seen: another equation, or what
is missing in the start itself.  So it says more about starts that are unlike those of the training
data than about data of another kind.

Where the first steps of the truth are known (a spot check), so is by how much the estimate is off
there, its level λ.  How much of that lasts was learned from the same trajectories: later errors
follow E · exp(β λ).  A λ far outside of what validation has seen means that both rollouts are wrong
alike, and is taken as it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fino.data.card import Card
from fino.data.symmetry import Move, directions_of, move_each
from fino.given import Given
from fino.metrics import AT_REST
from fino.model.emulator import Emulator
from fino.model.prior import MovingFrame
from fino.shapes import Field
from fino.trust.guards import beyond, rounded

__all__ = ["LAST", "Comparison", "Measured", "Mirror"]

#: Of the first steps, whose truth is known, the last so many say how errors go on.
LAST = 3
#: Levels that spread less than this are not told apart; farther out than so many spreads both
#: rollouts are wrong alike.
_NARROW, _ALIKE = 0.05, 2.5
#: A median deviation of normal numbers in standard deviations, turned round.
_TO_DEVIATION = 1.4826
#: An estimate of so many usual errors is not unusual, however alike validation trajectories are.
_UNUSUAL = 1.5
#: Lead times that are kept at the most.
_LEADS = 24
#: A network that is symmetric itself, to this share of its errors, tells nothing by disagreeing.
_SYMMETRIC = 1e-2
#: Errors below this share of a field are rounding; one beyond all bounds counts as the last.
_ROUNDING, _FAR = 1e-8, 1e30


@dataclass(frozen=True)
class Mirror:
    """What a disagreement says about an error, as plain numbers that go to a file.

    symmetries      those of the data that the mirror image is made of
    directions      the axis along which each channel of what is given points, by its kind
    leads           the steps ahead that were compared
    ratio           error ÷ disagreement, the median of validation: (lead, field)
    usual           the error relative to the size of the field, the median as well: (lead, field)
    limit           the estimate in usual errors that nearly all validation trajectories stay below
    known           how many of the first steps may be known
    keeps, spread   β, and how far the level λ spreads, by how many are known
    trajectories    how many were compared
    """

    symmetries: list[str]
    directions: dict[str, list[int | None]]
    leads: list[int]
    ratio: list[list[float]]
    usual: list[list[float]]
    limit: float
    known: list[int]
    keeps: list[float]
    spread: list[float]
    trajectories: int

    @classmethod
    def of(cls, model: Any) -> Mirror | None:
        """That of a model; None if its data have no symmetry, or it does not say."""
        found = (getattr(model, "trust", None) or {}).get("mirror")
        names = {field.name for field in fields(cls)}
        return None if not found else cls(**{k: v for k, v in found.items() if k in names})

    def estimate(self, model: Emulator, given: Given, frames: Tensor) -> Tensor:
        """E(t) of predicted frames: (b, t, c, *space) → (b, t, c)."""
        disagreement = self.disagreement(model, given, frames)
        return disagreement * self._at(self.ratio, disagreement.shape[1])

    def disagreement(self, model: Emulator, given: Given, frames: Tensor) -> Tensor:
        """D(t) of predicted frames (b, t, c, *space), relative to their own size: → (b, t, c)."""
        weight, steps = next(model.parameters(), given.history), frames.shape[1]
        given, frames = given.to(weight), frames.to(weight)
        compared = Comparison(given.mask)
        twins = _twin(model, given, steps, self.symmetries, self.directions)
        with torch.no_grad():
            for frame, twin in zip(frames.unbind(1), twins, strict=True):
                compared.add(frame, twin)
        return compared.relative().cpu()

    def in_usual_errors(self, estimate: Tensor) -> Tensor:
        """The mean estimate of the steps that were compared, in usual errors: (b, t, c) → (b,)."""
        known = estimate[:, : self.leads[-1]]
        usual = self._at(self.usual, known.shape[1]).mean()
        return known.nan_to_num(_FAR, _FAR).flatten(1).mean(1) / usual

    def carry_on(self, estimate: Tensor, known: Tensor, growth: Tensor) -> tuple[Tensor, bool]:
        """The errors of all steps, given those of the first, and whether λ is as in validation.

        (t, c), (lead, c), (t, c) → (t, c); `growth` is what the first errors grow to if they grow
        as in validation.
        """
        lead = len(known)
        if lead >= len(estimate):
            return known, True
        levels = (known.clamp_min(_ROUNDING) / estimate[:lead].clamp_min(_ROUNDING))[-LAST:].log()
        level = float(levels.mean())
        spread = max(_NARROW, float(np.interp(lead, self.known, self.spread)))
        is_usual = math.isfinite(level) and abs(level) <= _ALIKE * spread
        if is_usual:
            later = estimate * math.exp(float(np.interp(lead, self.known, self.keeps)) * level)
        else:
            # Both rollouts are wrong alike: errors grow as fast as either says.
            later = torch.maximum(growth, estimate * levels.mean(0).exp())
            later = torch.where(later.isfinite(), later, growth)
        return torch.cat([known, later[lead:]]), is_usual

    def _at(self, table: list[list[float]], steps: int) -> Tensor:
        """A table (lead, field) at every step; past the last one that was compared as there."""
        ahead, columns = np.arange(1, steps + 1), np.array(table).T
        return torch.from_numpy(np.stack([np.interp(ahead, self.leads, c) for c in columns], 1))


class Comparison:
    """Frames of two rollouts side by side, as root mean squares over space."""

    def __init__(self, mask: Tensor | None) -> None:
        self.mask = mask
        self.off: list[Tensor] = []
        self.size: list[Tensor] = []

    def add(self, frame: Field, other: Field) -> None:
        """Another frame of both: (b, c, *space); the first is what sizes are taken from."""
        self.off.append(self._rms(frame - other))
        self.size.append(self._rms(frame))

    def relative(self) -> Tensor:
        """How far they are apart, relative to the size of the first: (b, t, c)."""
        off, size = torch.stack(self.off, dim=1), torch.stack(self.size, dim=1)
        # As in nRMSE, but over the frames so far: later ones may diverge.
        count = torch.arange(1, size.shape[1] + 1, device=size.device).view(1, -1, 1)
        rest = AT_REST * (size.square().cumsum(1) / count).sqrt()
        return off / torch.maximum(size, rest).clamp_min(1e-30)

    def _rms(self, u: Field) -> Tensor:
        u = u.double().square().flatten(2)
        if self.mask is None:
            return u.mean(2).sqrt()
        inside = self.mask.double().flatten(2)
        return ((u * inside).sum(2) / inside.sum(2).clamp_min(1.0)).sqrt()


class Measured:
    """Errors and disagreements of validation rollouts, gathered frame by frame.

    measured.begin(given, steps)        some trajectories
    measured.add(frame, truth)          each of their frames
    measured.facts()                    what `trust.json` holds

    Rollouts may be longer than those that models are compared by, which have `own` steps.
    """

    def __init__(self, model: Emulator, card: Card, own: int) -> None:
        self.model, self.own = model, own
        # A moving frame knows a motion along each axis, which cannot be exchanged.
        moving = isinstance(model.prior, MovingFrame)
        self.symmetries = [s for s in card.symmetries if not (moving and s == "rotate")]
        self.directions = {kind: [*axes] for kind, axes in directions_of(card).items()}
        self.errors: list[Comparison] = []
        self.apart: list[Comparison] = []
        self.twins: Iterator[Field] = iter(())

    def begin(self, given: Given, steps: int) -> None:
        """Go on with other trajectories."""
        if self.symmetries:
            self.errors.append(Comparison(given.mask))
            self.apart.append(Comparison(given.mask))
            self.twins = _twin(self.model, given, steps, self.symmetries, self.directions)

    def add(self, frame: Field, truth: Field) -> None:
        """A predicted frame and what it should have been."""
        if self.symmetries:
            self.errors[-1].add(truth, frame)
            self.apart[-1].add(frame, next(self.twins).to(frame))

    def facts(self) -> dict[str, Any] | None:
        """What they say of each other; None where the data have no symmetry or the network is
        symmetric by itself."""
        if not self.errors:
            return None
        error, apart = (
            torch.cat([part.relative() for part in parts]).clamp(_ROUNDING, _FAR).nan_to_num(_FAR)
            for parts in (self.errors, self.apart)
        )
        if bool((apart.median(0).values < _SYMMETRIC * error.median(0).values).all()):
            return None
        ratio, usual = (error / apart).median(0).values, error.median(0).values
        steps = error.shape[1]
        leads = np.arange(1, steps + 1)
        if steps > _LEADS:
            leads = np.unique(np.geomspace(1, steps, _LEADS).round().astype(int))
        near, estimate = error[:, : self.own], (ratio * apart)[:, : self.own]
        away = estimate.flatten(1).mean(1) / usual[: self.own].mean()
        levels = [_levels(near, estimate, int(lead)) for lead in leads if lead <= self.own]
        at = torch.from_numpy(leads - 1)
        found = Mirror(
            symmetries=self.symmetries,
            directions=self.directions,
            leads=leads.tolist(),
            ratio=rounded(ratio[at]),
            usual=rounded(usual[at]),
            limit=float(f"{math.exp(max(beyond(away.log()), math.log(_UNUSUAL))):.6g}"),
            known=[int(lead) for lead in leads if lead <= self.own],
            keeps=[float(f"{keeps:.4g}") for keeps, _ in levels],
            spread=[float(f"{spread:.4g}") for _, spread in levels],
            trajectories=len(error),
        )
        return vars(found)


def _levels(error: Tensor, estimate: Tensor, lead: int) -> tuple[float, float]:
    """How much of the level of the first steps lasts, and how far levels spread: β, σ(λ).

    A few trajectories are unlike all others, so the spread is that of the median deviation, and
    those far beyond it have no say in β.
    """
    level = (error / estimate)[:, max(0, lead - LAST) : lead].log().flatten(1).mean(1)
    away = (level - level.median()).abs()
    spread = _TO_DEVIATION * float(away.median())
    near = away <= _ALIKE * max(_NARROW, spread)
    if lead == error.shape[1] or int(near.sum()) < 2:
        return 1.0, spread
    later = error[near, lead:].flatten(1).mean(1) / estimate[near, lead:].flatten(1).mean(1)
    centred = level[near] - level[near].mean()
    slope = float((centred * later.log()).sum() / centred.square().sum().clamp_min(1e-12))
    return min(max(slope, 0.0), 1.0), spread


def _twin(
    model: Emulator,
    given: Given,
    steps: int,
    symmetries: Sequence[str],
    directions: Mapping[str, Sequence[int | None]],
) -> Iterator[Field]:
    """The rollout from the moved start, moved back."""
    axes = {kind: tuple(each) for kind, each in directions.items()}
    move, prior = _move(model, given.space, symmetries), model.prior
    moved, _ = move_each(given, given.history[:, :0], axes, [move] * len(given.history))
    moved = moved.last(model.history)
    facing: Tensor | None = None
    if isinstance(prior, MovingFrame):
        facing = move.facing(len(given.space)).expand(len(given.history), -1).to(given.history)
    for _ in range(steps):
        with prior.mirrored(facing):
            frame = model(moved)
        moved = moved.step(frame)
        yield move.undo(frame, axes["history"], channel=1)


def _move(model: Emulator, space: Sequence[int], symmetries: Sequence[str]) -> Move:
    """All axes mirrored, or exchanged where they cannot be; shifted by about a third; negated.

    An odd number of cells, so that a model with levels pools other cells together.
    """
    axes = tuple(range(len(space)))
    periodic = [axis for axis in axes if model.grid.is_periodic[axis]]
    return Move(
        shift={axis: space[axis] // 3 | 1 for axis in periodic} if "shift" in symmetries else {},
        mirrored=axes if "flip" in symmetries else (),
        swapped="rotate" in symmetries and "flip" not in symmetries,
        negated="sign" in symmetries,
    )
