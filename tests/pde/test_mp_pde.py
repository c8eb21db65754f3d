"""The family of MP-PDE against characteristics, Cole and Hopf, dispersion, and scipy's solvers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import fino
from fino.grid import Grid
from fino.pde import MpPde

LENGTH = 16.0


def line(cells):
    return Grid((cells,), ((0.0, LENGTH),), "periodic")


def averages(profile, cells, parts=8):
    """The mean of a profile over every cell, by Gauss's rule."""
    nodes, weights = np.polynomial.legendre.leggauss(parts)
    width = LENGTH / cells
    x = (np.arange(cells)[:, None] + 0.5 + 0.5 * nodes) * width
    return (profile(x) @ weights) / 2


def unforced(problem, grid, start, times):
    still = np.zeros((1, len(times), 1, *grid.points))
    return problem.solve(grid, start[None, None], times, forcing=still)[0, :, 0]


def characteristics(x, t, steps=60):
    """Burgers from u₀ = 1 + ½ sin(2πx/16) before it breaks: u = u₀(x − u t), by bisection."""
    k = 2 * np.pi / LENGTH
    low, high = np.full(x.shape, 0.5), np.full(x.shape, 1.5)
    for _ in range(steps):
        u = 0.5 * (low + high)
        above = u > 1 + 0.5 * np.sin(k * (x - u * t))
        low, high = np.where(above, low, u), np.where(above, u, high)
    return 0.5 * (low + high)


def test_smooth_inviscid_waves_follow_their_characteristics_with_fifth_order():
    times, errors = np.array([0.0, 1.5]), []
    for cells in (20, 40, 80):
        # Steps fall with the cells to the power 5/3, so that third order in time is enough.
        problem = MpPde(courant=0.4 * (20 / cells) ** (2 / 3))
        start = averages(lambda x: characteristics(x, 0.0), cells)
        end = unforced(problem, line(cells), start, times)[-1]
        exact = averages(lambda x: characteristics(x, times[-1]), cells)
        errors.append(np.abs(end - exact).mean())
    assert errors[2] < 1e-6
    assert math.log2(errors[1] / errors[2]) == pytest.approx(5, abs=0.7)


def test_shocks_and_rarefactions_are_the_exact_ones():
    """u = 1 between 4 and 8, else 0: the shock runs at ½, the fan is (x − 4) / t."""
    times, errors = np.array([0.0, 4.0]), []
    for cells in (200, 400):
        start = averages(lambda x: ((x > 4) & (x < 8)).astype(float), cells)
        end = unforced(MpPde(), line(cells), start, times)[-1]
        fan = averages(lambda x: np.clip((x - 4) / 4, 0, 1) * (x < 10), cells)
        errors.append(np.abs(end - fan).mean() * cells)
        assert end.min() > -1e-6 and end.max() < 1 + 1e-6
    # Half a cell in all, on any grid: the corners of the fan and the smeared shock.
    assert max(errors) < 0.55


def cole_hopf(x, t, beta):
    """Burgers with diffusion from φ = 2 + e^(−βk²t) cos kx: u = −2β φₓ / φ."""
    k = 2 * np.pi * 2 / LENGTH
    fade = np.exp(-beta * k**2 * t)
    return 2 * beta * k * fade * np.sin(k * x) / (2 + fade * np.cos(k * x))


@pytest.mark.parametrize(("method", "order"), [("weno", 4), ("spectral", None)])
def test_viscous_waves_are_those_of_cole_and_hopf(method, order):
    beta, times, errors = 0.8, np.array([0.0, 1.0]), []
    for cells in (20, 40, 80):
        problem = MpPde(beta=beta, method=method, courant=0.1)
        start = averages(lambda x: cole_hopf(x, 0.0, beta), cells)
        end = unforced(problem, line(cells), start, times)[-1]
        errors.append(np.abs(end - averages(lambda x: cole_hopf(x, times[-1], beta), cells)).max())
    assert errors[-1] < (5e-5 if order else 1e-7)
    if order:
        assert math.log2(errors[1] / errors[2]) == pytest.approx(order, abs=0.5)


@pytest.mark.parametrize(("method", "tolerance"), [("weno", 2e-3), ("spectral", 1e-12)])
def test_small_waves_disperse_and_fade_as_the_linear_equation_says(method, tolerance):
    """α = 0: e^(ikx) becomes e^(ikx + (iγk³ − βk²) t)."""
    beta, gamma, k, times = 0.1, 0.7, 2 * np.pi * 3 / LENGTH, np.array([0.0, 0.5, 1.0])
    problem = MpPde(alpha=0.0, beta=beta, gamma=gamma, method=method)

    def exact(t):
        return averages(lambda x: np.exp(-beta * k**2 * t) * np.cos(k * x + gamma * k**3 * t), 64)

    frames = unforced(problem, line(64), exact(0.0), times)
    for t, frame in zip(times, frames, strict=True):
        np.testing.assert_allclose(frame, exact(t), atol=tolerance)


def test_a_soliton_keeps_its_shape_and_its_speed():
    """αu²/2 and γ: u = (3c/α) / cosh²(½ √(c/γ) (x − ct)), on a line that is long beside it."""
    alpha, gamma, speed, times = 6.0, 0.2, 2.0, np.array([0.0, 1.0])

    def exact(x, t):
        away = (x - 6 - speed * t + 8) % LENGTH - 8
        return 3 * speed / alpha / np.cosh(0.5 * np.sqrt(speed / gamma) * away) ** 2

    problem = MpPde(alpha=alpha, gamma=gamma, courant=0.1)
    end = unforced(problem, line(128), averages(lambda x: exact(x, 0), 128), times)[-1]
    np.testing.assert_allclose(end, averages(lambda x: exact(x, 1.0), 128), atol=2e-5)


