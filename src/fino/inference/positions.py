"""The position channels of a box, computed for that box alone.

Every position channel varies along one axis only, so a line for each of them says it all: the
channels of a domain that does not fit in memory are never built.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fino.inference.tiles import Box
from fino.model.emulator import Emulator
from fino.model.features import position_channels

__all__ = ["Positions"]


@dataclass(frozen=True, eq=False)
class Positions:
    """One line (axis, values along it) for each position channel."""

    lines: tuple[tuple[int, Tensor], ...] = ()

    @classmethod
    def of(cls, model: Emulator, points: tuple[int, ...]) -> Positions:
        """The lines of a model on a domain of so many points."""
        settings, grid = model.settings, model.grid
        if settings.coordinates and points != grid.points:
            raise ValueError(
                f"This model was given coordinates of a {grid.points} grid and cannot run on "
                f"{points}. Build it with coordinates=False to run on other sizes."
            )
        grid = grid.with_points(points)
        axes = [*range(grid.dims)] if settings.coordinates else []
        if settings.edges:
            axes += [a for a, wraps in enumerate(grid.is_periodic) if not wraps for _ in range(2)]
        lines = []
        for channel, axis in enumerate(axes):
            thin = grid.refined([n if a == axis else 1 for a, n in enumerate(points)])
            channels = position_channels(thin, settings.coordinates, settings.edges)
            lines.append((axis, channels[channel].flatten()))
        return cls(tuple(lines))

    def key(self, box: Box) -> tuple[bytes, ...]:
        """Equal for two boxes of one shape if they have equal position channels."""
        return tuple(_part(values, box[axis]).numpy().tobytes() for axis, values in self.lines)

    def __call__(self, box: Box) -> Tensor:
        """The channels of a box: (p, *box)."""
        sizes = [stop - start for start, stop in box]
        channels = []
        for axis, values in self.lines:
            along = [-1 if a == axis else 1 for a in range(len(box))]
            channels.append(_part(values, box[axis]).view(along).expand(sizes))
        return torch.stack(channels) if channels else torch.zeros(0, *sizes)


def _part(values: Tensor, span: tuple[int, int]) -> Tensor:
    return values[torch.from_numpy(np.arange(*span) % len(values))]
