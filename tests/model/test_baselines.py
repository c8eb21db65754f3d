"""The baselines: what they predict, and that they are fitted on the training part alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fino.data.arrays import from_array
from fino.data.dataset import Dataset
from fino.data.generate import generate
from fino.evaluation.evaluate import evaluate
from fino.model.baselines import BASELINES, Persistence, Solver, baselines_for
from fino.model.rollout import rollout
from fino.pde import PROBLEMS


def waves(speed: int, samples: int = 20, frames: int = 21) -> Dataset:
    """Profiles that move `speed` of 40 cells a step."""
    rng = np.random.default_rng(0)
    profile = rng.normal(size=(samples, 1, 40))
    u = np.stack([np.roll(profile, speed * t, axis=-1) for t in range(frames)], axis=1)
    return from_array(u, dt=0.1, extent=(0, 1), boundary="periodic")


def test_persistence_repeats_the_last_frame() -> None:
    data = waves(8)
    baseline, u = baselines_for(data)["persistence"], data.test.all()
    assert torch.equal(baseline(u[:, :10]), u[:, 9])
    assert torch.equal(baseline.trajectory(u[:, :10], 3), u[:, 9:10].expand(-1, 3, -1, -1))


def test_the_best_lag_of_a_wave_that_returns_in_five_steps_is_five() -> None:
    data = waves(8)
    baseline, u = baselines_for(data)["best-lag"], data.test.all()
    assert baseline.lag == 5
    assert torch.equal(baseline.trajectory(u[:, :10], 11), u[:, 10:])


def test_a_rollout_of_a_baseline_is_its_trajectory() -> None:
    data = waves(8)
    history = data.test.all()[:, :10]
    for name in ("persistence", "best-lag", "climatology"):
        baseline = baselines_for(data)[name]
        assert torch.equal(rollout(baseline, history, 7), baseline.trajectory(history, 7)), name


def test_means_are_those_of_the_training_part() -> None:
    data = waves(8)
    baselines, u = baselines_for(data), data.train.all()
    history = data.test.all()[:, :10]
    at_time, ever = baselines["training-mean"], baselines["climatology"]
    assert torch.allclose(at_time.trajectory(history, 4)[0], u[:, 10:14].mean(dim=0), atol=1e-6)
    assert torch.allclose(ever(history)[0], u.mean(dim=(0, 1)), atol=1e-6)


def test_the_training_mean_says_when_it_knows_no_more_frames() -> None:
    data = waves(8)
    history = data.test.all()[:, :10]
    with pytest.raises(ValueError, match=r"knows 21 frames .* Ask for at most 11"):
        baselines_for(data)["training-mean"].trajectory(history, 12)


def test_steady_data_have_the_mean_answer_as_a_baseline() -> None:
    u = np.random.default_rng(0).normal(size=(20, 2, 1, 8, 8))
    data = from_array(u, dt=1.0, extent=(0, 1), boundary="dirichlet", steady=True)
    baselines = baselines_for(data)
    assert set(baselines) == {"training-mean", "analogue", "regression"}
    answer = baselines["training-mean"](data.test.all(0, 1))
    assert torch.allclose(answer[0], data.train.all()[:, 1].mean(dim=0), atol=1e-6)


def test_the_solver_is_exact_on_its_own_grid_even_where_momenta_are_not_saved() -> None:
    data = generate("shallow-water", samples=10, points=16, frames=13)
    baseline, u = baselines_for(data)["solver"], data.test.all()
    history, future = u[:, :6], u[:, 6:]
    assert torch.allclose(baseline.trajectory(history, 7), future, atol=1e-6)
    assert isinstance(baseline, Solver)
    assert baseline.seconds is not None and baseline.seconds > 0
    with pytest.raises(ValueError, match="does not hold all that its solver needs"):
        baseline(history)


def test_the_solver_steps_from_a_frame_that_holds_the_whole_state() -> None:
    data = generate("shallow-water-momenta", samples=10, points=16, frames=13)
    baseline, u = baselines_for(data)["solver"], data.test.all()
    assert torch.allclose(baseline(u[:, :6]), u[:, 6], atol=1e-6)


def test_the_solver_on_strided_data_is_near_and_beats_persistence() -> None:
    data = generate("shallow-water", samples=10, points=64, frames=41).strided(space=2, time=2)
    baselines, u = baselines_for(data), data.test.all()
    history, future = u[:, :10], u[:, 10:]

    def error(name: str) -> float:
        predicted = baselines[name].trajectory(history, future.shape[1])
        return (predicted - future).square().mean().sqrt().item()

    assert error("solver") < 0.5 * error("persistence")


def test_the_solver_of_a_relaxation_from_a_hidden_start_begins_at_the_mean_of_the_others() -> None:
    data = generate("darcy-pdebench", samples=12, points=16)
    baselines, u = baselines_for(data), data.test.all()
    assert set(baselines) == {"training-mean", "analogue", "regression", "solver"}
    given, answer = u[:, :1], u[:, 1:]
    errors = {
        name: (baseline.trajectory(given, 1) - answer).square().mean()
        for name, baseline in baselines.items()
    }
    assert errors["solver"] < errors["training-mean"]
    problem = PROBLEMS["darcy-pdebench"](points=16)
    starts = problem.draw(data.grid, 0, data.train.samples)[:, 1]
    state = np.stack([given[:, 0, 0].numpy(), np.full((len(u), 16, 16), starts.mean())], axis=1)
    solved = problem.solve(data.grid, state)
    assert np.allclose(baselines["solver"].trajectory(given, 1), solved[:, 1:], atol=1e-6)


def test_data_without_a_known_problem_have_no_solver() -> None:
    assert "solver" not in baselines_for(waves(3))


def test_every_baseline_says_what_it_is() -> None:
    assert all(baseline.title for baseline in BASELINES.values())


def test_the_solver_knows_the_parameters_of_each_trajectory() -> None:
    data = generate(
        "advection", 6, vary={"beta": (0.5, 2.0)}, points=32, frames=6, duration=0.2
    ).with_history(2)
    baseline = baselines_for(data)["solver"]
    given, future = data.train.begin(range(len(data.train)))
    exact = baseline.trajectory(given.history, future.shape[1], given.parameters)
    assert torch.allclose(exact, future, atol=1e-5)
    with pytest.raises(ValueError, match="needs beta of each trajectory"):
        baseline.trajectory(given.history, 2)
    scores = evaluate(Persistence(data.grid), data)
    assert scores.baselines["solver"]["nrmse"].value < 1e-5
