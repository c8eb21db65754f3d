"""Darcy flow against manufactured and brute-force solutions, and its rocks against PDEBench's."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.linalg import expm
from scipy.special import erf

from fino.grid import Grid
from fino.pde.darcy import MEAN_OF_BUMPS, Darcy, RelaxingDarcy, batch_threshold
from fino.pde.elliptic import apply, chebyshev_weights, faces, relax, solve_steady


def rocks(points, samples=(0,), seed=0):
    flow = Darcy(points=points)
    return flow, flow.draw(flow.grid, seed, samples)


def manufactured_error(points):
    """u = sin(πx) sin(2πy), zero at the centres of the cells outside; ν varies smoothly."""
    h = 1 / (points + 1)
    grid = Grid((points, points), ((h / 2, 1 - h / 2),) * 2, "dirichlet")
    x, y = grid.mesh()
    u = np.sin(np.pi * x) * np.sin(2 * np.pi * y)
    nu = 1 + 0.5 * np.cos(np.pi * x) * y
    u_x = np.pi * np.cos(np.pi * x) * np.sin(2 * np.pi * y)
    u_y = 2 * np.pi * np.sin(np.pi * x) * np.cos(2 * np.pi * y)
    nu_x = -0.5 * np.pi * np.sin(np.pi * x) * y
    nu_y = 0.5 * np.cos(np.pi * x)
    source = 5 * np.pi**2 * nu * u - nu_x * u_x - nu_y * u_y
    return np.abs(solve_steady(nu, source, grid.spacing) - u).max()


def test_a_manufactured_solution_is_met_at_second_order():
    errors = [manufactured_error(points) for points in (15, 31, 63)]
    assert math.log2(errors[0] / errors[1]) == pytest.approx(2, abs=0.2)
    assert math.log2(errors[1] / errors[2]) == pytest.approx(2, abs=0.2)


def matrix(nu, spacing):
    """A, column by column."""
    sides, size = faces(nu, spacing), nu.size
    return np.stack([apply(sides, e.reshape(nu.shape)).ravel() for e in np.eye(size)], axis=1)


def test_the_operator_is_symmetric_and_positive():
    nu = np.random.default_rng(0).uniform(0.1, 1, (5, 7))
    a = matrix(nu, (0.1, 0.2))
    np.testing.assert_allclose(a, a.T, atol=1e-12)
    assert np.linalg.eigvalsh(a).min() > 0


def test_the_steady_state_is_what_a_direct_solver_finds():
    flow, state = rocks(20)
    u = flow.solve(initial=state)[0, 1, 0]
    direct = np.linalg.solve(matrix(state[0, 0], flow.grid.spacing), np.ones(400))
    np.testing.assert_allclose(u.ravel(), direct, rtol=1e-8)


def test_frames_are_the_rock_and_the_pressure():
    flow, state = rocks(16, samples=(0, 1, 2))
    frames = flow.solve(initial=state)
    assert frames.shape == (3, 2, 1, 16, 16)
    np.testing.assert_array_equal(frames[:, 0], state)
    twice = flow.changed(beta=2.0).solve(initial=state)
    np.testing.assert_allclose(twice[:, 1], 2 * frames[:, 1], rtol=1e-7)


def test_mirrored_and_turned_rocks_have_mirrored_and_turned_pressures():
    flow, state = rocks(16)
    u = flow.solve(initial=state)[:, 1]
    flipped = flow.solve(initial=state[..., ::-1, :])[:, 1]
    np.testing.assert_allclose(flipped, u[..., ::-1, :], rtol=1e-7)
    turned = flow.solve(initial=state.swapaxes(-1, -2))[:, 1]
    np.testing.assert_allclose(turned, u.swapaxes(-1, -2), rtol=1e-7)


def test_chebyshev_weights_sum_to_the_exponential():
    x = np.linspace(-1, 1, 11)
    for tau in (0.01, 1.0, 50.0):
        series = np.polynomial.chebyshev.chebval(x, chebyshev_weights(tau, 1e-12))
        np.testing.assert_allclose(series, np.exp(-tau * (1 + x)), atol=1e-11)
    # at full resolution: T_k(−1) = ±1, and exp(0) = 1
    assert np.abs(chebyshev_weights(114688.0, 1e-10)).sum() == pytest.approx(1, abs=2e-10)


@pytest.mark.parametrize("t", [1e-4, 0.02, 1.75])
def test_relaxation_is_the_matrix_exponential(t):
    nu = np.where(np.random.default_rng(1).random((9, 12)) > 0.5, 1.0, 0.1)
    u = np.random.default_rng(2).uniform(0, 10, nu.shape)
    spacing = (1 / 9, 1 / 12)
    exact = expm(-t * matrix(nu, spacing)) @ u.ravel()
    np.testing.assert_allclose(relax(nu, u, spacing, t).ravel(), exact, atol=1e-8)


def test_the_relaxing_frame_is_what_explicit_midpoint_steps_reach():
    flow = RelaxingDarcy(points=12, initial="pdebench")
    state = flow.draw(flow.grid, 0, [0])
    ours = flow.solve(initial=state)[0, 1, 0]
    sides, u = faces(state[0, 0], flow.grid.spacing), state[0, 1].copy()
    steps = 4000
    dt = flow.stop / steps
    for _ in range(steps):
        middle = u + 0.5 * dt * (flow.beta - apply(sides, u))
        u += dt * (flow.beta - apply(sides, middle))
    np.testing.assert_allclose(ours, u, atol=2e-6)


def test_relaxation_ends_in_the_steady_state():
    flow = RelaxingDarcy(points=16)
    state = flow.draw(flow.grid, 0, [0, 1])
    np.testing.assert_array_equal(state[:, :1], rocks(16, (0, 1))[1])
    frames = flow.solve(initial=state, times=[0.0, 1.75, 30.0])
    goal = Darcy(points=16).solve(initial=state[:, :1])
    assert np.abs(frames[:, 1] - goal[:, 1]).max() > 1e-6
    np.testing.assert_allclose(frames[:, 2], goal[:, 1], atol=1e-7)


def test_rocks_of_the_first_released_batch_have_its_threshold_and_shares():
    """Known of seed 2020: threshold 1.825, share of high cells between 0 and 0.93."""
    assert batch_threshold(0) == pytest.approx(1.825, abs=5e-4)
    flow = Darcy(initial="pdebench")
    nu = flow.draw(flow.grid, 0, range(200))
    assert set(np.unique(nu)) == {0.1, 1.0}
    share = (nu == 1).mean((1, 2, 3))
    assert share.min() == 0 and share.max() == pytest.approx(0.93, abs=0.005)


def test_the_leftover_of_the_start_has_the_measured_size():
    """Of every fourth sample of seed 2020, measured before with eigenvectors at full resolution
    from the uniform level: |leftover| / |u| has mean 0.025, median 0.0017, ninth decile 0.058,
    maximum 0.286."""
    flow = RelaxingDarcy(points=64, initial="pdebench")
    state = flow.draw(flow.grid, 0, range(0, 200, 4))
    u = flow.solve(initial=state)[:, 1, 0]
    goal = Darcy(points=64).solve(initial=state[:, :1])[:, 1, 0]
    ratio = np.linalg.norm(u - goal, axis=(1, 2)) / np.linalg.norm(u, axis=(1, 2))
    assert ratio.mean() == pytest.approx(0.025, abs=0.002)
    assert np.median(ratio) == pytest.approx(0.0017, abs=0.0003)
    assert np.quantile(ratio, 0.9) == pytest.approx(0.058, abs=0.005)
    assert ratio.max() == pytest.approx(0.286, abs=0.01)


def test_the_most_that_the_rock_tells_of_a_relaxing_field_is_that_of_the_mean_start():
    """The field is a straight line in the level it starts from; with the level unknown, the
    mean one leaves about half of what the steady state leaves."""
    flow = RelaxingDarcy(points=32)
    state = flow.draw(flow.grid, 0, range(60))

    def started_from(level):
        started = state.copy()
        started[:, 1] = level
        return flow.solve(initial=started)[:, 1, 0]

    solution, nothing, one = (started_from(level) for level in (state[:, 1], 0.0, 1.0))
    np.testing.assert_allclose(solution, nothing + state[:, 1] * (one - nothing), atol=1e-8)
    error = {
        level: np.mean(
            np.linalg.norm(nothing + level * (one - nothing) - solution, axis=(1, 2))
            / np.linalg.norm(solution, axis=(1, 2))
        )
        for level in (0.0, 5.05, 10.0)
    }
    assert error[5.05] < 0.6 * min(error[0.0], error[10.0])
    assert error[5.05] == pytest.approx(0.018, abs=0.006)


def test_our_threshold_is_the_mean_of_the_distribution():
    def overlap(s):  # mean of exp(−(x − y)²/s) over the unit square
        return math.sqrt(math.pi * s) * erf(1 / math.sqrt(s)) - s * (1 - math.exp(-1 / s))

    mean = 5 * 2 * quad(lambda s: overlap(s) ** 2, 0, 0.5)[0]
    assert pytest.approx(mean, abs=1e-5) == MEAN_OF_BUMPS
    share = (rocks(24, range(400))[1] == 1).mean()
    assert share == pytest.approx(0.49, abs=0.03)


def test_draws_depend_on_the_seed_and_the_sample_alone():
    _, state = rocks(16, (5, 2))
    np.testing.assert_array_equal(state[1:], rocks(16, (2,))[1])
    assert (state[1:] != rocks(16, (2,), seed=1)[1]).any()


def test_mistakes_are_answered_with_one_line():
    flow, state = rocks(8)
    with pytest.raises(ValueError, match="needs a positive ν everywhere"):
        flow.solve(initial=0 * state)
    periodic = Grid((8, 8), ((0, 1), (0, 1)), "periodic")
    with pytest.raises(ValueError, match="zero outside, boundary 'dirichlet'"):
        flow.solve(periodic, state)
    with pytest.raises(ValueError, match=r"Setting 'start' should be \(low, high\)"):
        RelaxingDarcy(start=(2.0, 1.0))
