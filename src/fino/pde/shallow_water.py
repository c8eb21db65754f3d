"""Shallow water: a round dam breaks, and a ring of water runs outward.

    hₜ + (hu)ₓ + (hv)ᵧ = 0
    (hu)ₜ + (hu² + ½gh²)ₓ + (huv)ᵧ = 0        x, y ∈ [−2.5, 2.5], open edges
    (hv)ₜ + (huv)ₓ + (hv² + ½gh²)ᵧ = 0

At first the water rests: deep inside a circle of random radius, shallow outside.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from pydantic import Field, model_validator

from fino.grid import Grid
from fino.pde.initial import released_rows
from fino.pde.integrate import intervals, march
from fino.pde.problem import Array, Progress
from fino.settings import Settings
from fino.streams import numpy_stream

__all__ = ["RELEASED", "ShallowWater", "ShallowWaterSettings", "disk_mask", "disk_share", "radius"]

#: Trajectories in PDEBench's file.
RELEASED = 1000


class ShallowWaterSettings(Settings):
    """The dam, the water and the grid; lengths, times and depths without units."""

    points: int = Field(128, ge=4)
    half_width: float = Field(2.5, gt=0)
    duration: float = Field(1.0, gt=0)
    frames: int = Field(101, ge=2)
    gravity: float = Field(1.0, gt=0)
    inside: float = Field(2.0, gt=0)
    outside: float = Field(1.0, gt=0)
    radius: tuple[float, float] = (0.3, 0.7)
    #: "pdebench" repeats the radii of the released file.
    initial: Literal["ours", "pdebench"] = "ours"
    #: Give cells on the dam the depth of their share of the circle: no two samples are alike.
    distinct: bool = False
    courant: float = Field(0.9, gt=0, le=1)
    #: "symmetric" treats x and y alike; "godunov" is PDEBench's: x, then y, always.
    splitting: Literal["symmetric", "godunov"] = "symmetric"

    @model_validator(mode="after")
    def _radius_is_a_range(self) -> ShallowWaterSettings:
        low, high = self.radius
        if not 0 < low <= high:
            raise ValueError(
                f"Setting 'radius' should be (low, high) with 0 < low ≤ high, got {self.radius}."
            )
        return self


class ShallowWater:
    """A round dam breaks: saves the depth, or the depth and both momenta."""

    equation = "hₜ + ∇·(hu) = 0,  (hu)ₜ + ∇·(hu⊗u + ½gh² I) = 0"
    steady = False
    settings: type[Settings] = ShallowWaterSettings

    def __init__(self, momenta: bool = False) -> None:
        self.name = "shallow-water-momenta" if momenta else "shallow-water"
        self.title = "Shallow water, radial dam break" + (", with momenta" if momenta else "")
        self.fields: tuple[str, ...] = ("h", "hu", "hv") if momenta else ("h",)
        self.units: tuple[str, ...] = ("1",) * len(self.fields)
        self.symmetries: tuple[str, ...] = ("flip", "rotate")
        self.directions: tuple[int | None, ...] = (None, 0, 1) if momenta else ()

    def grid(self, settings: Any) -> Grid:
        edge = (-settings.half_width, settings.half_width)
        return Grid((settings.points,) * 2, (edge, edge), ("neumann", "neumann"))

    def times(self, settings: Any) -> Array:
        return np.linspace(0.0, settings.duration, settings.frames)

    def draw(self, settings: Any, grid: Grid, seed: int, samples: Sequence[int]) -> Array:
        """Water at rest: (b, 3, *space), depth and the two momenta."""
        if settings.initial == "pdebench":
            released_rows(seed, samples, RELEASED)
        inside = disk_share if settings.distinct else disk_mask
        state = np.zeros((len(samples), 3, *grid.points))
        for row, sample in enumerate(samples):
            share = inside(grid, radius(settings, seed, sample))
            state[row, 0] = settings.outside + (settings.inside - settings.outside) * share
        return state

    def solve(
        self,
        settings: Any,
        grid: Grid,
        initial: Array,
        times: Array,
        progress: Progress | None = None,
    ) -> Array:
        if grid.boundary != ("neumann", "neumann"):
            raise ValueError(
                "The shallow-water solver needs open edges, boundary 'neumann' on both axes, "
                f"got {grid.boundary}."
            )
        if not (initial[:, 0] > 0).all():
            raise ValueError("The shallow-water solver needs water everywhere: depth above zero.")
        intervals(times)
        from fino.pde.roe import flow

        state = np.ascontiguousarray(initial, dtype=np.float64)
        when = np.ascontiguousarray(times, dtype=np.float64)
        frames = np.empty((len(state), len(when), len(self.fields), *grid.points))
        spacing = (grid.spacing[0], grid.spacing[1])
        both_orders = settings.splitting == "symmetric"

        def one(row: int) -> None:
            g, courant = settings.gravity, settings.courant
            flow(state[row], when, spacing, g, courant, both_orders, frames[row])

        march(one, len(state), progress)
        return frames

    def state(self, settings: Any, grid: Grid, frame: Array) -> Array | None:
        """The frame itself if it has the momenta; a depth alone does not say where it flows."""
        return frame if frame.shape[1] == 3 else None

    def speed(self, settings: Any) -> float | None:
        """An upper bound of |u| + c for a dam break.

        Water that runs from deep to shallow keeps |u| + 2c below its start, 2√(g·deep), and is
        nowhere slower than c = √(g·shallow) where it is fastest; so |u| + c stays below
        2√(g·deep) − √(g·shallow).  For the default depths that is 1.83; runs reach 1.66.
        """
        low, high = sorted((settings.inside, settings.outside))
        return 2 * math.sqrt(settings.gravity * high) - math.sqrt(settings.gravity * low)

    def solver(self, settings: Any) -> str:
        order = {
            "symmetric": "mean of both orders of dimensional splitting",
            "godunov": "dimensional splitting, first axis first",
        }[settings.splitting]
        return (
            "wave propagation, Roe solver with entropy fix, monotonised central limiter, "
            f"{order}, Courant number at most {settings.courant:g}, float64"
        )

    def flaws(self, settings: Any) -> tuple[str, ...]:
        notes = []
        if not settings.distinct:
            notes.append(
                "A circle is drawn as whole cells, so few different initial masks exist (81 among "
                "the 1000 of PDEBench) and test trajectories occur in training. Set distinct=true "
                "for cells that carry their share of the circle: then no two samples are alike."
            )
        if settings.splitting == "godunov":
            notes.append(
                "x is always stepped before y, as in PDEBench: the depth is symmetric under a "
                "swap of axes only to about 0.01."
            )
        if self.fields == ("h",):
            notes.append("Only the depth is saved; one frame does not determine the next.")
        return tuple(notes)


def radius(settings: Any, seed: int, sample: int) -> float:
    """The radius of one sample's dam."""
    if settings.initial == "pdebench":
        # the released file was made with numpy's old generator, seeded with the sample's number
        return float(np.random.RandomState(sample).uniform(*settings.radius))
    return float(numpy_stream(seed, "shallow-water", sample).uniform(*settings.radius))


