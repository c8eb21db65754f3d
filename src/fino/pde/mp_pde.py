"""The family of MP-PDE: Burgers, heat and Korteweg–de Vries in one equation, with a known forcing.

    uₜ + (α u²/2 − β uₓ + γ uₓₓ)ₓ = δ(t, x)        x ∈ [0, 16), periodic
    δ(t, x) = Σⱼ Aⱼ sin(ωⱼ t + 2π lⱼ x / 16 + φⱼ),  u(0, x) = δ(0, x)        j = 1 … 5

The experiments E1, E2 and E3 of J. Brandstetter, D. Worrall, M. Welling, ICLR 2022.  Everything
is an average over cells.  With dispersion the linear terms are exact in Fourier space (ETDRK4,
dealiased by a third); without it shocks form, and WENO5 finite volumes solve them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from fino.grid import Grid
from fino.pde.exponential import Coefficients, advance
from fino.pde.problem import Array, Duration, Frames, Points, Problem, steps_between
from fino.streams import numpy_stream

__all__ = ["MpPde"]

_LENGTH = 16.0
_TERMS = 5

#: What each experiment draws for every trajectory: (low, high).
_DRAWN: dict[str, dict[str, tuple[float, float]]] = {
    "E1": {},
    "E2": {"beta": (0.0, 0.2)},
    "E3": {"alpha": (0.0, 6.0), "beta": (0.1, 0.4), "gamma": (0.0, 1.0)},
}

#: Cells of the reference solution, which shocks need more of than smooth waves do.
_FINE = {"E1": 800, "E2": 800, "E3": 400}

#: The spectral scheme is stable in steps so many times as long as those of WENO5.
_LONGER = 2.0


class MpPde(Problem):
    """Waves that steepen, spread and disperse on a periodic line, driven by a few sine waves."""

    name = "mp-pde"
    title = "Burgers to Korteweg–de Vries, forced (MP-PDE)"
    equation = "uₜ + (α u²/2 − β uₓ + γ uₓₓ)ₓ = δ(t, x)"
    fields = ("u",)
    units = ("1",)
    symmetries = ("shift", "flip")
    coefficients = ("alpha", "beta", "gamma")
    directions = (0,)
    forces = ("delta",)
    turning: ClassVar = {"delta": 0}
    shown = 50
    held_out = 128
    variants = ({"courant": 0.9}, {"method": "spectral", "courant": 0.7})

    experiment: Literal["E1", "E2", "E3"] = "E1"
    """'E1': inviscid, α, β and γ as set; 'E2' draws β in 0 … 0.2 for every trajectory, 'E3' draws
    α in 0 … 6, β in 0.1 … 0.4 and γ in 0 … 1, over half the time."""
    points: Points = 100
    frames: Frames = 250
    duration: Duration = 4.0
    alpha: float = Field(1.0, ge=0, allow_inf_nan=False)
    """Weight α of the flux u²/2."""
    beta: float = Field(0.0, ge=0, allow_inf_nan=False)
    """Diffusion β in length² per time."""
    gamma: float = Field(0.0, ge=0, allow_inf_nan=False)
    """Dispersion γ in length³ per time."""
    waves: int = Field(2, ge=1, le=16)
    """Most waves of a sine along the line; 2 as in the authors' code, 3 as in their paper."""
    method: Literal["auto", "weno", "spectral"] = "auto"
    """'weno' for shocks, 'spectral' for smooth waves; 'auto': spectral where γ > 0."""
    courant: float = Field(0.5, gt=0, le=1)
    """Cells that the fastest value moves in a step of the solver."""

    @model_validator(mode="before")
    @classmethod
    def _half_the_time(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("experiment") == "E3":
            return {"duration": 2.0, **values}
        return values

    @property
    def grid(self) -> Grid:
        return Grid((self.points,), ((0.0, _LENGTH),), ("periodic",))

    @property
    def refinement(self) -> int:
        return -(-_FINE[self.experiment] // self.points)

    @property
    def kept_symmetries(self) -> tuple[str, ...]:
        """Dispersion moves waves to one side: its mirror image is another equation."""
        disperses = self.gamma > 0 or "gamma" in _DRAWN[self.experiment]
        return ("shift",) if disperses else self.symmetries

    def draw_parameters(self, seed: int, samples: Sequence[int]) -> dict[str, Array]:
        drawn = {}
        for name, (low, high) in _DRAWN[self.experiment].items():
            unit = [numpy_stream(seed, self.name, name, int(i)).random() for i in samples]
            drawn[name] = low + (high - low) * np.array(unit)
        return drawn

    def draw(self, grid: Grid, seed: int, samples: Sequence[int]) -> Array:
        return self.draw_forcing(grid, np.zeros(1), seed, samples)[:, 0]

    def draw_forcing(self, grid: Grid, times: Array, seed: int, samples: Sequence[int]) -> Array:
        (x,), (dx,) = grid.coordinates(), grid.spacing
        forcing = np.empty((len(samples), len(times), 1, x.size))
        for row, sample in zip(forcing[:, :, 0], samples, strict=True):
            stream = numpy_stream(seed, self.name, int(sample))
            amplitude, pulse, phase = stream.random((3, _TERMS))
            waves = 2 * np.pi / _LENGTH * stream.integers(1, self.waves, _TERMS, endpoint=True)
            # The mean over a cell of a sine wave is the wave, a little lower.
            height = (amplitude - 0.5) * np.sinc(waves * dx / (2 * np.pi))
            turn = np.multiply.outer(times, 0.8 * (pulse - 0.5)) + 2 * np.pi * phase
            along = np.multiply.outer(waves, x)
            row[...] = (height * np.sin(turn)) @ np.cos(along)
            row += (height * np.cos(turn)) @ np.sin(along)
        return forcing

    def integrate(
        self, grid: Grid, start: Array, times: Array, forcing: Array | None = None
    ) -> Array:
        if grid.boundary != ("periodic",):
            raise ValueError(f"mp-pde needs a periodic line, got boundary {grid.boundary}.")
        if forcing is None:
            forcing = np.zeros((len(start), 0, 1, *grid.points))
        smooth = self.method == "spectral" or (self.method == "auto" and self.gamma > 0)
        solve = self._spectral if smooth else self._weno
        rows = zip(start[:, 0], forcing[:, :, 0], strict=True)
        return np.stack([solve(grid, u, times, np.ascontiguousarray(f)) for u, f in rows])[
            :, :, None
        ]

    def _weno(self, grid: Grid, u: Array, times: Array, forcing: Array) -> Array:
        from fino.pde.weno import march

        frames = np.empty((len(times), u.size))
        terms = (self.alpha, self.beta, self.gamma)
        if not march(u, times, forcing, grid.spacing[0], *terms, self.courant, frames):
            raise FloatingPointError("steps become too small, choose weaker terms")
        return frames

    def _spectral(self, grid: Grid, u: Array, times: Array, forcing: Array) -> Array:
        """Fourier coefficients of point values; means over cells are lower by a sinc each."""
        from scipy.fft import irfft, rfft

        (n,), (dx,) = grid.points, grid.spacing
        k = 2 * np.pi * np.fft.rfftfreq(n, dx)
        mean = np.sinc(k * dx / (2 * np.pi))
        rates = -self.beta * k**2 + 1j * self.gamma * k**3
        flux = np.where(np.arange(k.size) <= n // 3, -0.5j * self.alpha * k, 0.0)
        drive = rfft(forcing, axis=1) / mean
        v = rfft(u) / mean
        tables: dict[int, Coefficients] = {}

        def nonlinear(v: Array) -> Array:
            return flux * rfft(irfft(v, n) ** 2)

        frames = np.empty((len(times), n))
        frames[0] = u
        for t, interval in enumerate(np.diff(times), 1):
            fastest = self.alpha * np.abs(frames[t - 1]).max() / dx
            steps = steps_between(interval, _LONGER * self.courant / fastest if fastest else np.inf)
            if steps not in tables:
                tables[steps] = Coefficients.of(rates, interval / steps)
            halves = _between(times, drive, t, 2 * steps)
            for step in range(steps):
                v = advance(v, tables[steps], nonlinear, halves[2 * step : 2 * step + 3])
            frames[t] = irfft(v * mean, n)
            if not np.isfinite(frames[t]).all():
                raise FloatingPointError("numbers grow without bound, choose more points")
        return frames

    @property
    def solver(self) -> str:
        return (
            "WENO5 finite volumes, Godunov's flux, third-order Runge–Kutta; where γ > 0 Fourier "
            f"series with ETDRK4, dealiased; Courant number {self.courant:g}, float64"
        )

    @property
    def flaws(self) -> tuple[str, ...]:
        return (
            "Equation, distributions and times are those of Brandstetter et al. 2022; the grid is "
            "a correct one and the numbers are true averages over cells, where theirs hold both "
            "ends of the line and are smoothed over five cells.",
            "Every trajectory has its own parameters, where theirs are shared by batches of four.",
        )


def _between(times: Array, values: Array, t: int, parts: int) -> Array:
    """Values (t, …) at even times from frame t − 1 to t, both ends too, by the cubic through four.

    → (parts + 1, …)
    """
    count = min(4, len(values))
    first = max(0, min(t - 2, len(values) - count))
    nodes = times[first : first + count]
    now = np.linspace(times[t - 1], times[t], parts + 1)
    weights = np.ones((parts + 1, count))
    for j in range(count):
        for other in np.delete(nodes, j):
            weights[:, j] *= (now - other) / (nodes[j] - other)
    return weights @ values[first : first + count]
