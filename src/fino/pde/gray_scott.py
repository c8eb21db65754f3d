"""Gray–Scott: two chemicals that feed on each other and make spots, mazes and spirals.

    ∂A/∂t = δ_A ∇²A − A B² + f (1 − A)
    ∂B/∂t = δ_B ∇²B + A B² − (f + k) B          x, y ∈ [−1, 1), periodic

The definition is The Well's (Ohana et al. 2024).  Space is Fourier series, time is exponential
time differencing of fourth order: the linear terms are exact, the reaction A B² is stepped.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from pydantic import Field, field_validator

from fino.grid import Grid
from fino.pde.exponential import Coefficients, advance
from fino.pde.problem import (
    Array,
    Duration,
    Frames,
    Points,
    Problem,
    check_boundary,
    diffused,
    steps_between,
)
from fino.settings import did_you_mean
from fino.streams import numpy_stream

__all__ = ["PATTERNS", "GrayScott"]

#: The six patterns of The Well: feed rate f and kill rate k.
PATTERNS = {
    "gliders": (0.014, 0.054),
    "bubbles": (0.098, 0.057),
    "maze": (0.029, 0.057),
    "worms": (0.058, 0.065),
    "spirals": (0.018, 0.051),
    "spots": (0.03, 0.062),
}


class GrayScott(Problem):
    """Two chemicals on a periodic square, started from clusters of Gaussians."""

    name = "gray-scott"
    title = "Gray–Scott reaction–diffusion"
    equation = "∂A/∂t = δ_A ∇²A − A B² + f (1 − A),  ∂B/∂t = δ_B ∇²B + A B² − (f + k) B"
    fields = ("A", "B")
    units = ("1", "1")
    symmetries = ("shift", "flip", "rotate")
    coefficients = ("feed", "kill", "diffusion_a", "diffusion_b")
    variants = ({"finer": 1, "step": 5.0}, {"finer": 1, "step": 10.0})

    feed: float = Field(PATTERNS["gliders"][0], ge=0, allow_inf_nan=False)
    """Feed rate f per time; PATTERNS has 0.014 to 0.098."""
    kill: float = Field(PATTERNS["gliders"][1], ge=0, allow_inf_nan=False)
    """Kill rate k per time; PATTERNS has 0.051 to 0.065."""
    pattern: str = "own"
    """'own': feed and kill as set; 'all' or names such as 'maze,spots': samples take turns."""
    points: Points = 128
    frames: Frames = 101
    duration: Duration = 1000.0
    diffusion_a: float = Field(2e-5, ge=0, allow_inf_nan=False)
    """δ_A in length² per time."""
    diffusion_b: float = Field(1e-5, ge=0, allow_inf_nan=False)
    """δ_B in length² per time; patterns: δ_B < δ_A."""
    step: float = Field(2.0, gt=0, allow_inf_nan=False)
    """Largest time step; 1 to 2.5 are good."""
    finer: int = Field(2, ge=1, le=8)
    """Times finer than the saved grid the solver's own is, along each axis; 1 is fast and rough."""

    @field_validator("pattern")
    @classmethod
    def _check_pattern(cls, words: str) -> str:
        for word in () if words in ("own", "all") else words.split(","):
            if word not in PATTERNS:
                hint = did_you_mean(word, ["own", "all", *PATTERNS])
                raise ValueError(f"Unknown pattern '{word}'. {hint}")
        return words

    @property
    def grid(self) -> Grid:
        return Grid((self.points,) * 2, ((-1.0, 1.0),) * 2, ("periodic", "periodic"))

    def draw_parameters(self, seed: int, samples: Sequence[int]) -> dict[str, Array]:
        """Feed and kill of the sample's pattern; patterns take turns, so any part has them all."""
        if self.pattern == "own":
            return {}
        names = list(PATTERNS) if self.pattern == "all" else self.pattern.split(",")
        pairs = [PATTERNS[names[int(i) % len(names)]] for i in samples]
        feed, kill = np.array(pairs, np.float64).reshape(-1, 2).T
        return {"feed": feed, "kill": kill}

    def draw(self, grid: Grid, seed: int, samples: Sequence[int]) -> Array:
        """Clusters of Gaussians of B where A is used up: A = 1 − s/2, B = s/2, 0 ≤ s ≤ 1."""
        cover = np.empty((len(samples), *grid.points))
        for row, sample in zip(cover, samples, strict=True):
            row[...] = _draw_clusters(grid, numpy_stream(seed, self.name, int(sample)))
        return np.stack([1 - 0.5 * cover, 0.5 * cover], axis=1)

    def integrate(self, grid: Grid, start: Array, times: Array) -> Array:
        check_boundary(grid, "periodic", "The Gray–Scott solver needs a torus")
        from scipy.fft import irfft2

        fine = grid.refined([n * self.finer for n in grid.points])
        frames = np.empty((len(start), len(times), 2, *grid.points))
        frames[:, 0] = start
        spectrum = _refine_spectrum(start, self.finer)
        rates = self._decay(fine)
        reaction = partial(_reaction, feed=self.feed, points=fine.points)
        tables: dict[float, Coefficients] = {}
        every = (..., slice(None, None, self.finer), slice(None, None, self.finer))
        for t, interval in enumerate(np.diff(times), 1):
            steps = steps_between(interval, self.step)
            # Even frames differ by rounding errors: they share one table.
            dt = float(f"{interval / steps:.12g}")
            if dt not in tables:
                tables = {dt: Coefficients.of(rates, dt)}
            for _ in range(steps):
                spectrum = advance(spectrum, tables[dt], reaction)
            frames[:, t] = irfft2(spectrum, fine.points)[every]
            if not np.isfinite(frames[:, t]).all():
                raise FloatingPointError("numbers grow without bound, choose a smaller step")
        return frames

    def _decay(self, grid: Grid) -> Array:
        """The linear terms −δ κ² − f and −δ κ² − (f + k) of every mode: (2, n0, n1/2 + 1)."""
        (rows, cells), (dy, dx) = grid.points, grid.spacing
        along = (2 * np.pi * np.fft.fftfreq(rows, dy))[:, None] ** 2
        square = along + (2 * np.pi * np.fft.rfftfreq(cells, dx)) ** 2
        a = -self.diffusion_a * square - self.feed
        return np.stack([a, -self.diffusion_b * square - (self.feed + self.kill)])

    def reach(self, time: float, frames: Array) -> float:
        return diffused(max(self.diffusion_a, self.diffusion_b), time)

    @property
    def solver(self) -> str:
        return (
            f"Fourier series on a grid {self.finer} times finer along each axis, ETDRK4 with "
            f"steps of at most {self.step:g}, not dealiased, float64"
        )

    @property
    def flaws(self) -> tuple[str, ...]:
        return (
            "The equation, domain and rates are The Well's.  Its starts, random Fourier series and "
            "clusters of Gaussians, are described but not their distribution.  Ours: 4 to 24 "
            "clusters of 4 to 12 Gaussians, each 2 to 4 cells of 128 wide.",
            "Fronts are one to three cells of 128 wide.  Solved on those cells alone B is 2 to 7 % "
            "of its standard deviation off at t = 500, hence the solver's finer grid; frames are "
            "its values at points, not averages over cells.",
            "At the rates of 'bubbles' clusters of B recede: about half of it is left at t = 1000.",
        )


