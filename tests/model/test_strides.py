"""One model for several lengths of a step: Δt is a parameter, a time is reached in few steps."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace

import numpy as np
import pytest
import torch

import fino
from fino.model.emulator import Emulator, fewest_steps
from fino.model.rollout import rollout
from fino.training.fit import Interrupted, fit, resume


def decaying(samples: int = 12, frames: int = 13, forcing: bool = False):
    """Waves that turn and decay, uₜ = −u/2 − uₓ/10 (+ a push by a known field), exact in time."""
    draw = np.random.default_rng(0)
    size, phase = draw.uniform(0.5, 1.5, (2, samples, 1, 1, 1))
    t, x = 0.1 * np.arange(frames)[None, :, None, None], np.arange(16) / 16
    u = size * np.exp(-0.5 * t) * np.sin(2 * np.pi * (x - 0.1 * t + phase))
    more = {}
    if forcing:
        push = np.cumsum(draw.normal(size=(samples, frames)), axis=1)
        u = u + push[:, :, None, None]
        rate = np.diff(push, axis=1, append=push[:, -1:])
        more = {"forcing": {"rate": rate}}
    return fino.from_array(
        u, dt=0.1, extent=(0, 1), boundary="periodic", speed=0.1, history=1, **more
    )


def built(data, strides=(1, 2, 4), **settings) -> Emulator:
    return fino.build("fino", data, strides=strides, width=4, levels=0, blocks=1, **settings)


@pytest.mark.parametrize(
    ("frames", "strides", "expected"),
    [
        (91, (1, 2, 4, 8), (8,) * 11 + (2, 1)),
        (6, (1, 3, 4), (3, 3)),
        (5, (1,), (1,) * 5),
        (0, (1, 2), ()),
    ],
)
def test_a_time_is_reached_with_the_fewest_steps(frames, strides, expected):
    assert fewest_steps(frames, strides) == expected


def test_a_flow_is_followed_over_every_stride_by_the_prior_alone():
    """Waves that move 0.7 cells a frame; three of the four nearest waves are resolved."""
    x, t = np.arange(32) / 32, np.arange(9)[None, :, None, None]
    phase = np.random.default_rng(0).uniform(0, 1, (8, 1, 1, 1))
    u = np.sin(2 * np.pi * (x - 0.7 / 32 * t + phase))
    data = fino.from_array(u, dt=0.1, extent=(0, 1), boundary="periodic", history=1)
    model = built(data)
    assert model.settings.predict == "moved"
    with torch.no_grad():
        model.network.head.weight.zero_(), model.network.head.bias.zero_()
    frames = data.test.all()
    for stride in model.strides:
        given = model.at_stride(fino.given.Given(frames[:, :1]), stride)
        torch.testing.assert_close(model(given), frames[:, stride], rtol=0, atol=1e-4)


def test_the_step_is_a_parameter_that_changes_the_answer_and_gets_a_gradient():
    model = built(decaying(), predict="increment")
    assert model.settings.given.parameters == ("dt",)
    history = torch.randn(2, 1, 1, 16)
    short = fino.rollout(model, history, 1)
    assert torch.equal(short, fino.rollout(model, history, 1, parameters={"dt": 0.1}))
    assert not torch.allclose(short, fino.rollout(model, history, 1, parameters={"dt": 0.4}))
    with pytest.warns(UserWarning, match=r"dt = 0.8 lies outside of the range .* 0.1 to 0.4"):
        fino.rollout(model, history, 1, parameters={"dt": 0.8})


def test_each_stride_has_the_spread_of_its_own_increments():
    data = decaying()
    model = built(data, predict="increment")
    for place, stride in enumerate(model.strides):
        view = data.strided(time=stride).train.all()
        expected = view.diff(dim=1).std(unbiased=False)
        assert float(model.output_std[place, 0]) == pytest.approx(float(expected), rel=1e-3)


def test_kept_frames_are_reached_by_the_longest_steps_that_fit():
    model = built(decaying(), predict="increment")
    history = torch.randn(2, 1, 1, 16)
    kept = fino.rollout(model, history, 14, every=7)
    by_hand, frame = [], history
    for stride in (4, 2, 1, 4, 2, 1):
        frame = rollout(model, model.at_stride(fino.given.Given(frame), stride), 1)
        by_hand.append(frame)
    torch.testing.assert_close(kept, torch.cat([by_hand[2], by_hand[5]], dim=1))
    every_frame = fino.rollout(model, history, 14)
    assert not torch.allclose(kept[:, 0], every_frame[:, 6])


def test_forcing_is_read_at_both_ends_of_every_step():
    data = decaying(forcing=True)
    model, sample = built(data, predict="increment"), data.test[0]
    kept = fino.rollout(model, sample, 8, every=4)
    given, by_hand = sample.given, []
    for _ in range(2):
        by_hand.append(model(model.at_stride(given, 4)))
        given = replace(given.at(4), history=by_hand[-1][:, None])
    torch.testing.assert_close(kept, torch.cat(by_hand))


def test_jumps_in_tiles_and_regions_are_those_of_the_whole():
    model = built(decaying(), predict="increment").double()
    history = torch.randn(1, 1, 1, 64, dtype=torch.float64)
    whole = fino.rollout(model, history, 12, every=6)
    tiled = fino.rollout(model, history, 12, every=6, tile=16)
    region = fino.rollout(model, history, 12, every=6, region=((10, 20),))
    torch.testing.assert_close(tiled, whole, rtol=0, atol=1e-12)
    torch.testing.assert_close(region, whole[..., 10:20], rtol=0, atol=1e-12)


def test_a_model_of_two_strides_is_trained_saved_loaded_and_resumed_exactly(tmp_path):
    data = decaying()
    settings = {"steps": 12, "batch": 4, "horizon": 2, "validations": 2, "seed": 1}
    straight = fit(built(data, strides=(1, 4)), data, out=tmp_path / "straight", **settings)

    def stop(happened):
        if happened.step == 5:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted):
        fit(built(data, strides=(1, 4)), data, out=tmp_path / "cut", progress=stop, **settings)
    resumed = resume(tmp_path / "cut", data)
    assert straight.metrics[-1]["step"] == resumed.metrics[-1]["step"] == 12
    assert resumed.model.strides == (1, 4)
    loaded = fino.load(straight.folder / "model")
    history = data.test.all()[:, :1]
    torch.testing.assert_close(
        fino.rollout(loaded, history, 8, every=4), fino.rollout(straight, history, 8, every=4)
    )
    for name, value in loaded.state_dict().items():
        assert torch.equal(value, resumed.model.state_dict()[name]), name


def test_the_command_line_trains_and_rolls_out_several_strides(tmp_path, capsys):
    from fino.cli.app import app

    def run(*words: str) -> None:
        app([*words], exit_on_error=False, result_action="return_value")

    fino.generate(
        "diffusion-reaction-1d", samples=20, points=32, frames=9, out=tmp_path / "data.h5"
    )
    train = ["train", "--data", str(tmp_path / "data.h5"), "--steps", "2", "--json"]
    train += ["--set", "model.strides=[1, 4]", "--set", "model.width=4", "--out"]
    run(*train, str(tmp_path / "run"))
    assert json.loads(capsys.readouterr().out)["steps"] == 2
    out = tmp_path / "end.npy"
    run("rollout", str(tmp_path / "run"), "--steps", "8", "--every", "8", "--out", str(out))
    assert np.load(out).shape == (1, 1, 32)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"strides": (2, 4)}, "strides should begin with 1 and be at most 12"),
        ({"strides": (1, 13)}, "be at most 12 for trajectories of 13 frames, got (1, 13)"),
        ({"strides": (1, 2), "history": 3}, "strides go with a history of one frame, got 3"),
        ({"strides": (1, 2), "predict": "linear"}, "is fitted to one length of a step"),
    ],
)
def test_strides_that_cannot_be_are_refused_in_a_line(settings, message):
    with pytest.raises(ValueError) as error:
        fino.build("fino", decaying(), **settings)
    assert message in str(error.value)


def test_the_light_cone_says_which_strides_the_reach_allows():
    x = np.arange(64) / 64
    phase = np.random.default_rng(0).uniform(0, 1, (8, 1, 1, 1))
    t = np.arange(9)[None, :, None, None]
    u = np.sin(2 * np.pi * (x - t / 32 + phase))
    data = fino.from_array(u, dt=1.0, extent=(0, 1), boundary="periodic", speed=1 / 32, history=1)
    with pytest.raises(ValueError) as error:
        fino.build("fino", data, strides=(1, 2, 8), levels=0, blocks=2, predict="increment")
    assert "a step of 8 frames moves the data 16 cells, farther than the model sees (4)" in str(
        error.value
    )
    assert "Its reach allows strides=(1, 2); use these, or more levels." in str(error.value)
