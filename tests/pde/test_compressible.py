"""Compressible flow against exact solutions: a gas tube, a drifting contact, damped sound."""

from __future__ import annotations

import numpy as np
import pytest
from riemann import exact

from fino.pde.compressible import Compressible


def solved(frame_of, times, **settings):
    problem = Compressible(**settings)
    (x,) = problem.grid.coordinates()
    frame = np.stack(np.broadcast_arrays(*frame_of(x)))[None]
    return x, problem.solve(initial=problem.state(problem.grid, frame), times=times)[0]


SOD = ((1.0, 1.0, 0.0), (0.125, 0.1, 0.0))
FAST = ((1.0, 3.0, 0.9), (2.0, 1.0, -0.4))


def test_the_exact_gas_tube_has_the_values_of_the_textbook():
    """Toro's first test, table 4.2: p* = 0.30313, v* = 0.92745."""
    density, pressure, velocity = exact(*SOD, 1.4, np.array([0.5, 1.5]))
    np.testing.assert_allclose(pressure, 0.30313, atol=1e-5)
    np.testing.assert_allclose(velocity, 0.92745, atol=1e-5)
    np.testing.assert_allclose(density, [0.42632, 0.26557], atol=1e-5)


@pytest.mark.parametrize(("left", "right"), [SOD, SOD[::-1], FAST])
def test_a_gas_tube_converges_to_the_exact_one_with_first_order(left, right):
    errors = []
    for points in (128, 256, 512, 1024):
        x, frames = solved(
            lambda x: [np.where(x < 0, a, b) for a, b in zip(left, right, strict=True)],
            [0, 0.3],
            points=points,
            gamma=1.4,
            boundary="outgoing",
        )
        errors.append(np.abs(frames[-1] - exact(left, right, 1.4, x / 0.3)).mean())
    order = np.log2(np.divide(errors[:-1], errors[1:]))
    assert (order > 0.75).all() and order.mean() > 0.85, order
    assert errors[-1] < 5e-3


@pytest.mark.parametrize("eta", [0.0, 0.02])
def test_mass_momentum_and_energy_are_kept_on_a_periodic_line(eta):
    problem = Compressible(points=128, eta=eta, zeta=eta, frames=4, duration=0.5)
    start = problem.draw(problem.grid, 0, range(3))
    frames = problem.solve(initial=start)
    for frame in np.moveaxis(frames, 1, 0):
        state = problem.state(problem.grid, frame)
        scale = np.abs(start).sum(-1)
        assert (np.abs(state.sum(-1) - start.sum(-1)) < 1e-12 * scale).all()


def test_a_drifting_contact_keeps_its_pressure_and_velocity():
    _, frames = solved(
        lambda x: (1 + 0.5 * (np.abs(x) < 0.4), 2.0, 0.7), [0, 0.5], points=100, eta=0, zeta=0
    )
    np.testing.assert_allclose(frames[:, 1], 2.0, rtol=1e-11)
    np.testing.assert_allclose(frames[:, 2], 0.7, rtol=1e-11)


def test_smooth_density_drifts_with_second_order():
    def density(x):
        return 2 + np.sin(np.pi * x)

    errors = []
    for points in (64, 128, 256):
        x, frames = solved(lambda x: (density(x), 2.0, 1.0), [0, 0.5], points=points)
        errors.append(np.abs(frames[-1, 0] - density(x - 0.5)).mean())
    assert (np.log2(np.divide(errors[:-1], errors[1:])) > 1.7).all(), errors


def test_viscosity_damps_a_standing_sound_wave_at_the_known_rate():
    """One period of ω² = c²k² − (μk²/2)² later, v = a sin kx has become v e^{−μk²t/2}."""
    eta, zeta, k, amplitude = 0.03, 0.02, np.pi, 1e-4
    rate = (4 / 3 * eta + zeta) * k**2 / 2
    period = 2 * np.pi / np.sqrt(5 / 3 * k**2 - rate**2)
    x, frames = solved(
        lambda x: (1.0, 1.0, amplitude * np.sin(k * x)),
        [0, period],
        points=256,
        eta=eta,
        zeta=zeta,
    )
    left = (frames[-1, 2] * np.sin(k * x)).sum() / (frames[0, 2] * np.sin(k * x)).sum()
    assert left == pytest.approx(np.exp(-rate * period), rel=0.01)


def test_viscosity_acts_on_the_velocity_alone_and_heats_the_gas():
    """At once after the start Eₜ = (½μρ(v²)ₓ)ₓ = 0 in total, so what motion loses becomes heat."""
    _, frames = solved(
        lambda x: (1.0, 50.0, np.sin(np.pi * x)), [0, 1.0], points=64, eta=0.1, zeta=0.1
    )
    motion = 0.5 * (frames[:, 0] * frames[:, 2] ** 2).mean(1)
    heat = frames[:, 1].mean(1) / (5 / 3 - 1)
    assert motion[1] < 0.5 * motion[0]
    assert heat[1] - heat[0] == pytest.approx(motion[0] - motion[1], rel=1e-9)


def test_open_edges_let_a_sound_pulse_out():
    _, frames = solved(
        lambda x: (1.0, 1 + 0.01 * np.exp(-50 * x**2), 0.0),
        [0, 2.5],
        points=256,
        boundary="outgoing",
    )
    assert np.ptp(frames[0, 1]) > 9e-3
    assert np.ptp(frames[-1, 1]) < 1e-4


def test_released_statistics_are_the_measured_ones():
    problem = Compressible(initial="pdebench")
    state = problem.draw(problem.grid.strided(8), 0, range(0, 10_000, 10))
    velocity = state[:, 1] / state[:, 0]
    pressure = (state[:, 2] - 0.5 * state[:, 1] * velocity) * (5 / 3 - 1)
    assert state[:, 0].mean() == pytest.approx(5.877, abs=0.2)
    assert state[:, 0].std() == pytest.approx(3.26, abs=0.15)
    assert pressure.mean() == pytest.approx(58.8, abs=2)
    assert velocity.std() == pytest.approx(0.553, abs=0.03)
    assert np.abs(velocity).max() < 3


def test_the_pressure_of_one_thousand_has_the_shape_of_the_next_one_s_density():
    problem = Compressible(initial="pdebench")
    here, there = problem.draw(problem.grid, 0, [17, 1017])
    pressure = here[2] - 0.5 * here[1] ** 2 / here[0]
    assert np.corrcoef(pressure, there[0])[0, 1] == pytest.approx(1, abs=1e-6)


def test_a_shock_start_has_two_states_and_one_jump():
    problem = Compressible(start="shock", boundary="outgoing")
    for state in problem.draw(problem.grid, 0, range(20)):
        jumps = np.flatnonzero(np.diff(state[0]))
        assert len(jumps) == 1 and 255 <= jumps[0] < 768
        assert state[0].min() >= 1 and state[0].max() <= 10
        velocity = state[1] / state[0]
        assert velocity.min() > 0.6 and velocity.max() < 1.65


def test_released_shocks_are_refused_because_their_draws_are_not_known():
    with pytest.raises(ValueError, match="initial='pdebench' is known for start='random'"):
        Compressible(start="shock", initial="pdebench")


def test_a_start_that_cannot_be_solved_is_one_line():
    problem = Compressible(points=16)
    state = problem.draw(problem.grid, 0, [0, 1])
    state[1, 2, 3] = np.inf
    with pytest.raises(ValueError, match=r"^compressible-1d broke down in row 1 of the batch: use"):
        problem.solve(initial=state, times=[0, 0.1])
