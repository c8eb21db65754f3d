"""Training on a piece of the domain, exactly: the crop, and a halo around it that is not judged.

A local model that is run on the crop plus its halo gives, inside the crop, the numbers that it
gives on the whole domain; so the loss there is the full-domain loss restricted to the crop.
Across a periodic edge the halo comes from the other side; at a wall there is none, because the
model's own boundary is right there.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fino.grid import Grid
from fino.locality import Locality
from fino.streams import numpy_stream

__all__ = ["Crop", "crop_sizes", "draw_crop"]


@dataclass(frozen=True)
class Crop:
    """Which cells of each axis are read, and which of those are judged."""

    cells: tuple[Tensor, ...]
    inner: tuple[slice, ...]

    def cut(self, u: Tensor) -> Tensor:
        """The crop with its halo: (…, *space) → (…, *cells)."""
        for axis, cells in enumerate(self.cells, start=u.dim() - len(self.cells)):
            u = u.index_select(axis, cells.to(u.device))
        return u


def crop_sizes(crop: int | tuple[int, ...], grid: Grid, locality: Locality) -> tuple[int, ...]:
    """The crop's size on each axis, refused where the model cannot be cut that way."""
    if not locality.is_local:
        raise ValueError(
            "This model sees the whole field (radius inf), so it cannot be trained on crops. "
            "Use a local model, or leave crop unset."
        )
    sizes = (crop,) * grid.dims if isinstance(crop, int) else tuple(crop)
    if len(sizes) != grid.dims or min(sizes) < 1:
        raise ValueError(f"crop should be one size for each of {grid.dims} axes, got {crop}.")
    for size, stride in zip(sizes, locality.stride, strict=True):
        if size % stride:
            raise ValueError(
                f"crop {size} should be a multiple of the model's stride {stride}. "
                f"Try {max(1, round(size / stride)) * stride}."
            )
    return tuple(min(size, n) for size, n in zip(sizes, grid.points, strict=True))


def draw_crop(
    sizes: tuple[int, ...], grid: Grid, locality: Locality, horizon: int, seed: int, step: int
) -> Crop:
    """A crop somewhere on the model's stride, with the halo that `horizon` steps need."""
    draw = numpy_stream(seed, "crop", step)
    cells, inner = [], []
    for axis, halo in enumerate(locality.halo(horizon)):
        n, size, stride = grid.points[axis], sizes[axis], locality.stride[axis]
        if grid.is_periodic[axis] and size + 2 * halo < n:
            start = stride * int(draw.integers(n // stride))
            low, high = start - halo, start + size + halo
        else:
            start = stride * int(draw.integers((n - size) // stride + 1))
            whole = grid.is_periodic[axis]
            low = 0 if whole else max(0, start - halo)
            high = n if whole else min(n, start + size + halo)
        cells.append(torch.arange(low, high) % n)
        inner.append(slice(start - low, start - low + size))
    return Crop(tuple(cells), tuple(inner))
