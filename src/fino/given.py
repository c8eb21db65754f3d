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

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fino.shapes import Field, Trajectory

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Given"]


@dataclass(frozen=True, eq=False)
class Given:
    """Everything that one step may look at.

    history      (b, K, c, *space)   past frames of the state, the newest last; for steady
                                     problems the input, as the only frame
    positions    (p, *space)         where each cell lies: coordinates and walls
    """

    history: Trajectory
    positions: Tensor | None = None

    @classmethod
    def of(cls, thing: Any) -> Given:
        """A Given as it is; a history tensor, or a sample that has one, as a Given."""
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

    def last(self, frames: int) -> Given:
        """Only the newest frames of the history."""
        return replace(self, history=self.history[:, self.history.shape[1] - frames :])

    def rows(self, rows: slice | int) -> Given:
        """Some of the batch; a number takes one of it, without the batch."""
        return replace(self, history=self.history[rows])

    def step(self, frame: Field) -> Given:
        """One step later: the oldest frame leaves and `frame` (b, c, *space) enters."""
        import torch

        recent = torch.cat([self.history[:, 1:], frame.unsqueeze(1)], dim=1)
        return replace(self, history=recent)

    def cut(self, crop: Callable[[Tensor], Tensor]) -> Given:
        """A part of the domain; `crop` maps (…, *space) to (…, *part)."""
        positions = None if self.positions is None else crop(self.positions)
        return replace(self, history=crop(self.history), positions=positions)

    def to(self, *target: Any) -> Given:
        """In another type or on another device, as `Tensor.to` takes them."""
        positions = None if self.positions is None else self.positions.to(*target)
        return replace(self, history=self.history.to(*target), positions=positions)

    def detach(self) -> Given:
        """Without a gradient to what came before."""
        return replace(self, history=self.history.detach())
