"""Diffusion and growth on a line: Fisher's equation, also called KPP.

    uₜ = ν uₓₓ + ρ u (1 − u)        x ∈ [0, 1), periodic

Both terms alone have exact solutions: a heat kernel for each wave, and the logistic curve

    u(t + h) = u e^{ρh} / (1 + u (e^{ρh} − 1)).

They are alternated symmetrically (Strang), and runs with h and h / 2 are extrapolated to
fourth order.  Splitting loses its order on rough profiles, which diffusion smooths with time:
so the first steps are as short as the grid needs, and later ones grow with time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from pydantic import Field

from fino.grid import Grid
from fino.pde.initial import LINE, Modes, Window, draw_line_waves
from fino.pde.problem import Array, Duration, Frames, Initial, Points, Problem, steps_between

__all__ = ["Fisher"]


class Fisher(Problem):
    """Profiles between 0 and 1 that even out and grow towards 1."""

    name = "diffusion-reaction-1d"
    title = "Diffusion–reaction on a line (Fisher–KPP)"
    equation = "uₜ = ν uₓₓ + ρ u (1 − u)"
    fields = ("u",)
    units = ("1",)
    symmetries = ("shift", "flip")
    coefficients = ("nu", "rho")
    # Transformed at once: enough to hide the interpreter, few enough for the cache.
    together = 16
    variants = ({"step": 0.5}, {"step": 1.0})

    nu: float = Field(0.5, ge=0, allow_inf_nan=False)
    """Diffusion ν in length² per time; PDEBench has 0.5 to 5."""
    rho: float = Field(1.0, ge=0, allow_inf_nan=False)
    """Growth ρ per time; PDEBench has 1 to 10."""
    points: Points = 1024
    frames: Frames = 101
    duration: Duration = 1.0
    step: float = Field(0.25, gt=0, le=1)
    """A step as a share of the time since the start; errors fall as its 4th power."""
    modes: Modes = LINE.modes
    window: Window = LINE.window
    initial: Initial = "ours"

    @property
    def grid(self) -> Grid:
        return Grid((self.points,), (LINE.domain,), ("periodic",))

    def draw(self, grid: Grid, seed: int, samples: Sequence[int]) -> Array:
        waves = draw_line_waves(self.modes, self.window, self.initial, seed, samples)
        return waves.between_0_and_1(grid)[:, None]

    def integrate(self, grid: Grid, start: Array, times: Array) -> Array:
        from scipy.fft import irfft, rfft

        rho, (n,) = self.rho, grid.points
        damping = self.nu * (2 * np.pi * np.fft.rfftfreq(n, grid.spacing[0])) ** 2
        frames = np.empty((len(start), len(times), 1, n))
        frames[:, 0] = start

        def strang(u: Array, h: float, steps: int) -> Array:
            decay = np.exp(-damping * h)
            u = _logistic(u, rho * h / 2)
            for left in reversed(range(steps)):
                u = irfft(rfft(u) * decay, n)
                u = _logistic(u, rho * h if left else rho * h / 2)
            return u

        u = start[:, 0]
        for t, steps in enumerate(self.step_sizes(grid, times), 1):
            for h in steps:
                u = (4 * strang(u, h / 2, 2) - strang(u, h, 1)) / 3
            frames[:, t, 0] = u
        return frames

    def step_sizes(self, grid: Grid, times: Array) -> Iterator[list[float]]:
        """The steps to each saved frame: short at first, then a share of the time gone by."""
        splits = self.nu * self.rho > 0
        shortest = self.step * grid.spacing[0] ** 2 / self.nu if splits else np.inf
        longest = self.step / self.rho if splits else np.inf
        for end, interval in zip(times[1:], np.diff(times), strict=True):
            age, left, sizes = float(end - interval) - float(times[0]), interval, []
            while True:
                largest = min(max(shortest, self.step * age), longest)
                steps = steps_between(left, largest)
                if steps <= 2:
                    break
                sizes.append(largest)
                age, left = age + largest, left - largest
            # Two even steps rather than a long one and a crumb.
            yield sizes + [left / steps] * steps

    @property
    def solver(self) -> str:
        return (
            "exact heat kernel (Fourier) and exact logistic growth, Strang splitting extrapolated "
            f"to fourth order, steps of {self.step:g} of the time since the start, float64"
        )

    @property
    def flaws(self) -> tuple[str, ...]:
        return (
            "PDEBench's released files for ρ = 1 stop moving early (rounding in single precision "
            "eats four million tiny steps) and stay near 0.5; these data go on towards 1.",
            "Profiles jump slightly where the line closes, as in PDEBench's definition.",
        )


def _logistic(u: Array, growth: float) -> Array:
    """Exact logistic growth over a time ρh = growth."""
    gain = np.expm1(growth)
    return u * (1 + gain) / (1 + gain * u)
