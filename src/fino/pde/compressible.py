"""Compressible flow on a line: sound, contacts and shocks.

    ρₜ + (ρv)ₓ = 0
    (ρv)ₜ + (ρv² + p)ₓ = (μρ vₓ)ₓ                 x ∈ [−1, 1], periodic or open
    Eₜ + (v (E + p))ₓ = (½μρ (v²)ₓ)ₓ              E = p/(γ−1) + ½ρv²,  μ = 4η/3 + ζ

The viscous stress is proportional to the density, as in PDEBench: η and ζ are kinematic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import Field, model_validator

from fino.grid import Grid
from fino.pde.initial import (
    REFERENCE_CELLS,
    Family,
    Modes,
    Waves,
    Window,
    check_released,
    draw_released_waves,
    draw_waves,
    log_uniform,
)
from fino.pde.problem import Array, Duration, Frames, Initial, Points, Problem, diffused
from fino.pde.threefry import split, uniform
from fino.streams import numpy_stream

__all__ = ["Compressible"]

#: What the random profiles are drawn from, and the seeds and sizes of PDEBench's draws.
_RANDOM = Family(modes=3, window=0.5, domain=(-1.0, 1.0))
_RELEASED_SEEDS, _RELEASED_EACH = range(2020, 2030), 1000

_DENSITY = (1.0, 10.0)
_PRESSURE = (10.0, 100.0)


class Compressible(Problem):
    """Gas with random waves, or with one jump, in density, pressure and velocity."""

    # PDEBench's files: eta = zeta = 0.1, 0.01 or 1e-8, periodic and random; 1e-8, outgoing and
    # random; 1e-8, outgoing and shock, there with duration 0.4 and 81 frames.

    name = "compressible-1d"
    title = "Compressible flow on a line"
    equation = "ρₜ + (ρv)ₓ = 0,  (ρv)ₜ + (ρv² + p)ₓ = (μρvₓ)ₓ,  Eₜ + (v(E + p))ₓ = (½μρ(v²)ₓ)ₓ"
    fields = ("density", "pressure", "Vx")
    units = ("1", "1", "1")
    symmetries = ("shift", "flip")
    coefficients = ("eta", "zeta", "gamma")
    directions = (None, None, 0)
    variants = ({"courant": 0.5},)

    eta: float = Field(1e-8, ge=0, allow_inf_nan=False)
    """Shear viscosity η in length² per time; PDEBench has 1e-8, 0.01 and 0.1."""
    zeta: float = Field(1e-8, ge=0, allow_inf_nan=False)
    """Bulk viscosity ζ in length² per time; PDEBench has the same values as for η."""
    gamma: float = Field(5 / 3, gt=1, allow_inf_nan=False)
    """Ratio of heat capacities γ: 5/3 for one atom, 1.4 for air."""
    boundary: Literal["periodic", "outgoing"] = "periodic"
    """A ring, or open edges that let waves out."""
    start: Literal["random", "shock"] = "random"
    """Random waves, or one jump; PDEBench's shocks have open edges."""
    points: Points = 1024
    frames: Frames = 101
    duration: Duration = 1.0
    courant: float = Field(0.3, gt=0, le=0.5)
    """Cells that the fastest wave crosses in a step."""
    modes: Modes = _RANDOM.modes
    window: Window = _RANDOM.window
    initial: Initial = "ours"

    @model_validator(mode="after")
    def _released_exists(self) -> Compressible:
        if self.initial == "pdebench" and (
            self.start == "shock" or (self.modes, self.window) != (_RANDOM.modes, _RANDOM.window)
        ):
            raise ValueError(
                "initial='pdebench' is known for start='random' with "
                f"modes={_RANDOM.modes} and window={_RANDOM.window} only: use initial='ours'."
            )
        return self

    @property
    def grid(self) -> Grid:
        boundary = "periodic" if self.boundary == "periodic" else "neumann"
        return Grid((self.points,), (_RANDOM.domain,), (boundary,))

    def draw(self, grid: Grid, seed: int, samples: Sequence[int]) -> Array:
        """Density, momentum and energy: (b, 3, x)."""
        if self.start == "shock":
            frame = _draw_jumps(grid, seed, samples)
        elif self.initial == "pdebench":
            frame = _draw_released(grid, seed, samples)
        else:
            family = Family(self.modes, self.window, _RANDOM.domain)
            frame = _draw_random(family, grid, seed, samples)
        return self.state(grid, frame)

    def integrate(self, grid: Grid, start: Array, times: Array) -> Array:
        from fino.pde.finite_volumes import flow

        when = np.concatenate([[0.0], np.cumsum(np.diff(times))])
        frames = np.empty((len(start), len(when), 3, *grid.points))
        viscosity = 4 / 3 * self.eta + self.zeta
        facts = (grid.spacing[0], self.gamma, viscosity, self.courant, grid.is_periodic[0])
        for state, saved in zip(start, frames, strict=True):
            if not flow(state, when, *facts, saved):
                raise FloatingPointError("use more points, a smaller courant or a milder start.")
        return frames

    def state(self, grid: Grid, frame: Array) -> Array:
        """Density, pressure and velocity → density, momentum and energy."""
        density, pressure, velocity = np.moveaxis(np.asarray(frame, dtype=np.float64), 1, 0)
        energy = pressure / (self.gamma - 1) + 0.5 * density * velocity**2
        return np.stack([density, density * velocity, energy], axis=1)

    def reach(self, time: float, frames: Array) -> float:
        """The fastest |v| + c of the frames, and a little for what lies between them."""
        density, pressure, velocity = np.moveaxis(frames, 1, 0)
        sound = np.sqrt(self.gamma * np.maximum(pressure, 0) / np.maximum(density, 1e-6))
        diffusion = diffused(4 * self.eta / 3 + self.zeta, time)
        return 1.1 * float((np.abs(velocity) + sound).max()) * time + diffusion

    @property
    def solver(self) -> str:
        return (
            "finite volumes, monotonised central slopes of density, pressure and velocity, HLLC "
            f"flux, midpoint predictor–corrector, Courant number {self.courant:g}, viscosity "
            "in explicit steps of its own, float64"
        )

    @property
    def flaws(self) -> tuple[str, ...]:
        start = "Windows lie right of the middle and differ little in place, as in PDEBench."
        if self.start == "shock":
            start = "Velocities are never negative (0.61 to 1.65), as in PDEBench."
        notes = ("The viscous stress is multiplied by the density, as in PDEBench.", start)
        if self.initial == "ours":
            return notes
        last = "The pressure of one thousand samples has the shapes of the next one's density."
        return (*notes, last)