def disk_mask(grid: Grid, radius: float) -> Array:
    """One where a cell's centre lies inside the circle, zero elsewhere."""
    x, y = grid.mesh()
    return (x**2 + y**2 <= radius**2).astype(np.float64)


def disk_share(grid: Grid, radius: float) -> Array:
    """The share of every cell's area that lies inside the circle, exactly."""
    x, y = grid.coordinates()
    dx, dy = grid.spacing
    x_edges = np.append(x - dx / 2, x[-1] + dx / 2)
    y_edges = np.append(y - dy / 2, y[-1] + dy / 2)
    area = _corner_area(x_edges[:, None], y_edges[None, :], radius)
    return np.clip(np.diff(np.diff(area, axis=0), axis=1) / (dx * dy), 0.0, 1.0)


def _corner_area(x: Array, y: Array, radius: float) -> Array:
    """Area of the disk inside the rectangle from the centre to (x, y), signed like x·y."""
    a, b = np.minimum(np.abs(x), radius), np.minimum(np.abs(y), radius)
    # the rectangle's side b meets the circle at `corner`; up to there the strip is full
    corner = np.minimum(np.sqrt((radius - b) * (radius + b)), a)
    under_arc = _arc_integral(a, radius) - _arc_integral(corner, radius)
    return np.sign(x) * np.sign(y) * (b * corner + under_arc)


def _arc_integral(x: Array, radius: float) -> Array:
    """∫₀ˣ √(R² − s²) ds."""
    return 0.5 * (x * np.sqrt((radius - x) * (radius + x)) + radius**2 * np.arcsin(x / radius))
