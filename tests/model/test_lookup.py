"""Looked up, or by a straight line: what an input says about its answer without a network."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fino.data.arrays import from_array
from fino.data.dataset import Dataset
from fino.model.baselines import baselines_for
from fino.model.lookup import Analogue, BlendedTrajectories, NearestTrajectory, Regression

CELLS = 12


def steady(inputs: np.ndarray, answers: np.ndarray) -> Dataset:
    """Pairs (n, cells) ×2 as a steady data set on a line."""
    u = np.stack([inputs, answers], axis=1)[:, :, None]
    return from_array(u, dt=1.0, extent=(0, 1), boundary="periodic", steady=True)


def patterns(samples: int = 60, count: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Inputs made of a few patterns about a mean, and a linear answer with a mean of its own."""
    rng = np.random.default_rng(1)
    shapes, answers = rng.normal(size=(2, count, CELLS))
    amounts = rng.normal(size=(samples, count))
    return 5 + amounts @ shapes, 100 + amounts @ answers


def test_regression_finds_a_linear_answer_to_a_few_patterns() -> None:
    data = steady(*patterns())
    baseline = Regression.fit(data, 1)
    assert baseline is not None and baseline.weights.shape == (3, CELLS)
    u = data.test.all()
    assert torch.allclose(baseline(u[:, :1]), u[:, 1], rtol=1e-5)


def test_regression_of_answers_that_do_not_depend_on_the_input_is_their_mean() -> None:
    rng = np.random.default_rng(0)
    data = steady(rng.normal(size=(600, CELLS)), 100 + rng.normal(size=(600, CELLS)))
    baseline, mean = Regression.fit(data, 1), data.train.all(1, 1).mean(dim=0)[0]
    assert baseline is not None
    assert torch.allclose(baseline(data.test.all(0, 1)), mean.expand(60, 1, -1), rtol=0.005)


def test_regression_does_not_trust_patterns_that_are_rounding() -> None:
    inputs, answers = patterns()
    still = np.full_like(inputs, 3.0)
    baseline = Regression.fit(steady(still, answers), 1)
    assert baseline is not None and baseline.weights.shape[0] == 0
    assert torch.isfinite(baseline(torch.full((2, 1, 1, CELLS), 3.0))).all()


def test_analogues_are_of_the_same_kind_and_average_its_noise_away() -> None:
    rng = np.random.default_rng(0)
    kind = np.arange(80) % 2
    inputs = 10.0 * kind[:, None] + 0.1 * rng.normal(size=(80, CELLS))
    answers = np.where(kind[:, None] == 1, 7.0, -3.0) + 0.01 * rng.normal(size=(80, CELLS))
    data = steady(inputs, answers)
    baseline = Analogue.fit(data, 1)
    assert baseline is not None and baseline.neighbours > 1, "several average the noise away"
    u = data.test.all()
    assert torch.allclose(baseline(u[:, :1]), u[:, 1], atol=0.05)


def test_the_nearest_alone_is_taken_where_the_rest_is_far() -> None:
    inputs = np.repeat(np.arange(30.0), 2)[:, None] * np.ones(CELLS)
    answers = 1 + (inputs * 7919) % 13
    baseline = Analogue.fit(steady(inputs, answers), 1)
    assert baseline is not None and baseline.neighbours == 1


def test_neither_is_offered_where_time_passes_or_nothing_was_seen() -> None:
    u = np.random.default_rng(0).normal(size=(20, 12, 1, 8))
    moving = from_array(u, dt=0.1, extent=(0, 1), boundary="periodic")
    assert not {"analogue", "regression"} & set(baselines_for(moving))


@pytest.mark.parametrize("name", ["analogue", "regression"])
def test_a_trajectory_is_the_answer(name: str) -> None:
    data = steady(*patterns())
    baseline, given = baselines_for(data)[name], data.test.all(0, 1)
    assert torch.equal(baseline.trajectory(given, 1)[:, 0], baseline(given))


def family(samples: int = 40) -> Dataset:
    """A one-parameter family: a profile that decays, its height drawn at random."""
    rng = np.random.default_rng(2)
    height = rng.uniform(1, 2, (samples, 1, 1, 1))
    time = np.arange(10)[None, :, None, None]
    profile = np.sin(2 * np.pi * np.arange(CELLS) / CELLS)
    u = height * np.exp(-0.1 * time) * profile + 3
    return from_array(u, dt=1.0, extent=(0, 1), boundary="periodic")


def test_a_trajectory_of_the_training_part_is_found_and_continued() -> None:
    data = family()
    baseline = NearestTrajectory.fit(data, data.history)
    assert baseline is not None
    u = data.train.all()
    shown = data.history
    assert torch.equal(baseline.trajectory(u[:, :shown], 5), u[:, shown:])


def test_the_nearest_trajectory_is_the_one_with_the_nearest_height() -> None:
    data = family()
    baseline = NearestTrajectory.fit(data, data.history)
    train, test, shown = data.train.all(), data.test.all(), data.history
    heights = train[:, 0, 0].amax(dim=1)
    nearest = (test[:, 0, 0].amax(dim=1)[:, None] - heights).abs().argmin(dim=1)
    assert torch.equal(baseline.trajectory(test[:, :shown], 5), train[nearest, shown:])


def test_blending_neighbours_solves_a_linear_family() -> None:
    data = family()
    nearest, blended = (
        kind.fit(data, data.history) for kind in (NearestTrajectory, BlendedTrajectories)
    )
    test, shown = data.test.all(), data.history
    truth = test[:, shown:]
    errors = [
        float((one.trajectory(test[:, :shown], 5) - truth).norm() / truth.norm())
        for one in (nearest, blended)
    ]
    assert errors[1] < 1e-4 < errors[0]


def test_a_lookup_past_the_end_of_the_training_says_how_far_it_goes() -> None:
    data = family()
    baseline = NearestTrajectory.fit(data, data.history)
    with pytest.raises(ValueError, match=r"cannot be looked up for 6 steps .* at most 5"):
        baseline.trajectory(data.test.all()[:, : data.history], 6)


def test_trajectories_are_looked_up_only_where_there_is_time() -> None:
    assert {"nearest-trajectory", "blended-trajectories"} <= set(baselines_for(family()))
    assert not {"nearest-trajectory", "blended-trajectories"} & set(
        baselines_for(steady(*patterns()))
    )