def _draw_random(family: Family, grid: Grid, seed: int, samples: Sequence[int]) -> Array:
    streams = [numpy_stream(seed, "initial", i) for i in samples]
    scaled = []
    for limits in (_DENSITY, _PRESSURE):
        waves = draw_waves(streams, family)
        height, base = np.stack([stream.random(2) for stream in streams], axis=1)
        scaled.append(_positive(waves, grid, limits, height, base))
    return np.stack([*scaled, draw_waves(streams, family).on(grid)], axis=1)


def _draw_released(grid: Grid, seed: int, samples: Sequence[int]) -> Array:
    check_released(seed, samples, len(_RELEASED_SEEDS) * _RELEASED_EACH)
    batch, row = np.divmod(np.asarray(samples, dtype=np.int64), _RELEASED_EACH)
    frame = np.empty((len(row), 3, *grid.points))
    for key in np.unique(batch):
        mine, first = batch == key, _RELEASED_SEEDS[key]
        rows = row[mine]
        for channel, limits in enumerate((_DENSITY, _PRESSURE)):
            waves, after = draw_released_waves(first + channel, _RELEASED_EACH, rows, _RANDOM)
            height = uniform(after, _RELEASED_EACH, rows)
            base = uniform(split(after)[0], _RELEASED_EACH, rows)
            frame[mine, channel] = _positive(waves, grid, limits, height, base)
        frame[mine, 2] = draw_released_waves(first + 2, _RELEASED_EACH, rows, _RANDOM)[0].on(grid)
    return frame


def _positive(
    waves: Waves, grid: Grid, limits: tuple[float, float], height: Array, base: Array
) -> Array:
    """Profiles scaled to start at a random base and to rise by a random height."""
    rise, bottom = (log_uniform(unit, *limits)[:, None] for unit in (height, base))
    return waves.between_0_and_1(grid) * rise + bottom


def _draw_jumps(grid: Grid, seed: int, samples: Sequence[int]) -> Array:
    (x,) = grid.coordinates()
    low, high = _RANDOM.domain
    frame = np.empty((len(samples), 3, x.size))
    for row, sample in enumerate(samples):
        stream = numpy_stream(seed, "initial", sample)
        density = log_uniform(stream.random(2), *_DENSITY)
        pressure = log_uniform(stream.random(2), *_PRESSURE)
        velocity = np.exp(stream.uniform(-0.5, 0.5, 2))
        cell = int(REFERENCE_CELLS * stream.uniform(0.25, 0.75))
        right = (x > low + (high - low) * cell / REFERENCE_CELLS).astype(int)
        frame[row] = density[right], pressure[right], velocity[right]
    return frame
