"""Gray–Scott against its ODE, exact heat, an independent grid solution, and its own order."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

import fino
from fino.grid import Grid
from fino.pde.gray_scott import PATTERNS, GrayScott


def smooth(grid):
    """A few waves around the middle of the reaction."""
    x, y = grid.mesh()
    a = 0.5 + 0.2 * np.cos(np.pi * x) * np.sin(2 * np.pi * y)
    return np.stack([a, 0.25 + 0.1 * np.sin(np.pi * (x + y))])[None]


def test_steps_are_fourth_order_in_time():
    problem = GrayScott(points=16, finer=1, diffusion_a=1e-3, diffusion_b=5e-4)
    start, times = smooth(problem.grid), np.array([0.0, 32.0])

    def march(step):
        return problem.changed(step=step).solve(initial=start, times=times)[0, 1]

    exact = march(0.125)
    errors = [np.abs(march(step) - exact).max() for step in (2.0, 1.0)]
    assert math.log2(errors[0] / errors[1]) == pytest.approx(4, abs=0.4)


@pytest.mark.parametrize("name", PATTERNS)
def test_a_homogeneous_state_follows_the_ode(name):
    feed, kill = PATTERNS[name]
    problem = GrayScott(points=4, feed=feed, kill=kill, step=0.5, frames=11, duration=50)
    start = np.ones((1, 2, 4, 4)) * np.array([0.4, 0.3])[:, None, None]
    frames = problem.solve(initial=start)[0]

    def rate(_, y):
        a, b = y
        return [feed * (1 - a) - a * b * b, a * b * b - (feed + kill) * b]

    ode = solve_ivp(rate, (0, 50), [0.4, 0.3], t_eval=problem.times, rtol=1e-11, atol=1e-12)
    for i, j in ((0, 0), (3, 1)):
        np.testing.assert_allclose(frames[:, :, i, j], ode.y.T, atol=1e-7)


def test_without_b_a_is_exactly_heat_that_is_fed():
    """B = 0: 1 − A spreads by the heat kernel and decays with f, however large the step."""
    problem = GrayScott(points=64, frames=3, duration=200, step=1000, diffusion_a=1e-4)
    grid = problem.grid
    x, y = grid.mesh()

    def kernel(t):
        spread = 0.01 + 2 * problem.diffusion_a * t
        images = [
            np.exp(-((x + 2 * i) ** 2 + (y + 2 * j) ** 2) / (2 * spread))
            for i in (-1, 0, 1)
            for j in (-1, 0, 1)
        ]
        return 1 - sum(images) * 0.01 / spread * math.exp(-problem.feed * t)

    frames = problem.solve(initial=np.stack([kernel(0), 0 * x])[None])[0]
    for t, frame in zip(problem.times, frames, strict=True):
        np.testing.assert_allclose(frame[0], kernel(t), atol=1e-9)
    assert not frames[:, 1].any()


def test_without_feed_and_kill_the_two_masses_add_up():
    problem = GrayScott(points=64, feed=0, kill=0, frames=6, duration=50, finer=1)
    # on the solver's own grid the mean is a Fourier mode
    mass = problem.solve()[0].mean((2, 3))
    np.testing.assert_allclose(mass.sum(1), mass[0].sum(), rtol=1e-12)
    assert (np.diff(mass[:, 0]) < 0).all()


def test_the_mean_of_the_sum_obeys_its_balance():
    """d/dt ⟨A + B⟩ = f (1 − ⟨A⟩) − (f + k) ⟨B⟩, integrated over time by Simpson's rule."""
    problem = GrayScott(points=64, frames=41, duration=20, step=0.25, finer=1)
    a, b = problem.solve()[0].mean((2, 3)).T
    rate = problem.feed * (1 - a) - (problem.feed + problem.kill) * b
    simpson = (rate[0] + rate[-1] + 4 * rate[1::2].sum() + 2 * rate[2:-1:2].sum()) * 0.5 / 3
    assert (a + b)[-1] - (a + b)[0] == pytest.approx(simpson, abs=1e-7)


def finite_differences(problem, points, times):
    """The equation written a second time: five-point Laplacian, error-controlled Runge–Kutta."""
    grid = problem.grid.refined((points, points))
    start, h = smooth(grid)[0], grid.spacing[0]

    def laplacian(u):
        near = sum(np.roll(u, s, axis) for s in (-1, 1) for axis in (0, 1))
        return (near - 4 * u) / h**2

    def rate(_, y):
        a, b = y.reshape(start.shape)
        eaten, f, k = a * b * b, problem.feed, problem.kill
        da = problem.diffusion_a * laplacian(a) - eaten + f * (1 - a)
        return np.stack([da, problem.diffusion_b * laplacian(b) + eaten - (f + k) * b]).ravel()

    last = solve_ivp(rate, times, start.ravel(), "DOP853", [times[-1]], rtol=1e-9, atol=1e-10)
    return last.y.reshape(start.shape)


