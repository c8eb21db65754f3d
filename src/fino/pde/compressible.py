"""Compressible flow on a line: sound, contacts and shocks.

    ρₜ + (ρv)ₓ = 0
    (ρv)ₜ + (ρv² + p)ₓ = (μρ vₓ)ₓ                 x ∈ [−1, 1], periodic or open
    Eₜ + (v (E + p))ₓ = (½μρ (v²)ₓ)ₓ              E = p/(γ−1) + ½ρv²,  μ = 4η/3 + ζ

The viscous stress is proportional to the density, as in PDEBench: η and ζ are kinematic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from pydantic import Field, model_validator

from fino.grid import Grid
from fino.pde.initial import (
    REFERENCE_CELLS,
    Family,
    Waves,
    drawn,
    log_uniform,
    released,
    released_rows,
)
from fino.pde.integrate import MOST_STEPS, intervals, march
from fino.pde.problem import Array, Progress
from fino.pde.threefry import split, uniform
from fino.settings import Settings
from fino.streams import numpy_stream

__all__ = ["Compressible", "CompressibleSettings"]

#: What the random profiles are drawn from, and the seeds and sizes of PDEBench's draws.
RANDOM = Family(modes=3, window=0.5, domain=(-1.0, 1.0))
RELEASED_SEEDS, RELEASED_EACH = range(2020, 2030), 1000

DENSITY = (1.0, 10.0)
PRESSURE = (10.0, 100.0)


class CompressibleSettings(Settings):
    """Viscosity, boundary, start, grid and saved times.

    PDEBench's files: eta = zeta = 0.1, 0.01 or 1e-8, periodic and random; 1e-8, outgoing and
    random; 1e-8, outgoing and shock, there with duration 0.4 and 81 frames.
    """

    eta: float = Field(1e-8, ge=0, allow_inf_nan=False)
    zeta: float = Field(1e-8, ge=0, allow_inf_nan=False)
    gamma: float = Field(5 / 3, gt=1, allow_inf_nan=False)
    boundary: Literal["periodic", "outgoing"] = "periodic"
    start: Literal["random", "shock"] = "random"
    points: int = Field(1024, ge=4, le=2**20)
    frames: int = Field(101, ge=2)
    duration: float = Field(1.0, gt=0, allow_inf_nan=False)
    courant: float = Field(0.3, gt=0, le=0.5)
    modes: int = Field(RANDOM.modes, ge=1)
    window: float = Field(RANDOM.window, ge=0, le=1)
    initial: Literal["ours", "pdebench"] = "ours"

    @model_validator(mode="after")
    def _released_exists(self) -> CompressibleSettings:
        if self.initial == "pdebench" and (
            self.start == "shock" or (self.modes, self.window) != (RANDOM.modes, RANDOM.window)
        ):
            raise ValueError(
                "initial='pdebench' is known for start='random' with "
                f"modes={RANDOM.modes} and window={RANDOM.window} only: use initial='ours'."
            )
        return self


class Compressible:
    """Gas with random waves, or with one jump, in density, pressure and velocity."""

    name = "compressible-1d"
    title = "Compressible flow on a line"
    equation = "ρₜ + (ρv)ₓ = 0,  (ρv)ₜ + (ρv² + p)ₓ = (μρvₓ)ₓ,  Eₜ + (v(E + p))ₓ = (½μρ(v²)ₓ)ₓ"
    fields: tuple[str, ...] = ("density", "pressure", "Vx")
    units: tuple[str, ...] = ("1", "1", "1")
    symmetries: tuple[str, ...] = ("shift", "flip")
    directions: tuple[int | None, ...] = (None, None, 0)
    steady = False
    settings: type[Settings] = CompressibleSettings

    def grid(self, settings: Any) -> Grid:
        boundary = "periodic" if settings.boundary == "periodic" else "neumann"
        return Grid((settings.points,), (RANDOM.domain,), (boundary,))

    def times(self, settings: Any) -> Array:
        return np.linspace(0.0, settings.duration, settings.frames)

    def draw(self, settings: Any, grid: Grid, seed: int, samples: Sequence[int]) -> Array:
        """Density, momentum and energy: (b, 3, x)."""
        if settings.start == "shock":
            frame = _jump(grid, seed, samples)
        elif settings.initial == "pdebench":
            frame = _released(settings, grid, seed, samples)
        else:
            frame = _random(settings, grid, seed, samples)
        return self.state(settings, grid, frame)

    def solve(
        self,
        settings: Any,
        grid: Grid,
        initial: Array,
        times: Array,
        progress: Progress | None = None,
    ) -> Array:
        from fino.pde.gas import flow, room_for

        state = np.array(initial, dtype=np.float64, order="C")
        when = np.concatenate([[0.0], np.cumsum(intervals(times))])
        frames = np.empty((len(state), len(when), 3, *grid.points))
        viscosity = 4 / 3 * settings.eta + settings.zeta
        periodic = grid.is_periodic[0]

        def one(row: int) -> None:
            whole = flow(
                state[row],
                when,
                grid.spacing[0],
                settings.gamma,
                viscosity,
                settings.courant,
                periodic,
                MOST_STEPS,
                room_for(grid.points[0]),
                frames[row],
            )
            if not whole:
                raise ValueError(
                    f"compressible-1d broke down in row {row} of the batch: "
                    "use more points, a smaller courant or a milder start."
                )

        march(one, len(state), progress)
        return frames

    def state(self, settings: Any, grid: Grid, frame: Array) -> Array:
        """Density, pressure and velocity → density, momentum and energy."""
        density, pressure, velocity = np.moveaxis(np.asarray(frame, dtype=np.float64), 1, 0)
        energy = pressure / (settings.gamma - 1) + 0.5 * density * velocity**2
        return np.stack([density, density * velocity, energy], axis=1)

    def speed(self, settings: Any) -> float | None:
        """None: |v| + c depends on the sample, so it is measured from the data."""
        return None

    def solver(self, settings: Any) -> str:
        return (
            "finite volumes, monotonised central slopes of density, pressure and velocity, HLLC "
            f"flux, midpoint predictor–corrector, Courant number {settings.courant:g}, viscosity "
            "in explicit steps of its own, float64"
        )

    def flaws(self, settings: Any) -> tuple[str, ...]:
        notes = ["The viscous stress is multiplied by the density, as in PDEBench."]
        if settings.start == "shock":
            notes.append("Velocities are never negative (0.61 to 1.65), as in PDEBench.")
        else:
            notes.append(
                "Windows lie right of the middle and differ little in place, as in PDEBench."
            )
        if settings.initial == "pdebench":
            notes.append(
                "The pressure of one thousand samples has the shapes of the next one's density."
            )
        return tuple(notes)


def _random(settings: Any, grid: Grid, seed: int, samples: Sequence[int]) -> Array:
    family = Family(settings.modes, settings.window, RANDOM.domain)
    streams = [numpy_stream(seed, "initial", i) for i in samples]
    scaled = []
    for limits in (DENSITY, PRESSURE):
        waves = drawn(streams, family)
        height, base = np.stack([stream.random(2) for stream in streams], axis=1)
        scaled.append(_positive(waves, grid, limits, height, base))
    return np.stack([*scaled, drawn(streams, family).on(grid)], axis=1)


def _released(settings: Any, grid: Grid, seed: int, samples: Sequence[int]) -> Array:
    released_rows(seed, samples, len(RELEASED_SEEDS) * RELEASED_EACH)
    batch, row = np.divmod(np.asarray(samples, dtype=np.int64), RELEASED_EACH)
    frame = np.empty((len(row), 3, *grid.points))
    for key in np.unique(batch):
        mine, first = batch == key, RELEASED_SEEDS[key]
        rows = row[mine]
        for channel, limits in enumerate((DENSITY, PRESSURE)):
            waves, after = released(first + channel, RELEASED_EACH, rows, RANDOM)
            height = uniform(after, RELEASED_EACH, rows)
            base = uniform(split(after)[0], RELEASED_EACH, rows)
            frame[mine, channel] = _positive(waves, grid, limits, height, base)
        frame[mine, 2] = released(first + 2, RELEASED_EACH, rows, RANDOM)[0].on(grid)
    return frame


def _positive(
    waves: Waves, grid: Grid, limits: tuple[float, float], height: Array, base: Array
) -> Array:
    """Profiles scaled to start at a random base and to rise by a random height."""
    rise, bottom = (log_uniform(unit, *limits)[:, None] for unit in (height, base))
    return waves.between_0_and_1(grid) * rise + bottom


def _jump(grid: Grid, seed: int, samples: Sequence[int]) -> Array:
    (x,) = grid.coordinates()
    low, high = RANDOM.domain
    frame = np.empty((len(samples), 3, x.size))
    for row, sample in enumerate(samples):
        stream = numpy_stream(seed, "initial", sample)
        density = log_uniform(stream.random(2), *DENSITY)
        pressure = log_uniform(stream.random(2), *PRESSURE)
        velocity = np.exp(stream.uniform(-0.5, 0.5, 2))
        cell = int(REFERENCE_CELLS * stream.uniform(0.25, 0.75))
        right = (x > low + (high - low) * cell / REFERENCE_CELLS).astype(int)
        frame[row] = density[right], pressure[right], velocity[right]
    return frame
