"""Diffusion and growth on a line: Fisher's equation, also called KPP.

    uₜ = ν uₓₓ + ρ u (1 − u)        x ∈ [0, 1), periodic

Both terms alone have exact solutions: a heat kernel for each wave, and the logistic curve

    u(t + h) = u e^{ρh} / (1 + u (e^{ρh} − 1)).

They are alternated symmetrically (Strang), and runs with h and h / 2 are extrapolated to
fourth order.  Rough profiles are what makes splitting lose its order, and diffusion smooths
them: so the first steps are as short as the grid asks for, and then grow with time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
from pydantic import Field

from fino.grid import Grid
from fino.pde.initial import LINE, line_waves
from fino.pde.integrate import cores, intervals, march, steps_between
from fino.pde.problem import Array, Progress
from fino.settings import Settings

__all__ = ["Fisher", "FisherSettings"]

#: Most rows transformed together: enough to hide the interpreter, few enough for the cache.
BLOCK = 16


class FisherSettings(Settings):
    """Diffusion, growth, the grid, the saved times and the profiles."""

    nu: float = Field(0.5, ge=0, allow_inf_nan=False)
    rho: float = Field(1.0, ge=0, allow_inf_nan=False)
    points: int = Field(1024, ge=4, le=2**20)
    frames: int = Field(101, ge=2)
    duration: float = Field(1.0, gt=0, allow_inf_nan=False)
    #: A step as a share of the time since the start; errors fall with its fourth power.
    step: float = Field(0.25, gt=0, le=1)
    modes: int = Field(LINE.modes, ge=1)
    window: float = Field(LINE.window, ge=0, le=1)
    initial: Literal["ours", "pdebench"] = "ours"


class Fisher:
    """Profiles between 0 and 1 that even out and grow towards 1."""

    name = "diffusion-reaction-1d"
    title = "Diffusion–reaction on a line (Fisher–KPP)"
    equation = "uₜ = ν uₓₓ + ρ u (1 − u)"
    fields: tuple[str, ...] = ("u",)
    units: tuple[str, ...] = ("1",)
    symmetries: tuple[str, ...] = ("shift", "flip")
    steady = False
    settings: type[Settings] = FisherSettings

    def grid(self, settings: Any) -> Grid:
        return Grid((settings.points,), (LINE.domain,), ("periodic",))

    def times(self, settings: Any) -> Array:
        return np.linspace(0.0, settings.duration, settings.frames)

    def draw(self, settings: Any, grid: Grid, seed: int, samples: Sequence[int]) -> Array:
        return line_waves(settings, seed, samples).between_0_and_1(grid)[:, None]

    def solve(
        self,
        settings: Any,
        grid: Grid,
        initial: Array,
        times: Array,
        progress: Progress | None = None,
    ) -> Array:
        from scipy.fft import irfft, rfft

        nu, rho, (n,) = settings.nu, settings.rho, grid.points
        damping = nu * (2 * np.pi * np.fft.rfftfreq(n, grid.spacing[0])) ** 2
        plan = [list(steps) for steps in step_sizes(settings, grid, times)]
        frames = np.empty((len(initial), len(times), 1, n))
        frames[:, 0] = initial

        def strang(u: Array, h: float, steps: int) -> Array:
            decay = np.exp(-damping * h)
            u = logistic(u, rho * h / 2)
            for left in reversed(range(steps)):
                u = irfft(rfft(u) * decay, n)
                u = logistic(u, rho * h if left else rho * h / 2)
            return u

        share = max(1, min(BLOCK, -(-len(frames) // cores())))

        def one(block: int) -> None:
            rows = slice(block * share, (block + 1) * share)
            u = frames[rows, 0, 0]
            for t, steps in enumerate(plan, 1):
                for h in steps:
                    u = (4 * strang(u, h / 2, 2) - strang(u, h, 1)) / 3
                frames[rows, t, 0] = u

        march(one, -(-len(frames) // share), progress)
        return frames

    def state(self, settings: Any, grid: Grid, frame: Array) -> Array | None:
        """The frame itself."""
        return frame

    def speed(self, settings: Any) -> float | None:
        """None: diffusion knows no fastest wave."""
        return None

    def solver(self, settings: Any) -> str:
        return (
            "exact heat kernel (Fourier) and exact logistic growth, Strang splitting extrapolated "
            f"to fourth order, steps of {settings.step:g} of the time since the start, float64"
        )

    def flaws(self, settings: Any) -> tuple[str, ...]:
        return (
            "PDEBench's released files for ρ = 1 stop moving early (rounding in single precision "
            "eats four million tiny steps) and stay near 0.5; these data go on towards 1.",
            "Profiles jump slightly where the line closes, as in PDEBench's definition.",
        )


def logistic(u: Array, growth: float) -> Array:
    """Exact logistic growth over a time ρh = growth."""
    gain = np.expm1(growth)
    return u * (1 + gain) / (1 + gain * u)


def step_sizes(settings: Any, grid: Grid, times: Array) -> Iterator[Iterator[float]]:
    """The steps to each saved frame: short at first, then a share of the time gone by."""
    start, share = float(times[0]), settings.step
    splits = settings.nu * settings.rho > 0
    shortest = share * grid.spacing[0] ** 2 / settings.nu if splits else np.inf
    longest = share / settings.rho if splits else np.inf
    for end, interval in zip(times[1:], intervals(times), strict=True):
        yield _to_the_end(float(end - interval) - start, interval, share, shortest, longest)


def _to_the_end(
    age: float, left: float, share: float, shortest: float, longest: float
) -> Iterator[float]:
    while True:
        largest = min(max(shortest, share * age), longest)
        steps = steps_between(left, largest)
        if steps <= 2:
            # Two even steps rather than a long one and a crumb.
            yield from [left / steps] * steps
            return
        yield largest
        age, left = age + largest, left - largest
