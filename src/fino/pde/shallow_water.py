"""Shallow water: a round dam breaks, and a ring of water runs outward.

    hₜ + (hu)ₓ + (hv)ᵧ = 0
    (hu)ₜ + (hu² + ½gh²)ₓ + (huv)ᵧ = 0        x, y ∈ [−2.5, 2.5], open edges
    (hv)ₜ + (huv)ₓ + (hv² + ½gh²)ᵧ = 0

At first the water rests: deep inside a circle of random radius, shallow outside.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from fino.grid import Grid
from fino.pde.initial import check_released
from fino.pde.problem import Array, Duration, Frames, Initial, Points, Problem, check_boundary
from fino.streams import numpy_stream

__all__ = ["ShallowWater", "ShallowWaterDams", "ShallowWaterMomenta"]

#: Trajectories in PDEBench's file.
_RELEASED = 1000

#: Points along an axis on which the share of a cell inside an ellipse is counted.
_COUNTED = 1024

# Settings that both problems have.
_courant = "Most cells that a wave crosses in a step."
_splitting = "'symmetric' treats x and y alike; 'godunov' is PDEBench's: x, then y, always."
Courant = Annotated[float, Field(gt=0, le=1, description=_courant)]
Splitting = Annotated[Literal["symmetric", "godunov"], Field(description=_splitting)]


class ShallowWater(Problem):
    """A round dam breaks: saves the depth, or the depth and both momenta."""

    name = "shallow-water"
    title = "Shallow water, radial dam break"
    equation = "hₜ + ∇·(hu) = 0,  (hu)ₜ + ∇·(hu⊗u + ½gh² I) = 0"
    fields: ClassVar[tuple[str, ...]] = ("h",)
    units: ClassVar[tuple[str, ...]] = ("1",)
    symmetries = ("flip", "rotate")
    coefficients = ("gravity",)
    variants = ({}, {"splitting": "godunov"})

    points: Points = 128
    half_width: float = Field(2.5, gt=0)
    """Half the side of the square, a length."""
    duration: Duration = 1.0
    frames: Frames = 101
    gravity: float = Field(1.0, gt=0)
    """g in length per time²."""
    inside: float = Field(2.0, gt=0)
    """Depth inside the dam, a length."""
    outside: float = Field(1.0, gt=0)
    """Depth outside the dam, a length."""
    radius: tuple[float, float] = (0.3, 0.7)
    """Range (low, high) that the radius of the dam is drawn from."""
    initial: Initial = "ours"
    distinct: bool = False
    """Give cells on the dam the depth of their share of the circle: no two samples are alike."""
    courant: Courant = 0.9
    splitting: Splitting = "symmetric"

    @model_validator(mode="after")
    def _radius_is_a_range(self) -> ShallowWater:
        low, high = self.radius
        if not 0 < low <= high:
            raise ValueError(
                f"Setting 'radius' should be (low, high) with 0 < low ≤ high, got {self.radius}."
            )
        return self

    @property
    def grid(self) -> Grid:
        edge = (-self.half_width, self.half_width)
        return Grid((self.points,) * 2, (edge, edge), ("neumann", "neumann"))

    def draw(self, grid: Grid, seed: int, samples: Sequence[int]) -> Array:
        """Water at rest: (b, 3, *space), depth and the two momenta."""
        if self.initial == "pdebench":
            check_released(seed, samples, _RELEASED)
        x, y = grid.mesh()
        state = np.zeros((len(samples), 3, *grid.points))
        for row, sample in enumerate(samples):
            radius = self.draw_radius(seed, sample)
            share = disk_share(grid, radius) if self.distinct else x**2 + y**2 <= radius**2
            state[row, 0] = self.outside + (self.inside - self.outside) * share
        return state

    def draw_radius(self, seed: int, sample: int) -> float:
        """The radius of one sample's dam."""
        if self.initial == "pdebench":
            # the released file was made with numpy's old generator, seeded with the sample's number
            return float(np.random.RandomState(sample).uniform(*self.radius))
        return float(numpy_stream(seed, "shallow-water", sample).uniform(*self.radius))

    def integrate(self, grid: Grid, start: Array, times: Array) -> Array:
        facts = (self.gravity, self.courant, self.splitting)
        return _flow(grid, start, times, len(self.fields), *facts, closed=False)

    def state(self, grid: Grid, frame: Array) -> Array | None:
        """The frame itself if it has the momenta; a depth alone does not say where it flows."""
        return frame if frame.shape[1] == 3 else None

    @property
    def whole(self) -> Problem:
        return ShallowWaterMomenta(**self.model_dump())

    @property
    def speed(self) -> float:
        """An upper bound of |u| + c for a dam break.

        Water that runs from deep to shallow keeps |u| + 2c below its start, 2√(g·deep), and is
        nowhere slower than c = √(g·shallow) where it is fastest; so |u| + c stays below
        2√(g·deep) − √(g·shallow).  For the default depths that is 1.83; runs reach 1.66.
        """
        low, high = sorted((self.inside, self.outside))
        return 2 * math.sqrt(self.gravity * high) - math.sqrt(self.gravity * low)

    @property
    def solver(self) -> str:
        return _describe(self.splitting, self.courant)

    @property
    def flaws(self) -> tuple[str, ...]:
        notes = []
        if not self.distinct:
            notes.append(
                "A circle is drawn as whole cells, so few different initial masks exist (81 among "
                "the 1000 of PDEBench) and test trajectories occur in training. Set distinct=true "
                "for cells that carry their share of the circle: then no two samples are alike."
            )
        if self.splitting == "godunov":
            notes.append(
                "x is always stepped before y, as in PDEBench: the depth is symmetric under a "
                "swap of axes only to about 0.01."
            )
        if self.fields == ("h",):
            notes.append("Only the depth is saved; one frame does not determine the next.")
        return tuple(notes)


