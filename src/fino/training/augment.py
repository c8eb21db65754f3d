"""More data from the same data: the symmetries that the card declares, drawn anew every step.

    shift    along periodic axes, by any number of cells
    flip     the mirror image, each axis by itself
    sign     u → −u
    rotate   the two axes exchanged

Only what the card lists is used: data that were strided may have lost a symmetry that their
equation has.
"""

from __future__ import annotations

import numpy as np
import torch

from fino.grid import Grid
from fino.shapes import Trajectory
from fino.streams import numpy_stream

__all__ = ["augment"]


def augment(
    window: Trajectory, symmetries: tuple[str, ...], grid: Grid, seed: int, step: int
) -> Trajectory:
    """Each trajectory of a batch moved by symmetries of its own: (b, t, c, *space) → the same."""
    if not symmetries:
        return window
    draw = numpy_stream(seed, "augment", step)
    return torch.stack([_moved(u, symmetries, grid, draw) for u in window])


def _moved(
    u: torch.Tensor, symmetries: tuple[str, ...], grid: Grid, draw: np.random.Generator
) -> torch.Tensor:
    """One trajectory (t, c, *space)."""
    axes = range(2, u.dim())
    if "shift" in symmetries:
        periodic = [axis for axis, p in zip(axes, grid.is_periodic, strict=True) if p]
        if periodic:
            u = u.roll([int(draw.integers(u.shape[axis])) for axis in periodic], periodic)
    if "flip" in symmetries:
        mirrored = [axis for axis in axes if draw.random() < 0.5]
        u = u.flip(mirrored) if mirrored else u
    if "rotate" in symmetries and draw.random() < 0.5:
        u = u.transpose(-2, -1)
    if "sign" in symmetries and draw.random() < 0.5:
        u = -u
    return u
