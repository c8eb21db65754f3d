"""The dam break against Stoker's exact solution, its symmetries, its mass and its radii."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq

from fino.grid import Grid
from fino.pde.shallow_water import ShallowWater, ShallowWaterMomenta, disk_share


def stoker(x, t, deep, shallow, g=1.0):
    """Depth of a plane dam break at x = 0 on a wet bed (Stoker, 1957)."""
    left = math.sqrt(g * deep)

    def mismatch(h):  # flow behind the fan minus flow behind the shock
        jump = (h - shallow) * math.sqrt(0.5 * g * (h + shallow) / (h * shallow))
        return 2 * (left - math.sqrt(g * h)) - jump

    h = brentq(mismatch, shallow, deep, xtol=1e-14)
    u = 2 * (left - math.sqrt(g * h))
    shock = h * u / (h - shallow)
    fan = (2 * left - x / t) ** 2 / (9 * g)
    s = x / t
    return np.select([s <= -left, s <= u - math.sqrt(g * h), s <= shock], [deep, fan, h], shallow)


def plane_dam(points, deep, shallow, axis):
    shape = (points, 3) if axis == 0 else (3, points)
    extent = ((-1.0, 1.0), (-1.0, 1.0))
    grid = Grid(shape, extent, "neumann")
    x = grid.mesh()[axis]
    state = np.zeros((1, 3, *shape))
    state[0, 0] = np.where(x < 0, deep, shallow)
    return grid, state, x


def dam_error(points, deep, shallow, axis=0, t=0.35):
    grid, state, x = plane_dam(points, deep, shallow, axis)
    h = ShallowWater().solve(grid, state, [0.0, t])[0, 1, 0]
    return np.abs(h - stoker(x, t, deep, shallow)).mean()


@pytest.mark.parametrize(("deep", "shallow"), [(2.0, 1.0), (2.0, 0.05)])
def test_a_plane_dam_break_converges_to_stokers_solution(deep, shallow):
    errors = [dam_error(points, deep, shallow) for points in (50, 100, 200, 400)]
    assert errors[-1] < 2.5e-3 * (deep - shallow)
    order = math.log2(errors[0] / errors[-1]) / 3
    assert order > 0.8, f"L1 errors {errors}"


def test_a_fan_that_straddles_speed_zero_opens_up():
    """Roe's average of these two states stands still: without an entropy fix nothing moves."""
    grid, state, x = plane_dam(200, 2.25, 0.25, axis=0)
    slow = math.sqrt(1.25) - 0.5
    state[0, 1] = np.where(x < 0, 2.25 * slow, 0.25 * (slow + 2.0))
    t = 0.3
    h = ShallowWater().solve(grid, state, [0.0, t])[0, 1, 0]
    fan = np.clip((3.0 + slow - x / t) ** 2 / 9, 0.25, 2.25)
    assert np.abs(h - fan).max() < 0.1


def test_the_dam_breaks_alike_along_either_axis():
    assert dam_error(100, 2.0, 1.0, axis=0) == pytest.approx(dam_error(100, 2.0, 1.0, axis=1))


def test_smooth_water_converges_at_second_order():
    def hump(points):
        grid = Grid((points, points), ((-2.0, 2.0), (-2.0, 2.0)), "neumann")
        x, y = grid.mesh()
        state = np.zeros((1, 3, points, points))
        state[0, 0] = 1 + 0.1 * np.exp(-2 * (x**2 + (y - 0.2) ** 2))
        return ShallowWater().solve(grid, state, [0.0, 0.5])[0, 1, 0]

    def halved(field):
        n = len(field) // 2
        return field.reshape(n, 2, n, 2).mean((1, 3))

    coarse, middle, fine = hump(32), hump(64), hump(128)
    first = np.abs(coarse - halved(middle)).mean()
    second = np.abs(middle - halved(fine)).mean()
    assert math.log2(first / second) > 1.7


@pytest.fixture(scope="module")
def reference():
    """Two full trajectories on half the cells."""
    water = ShallowWaterMomenta(points=64, initial="pdebench", frames=11)
    state = water.draw(water.grid, 0, [3, 4])
    return water, state, water.solve(initial=state)


def test_mass_is_kept_until_the_wave_reaches_the_edge(reference):
    _, _, frames = reference
    mass = frames[:, :, 0].mean((-1, -2))
    np.testing.assert_allclose(mass, mass[:, :1] * np.ones(11), rtol=1e-12)
    assert np.abs(frames[:, -1, 0, 0] - 1).max() < 1e-6, "the wave has not reached the edge"


