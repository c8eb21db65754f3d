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
from typing import Any, Literal

import numpy as np
from pydantic import Field, model_validator

from fino.grid import Grid
from fino.pde.elliptic import relaxed, steady
from fino.pde.initial import released_rows
from fino.pde.integrate import intervals, march
from fino.pde.problem import Array, Progress
from fino.pde.threefry import key_of, split, uniform
from fino.settings import Settings
from fino.streams import numpy_stream

__all__ = [
    "MEAN_OF_BUMPS",
    "RELEASED",
    "Darcy",
    "DarcySettings",
    "RelaxingDarcySettings",
    "batch_threshold",
    "bumps",
]

#: Samples in PDEBench's file, made in batches from the seeds 2020, 2021, …
RELEASED = 10_000
BATCH = 200
FIRST_SEED = 2020
REFERENCE_POINTS = 128

BUMPS = 5
WIDEST = 0.5
#: The mean over the square and over all bumps, 10 ∫₀^½ f(s)² ds for
#: f(s) = √(πs) erf(1/√s) − s(1 − e^(−1/s)).  The released batches scatter around it by 0.023.
MEAN_OF_BUMPS = 1.852145


class DarcySettings(Settings):
    """The rock, the push and the grid."""

    points: int = Field(128, ge=4)
    beta: float = 1.0
    #: ν where the bumps are high and where they are low.
    high: float = Field(1.0, gt=0)
    low: float = Field(0.1, gt=0)
    #: How high is high, for our own samples; PDEBench takes the mean of each batch of 200.
    threshold: float = MEAN_OF_BUMPS
    #: "pdebench" repeats the rocks of the released file.
    initial: Literal["ours", "pdebench"] = "ours"
    #: The residual that is left, relative to the push.
    tolerance: float = Field(1e-10, ge=1e-12, le=1e-2)


class RelaxingDarcySettings(DarcySettings):
    """The same, with a start to relax from and the time to stop at."""

    #: The range of the uniform level to start from.
    start: tuple[float, float] = (0.1, 10.0)
    stop: float = Field(1.75, gt=0)

    @model_validator(mode="after")
    def _range_is_a_range(self) -> RelaxingDarcySettings:
        low, high = self.start
        if not low <= high:
            raise ValueError(f"Setting 'start' should be (low, high), got {(low, high)}.")
        return self


class Darcy:
    """Flow through a block of two kinds of rock: from the rock's ν to the pressure u."""

    fields: tuple[str, ...] = ("u",)
    inputs: tuple[str, ...] = ("nu",)
    units: tuple[str, ...] = ("1",)
    symmetries: tuple[str, ...] = ("flip", "rotate")
    steady = True

    def __init__(self, relaxing: bool = False) -> None:
        self.relaxing = relaxing
        self.name = "darcy-pdebench" if relaxing else "darcy"
        self.title = "Darcy flow" + (", still relaxing, as in PDEBench" if relaxing else "")
        self.equation = "uₜ = ∇·(ν∇u) + β" if relaxing else "−∇·(ν∇u) = β"
        self.settings: type[Settings] = RelaxingDarcySettings if relaxing else DarcySettings

    def grid(self, settings: Any) -> Grid:
        return Grid((settings.points,) * 2, ((0.0, 1.0),) * 2, ("dirichlet", "dirichlet"))

    def times(self, settings: Any) -> Array:
        """Two frames, the input and the output; only the relaxing variant has a real time."""
        return np.array([0.0, settings.stop if self.relaxing else 1.0])

    def draw(self, settings: Any, grid: Grid, seed: int, samples: Sequence[int]) -> Array:
        """The rock ν, and the start u if it is to relax: (b, 1 or 2, *space)."""
        state = np.empty((len(samples), 2 if self.relaxing else 1, *grid.points))
        if settings.initial == "pdebench":
            released_rows(seed, samples, RELEASED)
        for row, sample in enumerate(samples):
            if settings.initial == "pdebench":
                centres, widths, level = _released(int(sample))
            else:
                centres, widths = _ours(numpy_stream(seed, "darcy", int(sample)))
                level = settings.threshold
            rock = bumps(grid, centres, widths) > level
            state[row, 0] = np.where(rock, settings.high, settings.low)
            if self.relaxing:
                state[row, 1] = _start(settings, seed, int(sample))
        return state

    def solve(
        self,
        settings: Any,
        grid: Grid,
        initial: Array,
        times: Array,
        progress: Progress | None = None,
    ) -> Array:
        """[ν, u]; further times, if any, give u again, later."""
        if grid.boundary != ("dirichlet", "dirichlet"):
            raise ValueError(
                "The Darcy solver needs zero outside, boundary 'dirichlet' on both axes, "
                f"got {grid.boundary}."
            )
        if not (initial[:, 0] > 0).all():
            raise ValueError("The Darcy solver needs a positive ν everywhere.")
        gaps = intervals(times)
        frames = np.empty((len(initial), len(times), 1, *grid.points))
        source = np.full(grid.points, settings.beta)

        def one(row: int) -> None:
            nu = frames[row, 0, 0] = initial[row, 0]
            goal = steady(nu, source, grid.spacing, settings.tolerance)
            if not self.relaxing:
                frames[row, 1:, 0] = goal
                return
            left = initial[row, 1] - goal
            for frame, gap in enumerate(gaps, start=1):
                left = relaxed(nu, left, grid.spacing, gap, settings.tolerance)
                frames[row, frame, 0] = goal + left

        march(one, len(initial), progress)
        return frames

    def state(self, settings: Any, grid: Grid, frame: Array) -> Array | None:
        """The rock, if the frame is one; the start of a relaxation cannot be known."""
        return None if self.relaxing else frame

    def speed(self, settings: Any) -> float | None:
        """None: every cell feels every other."""
        return None

    def solver(self, settings: Any) -> str:
        flux = "five-point fluxes, mean of ν on faces, zero half a cell outside"
        solve = f"conjugate gradients with sine transforms to {settings.tolerance:g}, float64"
        if self.relaxing:
            return f"{flux}; {solve}; exp(−At) by Chebyshev expansion to {settings.tolerance:g}"
        return f"{flux}; {solve}"

    def flaws(self, settings: Any) -> tuple[str, ...]:
        notes = ["u vanishes half a cell outside the domain, as in PDEBench, not on its edge."]
        if self.relaxing:
            notes.append(
                "u is not steady: the part of the unknown start that is left at t = 1.75 is 2.5 % "
                "of u on average and up to 29 %. A function of ν can know its mean and no more, "
                "which leaves an nRMSE of 0.018."
            )
            notes.append(
                "The start is a uniform level; PDEBench's small ripples on it are left out, as "
                "they decay long before the saved frame."
            )
        if settings.initial == "ours":
            notes.append(
                "ν is high where the bumps exceed one fixed level, the mean of their "
                "distribution; PDEBench takes the mean of each batch of 200 samples."
            )
        return tuple(notes)


