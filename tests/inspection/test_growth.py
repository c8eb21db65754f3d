"""What becomes of a small error, for learned and for true steps."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

import fino
from fino.inspection.growth import growth_of_changes, growth_of_errors
from fino.inspection.stability import bounded_rollout, rollout_errors
from fino.inspection.true_step import true_step

ONE = torch.ones(1)


def doubling(history: Tensor) -> Tensor:
    return 2 * history[:, -1]


def test_an_error_that_doubles_is_seen_to_double() -> None:
    buffer = torch.randn(1, 1, 1, 16).double()
    found = growth_of_errors(doubling, ONE, buffer, 1e-3, 5)
    np.testing.assert_allclose(found, [1, 2, 4, 8, 16], rtol=1e-6)


def test_an_error_that_returns_after_three_steps_is_followed_to_its_return() -> None:
    buffer = torch.randn(1, 3, 1, 16).double()
    found = growth_of_errors(lambda h: h[:, 0], ONE, buffer, 1e-3, 7)
    np.testing.assert_allclose(found, [1, 0, 0, 1, 0, 0, 1], atol=1e-9)


def test_a_rollout_that_explodes_has_infinite_growth_not_nan() -> None:
    buffer = torch.full((1, 1, 1, 4), 1e30)
    found = growth_of_changes(lambda h: h[:, -1] ** 2, ONE, buffer, torch.ones(1, 1, 4), 1.0, 4)
    assert np.isinf(found[0, -1])


def test_rollout_errors_of_persistence_are_differences_of_frames() -> None:
    truth = torch.arange(6.0).view(1, 6, 1, 1).expand(1, 6, 1, 4).contiguous()
    found = rollout_errors(lambda h: h[:, -1], truth, 2, torch.tensor([2.0]))
    np.testing.assert_allclose(found.single, np.full((1, 4), 0.5))
    np.testing.assert_allclose(found.rolled, [[0.5, 1.0, 1.5, 2.0]])


def test_leaving_twice_the_range_is_noticed_at_its_step() -> None:
    truth = torch.tensor([-1.0, 1.0]).view(1, 1, 1, 2).repeat(1, 3, 1, 1)
    found = bounded_rollout(lambda h: 1.5 * h[:, -1], truth, truth[:, :1], 1, steps=20)
    assert (found.first_left, found.stayed, found.steps) == (2, 0, 20)
    stays = bounded_rollout(lambda h: h[:, -1], truth, truth[:, :1], 1, steps=20)
    assert (stays.first_left, stays.stayed) == (None, 1)


@pytest.fixture(scope="module")
def fisher():
    return fino.generate("diffusion-reaction-1d", samples=4, points=32, frames=12)


def test_the_true_step_of_diffusion_and_reaction_grows_long_waves_and_damps_short_ones(
    fisher,
) -> None:
    """Without space, u ← logistic growth: |λ| = (1 + g) / (1 + g u)² with g = e^{ρΔt} − 1."""
    known, why = true_step(fisher, ONE)
    assert known is not None, why
    state, growth = 0.4, np.expm1(fisher.card.parameters["rho"] * fisher.dt)
    found = known.amplification(torch.tensor([state]))
    k = found.wavenumbers[:, 0]
    damping = np.exp(-fisher.card.parameters["nu"] * fisher.dt * (2 * np.pi * k) ** 2)
    expected = damping * (1 + growth) / (1 + growth * state) ** 2
    np.testing.assert_allclose(found.growth, expected, atol=1e-3)
    stretch = known.stretch(torch.full((1, 1, 32), state))
    assert stretch == pytest.approx(expected.max(), abs=2e-3)


def test_where_the_state_cannot_be_known_it_is_said() -> None:
    data = fino.generate("shallow-water", samples=3, points=8, frames=3, duration=0.02)
    known, why = true_step(data, ONE)
    assert known is None
    assert why == "state not in frames"
    array = fino.from_array(np.zeros((3, 4, 1, 8)), 0.1, (0, 1), "periodic", name="mine")
    assert true_step(array, ONE) == (None, "no solver")


def test_between_walls_the_true_factors_are_those_of_the_linearised_equation() -> None:
    """FitzHugh–Nagumo about rest: e^{σΔt} with σ an eigenvalue of reaction minus diffusion."""
    data = fino.generate("diffusion-reaction-2d", samples=3, points=16, frames=3, duration=0.1)
    known, why = true_step(data, torch.ones(2))
    assert known is not None, why
    u = 0.1
    found = known.amplification(torch.tensor([u, 0.0]))
    assert found is not None
    facts = data.card.parameters
    for wave, modes in zip(found.wavenumbers[:4], found.modes[:4], strict=True):
        # the five-point Laplacian on this grid, as the solver has it
        h = data.grid.spacing[0]
        laplacian = (2 * np.cos(2 * np.pi * wave[0] / 16) - 2) / h**2
        matrix = np.array([[1 - 3 * u**2, -1.0], [1.0, -1.0]])
        matrix += laplacian * np.diag([facts["diffusion_u"], facts["diffusion_v"]])
        exact = np.exp(np.linalg.eigvals(matrix) * data.dt)
        assert np.abs(modes).max() == pytest.approx(np.abs(exact).max(), abs=2e-3)