def _draw_clusters(grid: Grid, stream: np.random.Generator) -> Array:
    """How much of A is used up, 0 … 1: one minus a product over Gaussians of (1 − height)."""
    free = np.ones(grid.points)
    sides = [hi - lo for lo, hi in grid.extent]
    for _ in range(stream.integers(4, 24, endpoint=True)):
        centre = [stream.uniform(lo, hi) for lo, hi in grid.extent]
        for _ in range(stream.integers(4, 12, endpoint=True)):
            place = centre + stream.normal(0, 0.12, 2)
            width, height = stream.uniform(0.03, 0.06), stream.uniform(0.6, 1.0)
            bells = []
            for x, middle, side in zip(grid.coordinates(), place, sides, strict=True):
                away = (x - middle + side / 2) % side - side / 2
                bells.append(np.exp(-0.5 * (away / width) ** 2))
            free *= 1 - height * np.multiply.outer(*bells)
    return 1 - free


def _reaction(v: Array, feed: float, points: tuple[int, ...]) -> Array:
    """What the linear terms leave out, f − A B² and A B², in Fourier space."""
    from scipy.fft import irfft2, rfft2

    a, b = irfft2(v, points).swapaxes(0, 1)
    eaten = rfft2(a * b * b)
    rates = np.stack([-eaten, eaten], axis=1)
    rates[:, 0, 0, 0] += feed * np.prod(points)
    return rates


def _refine_spectrum(u: Array, times: int) -> Array:
    """The Fourier series of u (…, n0, n1) on a finer grid that shares its first point."""
    from scipy.fft import rfft2

    rows, cells = u.shape[-2:]
    v, top, right = rfft2(u), rows // 2, cells // 2
    if times == 1:
        return v
    # The highest wave of an even number of points stands for two of half its size.
    if rows % 2 == 0:
        v[..., top, :] *= 0.5
    if cells % 2 == 0:
        v[..., right] *= 0.5
    wide = np.zeros((*u.shape[:-2], rows * times, cells * times // 2 + 1), complex)
    wide[..., : top + 1, : right + 1] = v[..., : top + 1, :]
    wide[..., -top:, : right + 1] = v[..., rows - top :, :]
    return wide * times**2
