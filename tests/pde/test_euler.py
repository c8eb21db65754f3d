"""Gas in the plane against exact Riemann solutions, drifting waves, and a spectral solution."""

from __future__ import annotations

import numpy as np
import pytest
from riemann import exact
from scipy.integrate import solve_ivp

import fino
from fino.grid import Grid
from fino.pde.euler import _GAMMAS, Euler

GAS = Euler(gas="own")


def torus(*points):
    return Grid(points, ((0.0, 1.0), (0.0, 1.0)), "periodic")


def conserved(rho, p, u, v, gamma=1.4):
    rho, p, u, v = np.broadcast_arrays(rho, p, u, v)
    return np.stack([rho, p / (gamma - 1) + 0.5 * rho * (u**2 + v**2), rho * u, rho * v])


def primitive(q, gamma=1.4):
    rho, energy, mu, mv = q
    return np.stack([rho, (gamma - 1) * (energy - 0.5 * (mu**2 + mv**2) / rho), mu / rho, mv / rho])


SOD = ((1.0, 1.0, 0.0), (0.125, 0.1, 0.0))
FAST = ((1.0, 3.0, 0.9), (2.0, 1.0, -0.4))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("left", "right"), [SOD, FAST])
def test_a_plane_gas_tube_converges_to_the_exact_one(axis, left, right):
    """The jump is in the middle; the other one, at the edge of the torus, stays away in time."""
    errors, t = [], 0.08
    for cells in (64, 128, 256):
        points = (cells, 4) if axis == 0 else (4, cells)
        grid = torus(*points)
        x = grid.mesh()[axis]
        rho, p, along = (np.where(x < 0.5, a, b) for a, b in zip(left, right, strict=True))
        velocities = (along, 0.3) if axis == 0 else (0.3, along)
        q = GAS.solve(grid, conserved(rho, p, *velocities)[None], [0, t])[0, 1]
        w = np.moveaxis(primitive(q), 1 + axis, 1)[:, :, 0]
        line, near = grid.coordinates()[axis], slice(cells // 4, 3 * cells // 4)
        truth = exact(left, right, 1.4, (line - 0.5) / t)
        errors.append(np.abs(w[[0, 1, 2 + axis]] - truth)[:, near].mean())
        np.testing.assert_allclose(w[3 - axis], 0.3, atol=1e-12)
    order = np.log2(np.divide(errors[:-1], errors[1:]))
    assert (order > 0.7).all() and errors[-1] < 0.02, (errors, order)


def test_a_smooth_density_drifts_across_the_cells_with_second_order():
    def density(x, y):
        return 2 + np.sin(2 * np.pi * x) * np.cos(2 * np.pi * y)

    errors = []
    for cells in (32, 64, 128):
        grid = torus(cells, cells)
        x, y = grid.mesh()
        start = conserved(density(x, y), 1.0, 0.7, -0.4)[None]
        rho = GAS.solve(grid, start, [0, 0.5])[0, 1, 0]
        errors.append(np.abs(rho - density(x - 0.35, y + 0.2)).mean())
    assert (np.log2(np.divide(errors[:-1], errors[1:])) > 1.7).all(), errors


def test_pressure_and_velocity_stay_even_across_a_drifting_contact():
    grid = torus(32, 24)
    x, y = grid.mesh()
    rho = 1 + 2.0 * ((np.abs(x - 0.5) < 0.2) & (np.abs(y - 0.4) < 0.3))
    w = primitive(GAS.solve(grid, conserved(rho, 2.0, 0.5, -0.8)[None], [0, 0.3])[0, 1])
    np.testing.assert_allclose(w[1], 2.0, rtol=1e-11)
    np.testing.assert_allclose(w[2], 0.5, rtol=1e-11)
    np.testing.assert_allclose(w[3], -0.8, rtol=1e-11)


def spectral(start, gamma, t):
    """The equations a second time: Fourier derivatives, and scipy's eighth-order Runge–Kutta."""
    n = start.shape[-1]
    k = 2j * np.pi * np.fft.fftfreq(n, 1 / n)
    k[n // 2] = 0

    def rate(_, flat):
        q = flat.reshape(start.shape)
        _, p, u, v = primitive(q, gamma)
        f = np.stack([q[2], u * (q[1] + p), q[2] * u + p, q[3] * u])
        g = np.stack([q[3], v * (q[1] + p), q[2] * v, q[3] * v + p])
        df = np.fft.ifft(k[:, None] * np.fft.fft(f, axis=1), axis=1).real
        dg = np.fft.ifft(k * np.fft.fft(g, axis=2), axis=2).real
        return -(df + dg).ravel()

    solved = solve_ivp(rate, (0, t), start.ravel(), "DOP853", [t], rtol=1e-9, atol=1e-10)
    return solved.y.reshape(start.shape)


@pytest.mark.parametrize("gamma", [1.13, 1.76])
def test_smooth_flow_converges_to_a_spectral_solution_of_scipy(gamma):
    def start(grid):
        x, y = (2 * np.pi * z for z in grid.mesh())
        rho, p = 1 + 0.2 * np.sin(x + y), 1 + 0.1 * np.cos(x)
        return conserved(rho, p, 0.3 * np.sin(y), 0.2 * np.cos(x - y), gamma)

    problem, errors = GAS.changed(gamma=gamma), []
    for cells in (32, 64):
        grid = torus(cells, cells)
        ours = problem.solve(grid, start(grid)[None], [0, 0.15])[0, 1]
        errors.append(np.abs(ours - spectral(start(grid), gamma, 0.15)).mean())
    assert errors[1] < 2e-3 and np.log2(errors[0] / errors[1]) > 1.7, errors


@pytest.fixture(scope="module")
def quadrants():
    problem = GAS.changed(points=32)
    return problem.solve(initial=problem.draw(problem.grid, 0, range(3)))


def test_mass_energy_and_momenta_are_kept(quadrants):
    total = quadrants.mean((3, 4))
    np.testing.assert_allclose(total, np.repeat(total[:, :1], total.shape[1], 1), atol=1e-13)


def test_density_and_pressure_stay_positive_and_shocks_make_entropy(quadrants):
    rho, p, _, _ = primitive(np.moveaxis(quadrants, 2, 0))
    assert rho.min() > 0.05 and p.min() > 0.05
    entropy = (rho * np.log(p / rho**1.4)).mean((2, 3))
    assert (np.diff(entropy, axis=1) > -1e-12).all()


def test_swapped_axes_give_the_swapped_flow(quadrants):
    problem = GAS.changed(points=32)
    start = problem.draw(problem.grid, 0, [0])
    turned = problem.solve(initial=start.swapaxes(2, 3)[:, [0, 1, 3, 2]])
    back = turned.swapaxes(3, 4)[:, :, [0, 1, 3, 2]]
    np.testing.assert_allclose(back[:, :11], quadrants[:1, :11], atol=1e-10)


def test_a_coarse_start_is_the_mean_of_the_fine_one():
    fine, coarse = (GAS.draw(torus(n, n), 3, [5])[0] for n in (48, 16))
    np.testing.assert_allclose(fine.reshape(4, 16, 3, 16, 3).mean((2, 4)), coarse, atol=1e-13)


def test_the_gas_is_a_parameter_of_the_trajectory():
    data = fino.generate("euler-2d", 12, points=8, frames=3, duration=0.1, refine=2)
    gamma = data.parameters["gamma"]
    assert set(gamma) <= set(_GAMMAS) and len(set(gamma)) > 3
    assert data.card.refine == 2 and data.shape == (12, 3, 4, 8, 8)
    one = fino.generate("euler-2d", 2, points=8, frames=3, gas="own", gamma=1.3)
    assert not one.parameters and one.card.parameters["gamma"] == 1.3


def test_a_start_that_cannot_be_solved_is_one_line():
    grid = torus(8, 8)
    state = np.repeat(conserved(np.ones((8, 8)), 1.0, 0.0, 0.0)[None], 2, 0)
    state[1, 1, 3] = np.nan
    with pytest.raises(ValueError, match=r"^euler-2d broke down in row 1 of the batch: use more"):
        GAS.solve(grid, state, [0, 0.1])
    closed = Grid((8, 8), ((0, 1), (0, 1)), "neumann")
    with pytest.raises(ValueError, match="gas solver needs a torus"):
        GAS.solve(closed, state, [0, 0.1])
