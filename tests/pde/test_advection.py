"""Advection against the exact shift."""

from __future__ import annotations

import numpy as np
import pytest

from fino.pde.advection import Advection


def solved(points, profile, times, **settings):
    problem = Advection(points=points, **settings)
    (x,) = problem.grid.coordinates()
    frames = problem.solve(initial=profile(x)[None, None], times=times)
    return x, frames[0, :, 0]


def smooth(x):
    return np.exp(np.sin(2 * np.pi * x))


def step(x):
    return np.where((x % 1 > 0.25) & (x % 1 < 0.75), 1.0, 0.0)


@pytest.mark.parametrize("beta", [1.3, -0.7])
def test_a_smooth_profile_shifts_with_second_order(beta):
    errors = []
    for points in (64, 128, 256, 512):
        x, (_, end) = solved(points, smooth, [0, 0.9], beta=beta)
        errors.append(np.abs(end - smooth(x - beta * 0.9)).mean())
    order = np.log2(np.divide(errors[:-1], errors[1:]))
    assert (order > 1.7).all(), order
    assert errors[-1] < 5e-4


def test_a_step_gets_no_new_extremes():
    _, (_, end) = solved(200, step, [0, 0.6], beta=2.0)
    assert end.min() > -1e-12 and end.max() < 1 + 1e-12


def test_the_total_is_kept():
    _, frames = solved(200, step, np.linspace(0, 1, 5))
    np.testing.assert_allclose(frames.sum(1), frames[0].sum(), rtol=1e-12)


def test_left_is_the_mirror_image_of_right():
    _, right = solved(60, smooth, [0, 0.1, 0.2], beta=3.0)
    _, left = solved(60, lambda x: smooth(1 - x), [0, 0.1, 0.2], beta=-3.0)
    np.testing.assert_allclose(left[:, ::-1], right, atol=1e-13)


def test_nothing_moves_at_speed_zero():
    _, frames = solved(32, step, [0, 1, 2], beta=0.0)
    np.testing.assert_array_equal(frames, np.stack([frames[0]] * 3))


def test_saved_times_in_between_do_not_change_when_a_frame_is_reached_in_whole_steps():
    # One cell is 2.5 steps of Courant number 0.4: frames two cells apart take whole steps.
    two_cells = 2 / 50
    _, all_frames = solved(50, smooth, [0, two_cells, 2 * two_cells], beta=1.0)
    _, ends = solved(50, smooth, [0, 2 * two_cells], beta=1.0)
    np.testing.assert_allclose(all_frames[-1], ends[-1], atol=1e-13)


def test_the_scheme_s_diffusion_is_as_large_as_in_pdebench():
    """After eight rounds the median distance from the start was 0.0093 of a smooth profile."""
    problem = Advection(initial="pdebench")
    start = problem.draw(problem.grid, 0, range(24))
    end = problem.solve(initial=start, times=[0, 2.0])[:, -1]
    error = np.sqrt(((end - start) ** 2).mean((1, 2)) / (start**2).mean((1, 2)))
    assert np.median(error) == pytest.approx(0.0093, rel=0.4)


def test_a_wave_too_fast_to_follow_is_refused():
    with pytest.raises(ValueError, match="steps to the next frame"):
        solved(64, smooth, [0, 1.0], beta=1e9)


def test_times_that_do_not_grow_are_refused():
    with pytest.raises(ValueError, match="saved times should grow"):
        solved(64, smooth, [0, 1.0, 1.0])


def test_the_fastest_wave_is_beta():
    assert Advection(beta=-3.0).speed == 3.0


def test_a_problem_solves_one_sample_of_its_own_when_nothing_is_named():
    problem = Advection(beta=2.0, points=64, frames=5)
    start = problem.draw(problem.grid, 0, [0])
    np.testing.assert_array_equal(
        problem.solve(), problem.solve(problem.grid, start, problem.times)
    )


def test_an_unknown_setting_is_refused_with_a_hint():
    with pytest.raises(ValueError, match=r"^Unknown setting 'bet'\. Did you mean 'beta'\?$"):
        Advection(bet=4.0)


def test_a_start_on_another_grid_is_refused():
    with pytest.raises(ValueError, match=r"^initial should be .* on a grid of \(64,\), got"):
        Advection(points=64).solve(initial=np.zeros((1, 1, 32)))
