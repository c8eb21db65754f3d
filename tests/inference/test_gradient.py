"""A rollout that is differentiated: by the start, by parameters, by the weights."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
import torch

import fino


def diffusing(samples=8, frames=6, points=16):
    """Sine waves that decay at a rate of their own: u = a exp(−νt) sin(2πx)."""
    nu = np.linspace(0.2, 0.8, samples)
    t, x = 0.5 * np.arange(frames), np.arange(points) / points
    u = np.exp(-nu[:, None, None] * t[:, None]) * np.sin(2 * np.pi * x)
    return fino.from_array(u[:, :, None], 0.5, (0, 1), "periodic", parameters={"nu": nu}, history=1)


@pytest.fixture(scope="module")
def model():
    built = fino.build("fino", diffusing(), history=1, width=4, levels=1, predict="increment")
    return built.double()


def test_a_decay_is_differentiated_exactly():
    start = torch.ones(1, 1, 1, 4, dtype=torch.double, requires_grad=True)
    frames = fino.rollout(lambda history: 0.5 * history[:, -1], start, 3, gradient=True)
    frames[:, -1].sum().backward()
    assert torch.equal(start.grad, torch.full_like(start, 0.125))


def test_the_gradient_by_start_and_parameter_is_that_of_finite_differences(model):
    start = torch.randn(2, 1, 1, 16, dtype=torch.double, requires_grad=True)
    nu = torch.tensor(0.5, dtype=torch.double, requires_grad=True)

    def misfit(u, v):
        frames = fino.rollout(model, u, 4, parameters={"nu": v}, gradient=True)
        return frames[:, -1].square().sum()

    by_start, by_nu = torch.autograd.grad(misfit(start, nu), (start, nu))
    with torch.no_grad():
        way = torch.randn_like(start)
        near = [misfit(start + h * way, nu).item() for h in (1e-5, -1e-5)]
        slope = [misfit(start, nu + h).item() for h in (1e-3, -1e-3)]
    assert (by_start * way).sum().item() == pytest.approx((near[0] - near[1]) / 2e-5, rel=1e-5)
    assert by_nu.item() == pytest.approx((slope[0] - slope[1]) / 2e-3, rel=1e-2)


def test_frames_with_a_gradient_are_those_without_one():
    data = diffusing()
    sample = data.train[0]
    model = fino.build("fino", data, history=1, width=4, levels=1, predict="increment")
    plain = fino.rollout(model, sample, 4, every=2, engine="torch")
    kept = fino.rollout(model, sample, 4, every=2, gradient=True)
    assert kept.requires_grad and not plain.requires_grad
    assert kept.shape == plain.shape == (2, 1, 16)
    torch.testing.assert_close(kept.detach(), plain)
    kept.sum().backward()
    assert all(p.grad is not None for p in model.network.head.parameters())


@pytest.mark.parametrize("option", [{"tile": 8}, {"out": "frames.npy"}, {"engine": "c"}])
def test_what_keeps_no_gradient_is_refused(model, option):
    start = torch.zeros(1, 1, 1, 16)
    with pytest.raises(ValueError, match=f"whole frames in memory: leave out {next(iter(option))}"):
        fino.rollout(model, start, 2, gradient=True, **option)
    with pytest.raises(ValueError, match="read the file first"):
        fino.rollout(model, "start.npy", 2, gradient=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_network_runs_and_learns_under_autocast(dtype):
    net = fino.Fino(dims=1, inputs=2, outputs=1, width=4, levels=1)
    x = torch.randn(2, 2, 8)
    with torch.autocast("cpu", dtype=dtype):
        y = net(x)
    y.float().square().sum().backward()
    torch.testing.assert_close(y.float(), net(x), rtol=0.05, atol=0.05)
    assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters())


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
def test_a_traced_model_runs_on_other_sizes():
    data = fino.from_array(
        np.random.default_rng(0).normal(size=(8, 4, 1, 16)), 1, (0, 1), "periodic"
    )
    plain = fino.build("fino", data, width=4, levels=1, history=1)
    traced = torch.jit.trace(plain, (torch.randn(1, 1, 1, 16),))
    other = torch.randn(3, 1, 1, 32)
    torch.testing.assert_close(traced(other), plain(other))


def test_an_exported_model_runs_on_other_sizes():
    auto = torch.export.Dim.AUTO
    data = fino.from_array(
        np.random.default_rng(0).normal(size=(8, 4, 1, 16)), 1, (0, 1), "periodic"
    )
    plain = fino.build("fino", data, width=4, levels=1, history=1)
    shapes = ({0: auto, 3: auto},)
    exported = torch.export.export(plain, (torch.randn(2, 1, 1, 16),), dynamic_shapes=shapes)
    other = torch.randn(3, 1, 1, 32)
    torch.testing.assert_close(exported.module()(other), plain(other))


def test_a_model_with_positions_says_that_it_is_exported_at_one_size():
    data = fino.from_array(
        np.random.default_rng(0).normal(size=(8, 4, 1, 16)), 1, (0, 1), "neumann"
    )
    plain = fino.build("fino", data, width=4, levels=1, history=1)
    shapes = ({3: torch.export.Dim.AUTO},)
    with pytest.raises(ValueError, match="exported at one size: leave the axes of space out"):
        torch.export.export(plain, (torch.randn(2, 1, 1, 16),), dynamic_shapes=shapes)


@pytest.mark.parametrize("ways", [{}, {"tile": 8}, {"gradient": True}])
def test_one_trajectory_with_a_parameter_has_no_batch_either(model, ways):
    sample, nu, model = diffusing().test[0], {"nu": 0.5}, deepcopy(model).float()
    alone = fino.rollout(model, sample, 3, parameters=nu, **ways)
    batched = fino.rollout(model, sample.history[None], 3, parameters=nu, **ways)
    assert alone.shape == (3, 1, 16)
    torch.testing.assert_close(alone, batched[0])
    torch.testing.assert_close(fino.rollout(model, sample.history, 3, parameters=nu, **ways), alone)