def bumps(grid: Grid, centres: Array, widths: Array) -> Array:
    """Σ exp(−((x − xₘ)² + (y − yₘ)²)/sₘ) for centres (2, m) and widths (m): → (*space)."""
    x, y = (
        np.exp(-((along[None, :] - centre[:, None]) ** 2) / widths[:, None])
        for along, centre in zip(grid.coordinates(), centres, strict=True)
    )
    return np.einsum("mx,my->xy", x, y)


@lru_cache(maxsize=64)
def batch_threshold(batch: int) -> float:
    """The mean of all bumps of one released batch, which divides high from low."""
    cells = (np.arange(REFERENCE_POINTS) + 0.5) / REFERENCE_POINTS
    centres, widths = _batch(batch)
    x, y = np.exp(-((cells - centres[..., None]) ** 2) / widths[..., None]).mean(-1)
    return float((x * y).sum(-1).mean())


def _ours(stream: np.random.Generator) -> tuple[Array, Array]:
    """Centres and widths of one sample of our own."""
    # a width of zero would divide by zero; 1 − U is never zero
    return stream.random((2, BUMPS)), WIDEST * (1 - stream.random(BUMPS))


def _start(settings: Any, seed: int, sample: int) -> float:
    """The level that one sample relaxes from."""
    low, high = settings.start
    if settings.initial == "pdebench":
        batch, row = divmod(sample, BATCH)
        return float(uniform(key_of(FIRST_SEED + batch), BATCH, [row], low, high)[0])
    return float(numpy_stream(seed, "darcy-pdebench", sample).uniform(low, high))


def _released(sample: int) -> tuple[Array, Array, float]:
    """Centres, widths and threshold of one released sample."""
    batch, row = divmod(sample, BATCH)
    centres, widths = _batch(batch)
    return centres[:, row], widths[row], batch_threshold(batch)


@lru_cache(maxsize=4)
def _batch(batch: int) -> tuple[Array, Array]:
    """Centres (2, 200, 5) and widths (200, 5) of one released batch."""
    first = key_of(FIRST_SEED + batch)
    second = split(first)[0]
    third = split(second)[0]
    shape, size = (BATCH, BUMPS), BATCH * BUMPS
    centres = np.stack([uniform(key, size).reshape(shape) for key in (first, second)])
    # 23 random bits can all be zero; the narrowest bump then covers no cell
    widths = np.maximum(WIDEST * uniform(third, size).reshape(shape), 1e-12)
    return centres, widths