def test_the_ring_is_symmetric_under_mirrors_and_a_swap_of_axes(reference):
    _, _, frames = reference
    h, hu, hv = frames[:, :, 0], frames[:, :, 1], frames[:, :, 2]
    np.testing.assert_allclose(h, h[..., ::-1, :], atol=1e-12)
    np.testing.assert_allclose(h, h[..., ::-1], atol=1e-12)
    np.testing.assert_allclose(h, h.swapaxes(-1, -2), atol=1e-12)
    np.testing.assert_allclose(hu, -hu[..., ::-1, :], atol=1e-12)
    np.testing.assert_allclose(hu, hv.swapaxes(-1, -2), atol=1e-12)


def test_the_ring_is_round():
    """Depth along the axis and along the diagonal agree as functions of the radius."""
    water = ShallowWater(points=128, frames=2, duration=0.6, distinct=True)
    h = water.solve()[0, 1, 0]
    x = water.grid.coordinates()[0][64:]
    along_axis = np.interp(np.sqrt(2) * x[:40], x, 0.5 * (h[64:, 63] + h[64:, 64]))
    along_diagonal = np.diagonal(h)[64:104]
    assert np.abs(along_axis - along_diagonal).mean() < 0.01


def test_no_wave_is_faster_than_the_bound(reference):
    water, _, frames = reference
    h, flow = frames[:, :, 0], np.hypot(frames[:, :, 1], frames[:, :, 2])
    fastest = (flow / h + np.sqrt(h)).max()
    assert 1.5 < fastest < water.speed == pytest.approx(2 * math.sqrt(2) - 1)


def test_frames_with_momenta_can_be_continued(reference):
    water, _, frames = reference
    again = water.state(water.grid, frames[:, 5])
    late = water.solve(initial=again, times=water.times[5:])
    np.testing.assert_allclose(late, frames[:, 5:], atol=1e-12)
    assert ShallowWater().state(water.grid, frames[:, 5, :1]) is None


def test_godunov_splitting_is_close_but_not_symmetric(reference):
    water, state, frames = reference
    h = water.changed(splitting="godunov").solve(initial=state)[:, -1, 0]
    assert np.abs(h - h.swapaxes(-1, -2)).max() > 1e-4
    assert np.sqrt(((h - frames[:, -1, 0]) ** 2).mean()) < 5e-3


def test_radii_of_the_released_file_give_its_mean_depth_and_81_masks():
    """A third party measured a mean depth of 1.03265 over 800 of the 1000 trajectories."""
    water = ShallowWater(initial="pdebench")
    state = water.draw(water.grid, 0, range(1000))
    assert state[:, 0].mean() == pytest.approx(1.03253, abs=5e-6)
    assert len({h.tobytes() for h in state[:, 0]}) == 81


def test_distinct_dams_are_all_different_and_hold_the_circles_water():
    water = ShallowWater(points=64, distinct=True, initial="pdebench")
    state = water.draw(water.grid, 0, range(300))
    assert len({h.tobytes() for h in state[:, 0]}) == 300
    volume = (state[:, 0] - 1).sum((1, 2)) * np.prod(water.grid.spacing)
    exact = [math.pi * water.draw_radius(0, sample) ** 2 for sample in range(300)]
    np.testing.assert_allclose(volume, exact, rtol=1e-12)


def test_the_share_of_a_cell_agrees_with_counting_points():
    grid = Grid((8, 6), ((-1.0, 1.2), (-0.9, 1.0)), "neumann")
    fine = grid.refined((8 * 60, 6 * 60)).mesh()
    counted = (fine[0] ** 2 + fine[1] ** 2 <= 0.7**2).reshape(8, 60, 6, 60).mean((1, 3))
    np.testing.assert_allclose(disk_share(grid, 0.7), counted, atol=5e-3)


def test_draws_depend_on_the_seed_and_the_sample_alone():
    water = ShallowWater(points=32, distinct=True)
    one = water.draw(water.grid, 7, [2])
    np.testing.assert_array_equal(water.draw(water.grid, 7, [5, 2])[1], one[0])
    assert (water.draw(water.grid, 8, [2]) != one).any()


def test_mistakes_are_answered_with_one_line():
    with pytest.raises(ValueError, match=r"^Setting 'radius' should be \(low, high\) with 0 < low"):
        ShallowWater(radius=(0.7, 0.3))
    water = ShallowWater(points=8)
    with pytest.raises(ValueError, match="needs water everywhere"):
        water.solve(initial=np.zeros((1, 3, 8, 8)))
    periodic = Grid((8, 8), ((0, 1), (0, 1)), "periodic")
    with pytest.raises(ValueError, match="open edges, boundary 'neumann'"):
        water.solve(periodic, np.ones((1, 3, 8, 8)))
