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


def position_channels(grid: Grid, coordinates: bool, edges: bool) -> Tensor:
    """Where each cell lies: () → (p, *space).

    `coordinates`: the position on each axis, from −1 to 1 over the domain.
    `edges`: for each wall, one in the cells that touch it and zero elsewhere.  The two walls of
    an axis have a channel each, because strided data have unlike edges.
    """
    channels: list[np.ndarray] = []
    if coordinates:
        for x, (lo, hi) in zip(grid.mesh(), grid.extent, strict=True):
            channels.append(2 * (x - lo) / (hi - lo) - 1)
    if edges:
        for axis, periodic in enumerate(grid.is_periodic):
            for cell in () if periodic else (0, -1):
                wall = np.zeros(grid.points)
                np.moveaxis(wall, axis, 0)[cell] = 1.0
                channels.append(wall)
    stacked = np.stack(channels) if channels else np.zeros((0, *grid.points))
    return torch.from_numpy(stacked)


def assemble(history: Trajectory, positions: Tensor, beside: Sequence[Field] = ()) -> Field:
    """Frames, positions and what else is given as channels: (b, k·c + p + n, *space)."""
    channels = [history.flatten(1, 2)]
    if positions.shape[0]:
        channels.append(positions.to(history).expand(len(history), *positions.shape))
    channels += beside
    return channels[0] if len(channels) == 1 else torch.cat(channels, dim=1)
