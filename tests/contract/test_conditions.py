"""Parameters, known fields, forcing and masks: what every model does with what it is given."""

from __future__ import annotations

import signal
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

import fino
from fino.data.symmetry import Move, directions_of, move_each
from fino.inference.local import local_step
from fino.model import MODELS
from fino.training.batch import draw_batch
from fino.training.fit import Interrupted, resume
from fino.training.settings import TrainingSettings

TINY = {
    "fino": {"width": 4, "levels": 1},
    "plain": {"width": 4, "levels": 1, "activation": "gelu"},
    "unet": {"width": 2, "levels": 1},
    "cnext-unet": {"width": 8, "levels": 1, "blocks": 1, "radius": 1, "layer_scale": 0.1},
    "dilated-resnet": {"width": 4, "blocks": 1, "dilations": (1, 2, 1)},
    "percnn": {"width": 4},
    "fno": {"width": 4, "modes": 3, "layers": 2, "head": 8},
    "ufno": {"width": 4, "modes": 3, "layers": 2, "paths": 1, "head": 8},
    "ffno": {"width": 4, "modes": 3, "layers": 2, "factor": 2, "head": 8},
    "local-fno": {"width": 4, "modes": 3, "layers": 2, "head": 8},
    "transolver": {"width": 8, "heads": 2, "slices": 4, "layers": 2},
}
LOCAL = ["fino", "plain", "unet", "cnext-unet", "dilated-resnet", "percnn"]
every_model = pytest.mark.parametrize("name", list(MODELS))
every_local = pytest.mark.parametrize("name", LOCAL)
N, FRAMES, POINTS = 12, 8, (48, 32)


def world(walls="neumann", **less):
    """Two fields between walls, with everything that a trajectory may be given."""
    draw = np.random.default_rng(0)
    u = draw.normal(size=(N, FRAMES, 2, *POINTS)).cumsum(axis=1)
    outside = np.zeros(POINTS, dtype=bool)
    outside[20:26, 8:15] = True
    facts = {
        "parameters": {"nu": np.geomspace(1e-3, 1.0, N), "speed": draw.uniform(1, 2, N), "g": 9.81},
        "known": {"depth": draw.uniform(1, 2, (N, *POINTS))},
        "forcing": {"wind": draw.normal(size=(N, FRAMES, *POINTS)), "tide": np.arange(FRAMES)},
        "mask": outside,
        "walls": walls,
        "turning": {"speed": 0},
    }
    facts = {key: value for key, value in facts.items() if key not in less}
    boundary = ("neumann", "periodic")
    return fino.from_array(
        u, dt=0.1, extent=((0, 3), (0, 2)), boundary=boundary, history=2, **facts
    )


def build(name, data, **settings):
    model = fino.build(name, data, predict="increment", **{**TINY.get(name, {}), **settings}).eval()
    return model


def test_a_sample_carries_all_that_is_known_about_it():
    data = world()
    given = data.test[0].given
    assert given.parameters.shape == (1, 2) and data.card.parameters == {"g": 9.81}
    assert given.known.shape == (1, 1, *POINTS)
    assert given.forcing.shape == (1, FRAMES - 1, 1, *POINTS) and given.signals.shape == (1, 7, 1)
    assert given.signals[0, :, 0].tolist() == [1, 2, 3, 4, 5, 6, 7]  # from the newest frame on
    assert given.mask.shape == (1, 1, *POINTS) and 0 < given.mask.mean() < 1
    assert torch.equal(given.history[0, 0, 0][given.mask[0, 0] == 0], torch.zeros(42))
    assert list(data.parameters) == ["nu", "speed"] and len(data.parameters["nu"]) == N


@every_model
def test_parameters_change_the_answer_and_get_a_gradient(name):
    data = world()
    model = build(name, data)
    given = data.train.begin([0], model.history)[0]
    theta = given.parameters.clone().requires_grad_()
    out = model(replace(given, parameters=theta))
    (gradient,) = torch.autograd.grad(out.square().sum(), theta)
    assert (gradient != 0).all()
    other = model(replace(given, parameters=given.parameters * torch.tensor([3.0, 1.0])))
    assert not torch.allclose(out, other, rtol=1e-6)


@every_model
@pytest.mark.parametrize("kind", ["known", "forcing", "signals"])
def test_what_is_known_changes_the_answer(name, kind):
    data = world()
    model = build(name, data)
    given = data.train.begin([0], model.history)[0]
    changed = replace(given, **{kind: given.beside[kind] + 1.0})
    assert not torch.allclose(model(given), model(changed), rtol=1e-6)


