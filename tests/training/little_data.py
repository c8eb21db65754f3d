"""Tiny data sets for the tests of training; importable by the processes that tests start."""

from __future__ import annotations

from typing import Any

import numpy as np

import fino
from fino.data.dataset import Dataset
from fino.given import Given
from fino.model.emulator import Emulator


def waves(samples: int = 12, frames: int = 14, points: int = 32, seed: int = 0) -> Dataset:
    """Sine waves that move one cell and a half a frame, on a periodic line."""
    draw = np.random.default_rng(seed)
    x = np.arange(points) / points
    t = 1.5 * np.arange(frames)[:, None] / points
    modes = draw.integers(1, 4, (samples, 1, 1))
    phase, size = draw.uniform(0, 1, (samples, 1, 1)), draw.uniform(0.5, 1.5, (samples, 1, 1))
    u = size * np.sin(2 * np.pi * (modes * (x - t) + phase))
    return fino.from_array(
        u[:, :, None],
        dt=0.1,
        extent=(0, 1),
        boundary="periodic",
        name="waves",
        speed=1.5 / points / 0.1,
        symmetries=("shift", "sign"),
    )


def blobs(samples: int = 6, frames: int = 8, points: int = 24, seed: int = 0) -> Dataset:
    """Two diffusing fields on a square with walls."""
    u = np.random.default_rng(seed).normal(size=(samples, 2, points, points))
    series = []
    for _ in range(frames + 3):
        series.append(u)
        p = np.pad(u, ((0, 0), (0, 0), (1, 1), (1, 1)), mode="edge")
        near = p[..., 2:, 1:-1] + p[..., :-2, 1:-1] + p[..., 1:-1, 2:] + p[..., 1:-1, :-2]
        u = u + 0.2 * (near - 4 * u)
    return fino.from_array(
        np.stack(series[3:], axis=1),
        dt=0.1,
        extent=(0, 1),
        boundary="neumann",
        name="blobs",
        speed=0.1,
        symmetries=("flip", "rotate"),
    )


def pushed(samples: int = 12, frames: int = 10, points: int = 24, seed: int = 0) -> Dataset:
    """A damped line with everything beside it: θ, a known field, forcing, a mask, unequal ends."""
    draw = np.random.default_rng(seed)
    rate, depth = draw.uniform(0.05, 0.3, samples), draw.uniform(0.5, 1.5, (samples, points))
    wind = draw.normal(size=(samples, frames, points))
    u = draw.normal(size=(samples, points))
    series = []
    for t in range(frames):
        series.append(u)
        u = (1 - rate[:, None]) * u + 0.1 * depth * wind[:, t]
    outside = np.zeros(points, dtype=bool)
    outside[5:8] = True
    return fino.from_array(
        np.stack(series, axis=1)[:, :, None],
        dt=0.1,
        extent=(0, 1),
        boundary="neumann",
        name="pushed",
        speed=0.1,
        history=2,
        parameters={"rate": rate},
        known={"depth": depth},
        forcing={"wind": wind},
        mask=outside,
        walls="neumann",
    )


def little_fino(data: Dataset, **settings: Any) -> Emulator:
    return fino.build("fino", data, **{"width": 4, "levels": 1, "history": 3, **settings})


def begin(model, trajectories):
    """What a model is given of whole trajectories (b, t, c, *space), and their future."""
    return Given(trajectories[:, : model.history]), trajectories[:, model.history :]
