"""A tiny problem with an exact solution, so that `generate` can be tested without a solver."""

from collections.abc import Sequence

import numpy as np
import pytest

from fino.grid import Grid
from fino.pde import Problem
from fino.streams import numpy_stream


class Wave(Problem):
    """A sine wave that slides."""

    name = "wave"
    title = "A sliding wave"
    equation = "uₜ + β uₓ = 0"
    fields = ("u", "v")
    units = ("1", "1")
    symmetries = ("shift", "flip", "sign")
    together = 1000

    beta: float = 0.5
    points: int = 16
    frames: int = 6
    bounded: bool = False
    burst: int = -1

    @property
    def grid(self) -> Grid:
        return Grid((self.points,), ((0.0, 1.0),), ("neumann" if self.bounded else "periodic",))

    @property
    def times(self) -> np.ndarray:
        return np.linspace(0, 1, self.frames)

    def draw(self, grid: Grid, seed: int, samples: Sequence[int]) -> np.ndarray:
        phase = np.array([numpy_stream(seed, "wave", i).uniform() for i in samples])
        (x,) = grid.coordinates()
        return np.stack([f(2 * np.pi * (x + phase[:, None])) for f in (np.sin, np.cos)], axis=1)

    def integrate(self, grid: Grid, start: np.ndarray, times: np.ndarray) -> np.ndarray:
        k = 2 * np.pi * np.fft.rfftfreq(grid.points[0], 1 / grid.points[0])
        shifts = np.exp(-1j * self.beta * times[:, None] * k)
        spectrum = np.fft.rfft(start)[:, None] * shifts[None, :, None]
        frames = np.fft.irfft(spectrum, n=grid.points[0])
        if self.burst >= 0:
            frames[0, self.burst :] = np.inf
        return frames

    @property
    def speed(self) -> float:
        return self.beta

    @property
    def solver(self) -> str:
        return "exact"

    @property
    def flaws(self) -> tuple[str, ...]:
        return ("a toy",)


@pytest.fixture
def wave() -> Wave:
    return Wave()
