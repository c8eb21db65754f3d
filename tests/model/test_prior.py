"""What is predicted without learning: the least-squares bases that networks add to."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import fino
from fino.model.prior import choose_prior, fit_past_frames, fit_scheme


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
    assert choose_prior(data.with_history(6), 6) == "linear"
    chaos = np.random.default_rng(0).normal(size=(8, 20, 1, 32))
    data = fino.from_array(chaos, dt=0.1, extent=(0, 1), boundary="periodic", speed=2.0)
    assert choose_prior(data, 6) == "stencil"


def test_a_scheme_is_taken_where_it_and_the_history_both_predict():
    """Logistic growth, alike in all cells: what the last frame tells needs no memory."""
    start = np.random.default_rng(0).uniform(0.5, 0.9, (8, 1, 1, 1))
    growth = np.exp(0.1 * np.arange(20))[None, :, None, None]
    u = start * growth / (1 - start + start * growth) * np.ones(32)
    data = fino.from_array(u, dt=0.1, extent=(0, 1), boundary="periodic")
    _, left = fit_past_frames(data.train, 6)
    assert float(left) < 1e-2, "combining would do as well"
    assert choose_prior(data, 6) == "stencil"


def test_a_scheme_that_would_have_to_see_farther_is_not_built_upon():
    """Profiles move three cells a step; a scheme of three cells extrapolates and explodes."""
    draw = np.random.default_rng(0)
    x, t = np.arange(64) / 64, np.arange(20)[None, :, None, None]
    waves = sum(
        np.sin(2 * np.pi * k * (x - 3 / 64 * t + draw.uniform(0, 1, (8, 1, 1, 1)))) / k
        for k in range(1, 6)
    )
    far = fino.from_array(waves, dt=1.0, extent=(0, 1), boundary="periodic")
    near = fino.from_array(waves[..., ::4], dt=1.0, extent=(0, 1), boundary="periodic")
    assert choose_prior(far, 1) == "increment"
    assert choose_prior(near, 1) == "stencil"


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
