"""Symmetries of an equation, and trajectories that are moved by them.

    shift    along periodic axes, by any number of cells
    flip     the mirror image, each axis by itself; what points across it turns its sign
    sign     u → −u, and the forcing with it
    rotate   the two axes exchanged, and the fields that point along them

A moved solution is a solution again.  Which of them hold is said by the card of the data, because
data that were strided may have lost a symmetry that their equation has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fino.data.card import Card
from fino.data.conditions import CHANNEL
from fino.given import Given
from fino.shapes import Trajectory
from fino.streams import numpy_stream

__all__ = ["Directions", "Move", "directions_of", "draw_moves", "move_each"]

#: The axis along which each channel points, None for a scalar; () if all are scalars.
Directions = tuple[int | None, ...]


def draw_moves(card: Card, space: Sequence[int], count: int, seed: int, step: int) -> list[Move]:
    """A symmetry for each trajectory of the batch of a step."""
    draw = numpy_stream(seed, "augment", step)
    return [Move.draw(card, space, draw) for _ in range(count)]


@dataclass(frozen=True)
class Move:
    """A symmetry of one trajectory: cells to shift, axes to mirror, whether to swap and negate."""

    shift: dict[int, int]
    mirrored: tuple[int, ...]
    swapped: bool
    negated: bool

    @classmethod
    def draw(cls, card: Card, space: Sequence[int], draw: np.random.Generator) -> Move:
        axes = range(len(space))
        shift: dict[int, int] = {}
        if "shift" in card.symmetries:
            periodic = [axis for axis in axes if card.grid.is_periodic[axis]]
            shift = {axis: int(draw.integers(space[axis])) for axis in periodic}
        flip = "flip" in card.symmetries
        mirrored = tuple(axis for axis in axes if draw.random() < 0.5) if flip else ()
        swapped = "rotate" in card.symmetries and draw.random() < 0.5
        return cls(shift, mirrored, swapped, "sign" in card.symmetries and draw.random() < 0.5)

    def facing(self, dims: int) -> Tensor:
        """−1 along mirrored axes, 1 along the others: (dims,)."""
        return torch.tensor([-1.0 if axis in self.mirrored else 1.0 for axis in range(dims)])

    def fields(self, u: Tensor, directions: Directions, channel: int) -> Tensor:
        """(…, *space); `directions` are those of the channels on the axis `channel`."""
        first = channel + 1
        if self.shift:
            u = u.roll(list(self.shift.values()), [first + axis for axis in self.shift])
        if self.mirrored:
            u = u.flip([first + axis for axis in self.mirrored])
        if self.swapped:
            u = u.transpose(-2, -1)
        return self.scalars(u, directions, channel)

    def undo(self, u: Tensor, directions: Directions, channel: int) -> Tensor:
        """The frames before they were moved: (…, *space), what `apply` made of a history."""
        first = channel + 1
        u = -u if self.negated else u
        if self.swapped:
            u = replace(self, mirrored=()).scalars(u, directions, channel).transpose(-2, -1)
        u = replace(self, swapped=False).scalars(u, directions, channel)
        if self.mirrored:
            u = u.flip([first + axis for axis in self.mirrored])
        if self.shift:
            back = [-cells for cells in self.shift.values()]
            u = u.roll(back, [first + axis for axis in self.shift])
        return u

    def apply(self, u: Tensor, kind: str, directions: Directions) -> Tensor:
        """One trajectory's share of the frames (t, c, *space) or of what is given beside them."""
        channel = 1 if kind == "history" else CHANNEL.get(kind, 1) - 1
        move = self.scalars if kind in ("parameters", "signals") else self.fields
        u = move(u, directions, channel)
        return -u if self.negated and kind in ("history", "forcing", "signals") else u

    def scalars(self, u: Tensor, directions: Directions, channel: int) -> Tensor:
        """What points along an axis: turned by a mirror, exchanged by a swap."""
        turned = [i for i, axis in enumerate(directions) if axis in self.mirrored]
        if turned:
            sign = torch.ones(len(directions))
            sign[turned] = -1.0
            u = u * sign.view(-1, *[1] * (u.dim() - channel - 1))
        if self.swapped and any(axis is not None for axis in directions):
            along = [[i for i, axis in enumerate(directions) if axis == way] for way in (0, 1)]
            order = list(range(len(directions)))
            for x, y in zip(*along, strict=True):
                order[x], order[y] = y, x
            u = u.index_select(channel, torch.tensor(order))
        return u


def directions_of(card: Card) -> dict[str, Directions]:
    """The axis along which each channel of the fields, and of all that is given, points."""
    found = {"history": card.directions}
    for kind, names in card.given_names.items():
        found[kind] = tuple(card.turning.get(name) for name in names)
    return found


def move_each(
    given: Given,
    future: Trajectory,
    directions: Mapping[str, Directions],
    moves: Sequence[Move],
) -> tuple[Given, Trajectory]:
    """Each trajectory of a batch moved by a symmetry of its own, with all that is given."""
    shown = given.history.shape[1]
    window = {"history": torch.cat([given.history, future], dim=1), **given.beside}
    moved: dict[str, Any] = {
        kind: torch.stack(
            [m.apply(u, kind, directions.get(kind, ())) for u, m in zip(values, moves, strict=True)]
        )
        for kind, values in window.items()
        if kind != "positions"
    }
    frames = moved.pop("history")
    return replace(given, history=frames[:, :shown], **moved), frames[:, shown:]