@every_model
@pytest.mark.parametrize("walls", ["neumann", "dirichlet"])
def test_values_under_the_mask_cannot_change_the_answer(name, walls):
    data = world(walls)
    model = build(name, data)
    given = data.train.begin([0], model.history)[0]
    outside = 1 - given.mask.unsqueeze(1)
    rubbish = given.history + outside * 1e3 * torch.randn_like(given.history)
    again = model(replace(given, history=rubbish))
    assert torch.equal(model(given), again)
    assert torch.equal(again * (1 - given.mask), torch.zeros_like(again))


def test_no_flux_continues_the_field_into_the_mask_and_zero_does_not():
    from fino.grid import Grid
    from fino.model.conditioning import extend

    grid = Grid((8,), ((0, 1),), ("periodic",))
    u = torch.arange(1.0, 9.0).view(1, 1, 8)
    mask = torch.tensor([1.0, 1, 1, 0, 0, 0, 1, 1]).view(1, 1, 8)
    far = torch.tensor([-1.0]).view(1, 1)
    assert extend(u, mask, grid, "neumann", far).flatten().tolist() == [1, 2, 3, 3, 5, 7, 7, 8]
    assert extend(u, mask, grid, "dirichlet", far).flatten().tolist() == [1, 2, 3, 0, 0, 0, 7, 8]


@every_local
@pytest.mark.parametrize("walls", ["neumann", "dirichlet"])
def test_tiles_are_the_whole_with_all_that_is_given(name, walls):
    data = world(walls)
    model = build(name, data).double()
    sample = data.train[0]
    given = sample.given.to(torch.float64)
    whole = fino.rollout(model, given, 4)
    tiled = fino.rollout(model, given, 4, tile=16)
    assert tiled.shape == whole.shape == (1, 4, 2, *POINTS)
    torch.testing.assert_close(tiled, whole, rtol=1e-12, atol=1e-12)
    single = build(name, data)
    torch.testing.assert_close(
        fino.rollout(single, sample, 4, tile=16),
        fino.rollout(single, sample, 4),
        rtol=1e-5,
        atol=1e-6,
    )


def test_a_halo_one_stride_too_small_is_noticed():
    data = world()
    model = build("fino", data).double()
    given = data.train[0].given.to(torch.float64)
    step = local_step(model, POINTS, given)
    box = ((16, 32), (8, 24))
    whole = fino.rollout(model, given, 1)[0, 0]

    def inside(step):
        pairs = [(0, box)]
        shown = step.given(pairs, 1, lambda sample, window: take(given.history[0], window))
        return next(step.frames(shown, box, 1))[0]

    wanted = whole[:, 16:32, 8:24]
    torch.testing.assert_close(inside(step), wanted, rtol=1e-12, atol=1e-12)
    narrow = replace(step.locality, radius=tuple(r - 5 for r in step.locality.radius))
    assert not torch.allclose(inside(replace(step, locality=narrow)), wanted, rtol=1e-9)


def take(u, window):
    for axis, (start, stop) in enumerate(window, start=u.dim() - len(window)):
        u = u.index_select(axis, torch.arange(start, stop) % u.shape[axis])
    return u


@pytest.mark.parametrize("condition", ["film", "channels"])
def test_a_conditioned_fino_sees_no_farther_than_it_says(condition):
    data = world()
    model = build("fino", data, condition=condition).double()
    given = data.test[0].given.to(torch.float64)
    history = given.history.clone().requires_grad_()
    out = model(replace(given, history=history))
    (gradient,) = torch.autograd.grad(out[0, :, 24, 16].sum(), history)
    rows = gradient.abs().sum(dim=(0, 1, 2, 4)).nonzero().flatten() - 24
    assert int(rows.abs().max()) <= model.locality.radius[0]


@every_model
def test_a_conditioned_model_survives_saving(name, tmp_path):
    data = world()
    model = build(name, data)
    fino.save(model, tmp_path / "model")
    again = fino.load(tmp_path / "model")
    given = data.test[0].given
    assert torch.equal(model(given), again(given))
    assert again.settings.given.parameters == ("nu", "speed")


def test_training_with_everything_is_exact_to_resume(tmp_path):
    data = world()
    settings = {"steps": 6, "batch": 2, "threads": 1, "validations": 2, "checkpoint_seconds": 0}

    def stop(happened):
        if happened.step == 3:
            signal.raise_signal(signal.SIGINT)

    whole = fino.fit(build("fino", data), data, out=tmp_path / "whole", **settings)
    with pytest.raises(Interrupted):
        fino.fit(build("fino", data), data, out=tmp_path / "half", progress=stop, **settings)
    again = resume(tmp_path / "half", data)
    ours, theirs = whole.model.state_dict(), again.model.state_dict()
    assert all(torch.equal(ours[key], theirs[key]) for key in ours)
    assert not torch.equal(
        ours["network.embed.0.weight"], build("fino", data).network.embed[0].weight
    )


