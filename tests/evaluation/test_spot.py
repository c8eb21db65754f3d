"""Spot checks find the error of a rollout for a small share of what the solution costs."""

import numpy as np
import pytest
import torch

import fino
from fino.evaluation.spot import _SPARE, _bound, _choose, _sizes, hold_out, spot_check
from fino.evaluation.worth import find_truth
from fino.metrics import nrmse
from fino.training.run import find_run
from fino.trust.bands import calibrate


@pytest.fixture(scope="module")
def waves():
    """A model of slow advection on a long line that is a little off."""
    data = fino.generate(
        "advection", 24, points=1024, stride_space=4, frames=31, duration=0.1, beta=0.1
    ).with_history(2)
    data = data.with_split(train=8, validation=12, test=4)
    model = fino.build("fino", data, predict="increment", width=4, levels=0, history=2).eval()
    model.output_std.mul_(0.3)
    model.trust = calibrate(model, data)
    return find_run(model, data), data


def true_errors(run, data, sample):
    given, future = data.test.begin([sample], run.model.history)
    predicted = run.predict(given, future.shape[1])
    return predicted[0], nrmse(predicted, future)[0].mean(1)


def test_what_the_solver_finds_is_the_true_error_of_the_steps_it_checked(waves):
    run, data = waves
    for sample in range(2):
        predicted, errors = true_errors(run, data, sample)
        check = spot_check(run, sample, predicted, part=data.test)
        assert check.method == "solver" and check.cost <= 0.05
        there = float(errors[: check.lead].mean())
        assert np.mean(check.found) == pytest.approx(there, rel=0.5)
        assert check.estimate == pytest.approx(float(errors.mean()), rel=0.5)
        assert "of a full solution" in str(check)


def test_an_error_that_grows_otherwise_than_in_validation_is_found_on_coarse_cells(waves):
    """Off the training data the first steps may be fine and the others not."""
    run, data = waves
    predicted, _ = true_errors(run, data, 1)
    future = data.test.begin([1], 2)[1]
    wave = torch.sin(2 * np.pi * torch.arange(256) / 256)
    late = (torch.arange(len(predicted)) / 8 - 1).clamp_min(0).view(-1, 1, 1)
    wrong = predicted + late * wave
    check = spot_check(run, 1, wrong, part=data.test)
    true = float(nrmse(wrong[None], future).mean())
    assert check.cost <= 0.05 and check.lead < 8
    assert check.estimate == pytest.approx(true, rel=0.3)
    assert check.bounds[0] <= true <= check.bounds[1]
    assert np.mean(check.found) < 0.1 * true


@pytest.mark.parametrize(("away", "found"), [(0.95, 0.002), (1.05, 0.002), (2.0, 3**0.5)])
def test_a_coarse_solution_says_nothing_of_errors_below_what_is_known_of_its_own(away, found):
    usual = torch.full((4, 1), 0.001, dtype=torch.float64)
    doubt = torch.ones_like(usual)
    whole, (low, high) = _bound(2 * usual, away * doubt, doubt, 1)
    assert whole[1:].flatten().tolist() == pytest.approx([found] * 3)
    assert low <= float(whole.mean()) <= high


def test_every_trajectory_is_solved_with_its_own_parameters(tmp_path):
    data = fino.generate(
        "advection", 16, points=256, stride_space=2, frames=24, duration=0.5, vary={"beta": "0.2,1"}
    ).with_history(2)
    data = data.with_split(train=6, validation=6, test=4)
    model = fino.build("fino", data, predict="increment", width=4, levels=0, history=2).eval()
    model.output_std.mul_(0.1)
    model.trust = calibrate(model, data)
    fino.save(model, tmp_path / "model")
    run = find_run(fino.load(tmp_path / "model"), data)
    for sample in range(2):
        given, future = data.test.begin([sample], 2)
        tiled = fino.rollout(run.model, given, future.shape[1], tile=64)
        errors = nrmse(tiled, future)[0].mean(1)
        check = spot_check(run, sample, tiled[0], part=data.test, share=0.2)
        assert check.method == "solver" and check.cost <= 0.2
        assert np.mean(check.found) == pytest.approx(float(errors[: check.lead].mean()), rel=0.2)
        assert check.estimate == pytest.approx(float(errors.mean()), rel=0.5)


def test_light_cones_of_places_are_as_exact_as_the_whole_domain(waves):
    run, data = waves
    truth = find_truth(run, data.test[:1], data.task(2), 1)
    whole = truth.solve(0, truth.full, {})[0]
    lead, margin = 12, int(0.1 * 12 * data.dt * 1024) + _SPARE
    window = (984 - margin, 1064 + margin)  # around the seam of the line
    part = truth.solve_window((window,), lead + 1)
    inner = part[-1, 0, margin:-margin]
    np.testing.assert_allclose(inner, whole[lead, 0, np.arange(984, 1064) % 1024], atol=2e-5)
    predicted, _ = true_errors(run, data, 0)
    crops = _choose(truth, predicted.double(), 0.3, None, data.dt)
    assert len(crops.boxes) > 1 and crops.cost <= 0.3 and crops.lead > 0.5 * len(predicted)
    future = data.test.begin([0], 2)[1][0].double()
    for box in crops.boxes:
        cells = np.arange(*box[0]) % 256
        np.testing.assert_allclose(crops._solve(box), future[: crops.lead, :, cells], atol=1e-4)
    assert crops.check(run, predicted.double()).cover < 0.9


def test_own_data_hold_out_frames_that_are_known(waves):
    run, data = waves
    own = fino.from_array(
        data.read(range(8)).numpy(), dt=data.dt, extent=(0, 1), boundary="periodic", history=2
    )
    check = spot_check(run.model, 0, part=own.test)
    assert check.method == "hold-out" and check.cost == 0.0
    assert str(check).startswith("Held out: nRMSE")
    frames = data.read([0])[0].numpy()
    late = hold_out(run.model, frames, 0.2)
    assert late.lead == 6
    start = torch.from_numpy(frames[None, :-6])
    predicted = fino.rollout(run.model, start[:, -2:], 6)
    error = nrmse(predicted, torch.from_numpy(frames[None, -6:])).mean()
    assert np.mean(late.found) == pytest.approx(float(error), rel=0.05)


def test_mistakes_are_answered_in_one_line(waves):
    run, data = waves
    with pytest.raises(ValueError, match=r"check should be a share of the cost such as 0.05, got"):
        spot_check(run, 0, share=5, part=data.test)
    with pytest.raises(ValueError, match="a hold-out needs more than the 2 frames"):
        hold_out(run.model, data.read([0])[0, :2].numpy())


def test_a_field_that_comes_to_rest_has_a_size_to_be_compared_with():
    known = torch.ones(4, 1, 8, dtype=torch.float64)
    known[2:] = 1e-9
    assert float(_sizes(known, known, None)[-1]) == pytest.approx(0.01 * 0.5**0.5, rel=1e-6)
