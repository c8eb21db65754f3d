"""Darcy flow: pressure in a block of two kinds of rock, pushed evenly everywhere.

    −∇·(ν(x, y) ∇u) = β        x, y ∈ [0, 1], u = 0 outside

ν is one value where a sum of a few random bumps is high and another where it is low; u follows.
The variant `darcy-pdebench` keeps what PDEBench's file holds instead of the steady state:

    uₜ = ∇·(ν∇u) + β        from a random uniform start, at t = 1.75

so a part of the unknown start is still in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from pydantic import Field, model_validator

from fino.grid import Grid
from fino.pde.initial import check_released
from fino.pde.problem import Array, Initial, Points, Problem, check_boundary
from fino.pde.threefry import key_of, split, uniform
from fino.streams import numpy_stream

__all__ = ["Darcy", "RelaxingDarcy"]

#: Samples in PDEBench's file, made in batches from the seeds 2020, 2021, …
_RELEASED, _BATCH, _FIRST_SEED, _REFERENCE_POINTS = 10_000, 200, 2020, 128

_BUMPS, _WIDEST = 5, 0.5
#: The mean over the square and over all bumps, 10 ∫₀^½ f(s)² ds for
#: f(s) = √(πs) erf(1/√s) − s(1 − e^(−1/s)).  The released batches scatter around it by 0.023.
MEAN_OF_BUMPS = 1.852145


class Darcy(Problem):
    """Flow through a block of two kinds of rock: from the rock's ν to the pressure u."""

    name = "darcy"
    title = "Darcy flow"
    equation = "−∇·(ν∇u) = β"
    fields = ("u",)
    inputs = ("nu",)
    coefficients = ("beta",)
    units = ("1",)
    symmetries = ("flip", "rotate")
    steady = True
    variants = ({"tolerance": 1e-3}, {"tolerance": 1e-5})

    points: Points = 128
    beta: float = 1.0
    """Source β, the same everywhere; PDEBench has 0.01 to 100."""
    high: float = Field(1.0, gt=0)
    """ν where the bumps are high."""
    low: float = Field(0.1, gt=0)
    """ν where the bumps are low."""
    threshold: float = MEAN_OF_BUMPS
    """Sum of bumps that divides high from low, for our own samples."""
    initial: Initial = "ours"
    tolerance: float = Field(1e-10, ge=1e-12, le=1e-2)
    """Residual that is left, relative to the source."""

    @property
    def grid(self) -> Grid:
        return Grid((self.points,) * 2, ((0.0, 1.0),) * 2, ("dirichlet", "dirichlet"))

    def grid_of(self, points: Sequence[int]) -> Grid:
        """Evenly between the places where u vanishes, half a cell of the reference outside."""
        half = 0.5 / self.points
        steps = [(1 + 2 * half) / (n + 1) for n in points]
        extent = tuple((0.5 * h - half, 1 + half - 0.5 * h) for h in steps)
        return Grid(tuple(points), extent, ("dirichlet", "dirichlet"))

    @property
    def times(self) -> Array:
        """Two frames, the input and the output; there is no time between them."""
        return np.array([0.0, 1.0])

    def draw(self, grid: Grid, seed: int, samples: Sequence[int]) -> Array:
        """The rock ν: (b, 1, *space)."""
        state = np.empty((len(samples), 1, *grid.points))
        if self.initial == "pdebench":
            check_released(seed, samples, _RELEASED)
        for row, sample in enumerate(samples):
            if self.initial == "pdebench":
                batch, place = divmod(int(sample), _BATCH)
                bumps, level = _batch(batch), batch_threshold(batch)
                centres, widths = bumps[0][:, place], bumps[1][place]
            else:
                stream, level = numpy_stream(seed, "darcy", int(sample)), self.threshold
                # a width of zero would divide by zero; 1 − U is never zero
                centres, widths = stream.random((2, _BUMPS)), _WIDEST * (1 - stream.random(_BUMPS))
            rock = _sum_bumps(grid, centres, widths) > level
            state[row, 0] = np.where(rock, self.high, self.low)
        return state

    def integrate(self, grid: Grid, start: Array, times: Array) -> Array:
        """[ν, u]; further times, if any, give u again."""
        check_boundary(grid, "dirichlet", "The Darcy solver needs zero outside")
        if not (start[:, 0] > 0).all():
            raise ValueError("The Darcy solver needs a positive ν everywhere.")
        from fino.pde.elliptic import solve_steady

        frames = np.empty((len(start), len(times), 1, *grid.points))
        source = np.full(grid.points, self.beta)
        for state, saved in zip(start, frames, strict=True):
            saved[0] = state[:1]
            saved[1:] = solve_steady(state[0], source, grid.spacing, self.tolerance, grid.offset)
        return frames

    @property
    def solver(self) -> str:
        return (
            "five-point fluxes, mean of ν on faces, zero half a cell outside; "
            f"conjugate gradients with sine transforms to {self.tolerance:g}, float64"
        )

    @property
    def flaws(self) -> tuple[str, ...]:
        notes = ["u vanishes half a cell outside the domain, as in PDEBench, not on its edge."]
        if self.initial == "ours":
            notes.append(
                "ν is high where the bumps exceed one fixed level, the mean of their "
                "distribution; PDEBench takes the mean of each batch of 200 samples."
            )
        return tuple(notes)


