"""What a model is given: everything that one step may look at, as one value.

    given = Given(history)                  (b, K, c, *space), the newest frame last
    given.step(frame)                       the same one step later: the rolling buffer
    given.cut(crop)                         the same on a part of the domain

Rollouts, losses, tiles and ranks pass it on whole and change it only through its own methods, so
that whatever a model may look at is cut and shifted in one place.  Positions are those of the
global grid: a tile gets its slice of them, never coordinates of its own.  Without positions the
model takes those of the whole domain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fino.shapes import Field, Trajectory

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Given"]

#: What has a batch, what has space, and what runs in time.
_IN_BATCH = ("history", "parameters", "signals", "known", "forcing", "mask")
_IN_SPACE = ("history", "positions", "known", "forcing", "mask")
_IN_TIME = ("signals", "forcing")


@dataclass(frozen=True, eq=False)
class Given:
    """Everything that one step may look at; None where there is none of its kind.

    history      (b, K, c, *space)   past frames of the state, the newest last; for steady
                                     problems the input, as the only frame
    positions    (p, *space)         where each cell lies: coordinates and walls
    parameters   (b, p)              scalars θ of the trajectory
    signals      (b, T, s)           scalars known in advance, from the newest frame's time on
    known        (b, k, *space)      fields that are constant in time
    forcing      (b, T, f, *space)   fields known in advance, from the newest frame's time on
    mask         (b, 1, *space)      one in the cells that are part of the domain, else zero
    pace                             frames that one step passes; a model that was trained on
                                     several steps goes there in as few as it can
    """

    history: Trajectory
    positions: Tensor | None = None
    parameters: Tensor | None = None
    signals: Tensor | None = None
    known: Tensor | None = None
    forcing: Tensor | None = None
    mask: Tensor | None = None
    pace: int = 1

    @classmethod
    def of(cls, thing: Any) -> Given:
        """A Given as it is; a history tensor, or a sample that has one, as a Given."""
        thing = getattr(thing, "given", thing)
        if isinstance(thing, cls):
            return thing
        history = getattr(thing, "history", thing)
        if not hasattr(history, "shape"):
            raise ValueError(
                f"a step should be given a history (b, t, c, *space), got {type(thing).__name__}."
            )
        return cls(history)

    @property
    def space(self) -> tuple[int, ...]:
        return tuple(self.history.shape[3:])

    @property
    def beside(self) -> dict[str, Tensor]:
        """What is given beside the history, by name."""
        found = {name: getattr(self, name) for name in ("positions", *_IN_BATCH[1:])}
        return {name: value for name, value in found.items() if value is not None}

    def last(self, frames: int) -> Given:
        """Only the newest frames of the history."""
        return replace(self, history=self.history[:, self.history.shape[1] - frames :])

    def rows(self, rows: slice | Tensor) -> Given:
        """Some of the batch."""
        return self._each(_IN_BATCH, lambda u: u[rows])

    def row(self, row: int) -> Given:
        """One of the batch, as a batch of one; what is the same for all may have one row."""
        return self._each(_IN_BATCH, lambda u: u[[row % len(u)]])

    def with_history(self, history: Trajectory) -> Given:
        """The same with another history; what has one row is given to every row of it."""
        rows = len(history)
        beside = [name for name in _IN_BATCH if name != "history"]
        spread = self._each(beside, lambda u: u.expand(rows, *u.shape[1:]))
        return replace(spread, history=history)

    def for_one_step(self) -> Given:
        """Only what the next step looks at of what runs in time: both of its ends."""
        return self._each(_IN_TIME, lambda u: u[:, :2])

    def at(self, step: int) -> Given:
        """The same when `step` more steps will have passed: what runs in time begins later."""
        return self._each(_IN_TIME, lambda u: u[:, step * self.pace :])

    def every(self, stride: int) -> Given:
        """What runs in time at every so many of its frames only."""
        return self._each(_IN_TIME, lambda u: u[:, ::stride]) if stride > 1 else self

    def step(self, frame: Field) -> Given:
        """One step later: the oldest frame leaves and `frame` (b, c, *space) enters."""
        import torch

        recent = torch.cat([self.history[:, 1:], frame.unsqueeze(1)], dim=1)
        return replace(self.at(1), history=recent)

    def cut(self, crop: Callable[[Tensor], Tensor]) -> Given:
        """A part of the domain; `crop` maps (…, *space) to (…, *part)."""
        return self._each(_IN_SPACE, crop)

    def to(self, *target: Any) -> Given:
        """In another type or on another device, as `Tensor.to` takes them."""
        return self._each((*_IN_BATCH, "positions"), lambda u: u.to(*target))

    @classmethod
    def join(cls, givens: Sequence[Given]) -> Given:
        """Several as one batch; what has no batch is that of the first."""
        import torch

        first = givens[0]
        names = [n for n in _IN_BATCH if getattr(first, n) is not None]
        joined: dict[str, Any] = {n: torch.cat([getattr(g, n) for g in givens]) for n in names}
        return replace(first, **joined)

    def detach(self) -> Given:
        """Without a gradient to what came before."""
        return replace(self, history=self.history.detach())

    def _each(self, names: Sequence[str], change: Callable[[Tensor], Tensor]) -> Given:
        """Some of the tensors changed alike, where they are there."""
        there = {name: getattr(self, name) for name in names}
        found: dict[str, Any] = {n: change(u) for n, u in there.items() if u is not None}
        return replace(self, **found) if found else self
