"""Waves of the shallow-water equations, followed cell by cell: Roe's solver with limited waves.

At every interface the jump of (h, m, n) — depth, momentum along and across the sweep — is split
into three waves of Roe's averaged flow:

    speeds    u − c,  u,  u + c              c = √(g·(h_left + h_right)/2)
    waves     a·(1, u − c, v),  b·(0, 0, 1),  d·(1, u + c, v)

Each wave updates the side that it runs into, and a second-order correction is added, limited
wave by wave with the monotonised central limiter.  A rarefaction that straddles speed zero is
shared between both sides (Harten and Hyman's entropy fix).  See R. J. LeVeque, Finite Volume
Methods for Hyperbolic Problems, 2002, chapters 6, 13, 15 and 19.

Compiled by numba; `flow` is the entry.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from fino.pde.problem import Array

__all__ = ["flow"]

_compiled = njit(nogil=True, cache=True, error_model="numpy")


@_compiled
def _limit(upwind: float, here: float) -> float:
    """Share of a wave that its correction may use, from its size here and one cell upwind."""
    ratio = upwind / (here if here != 0.0 else 1.0)
    mean, twice = 0.5 * (1.0 + ratio), 2.0 * ratio
    least = mean if mean < twice else twice
    least = least if least < 2.0 else 2.0
    return least if least > 0.0 else 0.0


@_compiled
def _split(q: Array, waves: Array, g: float) -> None:
    """Roe averages u, c, v and wave sizes a, b, d at each interface: (3, n) → (6, n − 1)."""
    h, m, n = q[0], q[1], q[2]
    for i in range(h.size - 1):
        left, right = math.sqrt(h[i]), math.sqrt(h[i + 1])
        u = (m[i] / left + m[i + 1] / right) / (left + right)
        v = (n[i] / left + n[i + 1] / right) / (left + right)
        c = math.sqrt(0.5 * g * (h[i] + h[i + 1]))
        jump_h, jump_m, jump_n = h[i + 1] - h[i], m[i + 1] - m[i], n[i + 1] - n[i]
        waves[0, i] = u
        waves[1, i] = c
        waves[2, i] = v
        waves[3, i] = ((u + c) * jump_h - jump_m) / (2.0 * c)
        waves[4, i] = jump_n - v * jump_h
        waves[5, i] = (jump_m - (u - c) * jump_h) / (2.0 * c)


@_compiled
def _correct(waves: Array, flux: Array, ratio: float) -> None:
    """The limited second-order flux at each inner interface; `ratio` is Δt/Δx.

    Both neighbours are computed and one is chosen: cheaper than a branch that is hard to guess.
    """
    u, c, v, a, b, d = waves[0], waves[1], waves[2], waves[3], waves[4], waves[5]
    for i in range(1, u.size - 1):
        slow, fast, across = u[i] - c[i], u[i] + c[i], v[i]
        before_a = a[i - 1] * (1.0 + slow * (u[i - 1] - c[i - 1]) + across * v[i - 1])
        after_a = a[i + 1] * (1.0 + slow * (u[i + 1] - c[i + 1]) + across * v[i + 1])
        upwind = before_a if slow > 0.0 else after_a
        share = _limit(upwind, a[i] * (1.0 + slow * slow + across * across))
        first = 0.5 * abs(slow) * (1.0 - ratio * abs(slow)) * share * a[i]
        before_b, after_b = b[i - 1], b[i + 1]
        upwind = before_b if u[i] > 0.0 else after_b
        share = _limit(upwind, b[i])
        shear = 0.5 * abs(u[i]) * (1.0 - ratio * abs(u[i])) * share * b[i]
        before_d = d[i - 1] * (1.0 + fast * (u[i - 1] + c[i - 1]) + across * v[i - 1])
        after_d = d[i + 1] * (1.0 + fast * (u[i + 1] + c[i + 1]) + across * v[i + 1])
        upwind = before_d if fast > 0.0 else after_d
        share = _limit(upwind, d[i] * (1.0 + fast * fast + across * across))
        last = 0.5 * abs(fast) * (1.0 - ratio * abs(fast)) * share * d[i]
        flux[0, i] = first + last
        flux[1, i] = first * slow + last * fast
        flux[2, i] = first * across + shear + last * across


@_compiled
def _leftward(speed: float, low: float, high: float) -> float:
    """The part of a wave's speed that acts on the left; a straddling fan acts on both sides."""
    if low < 0.0 < high:
        return low * (high - speed) / (high - low)
    return min(speed, 0.0)


