"""Dams between walls: reflections, standing waves, an independent solution, mass and starts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

import fino
from fino.grid import Grid
from fino.pde.shallow_water import ShallowWaterDams

WATER = ShallowWaterDams()


def box(*points):
    return Grid(points, ((0.0, 1.0), (0.0, 1.0)), "neumann")


@pytest.mark.parametrize("axis", [0, 1])
def test_a_bore_is_thrown_back_by_the_wall_as_the_jump_conditions_say(axis):
    """A stream of depth 1 and speed 0.8 meets a wall: a bore of depth h runs back at speed s.

    Mass: s (h − 1) = 0.8, momentum: s·0.8 + 0.8² + ½ = ½h²; behind the bore the water is still.
    """
    u, t = 0.8, 0.3
    h = brentq(lambda h: u * u / (h - 1) + u * u + 0.5 - 0.5 * h * h, 1.01, 5)
    speed = u / (h - 1)
    grid = box(400, 3) if axis == 0 else box(3, 400)
    state = np.zeros((1, 3, *grid.points))
    state[0, 0], state[0, 1 + axis] = 1.0, u
    frame = np.moveaxis(WATER.solve(grid, state, [0, t])[0, 1], 1 + axis, 1)[:, :, 0]
    x = (np.arange(400) + 0.5) / 400
    still = (x > 1 - speed * t + 0.02) & (x < 0.98)  # the wall itself is a little warm: start-up
    np.testing.assert_allclose(frame[0, still], h, rtol=2e-3)
    np.testing.assert_allclose(frame[1 + axis, still], 0, atol=4e-3)
    stream = (x > 0.6) & (x < 1 - speed * t - 0.02)
    np.testing.assert_allclose(frame[0, stream], 1.0, rtol=1e-6)


def test_a_small_standing_wave_swings_at_its_own_frequency():
    """h = 1 + a cos πx cos 2πy, ω = π√5: after a period it is back, after half turned over."""
    grid, a = box(64, 64), 1e-4
    x, y = grid.mesh()
    wave = np.cos(np.pi * x) * np.cos(2 * np.pi * y)
    state = np.stack([1 + a * wave, 0 * x, 0 * x])[None]
    period = 2 / math.sqrt(5)
    frames = WATER.solve(grid, state, [0, period / 2, period])[0, :, 0]
    share = ((frames - 1) * wave).sum((1, 2)) / (a * (wave**2).sum())
    np.testing.assert_allclose(share, [1, -1, 1], atol=0.02)


def written_again(state, spacing, t):
    """The equations a second time: fourth-order differences over mirror images, scipy in time."""

    def derivative(f, axis, odd):
        sign = -1 if odd else 1
        turned = np.moveaxis(f, axis, 0)
        wide = np.concatenate([sign * turned[1::-1], turned, sign * turned[:-3:-1]])
        slope = (8 * (wide[3:-1] - wide[1:-3]) - (wide[4:] - wide[:-4])) / (12 * spacing)
        return np.moveaxis(slope, 0, axis)

    def rate(_, flat):
        h, m, n = flat.reshape(state.shape)
        flux = [m * m / h + 0.5 * h * h, m * n / h, n * n / h + 0.5 * h * h]
        mass = derivative(m, 0, True) + derivative(n, 1, True)
        along = derivative(flux[0], 0, False) + derivative(flux[1], 1, True)
        across = derivative(flux[1], 0, True) + derivative(flux[2], 1, False)
        return -np.stack([mass, along, across]).ravel()

    solved = solve_ivp(rate, (0, t), state.ravel(), "DOP853", [t], rtol=1e-8, atol=1e-10)
    return solved.y.reshape(state.shape)


def test_smooth_water_against_walls_converges_to_scipys_solution_with_second_order():
    errors = []
    for cells in (32, 64):
        grid = box(cells, cells)
        x, y = grid.mesh()
        h = 1 + 0.2 * np.cos(np.pi * x) * np.cos(np.pi * y) + 0.1 * np.cos(2 * np.pi * x)
        state = np.stack([h, 0 * h, 0 * h])
        ours = WATER.solve(grid, state[None], [0, 0.3])[0, 1]
        errors.append(np.abs(ours - written_again(state, 1 / cells, 0.3)).mean())
    assert errors[1] < 5e-4 and math.log2(errors[0] / errors[1]) > 1.6, errors


@pytest.fixture(scope="module")
def dams():
    water = ShallowWaterDams(points=32)
    return water, water.solve(initial=water.draw(water.grid, 0, range(4)))


def test_no_water_leaves_the_basin_although_waves_meet_its_walls(dams):
    _, frames = dams
    mass = frames[:, :, 0].mean((2, 3))
    np.testing.assert_allclose(mass, np.repeat(mass[:, :1], mass.shape[1], 1), rtol=1e-13)
    edge = frames[:, :, 0, 0]
    assert (np.ptp(edge, axis=(1, 2)) > 0.05).all()


def test_energy_is_only_lost(dams):
    h, hu, hv = np.moveaxis(dams[1], 2, 0)
    energy = (0.5 * (hu**2 + hv**2) / h + 0.5 * h * h).mean((2, 3))
    assert (np.diff(energy, axis=1) < 1e-9).all()


def test_still_water_stays_still():
    state = np.zeros((1, 3, 12, 9))
    state[:, 0] = 1.7
    np.testing.assert_allclose(WATER.solve(box(12, 9), state, [0, 1.0])[0, 1], state[0], atol=1e-13)


def test_starts_are_ellipses_of_still_water_off_the_centre():
    water = ShallowWaterDams(points=64)
    state = water.draw(water.grid, 0, range(30))
    assert not state[:, 1:].any()
    assert state[:, 0].min() >= 0.5 and state[:, 0].max() <= 2.5
    centre = (state[:, 0] * water.grid.mesh()[0]).mean((1, 2)) / state[:, 0].mean((1, 2))
    assert np.abs(centre).mean() > 0.02
    levels = [len(np.unique(h.round(6))) for h in state[:, 0]]
    assert min(levels) > 20, "cells on a rim carry their share"


def test_a_coarse_start_is_the_mean_of_the_fine_one():
    fine, coarse = (WATER.draw(box(n, n), 1, [2])[0, 0] for n in (64, 16))
    np.testing.assert_allclose(fine.reshape(16, 4, 16, 4).mean((1, 3)), coarse, atol=1e-13)


def test_data_are_solved_fine_and_hold_the_whole_state():
    data = fino.generate("shallow-water-dams", 3, points=8, frames=3, duration=0.5)
    assert data.card.refine == 4 and data.fields == ("h", "hu", "hv")
    assert data.card.symmetries == ("flip", "rotate") and data.card.directions == (None, 0, 1)


def test_mistakes_are_answered_with_one_line():
    with pytest.raises(ValueError, match=r"^Setting 'dams' should be \(low, high\) with 0 < low"):
        ShallowWaterDams(dams=(3, 2))
    with pytest.raises(ValueError, match=r"^Setting 'depth' should be \(low, high\)"):
        ShallowWaterDams(depth=(0.0, 2.0))
