"""More data from the same data: the symmetries that the card declares, drawn anew every step.

    shift    along periodic axes, by any number of cells
    flip     the mirror image, each axis by itself; what points across the mirror turns its sign
    sign     u → −u
    rotate   the two axes exchanged, and the fields that point along them

Only what the card lists is used: data that were strided may have lost a symmetry that their
equation has.
"""

from __future__ import annotations

import numpy as np
import torch

from fino.data.card import Card
from fino.shapes import Trajectory
from fino.streams import numpy_stream

__all__ = ["augment"]


def augment(window: Trajectory, card: Card, seed: int, step: int) -> Trajectory:
    """Each trajectory of a batch moved by symmetries of its own: (b, t, c, *space) → the same."""
    if not card.symmetries:
        return window
    draw = numpy_stream(seed, "augment", step)
    return torch.stack([_moved(u, card, draw) for u in window])


def _moved(u: torch.Tensor, card: Card, draw: np.random.Generator) -> torch.Tensor:
    """One trajectory (t, c, *space)."""
    axes = range(u.dim() - 2)
    if "shift" in card.symmetries:
        periodic = [axis + 2 for axis in axes if card.grid.is_periodic[axis]]
        if periodic:
            u = u.roll([int(draw.integers(u.shape[axis])) for axis in periodic], periodic)
    if "flip" in card.symmetries:
        u = _mirrored(u, [axis for axis in axes if draw.random() < 0.5], card.directions)
    if "rotate" in card.symmetries and draw.random() < 0.5:
        u = _swapped(u, card.directions)
    if "sign" in card.symmetries and draw.random() < 0.5:
        u = -u
    return u


def _mirrored(u: torch.Tensor, axes: list[int], directions: tuple[int | None, ...]) -> torch.Tensor:
    """u(x) → u(−x) along the axes: a velocity along one of them turns round."""
    if not axes:
        return u
    u = u.flip([axis + 2 for axis in axes])
    turned = [channel for channel, axis in enumerate(directions) if axis in axes]
    if turned:
        u[:, turned] = -u[:, turned]
    return u


def _swapped(u: torch.Tensor, directions: tuple[int | None, ...]) -> torch.Tensor:
    """u(x, y) → u(y, x): the first field along x becomes the first along y, and so on."""
    u = u.transpose(-2, -1)
    if not directions:
        return u
    along = [[c for c, axis in enumerate(directions) if axis == way] for way in (0, 1)]
    order = list(range(len(directions)))
    for x, y in zip(*along, strict=True):
        order[x], order[y] = y, x
    return u[:, order]