@_compiled
def _fluctuate(q: Array, waves: Array, left: Array, right: Array, g: float) -> None:
    """What each inner interface does to the cell on its left and to the one on its right."""
    h, m = q[0], q[1]
    u, c, v, a, b, d = waves[0], waves[1], waves[2], waves[3], waves[4], waves[5]
    for i in range(1, u.size - 1):
        slow, fast = u[i] - c[i], u[i] + c[i]
        middle = max(h[i] + a[i], 1e-300)
        low = m[i] / h[i] - math.sqrt(g * h[i])
        high = (m[i] + a[i] * slow) / middle - math.sqrt(g * middle)
        speed = _leftward(slow, low, high)
        first, first_right = speed * a[i], (slow - speed) * a[i]
        middle = max(h[i + 1] - d[i], 1e-300)
        low = (m[i + 1] - d[i] * fast) / middle + math.sqrt(g * middle)
        high = m[i + 1] / h[i + 1] + math.sqrt(g * h[i + 1])
        speed = _leftward(fast, low, high)
        last, last_right = speed * d[i], (fast - speed) * d[i]
        left[0, i] = first + last
        left[1, i] = first * slow + last * fast
        left[2, i] = (first + last) * v[i] + min(u[i], 0.0) * b[i]
        right[0, i] = first_right + last_right
        right[1, i] = first_right * slow + last_right * fast
        right[2, i] = (first_right + last_right) * v[i] + max(u[i], 0.0) * b[i]


@_compiled
def _sweep(q: Array, turned: Array, ratio: float, g: float, closed: bool) -> None:
    """One step along the last axis, written transposed so that the next sweep takes the other.

    (3, n0, n1) → (3, n1, n0); index 1 is always the momentum along the last axis.  Beyond an open
    edge lies the edge cell again, beyond a wall the mirror image, which flows the other way.
    """
    rows, cells = q.shape[1], q.shape[2]
    line = np.empty((3, cells + 4))
    waves = np.empty((6, cells + 3))
    flux, left, right = np.empty((3, cells + 3)), np.empty((3, cells + 3)), np.empty((3, cells + 3))
    for j in range(rows):
        for k in range(3):
            sign = -1.0 if closed and k == 1 else 1.0
            for i in range(cells):
                line[k, i + 2] = q[k, j, i]
            for i in range(2):
                line[k, 1 - i] = sign * q[k, j, i if closed else 0]
                line[k, cells + 2 + i] = sign * q[k, j, cells - 1 - i if closed else cells - 1]
        _split(line, waves, g)
        _correct(waves, flux, ratio)
        _fluctuate(line, waves, left, right, g)
        for k in range(3):
            to = (3 - k) % 3
            for i in range(cells):
                change = right[k, i + 1] + left[k, i + 2] + flux[k, i + 2] - flux[k, i + 1]
                turned[to, i, j] = line[k, i + 2] - ratio * change


@_compiled
def _turn(q: Array, turned: Array) -> None:
    """Swap the two axes, and the two momenta with them."""
    for k in range(3):
        turned[(3 - k) % 3] = q[k].T


@_compiled
def _step(
    q: Array, work: Array, ratio: tuple[float, float], g: float, both_orders: bool, closed: bool
) -> None:
    """One step in place, first axis first; with `both_orders` the mean of the two orders.

    The state stands transposed, (h, hu, hv) over (n1, n0), so that its last axis is the first
    of the grid.  The mean is second order in time and the same when x and y change places.
    """
    lying, turned = np.empty(work.shape), np.empty(q.shape)
    if both_orders:
        _turn(q, lying)
        _sweep(lying, turned, ratio[1], g, closed)
        _sweep(turned, lying, ratio[0], g, closed)
        _turn(lying, turned)
    _sweep(q, work, ratio[0], g, closed)
    _sweep(work, q, ratio[1], g, closed)
    if both_orders:
        q[:] = 0.5 * (q + turned)


@_compiled
def _rate(q: Array, g: float, spacing: tuple[float, float]) -> float:
    """The most cells that any wave crosses in a unit of time."""
    fastest = 0.0
    for j in range(q.shape[1]):
        for i in range(q.shape[2]):
            h = q[0, j, i]
            c = math.sqrt(g * h)
            fastest = max(fastest, (abs(q[1, j, i]) / h + c) / spacing[0])
            fastest = max(fastest, (abs(q[2, j, i]) / h + c) / spacing[1])
    return fastest


@_compiled
def flow(
    state: Array,
    times: Array,
    spacing: tuple[float, float],
    g: float,
    courant: float,
    both_orders: bool,
    closed: bool,
    frames: Array,
) -> None:
    """Fill `frames` (t, c, n0, n1) with the flow from `state` (h, hu, hv) at `times`."""
    work, q = np.empty(state.shape), state.transpose(0, 2, 1).copy()
    for frame in range(times.size):
        rest = times[frame] - times[max(frame - 1, 0)]
        while rest > 0.0:
            steps = max(1.0, math.ceil(rest * _rate(q, g, spacing) / courant - 1e-9))
            dt = rest / steps
            _step(q, work, (dt / spacing[0], dt / spacing[1]), g, both_orders, closed)
            rest = rest - dt if steps > 1.0 else 0.0
        for k in range(frames.shape[1]):
            frames[frame, k] = q[k].T
