"""What a network is shown: the past frames and where each cell lies (eq. 11).

    X_t(x) = concat( u_{t−K+1:t}(x), G(x) )

The position channels are computed from the *global* grid.  A tile or a rank gets its slice of
them, never coordinates of its own, or it would believe to be the whole domain.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from fino.grid import Grid
from fino.shapes import Field, Trajectory

__all__ = ["assemble", "position_channels", "position_count"]


def position_count(grid: Grid, coordinates: bool, edges: bool) -> int:
    """How many position channels there are."""
    walls = sum(not periodic for periodic in grid.is_periodic)
    return grid.dims * coordinates + 2 * walls * edges


def position_channels(
    grid: Grid, coordinates: bool, edges: bool, box: Sequence[tuple[int, int]] | None = None
) -> Tensor:
    """Where each cell lies: () → (p, *space), or (p, *box) in a part of the grid, which may wrap.

    `coordinates`: the position on each axis, from −1 to 1 over the domain.
    `edges`: for each wall, one in the cells that touch it and zero elsewhere.  The two walls of
    an axis have a channel each, because strided data have unlike edges.
    """
    spans = box or [(0, n) for n in grid.points]
    size = tuple(stop - start for start, stop in spans)
    lines: list[tuple[int, np.ndarray]] = []
    if coordinates:
        scaled = zip(grid.coordinates(), grid.extent, strict=True)
        lines += [(axis, 2 * (x - lo) / (hi - lo) - 1) for axis, (x, (lo, hi)) in enumerate(scaled)]
    if edges:
        for axis, periodic in enumerate(grid.is_periodic):
            for cell in () if periodic else (0, grid.points[axis] - 1):
                lines.append((axis, (np.arange(grid.points[axis]) == cell).astype(float)))
    channels = np.zeros((len(lines), *size))
    for channel, (axis, line) in zip(channels, lines, strict=True):
        cells = np.arange(*spans[axis]) % len(line)
        np.moveaxis(channel, axis, -1)[...] = line[cells]
    return torch.from_numpy(channels)


def assemble(history: Trajectory, positions: Tensor, beside: Sequence[Field] = ()) -> Field:
    """Frames, positions and what else is given as channels: (b, k·c + p + n, *space)."""
    channels = [history.flatten(1, 2)]
    if positions.shape[0]:
        channels.append(positions.to(history).expand(len(history), *positions.shape))
    channels += beside
    return channels[0] if len(channels) == 1 else torch.cat(channels, dim=1)
