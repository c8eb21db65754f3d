"""Heart tissue against its ODE, exact diffusion, a cable of scipy's, and its own symmetries."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import fino
from fino.grid import Grid
from fino.pde.heart import _TISSUES, Heart


def sheet(rows, cells, width, height=None):
    return Grid((rows, cells), ((0.0, width), (0.0, height or width * cells / rows)), "neumann")


def currents(u, v, w, tissue):
    """The equations a second time, as the paper prints them: the rates of u, v and w."""
    d, r, si, o, vp, v1, v2, wp, wm, k, uc, uv, usi = _TISSUES[tissue][0]
    p, q = np.heaviside(u - uc, 1), np.heaviside(u - uv, 1)
    fast = -v / d * p * (1 - u) * (u - uc)
    out = u / o * (1 - p) + p / r
    slow = -w / (2 * si) * (1 + np.tanh(k * (u - usi)))
    minus = q * v1 + (1 - q) * v2
    return (
        -(fast + out + slow),
        (1 - p) * (1 - v) / minus - p * v / vp,
        (1 - p) * (1 - w) / wm - p * w / wp,
    )


@pytest.mark.parametrize("tissue", ["set3", "set6"])
def test_an_action_potential_of_even_tissue_is_that_of_scipys_ode(tissue):
    times = np.array([0.0, 1, 2, 5, 20, 60, 100])
    start = np.ones((1, 3, 4, 4))
    start[:, 0] = 0.4
    ours = Heart(tissue=tissue).solve(sheet(4, 4, 1.0), start, times)[0, :, 0]
    assert np.ptp(ours, axis=(1, 2)).max() < 1e-12
    ode = solve_ivp(
        lambda t, y: currents(*y, tissue), (0, 100), [0.4, 1, 1], "LSODA", times, rtol=1e-9
    )
    np.testing.assert_allclose(ours[:, 0, 0], ode.y[0], atol=1e-3)


def test_small_voltages_spread_as_heat_and_leak_away():
    """Below u_c: uₜ = D Δu − u/τ_0, whose waves fade at the rate D k² + 1/τ_0."""
    problem, errors = Heart(step=0.01), []
    for cells in (12, 24):
        grid = sheet(cells, cells, 0.5)
        x, y = grid.mesh()
        wave = 0.05 * np.cos(2 * np.pi * x) * np.cos(4 * np.pi * y)
        start = np.stack([wave, np.ones_like(x), np.zeros_like(x)])[None]
        ours = problem.solve(grid, start, [0.0, 4.0])[0, 1, 0]
        fade = np.exp(-4.0 * (problem.diffusion * 20 * np.pi**2 + 1 / 9))
        errors.append(np.abs(ours - fade * wave).max())
    assert np.log2(errors[0] / errors[1]) > 3.5 and errors[1] < 1e-6


def test_resting_tissue_rests():
    start = np.ones((1, 3, 6, 5))
    start[:, 0] = 0.0
    assert np.abs(Heart().solve(sheet(6, 5, 1.0), start, [0.0, 50.0])).max() < 1e-6


def arrival(u, times, level=0.5):
    """When each cell's voltage first rises through a level: (t, n) → (n,)."""
    first = (u > level).argmax(axis=0)
    low, high = u[first - 1, np.arange(u.shape[1])], u[first, np.arange(u.shape[1])]
    return times[first - 1] + (level - low) / (high - low) * np.diff(times)[first - 1]


def speed(u, times, width):
    """cm per ms between a third and two thirds of a cable."""
    n = u.shape[1]
    a, b = n // 3, 2 * n // 3
    when = arrival(u, times)
    return (b - a) * width / n / (when[b] - when[a])


def cable(cells, width):
    start = np.ones((3, cells))
    start[0] = (np.arange(cells) + 0.5) * width / cells < 0.3
    return start


def scipys_cable(cells, width, times):
    """Second-order differences without flux at the ends, scipy's error-controlled Runge–Kutta."""
    h = width / cells

    def rate(_, flat):
        u, v, w = flat.reshape(3, cells)
        wide = np.concatenate([u[:1], u, u[-1:]])
        du, dv, dw = currents(u, v, w, "set6")
        return np.concatenate([du + 0.001 * np.diff(wide, 2) / h**2, dv, dw])

    solved = solve_ivp(
        rate, (0, times[-1]), cable(cells, width).ravel(), "RK45", times, rtol=1e-5, max_step=0.1
    )
    return solved.y.T.reshape(len(times), 3, cells)[:, 0]


