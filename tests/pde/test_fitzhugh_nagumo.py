"""The excitable medium against scipy at tight tolerance, against heat alone and reaction alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from fino.grid import Grid
from fino.pde.excitable import step
from fino.pde.fitzhugh_nagumo import FitzHughNagumo


def rate(y, medium, grid):
    """The right-hand side written a second time, with padding."""

    def laplacian(f):
        p = np.pad(f, 1, mode="edge")
        dx, dy = grid.spacing
        along = (p[2:, 1:-1] - 2 * f + p[:-2, 1:-1]) / dx**2
        return along + (p[1:-1, 2:] - 2 * f + p[1:-1, :-2]) / dy**2

    u, v = y
    return np.stack(
        [
            medium.diffusion_u * laplacian(u) + u - u**3 - medium.k - v,
            medium.diffusion_v * laplacian(v) + u - v,
        ]
    )


def reference(medium, grid, start, times):
    def flat(_, y):
        return rate(y.reshape(start.shape), medium, grid).ravel()

    span = (times[0], times[-1])
    solution = solve_ivp(
        flat, span, start.ravel(), method="DOP853", t_eval=times, rtol=1e-9, atol=1e-9
    )
    return solution.y.T.reshape(len(times), *start.shape)


@pytest.mark.parametrize(("points", "last"), [(32, 101), (128, 4)])
def test_trajectories_agree_with_a_tight_scipy_reference(points, last):
    medium = FitzHughNagumo(points=points, initial="pdebench")
    grid, times = medium.grid, medium.times[:last]
    start = medium.draw(grid, 0, [11])
    ours = medium.solve(grid, start, times)[0]
    assert ours.shape == (last, 2, points, points)
    error = np.abs(ours - reference(medium, grid, start[0], times)).max()
    assert error < 1e-6


def test_unequal_axes_agree_with_the_reference():
    medium = FitzHughNagumo()
    grid = Grid((12, 20), ((0.0, 0.5), (-1.0, 0.3)), "neumann")
    start = medium.draw(grid, 3, [0])
    times = np.array([0.0, 0.1, 0.5])
    ours = medium.solve(grid, start, times)[0]
    np.testing.assert_allclose(ours, reference(medium, grid, start[0], times), atol=1e-6)


def test_fast_diffusion_is_heat_alone():
    """With D so large, waves decay by the discrete heat law before anything reacts."""
    medium = FitzHughNagumo(points=32, diffusion_u=1e4, diffusion_v=3e4)
    grid = medium.grid
    i, j = np.meshgrid(np.arange(32) + 0.5, np.arange(32) + 0.5, indexing="ij")
    wave = np.cos(np.pi * 2 * i / 32) * np.cos(np.pi * 5 * j / 32)
    waves = ((2, grid.spacing[0]), (5, grid.spacing[1]))
    decay = sum(4 / dx**2 * math.sin(math.pi * m / 64) ** 2 for m, dx in waves)
    times = np.array([0.0, 1e-6, 2e-6])
    frames = medium.solve(grid, np.stack([wave, wave])[None], times)[0]
    for t, frame in zip(times, frames, strict=True):
        np.testing.assert_allclose(frame[0], wave * math.exp(-1e4 * decay * t), atol=1e-5)
        np.testing.assert_allclose(frame[1], wave * math.exp(-3e4 * decay * t), atol=1e-5)


def test_without_diffusion_every_cell_reacts_by_itself():
    medium = FitzHughNagumo(points=4, diffusion_u=0.0, diffusion_v=0.0)
    grid, times = medium.grid, medium.times
    start = medium.draw(grid, 0, [0])
    frames = medium.solve(grid, start, times)[0]

    def cell(_, y):
        return [y[0] - y[0] ** 3 - medium.k - y[1], y[0] - y[1]]

    for i, j in ((0, 0), (1, 3), (2, 1)):
        alone = solve_ivp(cell, (0, 5), start[0, :, i, j], t_eval=times, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(frames[:, :, i, j], alone.y.T, atol=1e-6)


def test_steps_are_fifth_order_in_time():
    medium = FitzHughNagumo(points=16)
    grid = medium.grid
    x, y = grid.mesh()
    start = np.stack([np.cos(np.pi * x), 0.5 * np.cos(2 * np.pi * y)])
    spread = np.array([[medium.diffusion_u], [medium.diffusion_v]]) / np.square(grid.spacing)

    def march(steps):
        now, after, slopes = start.copy(), np.empty_like(start), np.empty((7, *start.shape))
        slopes[0] = rate(now, medium, grid)
        for _ in range(steps):
            step(now, slopes, spread, medium.k, 2.0 / steps, after)
            now, slopes[0] = after.copy(), slopes[6]
        return now

    exact = march(256)
    errors = [np.abs(march(steps) - exact).max() for steps in (32, 64)]
    assert math.log2(errors[0] / errors[1]) == pytest.approx(5, abs=0.5)


def test_a_tighter_tolerance_is_more_exact():
    medium = FitzHughNagumo(points=32, frames=2, duration=1.0)
    grid, times = medium.grid, medium.times
    start = medium.draw(grid, 0, [0])

    def solve(tolerance):
        return medium.changed(tolerance=tolerance).solve(grid, start, times)

    exact = solve(1e-12)
    errors = [np.abs(solve(tolerance) - exact).max() for tolerance in (1e-3, 1e-5, 1e-7)]
    assert errors[0] > 10 * errors[1] > 100 * errors[2] > 0
    assert errors[2] < 1e-6


def test_the_flow_keeps_the_symmetries_that_it_names():
    medium = FitzHughNagumo(points=16, frames=3, duration=0.2)
    grid, times = medium.grid, medium.times
    start = medium.draw(grid, 0, [0])
    frames = medium.solve(grid, start, times)
    flipped = medium.solve(grid, start[..., ::-1, :], times)
    np.testing.assert_allclose(flipped, frames[..., ::-1, :], atol=1e-12)
    swapped = medium.solve(grid, start.swapaxes(-1, -2), times)
    np.testing.assert_allclose(swapped, frames.swapaxes(-1, -2), atol=1e-12)


def test_a_frame_is_a_state_to_go_on_from():
    medium = FitzHughNagumo(points=16, frames=5, duration=0.2)
    grid, times = medium.grid, medium.times
    frames = medium.solve(grid, medium.draw(grid, 0, [0, 1]), times)
    again = medium.solve(grid, medium.state(grid, frames[:, 2]), times[2:])
    np.testing.assert_allclose(again, frames[:, 2:], atol=1e-6)


def test_released_noise_is_numpys_old_generator_seeded_by_the_sample():
    medium = FitzHughNagumo(points=8, initial="pdebench")
    state = medium.draw(medium.grid, 0, [5])
    old = np.random.RandomState(5)
    np.testing.assert_array_equal(state[0, 0].ravel(), old.randn(64))
    np.testing.assert_array_equal(state[0, 1].ravel(), old.randn(64))


def test_fields_have_the_size_of_the_published_definition():
    """Root mean square at frames 10 and 100: u 0.20 → 0.32, v 0.05 → 0.18 (measured before)."""
    medium = FitzHughNagumo(initial="pdebench")
    grid, times = medium.grid, medium.times
    frames = medium.solve(grid, medium.draw(grid, 0, [0, 1]), times)
    size = np.sqrt((frames[:, [10, 100]] ** 2).mean((0, 3, 4)))
    np.testing.assert_allclose(size, [[0.20, 0.05], [0.32, 0.17]], atol=0.015)


def test_numbers_that_blow_up_are_not_passed_off_as_a_solution():
    medium = FitzHughNagumo(points=4, frames=2)
    start = np.full((1, 2, 4, 4), np.nan)
    frames = medium.solve(medium.grid, start, medium.times)
    assert np.isnan(frames[0, 1]).all()


def test_another_boundary_is_refused():
    medium = FitzHughNagumo(points=8)
    periodic = Grid((8, 8), ((0, 1), (0, 1)), "periodic")
    with pytest.raises(ValueError, match="needs closed edges, boundary 'neumann'"):
        medium.solve(periodic, np.ones((1, 2, 8, 8)), np.array([0.0, 1.0]))