class RelaxingDarcy(Darcy):
    """Darcy flow on its way from a uniform start to the steady state, as PDEBench saved it."""

    name = "darcy-pdebench"
    title = "Darcy flow, still relaxing, as in PDEBench"
    equation = "uₜ = ∇·(ν∇u) + β"
    description = Darcy.description

    start: tuple[float, float] = (0.1, 10.0)
    """Range (low, high) of the uniform level of u to start from."""
    stop: float = Field(1.75, gt=0)
    """Time at which u is saved."""

    @model_validator(mode="after")
    def _range_is_a_range(self) -> RelaxingDarcy:
        if not self.start[0] <= self.start[1]:
            raise ValueError(f"Setting 'start' should be (low, high), got {self.start}.")
        return self

    @property
    def times(self) -> Array:
        return np.array([0.0, self.stop])

    def draw(self, grid: Grid, seed: int, samples: Sequence[int]) -> Array:
        """The rock ν and the uniform start u: (b, 2, *space)."""
        state = np.repeat(super().draw(grid, seed, samples), 2, axis=1)
        for row, sample in enumerate(samples):
            if self.initial == "pdebench":
                batch, place = divmod(int(sample), _BATCH)
                key = key_of(_FIRST_SEED + batch)
                state[row, 1] = uniform(key, _BATCH, [place], *self.start)[0]
            else:
                state[row, 1] = numpy_stream(seed, self.name, int(sample)).uniform(*self.start)
        return state

    def integrate(self, grid: Grid, start: Array, times: Array) -> Array:
        """[ν, u]; further times, if any, give u later."""
        from fino.pde.elliptic import relax

        frames = super().integrate(grid, start, times)
        for (nu, level), saved in zip(start, frames, strict=True):
            goal = saved[1, 0].copy()
            left = level - goal
            for frame, gap in enumerate(np.diff(times), 1):
                left = relax(nu, left, grid.spacing, gap, self.tolerance)
                saved[frame, 0] = goal + left
        return frames

    def state(self, grid: Grid, frame: Array) -> Array | None:
        """None: a saved frame is the rock or the pressure, and never tells both."""
        return None

    @property
    def solver(self) -> str:
        return f"{super().solver}; exp(−At) by Chebyshev expansion to {self.tolerance:g}"

    @property
    def flaws(self) -> tuple[str, ...]:
        first, *rest = super().flaws
        return (
            first,
            "u is not steady: the part of the unknown start that is left at t = 1.75 is 2.5 % "
            "of u on average and up to 29 %. A function of ν can know its mean and no more, "
            "which leaves an nRMSE of 0.018.",
            "The start is a uniform level; PDEBench's small ripples on it are left out, as "
            "they decay long before the saved frame.",
            *rest,
        )


def _sum_bumps(grid: Grid, centres: Array, widths: Array) -> Array:
    """Σ exp(−((x − xₘ)² + (y − yₘ)²)/sₘ) for centres (2, m) and widths (m): → (*space)."""
    x, y = (
        np.exp(-((along[None, :] - centre[:, None]) ** 2) / widths[:, None])
        for along, centre in zip(grid.coordinates(), centres, strict=True)
    )
    return np.einsum("mx,my->xy", x, y)


@lru_cache(maxsize=64)
def batch_threshold(batch: int) -> float:
    """The mean of all bumps of one released batch, which divides high from low."""
    cells = (np.arange(_REFERENCE_POINTS) + 0.5) / _REFERENCE_POINTS
    centres, widths = _batch(batch)
    x, y = np.exp(-((cells - centres[..., None]) ** 2) / widths[..., None]).mean(-1)
    return float((x * y).sum(-1).mean())


@lru_cache(maxsize=4)
def _batch(batch: int) -> tuple[Array, Array]:
    """Centres (2, 200, 5) and widths (200, 5) of one released batch."""
    first = key_of(_FIRST_SEED + batch)
    second = split(first)[0]
    third = split(second)[0]
    shape, size = (_BATCH, _BUMPS), _BATCH * _BUMPS
    centres = np.stack([uniform(key, size).reshape(shape) for key in (first, second)])
    # 23 random bits can all be zero; the narrowest bump then covers no cell
    widths = np.maximum(_WIDEST * uniform(third, size).reshape(shape), 1e-12)
    return centres, widths
