"""Every model learns: one CPU-minute on a small task, and it beats what needs no learning.

Slow: `pytest -m slow tests/model/test_learns.py`, a quarter of an hour on one core.
"""

from __future__ import annotations

import time

import pytest
import torch

import fino
from fino.data.dataset import Dataset
from fino.data.generate import generate
from fino.model import MODELS
from fino.model.baselines import baselines_for
from fino.model.emulator import Emulator
from fino.model.rollout import rollout

#: CPU-seconds of training for each model and task.
BUDGET = 60.0
SMALL = {"unet": {"width": 8, "levels": 3}}

every_model = pytest.mark.parametrize(
    "name", [name for name in MODELS if not name.startswith("neuralop")]
)


@pytest.fixture(scope="module")
def advection() -> Dataset:
    """A line of 64 cells on which profiles move three cells a step."""
    settings = {"points": 256, "frames": 41, "duration": 1.875, "beta": 1.0}
    return generate("advection", samples=80, **settings).strided(space=4)


@pytest.fixture(scope="module")
def darcy() -> Dataset:
    return generate("darcy", samples=200, points=32)


def trained(name: str, data: Dataset, history: int, budget: float) -> Emulator:
    """A model after so many CPU-seconds of one-step training with Adam."""
    model = fino.build(name, data, size="small", history=history, **SMALL.get(name, {}))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    trajectories, scale = data.train.all(), model.output_std.view(-1, *[1] * data.grid.dims)
    generator = torch.Generator().manual_seed(0)
    began = time.process_time()
    while (spent := (time.process_time() - began) / budget) < 1:
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 * (1 - spent)
        samples = torch.randint(len(trajectories), (8,), generator=generator)
        last = trajectories.shape[1] - history
        start = int(torch.randint(last, (1,), generator=generator))
        window = trajectories[samples, start : start + history + 1]
        error = (model(window[:, :history]) - window[:, history]) / scale
        optimizer.zero_grad()
        error.square().mean().backward()
        optimizer.step()
    return model.eval()


def rms(u: torch.Tensor) -> float:
    return u.square().mean().sqrt().item()


@pytest.mark.slow
@every_model
def test_it_learns_to_move_a_profile(name: str, advection: Dataset) -> None:
    history, steps = 4, 10
    model = trained(name, advection, history, BUDGET)
    u = advection.test.all()
    shown, truth = u[:, :history], u[:, history : history + steps]
    error = rms(rollout(model, shown, steps) - truth)
    baselines = baselines_for(advection, history)
    for baseline in ("persistence", "training-mean"):
        assert error < rms(baselines[baseline].trajectory(shown, steps) - truth), baseline


@pytest.mark.slow
@every_model
def test_it_learns_to_solve_darcy(name: str, darcy: Dataset) -> None:
    model = trained(name, darcy, 1, BUDGET)
    u = darcy.test.all()
    error = rms(rollout(model, u[:, :1], 1) - u[:, 1:])
    mean = baselines_for(darcy, 1)["training-mean"]
    assert error < rms(mean.trajectory(u[:, :1], 1) - u[:, 1:])