class ShallowWaterMomenta(ShallowWater):
    """The same dam break, saved with both momenta, so that a frame determines the next."""

    name = "shallow-water-momenta"
    title = "Shallow water, radial dam break, with momenta"
    description = ShallowWater.description
    fields = ("h", "hu", "hv")
    units = ("1", "1", "1")
    directions = (None, 0, 1)


class ShallowWaterDams(Problem):
    """Elliptic columns and hollows of still water collapse between four walls."""

    name = "shallow-water-dams"
    title = "Shallow water, several dams between walls"
    equation = ShallowWater.equation
    fields = ShallowWaterMomenta.fields
    units = ShallowWaterMomenta.units
    directions = ShallowWaterMomenta.directions
    symmetries = ("flip", "rotate")
    coefficients = ("gravity",)
    variants = ({}, {"splitting": "godunov"})
    shown = 1

    points: Points = 64
    half_width: float = Field(2.5, gt=0)
    """Half the side of the square, a length."""
    duration: Duration = 6.0
    frames: Frames = 21
    gravity: float = Field(1.0, gt=0)
    """g in length per time²."""
    dams: tuple[int, int] = (2, 5)
    """Fewest and most ellipses."""
    depth: tuple[float, float] = (0.5, 2.5)
    """Range (low, high) that the depths, around and in every ellipse, are drawn from."""
    courant: Courant = 0.9
    splitting: Splitting = "symmetric"

    @model_validator(mode="after")
    def _are_ranges(self) -> ShallowWaterDams:
        for name, low, high in (("dams", *self.dams), ("depth", *self.depth)):
            if not 0 < low <= high:
                raise ValueError(
                    f"Setting '{name}' should be (low, high) with 0 < low ≤ high, "
                    f"got {getattr(self, name)}."
                )
        return self

    @property
    def grid(self) -> Grid:
        edge = (-self.half_width, self.half_width)
        return Grid((self.points,) * 2, (edge, edge), ("neumann", "neumann"))

    @property
    def refinement(self) -> int:
        return 4

    def draw(self, grid: Grid, seed: int, samples: Sequence[int]) -> Array:
        """Water at rest, averaged over cells: (b, 3, *space); later ellipses cover earlier ones."""
        parts = [max(1, round(_COUNTED / n)) for n in grid.points]
        centred = Grid(grid.points, grid.extent, grid.boundary)
        fine = centred.refined([n * k for n, k in zip(grid.points, parts, strict=True)])
        x, y = fine.coordinates()
        state = np.zeros((len(samples), 3, *grid.points))
        for row, sample in enumerate(samples):
            stream = numpy_stream(seed, self.name, int(sample))
            depth = np.full(fine.points, stream.uniform(*self.depth))
            for _ in range(stream.integers(*self.dams, endpoint=True)):
                inside = _ellipse(x / self.half_width, y / self.half_width, stream)
                depth[inside] = stream.uniform(*self.depth)
            blocks = (grid.points[0], parts[0], grid.points[1], parts[1])
            state[row, 0] = depth.reshape(blocks).mean((1, 3))
        return state

    def integrate(self, grid: Grid, start: Array, times: Array) -> Array:
        facts = (self.gravity, self.courant, self.splitting)
        return _flow(grid, start, times, 3, *facts, closed=True)

    @property
    def solver(self) -> str:
        return _describe(self.splitting, self.courant)

    @property
    def flaws(self) -> tuple[str, ...]:
        return ("The distribution of starts is our own; no published numbers are for it.",)


def _ellipse(x: Array, y: Array, stream: np.random.Generator) -> Array:
    """Where a random ellipse lies, in units of half the basin's side: → (x, y) of truths."""
    (a, b), (at_x, at_y) = stream.uniform(0.12, 0.4, 2), stream.uniform(-0.85, 0.85, 2)
    turn = stream.uniform(0, np.pi)
    cos, sin = math.cos(turn), math.sin(turn)
    along = np.add.outer(cos * (x - at_x), sin * (y - at_y)) / a
    across = np.add.outer(-sin * (x - at_x), cos * (y - at_y)) / b
    return along**2 + across**2 < 1


def _flow(
    grid: Grid,
    start: Array,
    times: Array,
    channels: int,
    gravity: float,
    courant: float,
    splitting: str,
    closed: bool,
) -> Array:
    """The flow from (h, hu, hv) between walls or open edges: (b, 3, *space) → (b, t, c, *space)."""
    edges = "walls" if closed else "open edges"
    check_boundary(grid, "neumann", f"The shallow-water solver needs {edges}")
    if not (start[:, 0] > 0).all():
        raise ValueError("The shallow-water solver needs water everywhere: depth above zero.")
    from fino.pde.roe import flow

    frames = np.empty((len(start), len(times), channels, *grid.points))
    spacing = (grid.spacing[0], grid.spacing[1])
    for state, saved in zip(start, frames, strict=True):
        flow(state, times, spacing, gravity, courant, splitting == "symmetric", closed, saved)
    return frames


def _describe(splitting: str, courant: float) -> str:
    order = "dimensional splitting, first axis first"
    if splitting == "symmetric":
        order = "mean of both orders of dimensional splitting"
    return (
        "wave propagation, Roe solver with entropy fix, monotonised central limiter, "
        f"{order}, Courant number at most {courant:g}, float64"
    )


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