@pytest.mark.parametrize("experiment", ["E1", "E2", "E3"])
def test_the_mean_stays_because_flux_and_forcing_have_none(experiment):
    problem = MpPde(experiment=experiment, points=50, frames=26)
    frames = problem.solve()[0, :, 0]
    np.testing.assert_allclose(frames.mean(1), frames[0].mean(), atol=1e-13)


def written_again(problem, cells, sample, times):
    """The equation a second time: Fourier derivatives of point values, scipy's implicit solver."""
    x = np.arange(cells) * LENGTH / cells
    k = 2j * np.pi * np.fft.fftfreq(cells, LENGTH / cells)
    stream = fino.streams.numpy_stream(0, "mp-pde", sample)
    (a, w, p), waves = stream.random((3, 5)), stream.integers(1, 2, 5, endpoint=True)
    a, w, p = a - 0.5, 0.8 * w - 0.4, 2 * np.pi * p

    def delta(t):
        return sum(
            a[j] * np.sin(w[j] * t + 2 * np.pi * waves[j] * x / LENGTH + p[j]) for j in range(5)
        )

    def rate(t, u):
        flux = problem.alpha * np.fft.fft(u * u / 2) - problem.beta * k * (v := np.fft.fft(u))
        return delta(t) - np.fft.ifft(k * (flux + problem.gamma * k**2 * v)).real

    solved = solve_ivp(rate, (0, times[-1]), delta(0.0), "Radau", times, rtol=1e-8, atol=1e-9)
    shift = np.exp(k * LENGTH / cells / 2) * np.sinc(k.imag * LENGTH / cells / (2 * np.pi))
    return np.fft.ifft(np.fft.fft(solved.y.T) * shift).real


@pytest.mark.parametrize("method", ["weno", "spectral"])
def test_scipy_solves_the_forced_equation_alike(method):
    problem = MpPde(
        alpha=2.0, beta=0.3, gamma=0.05, frames=9, duration=1.0, method=method, courant=0.2
    )
    grid = line(96)
    forcing = problem.draw_forcing(grid, problem.times, 0, [3])
    ours = problem.solve(grid, problem.draw(grid, 0, [3]), forcing=forcing)[0, :, 0]
    theirs = written_again(problem, 96, 3, problem.times)
    np.testing.assert_allclose(ours, theirs, atol=2e-3 if method == "weno" else 2e-6)


def test_the_truth_of_every_experiment_is_converged():
    """Once more refined, the accumulated error is a hundredth of what is asked of models."""
    for experiment in ("E1", "E3"):
        kept = [
            fino.generate("mp-pde", 1, experiment=experiment, points=50, frames=51, refine=refine)
            for refine in (4, 8, 16)
        ]
        coarse, good, best = (data.read([0]) for data in kept)
        errors = [(u - best).square().mean(dim=(2, 3)).sum() for u in (coarse, good)]
        assert errors[1] < 1e-3 and errors[1] <= errors[0]


def test_data_carry_parameters_and_forcing_and_begin_at_frame_50():
    data = fino.generate("mp-pde", 400, seed=1, experiment="E2", points=8, frames=52, refine=1)
    assert data.history == 50 and data.card.forcing == ("delta",)
    assert [len(part) for part in (data.train, data.validation, data.test)] == [144, 128, 128]
    beta = data.parameters["beta"]
    assert 0 <= beta.min() < 0.02 < 0.18 < beta.max() <= 0.2
    given = data.test[0].given
    assert given.parameters.shape == (1, 1) and given.forcing.shape == (1, 3, 1, 8)
    at_start = data.conditions.forcing[:, 0, 0]
    np.testing.assert_allclose(at_start, data.read(range(400), 0, 1)[:, 0, 0], atol=1e-6)


def test_e3_draws_three_parameters_over_half_the_time():
    problem = MpPde(experiment="E3")
    drawn = problem.draw_parameters(0, range(64))
    assert list(drawn) == ["alpha", "beta", "gamma"]
    assert problem.times[-1] == 2.0 and MpPde(experiment="E3", duration=1.0).times[-1] == 1.0
    assert problem.kept_symmetries == ("shift",)
    assert MpPde(experiment="E2").kept_symmetries == ("shift", "flip")


def test_the_forcing_given_on_coarse_cells_is_the_mean_of_the_fine_one():
    problem, times = MpPde(), np.linspace(0, 1, 5)
    fine = problem.draw_forcing(line(80), times, 0, [2])
    coarse = problem.draw_forcing(line(20), times, 0, [2])
    np.testing.assert_allclose(fine.reshape(1, 5, 1, 20, 4).mean(-1), coarse, atol=1e-14)


def test_a_missing_forcing_is_said_in_one_line():
    problem = MpPde(points=8, frames=3)
    with pytest.raises(ValueError, match=r"^mp-pde needs forcing \(b, t, 1, \*space\)"):
        problem.solve(initial=problem.draw(problem.grid, 0, [0]))


def test_the_solver_baseline_knows_parameters_and_forcing():
    from fino.model.baselines import Solver

    data = fino.generate("mp-pde", 4, experiment="E2", points=40, frames=60, refine=2)
    part = data.test
    given, future = part.begin([0])
    found = Solver.fit(data, data.history).trajectory(
        given.history, future.shape[1], given.parameters, given.forcing
    )
    errors = [(u - future).square().mean() for u in (found, given.history[:, -1:])]
    assert errors[0] < 0.02 * errors[1]
