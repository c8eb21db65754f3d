"""What is predicted without learning: the least-squares bases that networks add to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import fino
from fino.given import Given
from fino.model.conditioning import Conditioning
from fino.model.prior import polynomials
from fino.model.prior_fit import (
    _scored,
    choose_prior,
    fit_past_frames,
    fit_prior,
    fit_scheme,
)


def heat(boundary: str = "periodic", frames: int = 8, coupling: float = 0.0):
    """Two fields that diffuse by the explicit five-point scheme, the second fed by the first."""
    modes = {"periodic": "wrap", "neumann": "edge", "dirichlet": "constant"}
    u = np.random.default_rng(0).normal(size=(6, 2, 16, 16))
    series = []
    for _ in range(frames):
        series.append(u)
        p = np.pad(u, ((0, 0), (0, 0), (1, 1), (1, 1)), mode=modes[boundary])
        near = p[..., 2:, 1:-1] + p[..., :-2, 1:-1] + p[..., 1:-1, 2:] + p[..., 1:-1, :-2]
        u = u + 0.1 * (near - 4 * u)
        u[:, 1] += coupling * series[-1][:, 0]
    return fino.from_array(np.stack(series, axis=1), dt=0.1, extent=(0, 1), boundary=boundary)


def silent(model):
    """The same model with a network whose answer is zero."""
    with torch.no_grad():
        for p in model.network.head.parameters():
            p.zero_()
    return model


@pytest.mark.parametrize("boundary", ["periodic", "neumann", "dirichlet"])
def test_the_best_linear_scheme_is_the_scheme_that_made_the_data(boundary):
    data = heat(boundary, coupling=0.3)
    scheme, constant, left = fit_scheme(data.train, start=1)
    laplacian = torch.tensor([[0, 0.1, 0], [0.1, 0.6, 0.1], [0, 0.1, 0]])
    feed = torch.zeros(3, 3)
    feed[1, 1] = 0.3
    wanted = torch.stack([torch.stack([laplacian, 0 * feed]), torch.stack([feed, laplacian])])
    torch.testing.assert_close(scheme, wanted, rtol=0, atol=1e-5)
    assert float(constant.abs().max()) < 1e-5
    assert float(left.max()) < 1e-5
    model = silent(fino.build("fino", data, width=4, levels=0, history=2, predict="stencil"))
    frames = data.test.all()
    future = fino.rollout(model, frames[:, :2], frames.shape[1] - 2)
    torch.testing.assert_close(future, frames[:, 2:], rtol=0, atol=1e-4)


def test_the_best_combination_of_frames_finds_what_repeats():
    x = np.arange(32) / 32
    draw = np.random.default_rng(0)
    phase = draw.uniform(0, 1, (8, 1, 1, 1))
    shift = 6.4 * np.arange(14)[None, :, None, None] / 32
    u = np.sin(2 * np.pi * (x - shift + phase))
    data = fino.from_array(u, dt=0.1, extent=(0, 1), boundary="periodic", speed=2.0)
    weights, left = fit_past_frames(data.train, 5)
    (weights,) = weights
    assert weights.shape == (5, 1)
    assert float(left) < 1e-2
    model = silent(fino.build("fino", data, width=4, levels=0, history=5, predict="linear"))
    frames = data.test.all()
    torch.testing.assert_close(
        fino.rollout(model, frames[:, :5], 5), frames[:, 5:10], rtol=0, atol=2e-2
    )


def test_the_history_is_combined_where_it_repeats_and_a_scheme_taken_where_it_does_not():
    x = np.arange(32) / 32
    phase = np.random.default_rng(0).uniform(0, 1, (8, 1, 1, 1))
    waves = np.sin(2 * np.pi * (x - 0.2 * np.arange(20)[None, :, None, None] + phase))
    data = fino.from_array(waves, dt=0.1, extent=(0, 1), boundary="periodic", speed=2.0)
    assert choose_prior(data.with_history(6), 6).kind == "linear"
    chaos = np.random.default_rng(0).normal(size=(8, 20, 1, 32))
    data = fino.from_array(chaos, dt=0.1, extent=(0, 1), boundary="periodic", speed=2.0)
    assert choose_prior(data, 6).kind == "stencil"


def test_a_scheme_is_taken_where_it_and_the_history_both_predict():
    """Logistic growth, alike in all cells: what the last frame tells needs no memory."""
    start = np.random.default_rng(0).uniform(0.5, 0.9, (8, 1, 1, 1))
    growth = np.exp(0.1 * np.arange(20))[None, :, None, None]
    u = start * growth / (1 - start + start * growth) * np.ones(32)
    data = fino.from_array(u, dt=0.1, extent=(0, 1), boundary="periodic")
    _, left = fit_past_frames(data.train, 6)
    assert float(left) < 1e-2, "combining would do as well"
    assert choose_prior(data, 6).kind == "stencil"


def waves(samples=8, speed=None, **settings):
    """Five waves that move so many cells a frame, each trajectory at a speed of its own."""
    draw = np.random.default_rng(0)
    x, t = np.arange(64) / 64, np.arange(20)[None, :, None, None]
    speed = np.full(samples, 3.0) if speed is None else speed
    u = sum(
        np.sin(2 * np.pi * k * (x - speed.reshape(-1, 1, 1, 1) / 64 * t + phase)) / k
        for k, phase in enumerate(draw.uniform(0, 1, (5, samples, 1, 1, 1)), start=1)
    )
    return u, {"dt": 1.0, "extent": (0, 1), "boundary": "periodic", **settings}


def test_a_scheme_that_would_have_to_see_farther_is_not_built_upon():
    """Profiles move three cells a step; a scheme of three cells extrapolates and explodes."""
    u, facts = waves()
    far, near = fino.from_array(u, **facts), fino.from_array(u[..., ::4], **facts)
    errors = []
    for data in (far, near):
        conditioning = Conditioning.of(data)
        fitted = fit_prior("stencil", data, 1, conditioning)
        errors.append(_scored(fitted, data, conditioning).error)
    assert errors[0] > 1 > errors[1]
    chosen = choose_prior(far, 1)
    assert chosen.kind == "moved" and chosen.error < 0.05
    torch.testing.assert_close(chosen.prior.velocity, torch.tensor([[3.0]]), atol=1e-3, rtol=0)
    assert choose_prior(near, 1).kind == "stencil"


def test_a_flow_of_any_speed_is_moved_by_an_affine_function_of_the_parameters():
    """c = 1 + 2 a cells a frame; the line is found although some trajectories correlate as well
    elsewhere, and the prior alone predicts speeds that were not trained on."""
    a = np.linspace(0.2, 3.0, 30)
    u, facts = waves(30, 1 + 2 * a, parameters={"a": a})
    u[3] = np.sin(2 * np.pi * 16 * np.arange(64) / 64)  # repeats every four cells
    data = fino.from_array(u, **facts)
    chosen = choose_prior(data, 4)
    assert chosen.kind == "moved"
    torch.testing.assert_close(
        chosen.prior.velocity.flatten(), torch.tensor([1.0, 2.0]), atol=1e-3, rtol=0
    )
    model = silent(fino.build("fino", data, width=4, levels=0))
    assert model.history == 1
    new, _ = waves(2, np.array([3.3, 4.7]))
    start = torch.tensor(new[:, :1], dtype=torch.float32)
    future = fino.rollout(model, start, 5, parameters={"a": [1.15, 1.85]})
    torch.testing.assert_close(future, torch.tensor(new[:, 1:6]).float(), atol=2e-3, rtol=0)


def test_a_moved_model_is_exact_in_tiles_saves_loads_and_sees_no_farther_than_it_says(tmp_path):
    a = np.linspace(0.2, 2.0, 20)
    u, facts = waves(20, 2 * a, parameters={"a": a})
    data = fino.from_array(u, **facts)
    model = fino.build("fino", data, width=4, levels=1, predict="moved").double()
    given = data.train[5].given.to(torch.float64)
    whole = fino.rollout(model, given, 4)
    tiled = fino.rollout(model, given, 4, tile=16)
    torch.testing.assert_close(tiled, whole, rtol=0, atol=1e-12)
    history = given.last(1).history.clone().requires_grad_()
    frame = model(replace(given, history=history))
    (gradient,) = torch.autograd.grad(frame[0, 0, 32], history)
    seen = gradient[0, 0, 0].nonzero().flatten()
    (radius,) = model.locality.radius
    assert int((seen - 32).abs().max()) <= radius < 32
    fino.save(model, tmp_path / "model")
    again = fino.rollout(fino.load(tmp_path / "model"), given, 4)
    assert torch.equal(again, whole)


def test_the_gradient_of_a_moved_frame_reaches_the_parameters():
    a = np.linspace(0.2, 2.0, 20)
    u, facts = waves(20, 2 * a, parameters={"a": a})
    data = fino.from_array(u, **facts)
    model = fino.build("fino", data, width=4, levels=0, predict="moved").double()
    given = data.test[0].given.last(1).to(torch.float64)

    def energy(theta):
        return model(replace(given, parameters=theta)).square()[..., :20].sum()

    assert torch.autograd.gradcheck(energy, given.parameters.clone().requires_grad_(), atol=1e-4)


def test_frames_are_combined_by_polynomials_of_the_parameters():
    """u_{t+1} = 2 cos(ω) u_t − u_{t−1} for ω between 0.1 and 1.2: no weights serve all of them."""
    omega = np.linspace(0.1, 1.2, 60)
    t = np.arange(16)[None, :, None, None]
    phase = np.random.default_rng(0).uniform(0, 2 * np.pi, (60, 1, 1, 8))
    u = np.sin(omega.reshape(-1, 1, 1, 1) * t + phase)
    facts = {"dt": 1.0, "extent": (0, 1), "boundary": "periodic", "history": 2}
    data = fino.from_array(u, parameters={"omega": omega}, **facts)
    alike = choose_prior(fino.from_array(u, **facts), 2)
    chosen = choose_prior(data, 2)
    assert chosen.kind == "linear"
    assert chosen.error < 0.05 < alike.error
    theta = torch.linspace(-1, 1, 5)[:, None]
    weights = torch.tensordot(polynomials(theta, chosen.prior.powers), chosen.prior.weight, dims=1)
    trained = omega[list(data.train.samples)]
    middle, half = (trained.max() + trained.min()) / 2, (trained.max() - trained.min()) / 2
    expected = 2 * torch.cos(middle + half * theta[:, 0])
    torch.testing.assert_close(weights[:, 1, 0], expected, atol=2e-2, rtol=0)
    model = silent(fino.build("fino", data, width=4, levels=0))
    assert model.settings.degree == sum(chosen.prior.powers[-1])


def test_a_scheme_below_a_pointwise_network_is_counted_in_the_reach():
    data = heat()
    for name in ("fino", "unet"):
        model = fino.build(name, data, width=4, levels=1, history=2, predict="stencil")
        assert all(r >= 1 for r in model.locality.radius)
        assert model.locality.radius == model.network.locality.radius


def test_what_the_network_says_is_scaled_by_the_frames_that_it_predicts():
    data = heat(frames=12)
    assert data.history == 6
    change = data.train.all().diff(dim=1)
    # A model that looks at one frame still begins after the six that are given.
    for history, first in ((1, 5), (6, 5), (8, 7)):
        model = fino.build("fino", data, width=4, levels=0, history=history, predict="increment")
        wanted = float(change[:, first:, 0].std())
        assert float(model.output_std[0]) == pytest.approx(wanted, rel=0.05)


def test_a_model_on_a_scheme_survives_the_disk(tmp_path):
    data = heat("neumann")
    model = fino.build("fino", data, width=4, levels=1, history=2, predict="stencil")
    history = data.test.all(0, 2)
    loaded = fino.load(fino.save(model, tmp_path / "model"))
    assert torch.equal(loaded(history), model(history))


def test_a_moving_frame_tells_the_network_where_between_two_cells_it_ends():
    a = np.linspace(0.1, 2.0, 20)
    u, facts = waves(20, 2 * a, parameters={"a": a})
    model = fino.build("fino", fino.from_array(u, **facts), width=4, levels=0, predict="moved")
    given = Given(torch.zeros(3, 1, 1, 64), parameters=torch.tensor([[0.25], [0.5], [1.0]]))
    modulation = model.modulation(given)
    assert modulation.shape == (3, 3)
    expected = torch.tensor([[-1.0, 0.0], [1.0, 0.0], [1.0, 0.0]])
    torch.testing.assert_close(modulation[:, 1:], expected, atol=2e-2, rtol=0)


def test_one_scheme_for_many_parameters_is_not_built_upon_unless_it_predicts():
    """Heat on a ring with ν of each trajectory's own, between a fifth and five times the mean."""
    nu, draw = np.geomspace(0.02, 0.5, 20), np.random.default_rng(0)
    t, k, x = np.arange(8)[:, None], np.arange(1, 4), np.arange(32) / 32
    decay = np.exp(-nu[:, None, None] * (2 * np.pi * k) ** 2 * 0.01 * t)[..., None]
    phase = draw.uniform(0, 2 * np.pi, (20, 1, 3, 1))
    u = (decay * np.sin(2 * np.pi * k[:, None] * x + phase)).sum(axis=2)[:, :, None]
    facts = {"dt": 0.01, "extent": (0, 1), "boundary": "periodic", "history": 1}
    assert choose_prior(fino.from_array(u, **facts), 1).kind == "stencil"
    varied = fino.from_array(u, parameters={"nu": nu}, **facts)
    assert choose_prior(varied, 1).kind == "increment"
