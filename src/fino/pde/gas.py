"""Gas in the plane: finite volumes of second order that step both axes at once, on a torus.

    qₜ + f(q)ₓ + g(q)ᵧ = 0        q = (ρ, E, ρu, ρv)

MUSCL–Hancock (B. van Leer 1984; E. F. Toro's book, chapter 14): limited slopes of (ρ, p, u, v)
along both axes, the state half a step ahead from those slopes, and one HLLC flux through every
face.  What flows along a face is carried by the mass that crosses it.

Compiled by numba.  One pass goes from row to row and keeps a few rows at hand, so that the plane
is read and written once a step.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from fino.pde.finite_volumes import hllc, limited
from fino.pde.problem import MOST_STEPS, Array

__all__ = ["flow"]

_compiled = njit(nogil=True, cache=True, fastmath=True, error_model="numpy")


@njit(nogil=True, cache=True, error_model="numpy")
def flow(
    q: Array,
    times: Array,
    spacing: tuple[float, float],
    gamma: float,
    courant: float,
    frames: Array,
) -> bool:
    """March q (4, n0, n1) and save (t, 4, n0, n1); False if the steps became too small to go on."""
    after = np.empty(q.shape)
    frames[0] = q
    for t in range(1, times.size):
        left, steps = times[t] - times[t - 1], 0
        while left > 0.0:
            rate = _rate(q, spacing, gamma)
            steps += 1
            if not courant / rate > 0.0 or steps > MOST_STEPS:
                return False
            # The steps that are left are made even: no crumb before a frame.
            count = math.ceil(left * rate / courant * (1.0 - 1e-12))
            dt = left / max(1, count)
            left = left - dt if count > 1 else 0.0
            _step(q, dt / spacing[0], dt / spacing[1], gamma, after)
            q, after = after, q
        frames[t] = q
        if not np.isfinite(q.sum()):
            return False
    return True


@_compiled
def _rate(q: Array, spacing: tuple[float, float], gamma: float) -> float:
    """The most cells that any wave crosses in a unit of time, along both axes together."""
    rows, cells = q.shape[1:]
    room, fastest = np.zeros(cells), 0.0
    for i in range(rows):
        for j in range(cells):
            over = 1.0 / q[0, i, j]
            u, v = q[2, i, j] * over, q[3, i, j] * over
            heat = q[1, i, j] * over - 0.5 * (u * u + v * v)
            sound = math.sqrt(max(gamma * (gamma - 1.0) * heat, 0.0))
            speed = (abs(u) + sound) / spacing[0] + (abs(v) + sound) / spacing[1]
            room[j] = max(room[j], speed)
    for j in range(cells):
        fastest = max(fastest, room[j])
    return fastest


@_compiled
def _step(q: Array, ratio0: float, ratio1: float, gamma: float, after: Array) -> None:
    """One step; ratios are Δt/Δx of each axis.

    Row r of edges: the values at its four sides, low and high along axis 0, low and high along
    axis 1.  Two columns beyond each end of a row stand for the other end.
    """
    rows, cells = q.shape[1:]
    before, here, ahead = np.empty((3, 4, cells + 4))
    edge, above = np.empty((4, 4, cells + 4)), np.empty((4, cells + 4))
    across, upper, along = np.empty((4, cells)), np.empty((4, cells)), np.empty((4, cells + 1))
    _primitive(q, rows - 2, gamma, before)
    _primitive(q, rows - 1, gamma, here)
    for row in range(-1, rows + 1):
        _primitive(q, (row + 1) % rows, gamma, ahead)
        _edges(before, here, ahead, 0.5 * ratio0, 0.5 * ratio1, gamma, edge)
        if row >= 0:
            _flux(above[:, 2:-2], edge[0][:, 2:-2], 2, 3, gamma, across)
        if row >= 1:
            for c in range(4):
                for j in range(cells):
                    after[c, row - 1, j] -= ratio0 * (across[c, j] - upper[c, j])
        if 0 <= row < rows:
            _flux(edge[3][:, 1:-2], edge[2][:, 2:-1], 3, 2, gamma, along)
            for c in range(4):
                for j in range(cells):
                    after[c, row, j] = q[c, row, j] - ratio1 * (along[c, j + 1] - along[c, j])
        above[:] = edge[1]
        upper, across = across, upper
        before, here, ahead = here, ahead, before


@_compiled
def _primitive(q: Array, row: int, gamma: float, w: Array) -> None:
    """Density, pressure and velocities of a row, with two columns beyond each end."""
    cells = q.shape[2]
    for j in range(cells):
        over = 1.0 / q[0, row, j]
        u, v = q[2, row, j] * over, q[3, row, j] * over
        w[0, j + 2] = q[0, row, j]
        w[1, j + 2] = (gamma - 1.0) * (q[1, row, j] - 0.5 * q[0, row, j] * (u * u + v * v))
        w[2, j + 2] = u
        w[3, j + 2] = v
    for c in range(4):
        for k in range(2):
            w[c, k] = w[c, cells + k]
            w[c, cells + 2 + k] = w[c, 2 + k]


@_compiled
def _edges(
    before: Array,
    here: Array,
    ahead: Array,
    half0: float,
    half1: float,
    gamma: float,
    edge: Array,
) -> None:
    """The values at the four sides of every cell of a row, half a step ahead.

    Where slopes would empty a cell, its own values are taken instead.
    """
    for j in range(1, here.shape[1] - 1):
        rho, p, u, v = here[0, j], here[1, j], here[2, j], here[3, j]
        rho0 = limited(rho - before[0, j], ahead[0, j] - rho)
        p0 = limited(p - before[1, j], ahead[1, j] - p)
        u0 = limited(u - before[2, j], ahead[2, j] - u)
        v0 = limited(v - before[3, j], ahead[3, j] - v)
        rho1 = limited(rho - here[0, j - 1], here[0, j + 1] - rho)
        p1 = limited(p - here[1, j - 1], here[1, j + 1] - p)
        u1 = limited(u - here[2, j - 1], here[2, j + 1] - u)
        v1 = limited(v - here[3, j - 1], here[3, j + 1] - v)
        spread = half0 * u0 + half1 * v1
        mid_rho = rho - half0 * u * rho0 - half1 * v * rho1 - rho * spread
        mid_p = p - half0 * u * p0 - half1 * v * p1 - gamma * p * spread
        mid_u = u - half0 * (u * u0 + p0 / rho) - half1 * v * u1
        mid_v = v - half0 * u * v0 - half1 * (v * v1 + p1 / rho)
        least_rho = mid_rho - 0.5 * max(abs(rho0), abs(rho1))
        least_p = mid_p - 0.5 * max(abs(p0), abs(p1))
        keep = 1.0 if min(least_rho, least_p) > 0.0 else 0.0
        half = 0.5 * keep
        rho += keep * (mid_rho - rho)
        p += keep * (mid_p - p)
        u += keep * (mid_u - u)
        v += keep * (mid_v - v)
        edge[0, 0, j], edge[1, 0, j] = rho - half * rho0, rho + half * rho0
        edge[0, 1, j], edge[1, 1, j] = p - half * p0, p + half * p0
        edge[0, 2, j], edge[1, 2, j] = u - half * u0, u + half * u0
        edge[0, 3, j], edge[1, 3, j] = v - half * v0, v + half * v0
        edge[2, 0, j], edge[3, 0, j] = rho - half * rho1, rho + half * rho1
        edge[2, 1, j], edge[3, 1, j] = p - half * p1, p + half * p1
        edge[2, 2, j], edge[3, 2, j] = u - half * u1, u + half * u1
        edge[2, 3, j], edge[3, 3, j] = v - half * v1, v + half * v1


@_compiled
def _flux(left: Array, right: Array, across: int, along: int, gamma: float, flux: Array) -> None:
    """The flux of (ρ, E, ρu, ρv) between two rows of states (ρ, p, u, v).

    `across` and `along` say which velocity crosses the faces and which runs along them.
    """
    for j in range(flux.shape[1]):
        mass, momentum, energy = hllc(
            left[0, j],
            left[1, j],
            left[across, j],
            right[0, j],
            right[1, j],
            right[across, j],
            gamma,
        )
        carried = left[along, j] if mass >= 0.0 else right[along, j]
        flux[0, j] = mass
        flux[1, j] = energy + 0.5 * mass * carried * carried
        flux[across, j] = momentum
        flux[along, j] = mass * carried