def test_mirrors_turn_what_points_across_them():
    data = world()
    given, future = data.train.begin([0], 2)
    turned, _ = move_each(given, future, directions_of(data.card), [Move({}, (0,), False, False)])
    assert torch.equal(turned.parameters, given.parameters * torch.tensor([1.0, -1.0]))
    assert torch.equal(turned.mask, given.mask.flip(2))
    assert torch.equal(turned.forcing, given.forcing.flip(3))
    moved, _ = move_each(given, future, directions_of(data.card), [Move({1: 5}, (), False, True)])
    assert torch.equal(moved.history, -given.history.roll(5, 4))
    assert torch.equal(moved.known, given.known.roll(5, 3))
    assert torch.equal(moved.forcing, -given.forcing.roll(5, 4))


def test_a_field_without_change_stays_what_it_is_and_trains(tmp_path):
    draw = np.random.default_rng(0)
    u = draw.normal(size=(N, FRAMES, 1, 16)).cumsum(axis=1)
    still = np.broadcast_to(draw.normal(size=(N, 1, 1, 16)), u.shape)
    zero = np.zeros_like(u)
    three = np.concatenate([u, still, zero], axis=2)
    data = fino.from_array(three, dt=1, extent=(0, 1), boundary="periodic", history=2)
    model = fino.build("fino", data, width=4, levels=0, predict="increment")
    sample = data.test[0]
    future = fino.rollout(model, sample.given, 5)[0]
    assert torch.equal(future[:, 1], sample.history[-1, 1].expand(5, -1))
    assert torch.equal(future[:, 2], torch.zeros(5, 16))
    run = fino.fit(model, data, steps=20, threads=1, out=tmp_path / "run")
    scores = fino.evaluate(run, baselines=False)
    by_field = scores["nrmse"].channels
    assert by_field["u1"] == by_field["u2"] == 0.0 and 0 < by_field["u0"] < 2


def test_masked_arrays_and_nan_cells_are_masks():
    draw = np.random.default_rng(0)
    u = draw.normal(size=(4, 5, 1, 8))
    outside = np.zeros(8, dtype=bool)
    outside[3] = True
    common = {"dt": 1, "extent": (0, 1), "boundary": "periodic"}
    spoilt = u.copy()
    spoilt[..., 3] = np.nan
    masked = np.ma.array(u, mask=np.broadcast_to(outside, u.shape))
    for data in (
        fino.from_array(u, mask=outside, **common),
        fino.from_array(spoilt, **common),
        fino.from_array(masked, **common),
    ):
        assert data.card.walls == "neumann"
        assert data.test[0].given.mask[0, 0].tolist() == [1, 1, 1, 0, 1, 1, 1, 1]


def test_a_value_masked_in_one_frame_only_is_named():
    u = np.random.default_rng(0).normal(size=(4, 5, 1, 8))
    masked = np.ma.array(u, mask=np.zeros(u.shape, dtype=bool))
    masked[2, 3, 0, 4] = np.ma.masked
    with pytest.raises(ValueError, match=r"sample 2 has NaN .* first in frame 3"):
        fino.from_array(masked, dt=1, extent=(0, 1), boundary="periodic")


def test_a_stepper_without_conditions_refuses_them():
    with pytest.raises(ValueError, match=r"this stepper takes the history alone"):
        fino.rollout(lambda u: u[:, -1], torch.zeros(1, 1, 1, 8), 2, parameters={"nu": 1.0})


def test_trajectories_may_differ_in_length():
    draw = np.random.default_rng(0)
    u = [draw.normal(size=(length, 1, 8)) for length in (9, 6, 7, 9, 8, 6, 7, 8, 9, 9)]
    data = fino.from_array(u, dt=1, extent=(0, 1), boundary="periodic", history=2)
    assert data.frames == 9 and data.lengths.tolist() == [9, 6, 7, 9, 8, 6, 7, 8, 9, 9]
    assert data.task().steps == 4
    model = fino.build("fino", data, width=4, levels=0, predict="increment")
    for step in range(40):
        batch = draw_batch(data.train, model, TrainingSettings(batch=4), step, 2)
        for sample, start in zip(batch.samples, batch.starts, strict=True):
            assert start + 4 <= data.lengths[sample]


