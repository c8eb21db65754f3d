"""A tiny problem with an exact solution, so that `generate` can be tested without a solver."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from fino.grid import Grid
from fino.settings import Settings
from fino.streams import numpy_stream


class WaveSettings(Settings):
    beta: float = 0.5
    points: int = 16
    frames: int = 6
    bounded: bool = False
    burst: int = -1


@dataclass(frozen=True)
class Wave:
    """A sine wave that slides."""

    name: str = "wave"
    title: str = "A sliding wave"
    equation: str = "uₜ + β uₓ = 0"
    fields: tuple[str, ...] = ("u", "v")
    units: tuple[str, ...] = ("1", "1")
    symmetries: tuple[str, ...] = ("shift", "flip", "sign")
    steady: bool = False
    settings: type[Settings] = WaveSettings

    def grid(self, settings: Any) -> Grid:
        return Grid(
            (settings.points,), ((0.0, 1.0),), ("neumann" if settings.bounded else "periodic",)
        )

    def times(self, settings: Any) -> np.ndarray:
        return np.linspace(0, 1, settings.frames)

    def draw(self, settings: Any, grid: Grid, seed: int, samples: Sequence[int]) -> np.ndarray:
        phase = np.array([numpy_stream(seed, "wave", i).uniform() for i in samples])
        (x,) = grid.coordinates()
        return np.stack([f(2 * np.pi * (x + phase[:, None])) for f in (np.sin, np.cos)], axis=1)

    def solve(self, settings, grid, initial, times, progress=None):
        shifts = np.exp(
            -2j
            * np.pi
            * settings.beta
            * times[:, None]
            * np.fft.rfftfreq(grid.points[0], 1 / grid.points[0])
        )
        spectrum = np.fft.rfft(initial)[:, None] * shifts[None, :, None]
        frames = np.fft.irfft(spectrum, n=grid.points[0])
        if settings.burst >= 0:
            frames[0, settings.burst :] = np.inf
        if progress:
            progress(1.0)
        return frames

    def state(self, settings: Any, grid: Grid, frame: np.ndarray) -> np.ndarray:
        return frame

    def speed(self, settings: Any) -> float:
        return settings.beta

    def solver(self, settings: Any) -> str:
        return "exact"

    def flaws(self, settings: Any) -> tuple[str, ...]:
        return ("a toy",)


@pytest.fixture
def wave() -> Wave:
    return Wave()
