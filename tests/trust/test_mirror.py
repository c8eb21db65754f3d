"""The error of one rollout, asked of the mirror image of its start."""

import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

import fino
from fino.data.split import Split
from fino.metrics import nrmse
from fino.model.emulator import Emulator
from fino.trust.bands import calibrate
from fino.trust.mirror import Comparison, Mirror


def waves(samples=60, seed=0, **facts):
    """Standing waves of a few lengths, even in x about some point: mirror images are alike."""
    draw = np.random.default_rng(seed)
    x, t = np.arange(32) / 32, np.arange(12)[:, None]
    frames = [
        a * np.cos(0.3 * k * t) * np.cos(2 * np.pi * k * (x - shift))
        for a, k, shift in zip(
            draw.uniform(0.5, 2, samples),
            draw.integers(1, 4, samples),
            draw.random(samples),
            strict=True,
        )
    ]
    u = np.stack(frames)[:, :, None]
    facts = {"symmetries": ("flip",), **facts}
    data = fino.from_array(u, dt=0.1, extent=((0, 1),), boundary="periodic", history=2, **facts)
    return data.with_split(train=20, validation=30, test=10)


def model_for(data, **settings):
    """A linear prior and a little of a random network, which is not symmetric."""
    model = fino.build("fino", data, width=4, levels=0, **settings)
    model = scramble(model)
    model.output_std.mul_(0.05)
    model.trust = calibrate(model, data)
    return model


def scramble(model):
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in model.network.parameters():
            weight.add_(0.3 * torch.randn(weight.shape, generator=draw))
    return model.eval()


@pytest.fixture(scope="module")
def standing():
    data = waves()
    return model_for(data), data


@pytest.mark.parametrize(("name", "close"), [("advection", 0.9), ("diffusion-reaction-1d", 0.6)])
def test_estimates_of_a_shipped_model_follow_its_errors(name, close):
    """Errors of diffusion–reaction on a line differ by a factor of a hundred, near rounding."""
    run = fino.PRETRAINED[name]
    mirror = Mirror.of(run.model)
    given, future = run.test_data(20).test.begin(range(20), run.model.history)
    predicted = run.predict(given, future.shape[1])
    found = mirror.estimate(run.model, given, predicted)
    estimate = found.flatten(1).mean(1)
    true = nrmse(predicted, future).double().flatten(1).mean(1)
    ranks = torch.stack([u.argsort().argsort().double() for u in (estimate, true)])
    assert float(torch.corrcoef(ranks)[0, 1]) > 0.7
    assert float(((estimate / true).log().abs() < np.log(2)).double().mean()) >= close


def test_starts_with_noise_are_told_from_those_without():
    run = fino.PRETRAINED["diffusion-reaction-1d"]
    given, future = run.test_data(10).test.begin(range(10), run.model.history)
    draw = torch.Generator().manual_seed(1)
    noise = (
        0.01 * run.model.input_std.view(-1, 1) * torch.randn(given.history.shape, generator=draw)
    )
    mirror = Mirror.of(run.model)
    for start, usual in (
        (given, True),
        (replace(given, history=given.history + noise), False),
    ):
        frames = run.predict(start, future.shape[1])
        estimate = mirror.estimate(run.model, start, frames)
        within = mirror.in_usual_errors(estimate) <= mirror.limit
        assert float((within == usual).double().mean()) >= 0.9


def test_of_rollouts_as_in_validation_the_median_estimate_is_the_error(standing):
    model, data = standing
    mirror = Mirror.of(model)
    given, future = data.validation.begin(range(30), 2)
    frames = fino.rollout(model, given, future.shape[1])
    estimate = mirror.estimate(model, given, frames)
    error = nrmse(frames, future).double()
    ratio = (estimate / error).median(0).values
    torch.testing.assert_close(ratio, torch.ones_like(ratio), atol=0.05, rtol=0)


def test_a_network_that_has_the_symmetry_by_itself_tells_nothing():
    data = waves()
    model = fino.build("fino", data, width=4, levels=0, predict="increment").eval()
    model.output_std.zero_()
    assert "mirror" not in calibrate(model, data)


def test_shifts_alone_tell_nothing_of_a_network_without_levels_and_something_with_them():
    data = waves(symmetries=("shift",))
    found = [
        calibrate(scramble(fino.build("fino", data, width=4, levels=n, predict="increment")), data)
        for n in (0, 2)
    ]
    assert ["mirror" in trust for trust in found] == [False, True]


def test_a_motion_is_mirrored_with_its_frame():
    """The moved frame alone, û = u(x − s), commutes with the mirror image of frame and motion."""
    x = np.arange(32) / 32
    u = np.stack([np.cos(2 * np.pi * (x - 0.11 * t - 0.3)) for t in range(12)])[None, :, None]
    u = np.concatenate([u] * 6)
    data = fino.from_array(u, dt=0.1, extent=((0, 1),), boundary="periodic", symmetries=("flip",))
    data = data.with_split(train=4, validation=1, test=1)
    model = fino.build("fino", data, width=4, levels=0, predict="moved").eval()
    model.output_std.zero_()
    mirror = Mirror(["flip"], {"history": [None]}, [1], [[1.0]], [[1.0]], 2.0, [1], [1.0], [0.1], 1)
    given, future = data.test.begin([0], model.history)
    frames = fino.rollout(model, given, future.shape[1])
    assert float((frames[:, 0] - given.history[:, -1]).abs().max()) > 0.1
    assert float(mirror.disagreement(model, given, frames).max()) < 1e-4