def test_finite_differences_converge_to_it_with_second_order():
    problem = GrayScott(points=16, diffusion_a=2e-3, diffusion_b=1e-3, step=0.25)
    times = np.array([0.0, 20.0])
    errors = []
    for points in (16, 32, 64):
        grid = problem.grid.refined((points, points))
        ours = problem.solve(grid, smooth(grid), times)[0, 1]
        errors.append(np.abs(ours - finite_differences(problem, points, times)).max())
    assert errors[2] < 2e-4
    assert math.log2(errors[1] / errors[2]) == pytest.approx(2, abs=0.15)


def test_twice_the_points_are_enough_in_space():
    start = GrayScott().draw(GrayScott().grid, 0, [0])[..., :64, :64]
    half = Grid((64, 64), ((-1, 0), (-1, 0)), "periodic")
    window = np.sin(np.pi * (np.arange(64) + 0.5) / 64) ** 2
    start[:, 0] = 1 - (1 - start[:, 0]) * window * window[:, None]
    start[:, 1] *= window * window[:, None]
    problem, times = GrayScott(pattern="own"), np.array([0.0, 100.0])
    solved = {r: problem.changed(finer=r).solve(half, start, times)[0, 1, 1] for r in (1, 2, 4)}
    errors = [np.sqrt(((solved[r] - solved[4]) ** 2).mean()) / solved[4].std() for r in (1, 2)]
    assert errors[1] < 1e-4 < errors[0] < 0.1


@pytest.mark.parametrize("points", [(8, 8), (7, 12)])
def test_a_refined_start_passes_through_the_given_values(points):
    from scipy.fft import irfft2

    from fino.pde.gray_scott import _refine_spectrum

    u = np.random.default_rng(0).normal(size=(1, 2, *points))
    fine = irfft2(_refine_spectrum(u, 3), [3 * n for n in points])
    np.testing.assert_allclose(fine[..., ::3, ::3], u, atol=1e-12)


def test_starts_are_concentrations_that_cover_part_of_the_square():
    a, b = GrayScott().draw(GrayScott().grid, 0, range(6)).swapaxes(0, 1)
    assert a.min() >= 0.5 and a.max() <= 1 and b.min() >= 0 and b.max() <= 0.5
    covered = (b > 0.25).mean((1, 2))
    assert covered.min() > 0.01 and covered.max() < 0.9


def test_samples_take_turns_with_the_patterns():
    small = {"points": 8, "frames": 3, "duration": 2}
    data = fino.generate("gray-scott", 8, seed=1, pattern="all", **small)
    assert list(data.card.varying) == ["feed", "kill"] and not data.card.vary
    assert not {"feed", "kill"} & set(data.card.parameters)
    pairs = list(zip(data.parameters["feed"], data.parameters["kill"], strict=True))
    assert pairs == [*PATTERNS.values(), *list(PATTERNS.values())[:2]]
    for sample, (feed, kill) in enumerate(pairs):
        alone = fino.generate("gray-scott", sample + 1, seed=1, feed=feed, kill=kill, **small)
        assert torch.equal(data.read([sample]), alone.read([sample]))
    two = fino.generate(
        "gray-scott", 3, pattern="maze,spots", vary={"diffusion_a": (1e-5, 3e-5)}, **small
    )
    assert two.parameters["feed"].tolist() == [0.029, 0.03, 0.029]
    assert list(two.card.varying) == ["feed", "kill", "diffusion_a"]


def test_a_pattern_alone_is_solved_with_its_own_rates(tmp_path):
    small = {"points": 8, "frames": 3, "duration": 2}
    feed, kill = PATTERNS["maze"]
    named, spelt = GrayScott(pattern="maze", **small), GrayScott(feed=feed, kill=kill, **small)
    np.testing.assert_array_equal(named.solve(), spelt.solve())
    data = fino.generate(named, 2, out=tmp_path / "maze.h5")
    again = fino.generate(named, 2, out=tmp_path / "maze.h5")
    assert again.hash == data.hash
    assert data.parameters["kill"] == pytest.approx([kill, kill])


def test_wrong_patterns_are_answered_in_one_line():
    with pytest.raises(ValueError, match=r"Unknown pattern 'mase'\. Did you mean 'maze'"):
        GrayScott(pattern="mase")
    with pytest.raises(ValueError, match="feed cannot vary: gray-scott draws it for every"):
        fino.generate("gray-scott", 2, pattern="all", vary={"feed": "0.01:0.02"})
    closed = Grid((8, 8), ((0, 1), (0, 1)), "neumann")
    with pytest.raises(ValueError, match="needs a torus, boundary 'periodic'"):
        GrayScott().solve(closed, np.ones((1, 2, 8, 8)), np.array([0.0, 1.0]))
