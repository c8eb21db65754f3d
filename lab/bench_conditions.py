"""`python -m lab bench conditions`: what each kind of condition brings on an awkward set of data.

    aₜ = ν ∇²a + 0.05 q(x, t) − 0.02 b        scale 1e-3
    bₜ = ν/2 ∇²b + 0.02 a                     scale 1e5

on 48 × 80 cells between walls and periodic, around an obstacle without flux; ν differs from
trajectory to trajectory, the heating q is known in advance, and 30 trajectories have 14 to 24
frames.  The same network is trained with more and more of what is known.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch

from fino.cli.console import progress, say_json, table
from fino.data.arrays import from_array
from fino.data.dataset import Dataset
from fino.model.build import build
from fino.model.rollout import rollout
from fino.training.fit import fit

__all__ = ["conditions", "measure_conditions"]

_POINTS, _SAMPLES, _FRAMES, _SUBSTEPS = (48, 80), 30, 25, 4


def conditions(
    *, cpu_seconds: float = 40.0, seeds: tuple[int, ...] = (0,), json: bool = False
) -> None:
    """Train with and without parameters, forcing and a mask: `python -m lab bench conditions`.

    Parameters
    ----------
    cpu_seconds
        The budget of each of the six trainings.
    seeds
        What first weights and batches are drawn from; errors are means over several.
    json
        Print the errors as JSON.
    """
    with progress("training", quiet=json) as show:
        found = measure_conditions(cpu_seconds, seeds, show)
    if json:
        say_json(found)
        return
    rows = [
        [name, *(f"{value:.2g}" for value in errors.values())] for name, errors in found.items()
    ]
    table(
        "nRMSE of rollouts outside of the obstacle", ["given", "both", "a", "b", "worst seed"], rows
    )


def measure_conditions(
    cpu_seconds: float,
    seeds: Sequence[int] = (0,),
    show: Callable[[float], None] | None = None,
) -> dict[str, dict[str, float]]:
    """The error of the same network with each set of conditions, in the mean over seeds."""
    trajectories, nu, heating, obstacle = simulate()
    every: dict[str, dict[str, Any]] = {
        "nothing": {},
        "ν": {"parameters": {"nu": nu}},
        "heating": {"forcing": {"heating": heating}},
        "obstacle": {"mask": obstacle},
        "ν, heating": {"parameters": {"nu": nu}, "forcing": {"heating": heating}},
    }
    every["ν, heating, obstacle"] = {**every["ν, heating"], "mask": obstacle}
    found = {}
    for done, (name, given) in enumerate(every.items(), start=1):
        data = from_array(
            trajectories,
            dt=1.0,
            extent=((0.0, 1.0), (0.0, 1.67)),
            boundary=("neumann", "periodic"),
            fields=("a", "b"),
            history=2,
            **given,
        ).with_split(
            test=range(0, _SAMPLES, 6),
            validation=range(3, _SAMPLES, 6),
            train=[i for i in range(_SAMPLES) if i % 3],
        )
        each = [_error(data, ~obstacle, cpu_seconds, seed) for seed in seeds]
        found[name] = {key: fmean(one[key] for one in each) for key in each[0]}
        found[name]["worst seed"] = max(one["both"] for one in each)
        if show is not None:
            show(done / len(every))
    return found


def _error(
    data: Dataset, inside: np.ndarray, cpu_seconds: float, seed: int = 0
) -> dict[str, float]:
    model = build("fino", data, width=16, levels=2, blocks=1, activation="gelu", seed=seed)
    with tempfile.TemporaryDirectory() as folder:
        run = fit(
            model, data, out=Path(folder) / "run", cpu_seconds=cpu_seconds, threads=1, seed=seed
        )
        given, future = data.test.begin(range(len(data.test)), model.history)
        predicted = rollout(run.model, given, future.shape[1])
    cells = torch.from_numpy(inside)
    error, size = ((u[..., cells]).square().mean(-1).sqrt() for u in (predicted - future, future))
    by_field = (error / size).mean(dim=(0, 1))
    return {"both": float(by_field.mean()), "a": float(by_field[0]), "b": float(by_field[1])}


def simulate(seed: int = 0) -> tuple[list[np.ndarray], np.ndarray, np.ndarray, np.ndarray]:
    """Trajectories (t, 2, *space), ν of each, the heating (sample, t, *space), the obstacle."""
    draw = np.random.default_rng(seed)
    obstacle = np.zeros(_POINTS, dtype=bool)
    obstacle[18:26, 30:42] = True
    y, x = np.linspace(0, 1, _POINTS[0])[:, None], np.arange(_POINTS[1])[None] / _POINTS[1]
    nu = np.exp(draw.uniform(np.log(0.02), np.log(0.2), _SAMPLES))
    lengths = draw.integers(14, _FRAMES, _SAMPLES)
    trajectories, heating = [], []
    for sample in range(_SAMPLES):
        waves = [(k, w) for k in range(3) for w in range(1, 4)]
        a = sum(
            draw.normal() * np.cos(np.pi * k * y) * np.sin(2 * np.pi * (w * x + draw.random()))
            for k, w in waves
        )
        b = 0.5 * a + draw.normal()
        phase, size = draw.uniform(0, 2 * np.pi), draw.uniform(0.5, 2)

        def heat(t: float, phase: float = phase, size: float = size) -> np.ndarray:
            return size * np.exp(-((y - 0.5) ** 2) / 0.05) * np.cos(2 * np.pi * x - 0.6 * t + phase)

        frames = _solve(a, b, float(nu[sample]), heat, (~obstacle).astype(float))
        trajectories.append(frames[: lengths[sample]])
        heating.append(np.stack([heat(float(t)) for t in range(int(lengths.max()))]))
    return trajectories, nu, np.stack(heating), obstacle


def _solve(
    a: Any, b: Any, nu: float, heat: Callable[[float], np.ndarray], inside: np.ndarray
) -> np.ndarray:
    frames, dt = [], 1 / _SUBSTEPS
    for frame in range(_FRAMES):
        frames.append(np.stack([1e-3 * a, 1e5 * b]))
        for substep in range(_SUBSTEPS):
            q = heat(frame + substep * dt)
            a = a + dt * inside * (nu * _laplacian(a, inside) + 0.05 * q - 0.02 * b)
            b = b + dt * inside * (0.5 * nu * _laplacian(b, inside) + 0.02 * a)
    return np.stack(frames).astype(np.float32)


def _laplacian(u: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """Differences of fluxes, none through a wall of axis 0 or into the obstacle."""
    total = np.zeros_like(u)
    for axis in (0, 1):
        flux = (np.roll(u, -1, axis) - u) * np.roll(inside, -1, axis) * inside
        if axis == 0:
            flux[-1] = 0
        total += flux - np.roll(flux, 1, axis)
    return total
