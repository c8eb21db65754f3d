"""Fisher's equation against the logistic curve, the heat kernel and a reference of another kind."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from fino.pde.fisher import Fisher


def solved(start, times, **settings):
    points = start.shape[-1]
    problem = Fisher(points=points, **settings)
    return problem.solve(initial=np.reshape(start, (-1, 1, points)), times=times)[:, :, 0]


def centres(points):
    return (np.arange(points) + 0.5) / points


@pytest.mark.parametrize("rho", [1.0, 10.0])
def test_a_uniform_start_follows_the_logistic_curve(rho):
    times = np.linspace(0, 1, 6)
    start = np.array([[0.01], [0.3], [0.99]])
    curve = start / (start + (1 - start) * np.exp(-rho * times))
    frames = solved(np.repeat(start, 32, axis=1), times, rho=rho)
    np.testing.assert_allclose(frames, np.repeat(curve[:, :, None], 32, axis=2), rtol=1e-12)


def test_without_growth_a_bump_spreads_like_the_heat_kernel():
    x, nu, width = centres(256), 0.1, 0.05

    def kernel(t):
        spread = width**2 + 2 * nu * t
        images = np.arange(-8, 9)[:, None]
        return (np.exp(-((x - 0.5 + images) ** 2) / (2 * spread)) / np.sqrt(spread)).sum(0)

    times = np.array([0.0, 0.01, 0.1, 0.5])
    frames = solved(kernel(0.0), times, nu=nu, rho=0.0)[0]
    np.testing.assert_allclose(frames, [kernel(t) for t in times], atol=1e-12)


def test_without_diffusion_every_point_grows_alone():
    start = centres(64)
    frames = solved(start, np.array([0.0, 0.4]), nu=0.0, rho=3.0)[0]
    np.testing.assert_allclose(frames[1], start / (start + (1 - start) * np.exp(-1.2)), rtol=1e-12)


def test_it_agrees_with_a_stiff_integrator_on_the_same_waves():
    n, nu, rho = 32, 0.05, 4.0
    start = 0.5 + 0.4 * np.sin(2 * np.pi * centres(n)) * np.cos(4 * np.pi * centres(n))
    damping = nu * (2 * np.pi * np.fft.rfftfreq(n, 1 / n)) ** 2

    def slope(_, u):
        return np.fft.irfft(-damping * np.fft.rfft(u), n) + rho * u * (1 - u)

    times = np.linspace(0, 1, 5)
    other = solve_ivp(slope, (0, 1), start, "Radau", times, rtol=1e-10, atol=1e-12).y.T
    frames = solved(start, times, nu=nu, rho=rho, step=0.1)[0]
    np.testing.assert_allclose(frames, other, atol=1e-8)


@pytest.mark.parametrize(("nu", "rho"), [(0.5, 1.0), (0.5, 10.0), (0.005, 10.0)])
def test_the_error_falls_with_the_fourth_power_of_the_step(nu, rho):
    """Also from rough profiles, where even steps would lose the order."""
    problem = Fisher(points=256)
    start = problem.draw(problem.grid, 0, range(8))
    times = np.array([0.0, 0.05])
    exact = solved(start, times, nu=nu, rho=rho, step=1 / 64)
    errors = [
        np.abs(solved(start, times, nu=nu, rho=rho, step=step) - exact).max()
        for step in (1 / 2, 1 / 4, 1 / 8)
    ]
    assert np.log2(errors[0] / errors[2]) / 2 > 3, errors
    assert errors[1] < 5e-7


def test_profiles_stay_between_zero_and_one_and_grow_on_towards_one():
    """PDEBench's released ρ = 1 files stand still at about 0.5."""
    problem = Fisher(points=128)
    frames = problem.solve(initial=problem.draw(problem.grid, 0, range(6)))
    assert frames.min() > -1e-9 and frames.max() < 1 + 1e-9
    level = frames.mean((2, 3))
    # Once flat, the logistic rate u (1 − u) is what is left.
    rate = (level[:, -1] - level[:, -11]) / 0.1
    middle = level[:, -6]
    np.testing.assert_allclose(rate, middle * (1 - middle), rtol=1e-3)


def test_steps_fill_every_interval_exactly_and_grow():
    problem = Fisher()
    times = problem.times
    plan = [list(steps) for steps in problem.step_sizes(problem.grid, times)]
    np.testing.assert_allclose([sum(steps) for steps in plan], np.diff(times), rtol=1e-12)
    assert plan[0][0] < 1e-5
    assert all(len(steps) == 1 for steps in plan[8:])


def test_the_mirror_image_of_a_start_gives_the_mirror_image_of_the_solution():
    problem = Fisher(points=64)
    start = problem.draw(problem.grid, 0, [0])
    frames = problem.solve(initial=start, times=[0.0, 0.01])
    mirror = problem.solve(initial=start[..., ::-1], times=[0.0, 0.01])
    np.testing.assert_allclose(mirror[..., ::-1], frames, atol=1e-13)