def test_an_error_of_the_first_steps_lasts_as_far_as_validation_has_seen():
    mirror = Mirror(
        ["flip"], {}, [1, 4], [[1.0]] * 2, [[1.0]] * 2, 2.0, [1, 4], [0.5] * 2, [0.2] * 2, 9
    )
    estimate = torch.full((4, 1), 0.1, dtype=torch.float64)
    growth = torch.full((4, 1), 0.3, dtype=torch.float64)
    near, is_usual = mirror.carry_on(
        estimate, torch.full((1, 1), 0.14, dtype=torch.float64), growth
    )
    assert near.flatten().tolist() == pytest.approx([0.14] + [0.1 * 1.4**0.5] * 3)
    alike, is_unusual = mirror.carry_on(
        estimate, torch.full((1, 1), 2.0, dtype=torch.float64), growth
    )
    assert is_usual and not is_unusual
    assert alike.flatten().tolist() == pytest.approx([2.0] * 4)
    slower, _ = mirror.carry_on(estimate, torch.full((1, 1), 0.01, dtype=torch.float64), growth)
    assert slower.flatten().tolist() == pytest.approx([0.01] + [0.3] * 3)


def test_frames_that_diverge_say_nothing_of_those_before_them():
    compared = Comparison(None)
    for frame in (torch.ones(1, 1, 8), torch.full((1, 1, 8), torch.inf)):
        compared.add(frame, 1.5 * frame)
    assert float(compared.relative()[0, 0, 0]) == pytest.approx(0.5)


def test_cells_outside_of_a_mask_do_not_count():
    mask = torch.ones(1, 1, 8)
    mask[..., :4] = 0
    frame, other = torch.ones(1, 1, 8), torch.ones(1, 1, 8)
    other[..., :4] = 9
    compared = Comparison(mask)
    compared.add(frame, other)
    assert float(compared.relative()) == 0.0


def test_it_survives_parameters_a_mask_save_and_load(tmp_path):
    nu = 1 + np.arange(60) % 7 / 7
    outside = (np.arange(32) < 4) | (np.arange(32) >= 28)
    data = waves(parameters={"nu": nu}, mask=outside, walls="neumann")
    model = model_for(data, blocks=2)
    fino.save(model, tmp_path / "model")
    again, start = fino.load(tmp_path / "model"), data.test[0]
    assert again.trust["mirror"] == model.trust["mirror"]
    frames = fino.rollout(again, start, 4, tile=8)
    first, second = (fino.estimate_error(m, start, frames) for m in (model, again))
    assert first == second and first.error > 0


def test_it_needs_no_frames_and_says_what_is_unusual(standing, monkeypatch):
    model, data = standing
    start = data.test[0]
    frames = fino.rollout(model, start, len(start.future))
    found = fino.estimate_error(model, start)
    assert found == fino.estimate_error(model, start, frames) and found.is_usual
    assert re.fullmatch(
        r"nRMSE about \S+ by the mirror image, \S+ of the usual error\.", str(found)
    )
    monkeypatch.setitem(model.trust["mirror"], "limit", 0.01)
    line = r"of the usual error\. On validation data it stays below 0\.01\.$"
    with pytest.warns(UserWarning, match=line):
        fino.estimate_error(model, start.history, steps=4)
    with pytest.raises(ValueError, match=line):
        fino.estimate_error(model, start.given, steps=4, strict=True)


def test_mistakes_are_answered_in_one_line(standing):
    model, data = standing
    with pytest.raises(ValueError, match=r"should be given frames, or steps to predict\."):
        fino.estimate_error(model, data.test[0].history)
    with pytest.raises(ValueError, match=r"with \(1, 32\) behind the time, got \(1, 4, 1, 16\)\."):
        fino.estimate_error(model, data.test[0], torch.zeros(4, 1, 16))
    model = fino.build("fino", waves(symmetries=()), width=4, levels=0)
    with pytest.raises(
        ValueError, match=r"cannot be asked for a mirror image: its data declare no"
    ):
        fino.estimate_error(model, data.test[0])


def test_the_verb_and_evaluate_say_it(tmp_path):
    command = [sys.executable, "-m", "fino", "rollout", "diffusion-reaction-1d"]
    done = subprocess.run(
        [*command, "--check", "mirror", "--out", str(tmp_path / "u.npy")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"nRMSE about \S+ by the mirror image", done.stdout)
    wrong = subprocess.run([*command, "--check", "mirrror"], capture_output=True, text=True)
    assert wrong.returncode != 0 and "mirror" in wrong.stderr + wrong.stdout
    assert "or 'mirror', got 'mirrror'." in wrong.stderr
    run = fino.PRETRAINED["diffusion-reaction-1d"]
    data = run.test_data(6)
    scores = fino.evaluate(run.with_data(data), baselines=False)
    assert len(scores.trust["mirror"]["errors"]) == 6
    assert 0 <= scores.trust["mirror"]["within"] <= 1


def test_own_data_without_a_symmetry_are_calibrated_without_it():
    data = waves(symmetries=()).with_split(
        Split.of("all", train=range(40), validation=range(40, 60))
    )
    model = model_for(data)
    assert isinstance(model, Emulator) and "mirror" not in model.trust
