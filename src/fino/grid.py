"""Where the numbers live: a regular grid with a physical size and a boundary on every axis.

    x_i = lo + (i + offset) · Δx        i = 0 … points − 1

An offset of one half is a cell centre.  Keeping every s-th point moves the offset to
offset / s, because the first point stays where it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fino.settings import did_you_mean

__all__ = ["Grid", "boundary_per_axis", "per_axis"]

#: What lies beyond an edge: the other side, zero, the edge cell again, or the mirror image.
BOUNDARIES = ("periodic", "dirichlet", "neumann", "reflect")


@dataclass(frozen=True)
class Grid:
    """A regular grid: Grid((128,), ((0.0, 1.0),), ("periodic",)) is a unit interval of 128 cells.

    points      cells along each axis
    extent      the (low, high) edges along each axis, in units of length; low may be the larger
    boundary    one of `BOUNDARIES` for each axis
    offset      where points lie in their cells, for each axis: 0.5 the centre (default), 0 the edge
    """

    points: tuple[int, ...]
    extent: tuple[tuple[float, float], ...]
    boundary: tuple[str, ...]
    offset: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        points = tuple(int(n) for n in self.points)
        if not points or min(points) < 1:
            raise ValueError(f"grid points should be positive on every axis, got {self.points}.")
        extent = tuple((float(lo), float(hi)) for lo, hi in self.extent)
        if len(extent) != len(points):
            raise ValueError(
                f"extent should have one (low, high) pair for each of {len(points)} axes, "
                f"got {self.extent}."
            )
        if any(lo == hi or not np.isfinite([lo, hi]).all() for lo, hi in extent):
            raise ValueError(f"extent should be finite and not empty, got {self.extent}.")
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "extent", extent)
        object.__setattr__(self, "boundary", boundary_per_axis(self.boundary, len(points)))
        offset = tuple(float(o) for o in self.offset) or (0.5,) * len(points)
        if len(offset) != len(points):
            raise ValueError(
                f"offset should have one number for each of {len(points)} axes, got {self.offset}."
            )
        object.__setattr__(self, "offset", offset)

    @property
    def dims(self) -> int:
        return len(self.points)

    @property
    def spacing(self) -> tuple[float, ...]:
        """The distance between neighbours on each axis, always positive."""
        return tuple(abs(hi - lo) / n for (lo, hi), n in zip(self.extent, self.points, strict=True))

    @property
    def is_periodic(self) -> tuple[bool, ...]:
        return tuple(name == "periodic" for name in self.boundary)

    def coordinates(self) -> tuple[np.ndarray, ...]:
        """The position of every point, one float64 array for each axis."""
        return tuple(
            lo + (np.arange(n) + offset) * ((hi - lo) / n)
            for (lo, hi), n, offset in zip(self.extent, self.points, self.offset, strict=True)
        )

    def mesh(self) -> tuple[np.ndarray, ...]:
        """The coordinates spread over the whole grid, each of shape `points`."""
        return tuple(np.meshgrid(*self.coordinates(), indexing="ij"))

    def strided(self, stride: int | Sequence[int]) -> Grid:
        """Every stride-th point, as `array[::stride]` keeps them.

        The physical extent grows by the part of a cell that a stride which does not divide
        the points leaves over, so that the spacing is exactly `stride` times the old one.
        """
        strides = per_axis(stride, self.dims, "stride")
        points = tuple(-(-n // s) for n, s in zip(self.points, strides, strict=True))
        extent = tuple(
            (lo, lo + (hi - lo) / n * s * m)
            for (lo, hi), n, s, m in zip(self.extent, self.points, strides, points, strict=True)
        )
        offset = tuple(o / s for o, s in zip(self.offset, strides, strict=True))
        return Grid(points, extent, self.boundary, offset)

    def with_points(self, points: Sequence[int]) -> Grid:
        """The same spacing over another number of points: a larger or smaller domain."""
        extent = tuple(
            (lo, lo + (hi - lo) / n * m)
            for (lo, hi), n, m in zip(self.extent, self.points, points, strict=True)
        )
        return Grid(tuple(points), extent, self.boundary, self.offset)

    def refined(self, points: Sequence[int]) -> Grid:
        """The same domain with another number of cells, centred as before."""
        return Grid(tuple(points), self.extent, self.boundary, self.offset)


def boundary_per_axis(boundary: str | Sequence[str], dims: int) -> tuple[str, ...]:
    """One boundary name for each axis: 'periodic' → ('periodic', 'periodic')."""
    names = (boundary,) * dims if isinstance(boundary, str) else tuple(boundary)
    if len(names) != dims:
        raise ValueError(
            f"boundary should be one name or one for each of {dims} axes, got {list(names)}."
        )
    for name in names:
        if name not in BOUNDARIES:
            raise ValueError(f"Unknown boundary '{name}'. {did_you_mean(str(name), BOUNDARIES)}")
    return names


def per_axis(size: int | Sequence[int], dims: int, name: str = "tile") -> tuple[int, ...]:
    """One size for each axis: 512 → (512, 512)."""
    sizes = (size,) * dims if isinstance(size, int) else tuple(int(n) for n in size)
    if len(sizes) != dims or min(sizes) < 1:
        raise ValueError(
            f"{name} should be one positive whole number or one for each of {dims} axes, "
            f"got {size}."
        )
    return sizes