def test_waves_run_as_fast_as_on_scipys_finer_cable():
    width, times = 1.6, np.linspace(0, 40, 81)
    start = np.repeat(cable(64, width)[None, :, :, None], 3, axis=3)
    ours = Heart().solve(sheet(64, 3, width), start, times)[0, :, 0, :, 1]
    fast = speed(scipys_cable(256, width, times), times, width)
    assert 0.025 < fast < 0.035
    assert speed(ours, times, width) == pytest.approx(fast, rel=0.01)


def test_four_times_the_diffusion_is_the_same_on_twice_the_length():
    """D only sets the unit of length, so conduction is as fast as √D."""
    times = np.array([0.0, 10.0, 20.0])
    start = np.repeat(cable(32, 1.6)[None, :, :, None], 4, axis=3)
    small = Heart().solve(sheet(32, 4, 1.6), start, times)
    large = Heart(diffusion=0.004).solve(sheet(32, 4, 3.2), start, times)
    np.testing.assert_allclose(small, large, atol=1e-12)


@pytest.fixture(scope="module")
def waves():
    problem = Heart(points=64, frames=6, duration=100.0, step=0.1)
    start = problem.draw(problem.grid, 0, range(4))
    return problem, start, problem.solve(initial=start)


def test_mirrored_and_turned_tissue_has_mirrored_and_turned_waves(waves):
    problem, start, frames = waves
    times = problem.times[:3]  # later, rounding decides when a switch is thrown
    for move in (lambda u: u[..., ::-1], lambda u: u[..., ::-1, :], lambda u: u.swapaxes(-1, -2)):
        moved = problem.solve(initial=move(start[:2]), times=times)
        np.testing.assert_allclose(moved, move(frames[:2, :3]), atol=1e-9)


def test_stimuli_make_waves_that_live_on(waves):
    _, start, frames = waves
    assert start[:, 0].min() > -0.05 and start[:, 0].max() < 1.05
    assert start[:, 1:].min() >= 0 and start[:, 1:].max() <= 1
    active = (frames[:, :, 0] > 0.3).mean((2, 3))
    assert (active[:, 0] > 0.05).all() and (active[:, -1] > 0.05).mean() > 0.6


def test_truth_is_converged_at_a_quarter_of_a_millimetre():
    """A curved front, 60 ms on: half the cells and half the step move it by a few per cent."""
    problem, solved = Heart(side=1.6), []
    for cells, step in ((32, 0.1), (64, 0.05), (128, 0.025)):
        grid = sheet(cells, cells, 1.6)
        x, y = grid.mesh()
        start = np.ones((1, 3, cells, cells))
        start[0, 0] = np.clip((0.5 - np.hypot(x, y)) / 0.2, 0, 1)
        u = problem.changed(step=step).solve(grid, start, [0.0, 25.0])[0, 1, 0]
        solved.append(u.reshape(16, cells // 16, 16, cells // 16).mean((1, 3)))
    errors = [np.sqrt(((u - solved[2]) ** 2).mean()) / solved[2].std() for u in solved[:2]]
    assert errors[1] < 0.02 and errors[1] < 0.5 * errors[0]


def test_only_the_voltage_is_saved_and_does_not_tell_the_gates():
    data = fino.generate("heart", 2, points=8, side=0.8, frames=3, duration=1.0, step=0.2, refine=2)
    assert data.fields == ("u",) and data.card.refine == 2
    assert Heart().state(Heart().grid, data.read([0])[:, 0].numpy()) is None


def test_a_step_that_is_too_long_is_said_in_one_line():
    problem = Heart(points=8, step=1000.0)
    state = np.ones((1, 3, 8, 8))
    state[0, 0, 2] = np.nan
    with pytest.raises(ValueError, match=r"^heart broke down in row 0 of the batch: numbers grow"):
        problem.solve(initial=state, times=[0, 10.0])
    torus = Grid((8, 8), ((0, 1), (0, 1)), "periodic")
    with pytest.raises(ValueError, match="heart solver needs closed edges"):
        problem.solve(torus, state, [0, 1.0])