def test_a_parameter_that_the_training_never_saw_is_named():
    data = world()
    model = build("fino", data)
    given = data.train.begin([0], 2)[0]
    far = replace(given, parameters=torch.tensor([[50.0, 1.5]]))
    with pytest.warns(UserWarning, match=r"nu = 50 lies outside of the range .* 0\.00"):
        model.conditioning.warn_outside(far)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.conditioning.warn_outside(given)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"parameters": {"nu": np.ones(3)}}, r"'nu' should be one number, or one for each of 12"),
        ({"known": {"depth": np.ones((4, 4))}}, r"'depth' should have the shape \(48, 32\) or"),
        ({"forcing": {"wind": np.ones((3, *POINTS))}}, r"'wind' should have the shape \(8,\) or"),
        ({"mask": np.ones(POINTS, dtype=bool)}, "the mask covers every cell"),
        ({"mask": np.ones(POINTS)}, "mask should be True or False for each cell"),
        ({"mask": np.zeros(POINTS, bool), "walls": "nuemann"}, "Did you mean 'neumann'"),
        ({"parameters": {"u": np.ones(12)}}, "should differ in name"),
    ],
)
def test_mistakes_are_answered_in_one_line(facts, message):
    u = np.random.default_rng(0).normal(size=(N, FRAMES, 1, *POINTS))
    with pytest.raises(ValueError, match=message) as error:
        fino.from_array(u, dt=1, extent=(0, 1), boundary="neumann", **facts)
    assert "\n" not in str(error.value)


def test_a_step_that_lacks_something_says_what():
    data = world()
    model = build("fino", data)
    given = data.train[0].given
    with pytest.raises(ValueError, match="is given parameters nu, speed, but got 0"):
        model(replace(given, parameters=None))
    with pytest.raises(ValueError, match="trained with a mask"):
        model(replace(given, mask=None))
    with pytest.raises(ValueError, match="signals ends before the step does"):
        fino.rollout(model, given, 9)
    bare = fino.build(
        "fino",
        world(
            **dict.fromkeys(("parameters", "known", "forcing", "mask", "walls", "turning"), True)
        ),
        width=4,
    )
    with pytest.raises(ValueError, match=r"is given parameters \(none\), but got 2"):
        bare(given)


def test_a_rollout_takes_parameters_and_forcing_by_name():
    data = world()
    model = build("fino", data)
    sample = data.train[0]
    nu, speed = (float(x) for x in sample.given.parameters[0])
    usual = fino.rollout(model, sample, 3)
    again = fino.rollout(model, sample, 3, parameters={"nu": nu})
    torch.testing.assert_close(again, usual)
    other = fino.rollout(model, sample, 3, parameters={"nu": 3 * nu, "speed": speed})
    assert not torch.allclose(other, usual)
    calm = fino.rollout(model, sample, 3, forcing={"wind": lambda t: 0.0})
    still = fino.rollout(model, sample, 3, forcing={"wind": np.zeros((4, *POINTS))}, tile=16)
    torch.testing.assert_close(calm, still, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(calm, usual)
    long = fino.rollout(
        model, sample, 12, forcing={"wind": lambda t: 0.0, "tide": lambda t: np.sin(t)}
    )
    assert long.shape == (12, 2, *POINTS)
    with pytest.raises(ValueError, match=r"not given parameters 'sped'. Did you mean 'speed'"):
        fino.rollout(model, sample, 3, parameters={"sped": 1.0})
    with pytest.raises(ValueError, match=r"'wind' should be known at 4 times for 3 steps"):
        fino.rollout(model, sample, 3, forcing={"wind": np.zeros((2, *POINTS))})
    with pytest.warns(UserWarning, match="nu = 50 lies outside"):
        fino.rollout(model, sample, 1, parameters={"nu": 50.0})


@pytest.mark.parametrize("name", ["fino", "fno"])
def test_a_conditioned_run_is_scored_and_reported(name, tmp_path):
    data = world()
    run = fino.fit(
        build(name, data), data, steps=4, batch=2, threads=1, validations=2, out=tmp_path / "run"
    )
    scores = fino.evaluate(run)
    assert set(scores["nrmse"].channels) == {"u0", "u1"} and scores.cost["multiply_adds"] > 0
    over = scores.over_parameters["nu"]
    assert len(over["values"]) == len(over["nrmse"]) == 1 and over["trained"][0] > over["values"][0]
    fino.report(run)
    assert "Error over nu" in (tmp_path / "run" / "report.html").read_text()
