"""WENO5 finite volumes on a periodic line: Burgers' flux, diffusion, dispersion and a forcing.

    uₜ + (α u²/2 − β uₓ + γ uₓₓ)ₓ = δ(t, x)

Values at faces are the WENO-Z reconstruction of R. Borges et al., J. Comput. Phys. 227 (2008) 3191,
the flux between them is Godunov's, derivatives at faces are central of fourth order, and time is
the third-order strongly stable Runge–Kutta scheme of Shu and Osher (1988).  u and δ are averages
over cells.  Compiled by numba; loops are free of branches and run on several cells at once.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from fino.pde.problem import MOST_STEPS, Array

__all__ = ["march"]

#: What the steps may be: the largest eigenvalues of β uₓₓ and γ uₓₓₓ in units of Δx, over the
#: lengths of the real and of the imaginary axis on which the time scheme is stable.
_DIFFUSION, _DISPERSION = (16 / 3) / 2.51, 4.61 / 1.73

#: Keeps the weights finite where all differences vanish.
_TINY = 1e-40

_compiled = njit(nogil=True, cache=True, fastmath=True, error_model="numpy")


@njit(nogil=True, cache=True, error_model="numpy")
def march(
    u: Array,
    times: Array,
    forcing: Array,
    spacing: float,
    alpha: float,
    beta: float,
    gamma: float,
    courant: float,
    frames: Array,
) -> bool:
    """March u (n) in place through the times and save (t, n); False if it breaks down.

    `forcing` is (t, n) at the saved times, a cubic in between; no rows: none.
    """
    n = u.size
    wide, flux, stage, source = np.empty(n + 6), np.empty(n + 1), np.empty(n), np.zeros(n)
    frames[0] = u
    slow = _DIFFUSION * beta / spacing**2 + _DISPERSION * gamma / spacing**3
    for t in range(1, times.size):
        interval = times[t] - times[t - 1]
        rate = alpha * np.abs(u).max() / (courant * spacing) + slow
        if not interval * rate < MOST_STEPS:
            return False
        steps = max(1, math.ceil(interval * rate * (1 - 1e-12)))
        dt = interval / steps
        for k in range(steps):
            now = times[t - 1] + k * dt
            interpolate(times, forcing, t, now, source)
            _rate(u, wide, flux, spacing, alpha, beta, gamma, source)
            for i in range(n):
                stage[i] = u[i] + dt * source[i]
            interpolate(times, forcing, t, now + dt, source)
            _rate(stage, wide, flux, spacing, alpha, beta, gamma, source)
            for i in range(n):
                stage[i] = 0.75 * u[i] + 0.25 * (stage[i] + dt * source[i])
            interpolate(times, forcing, t, now + 0.5 * dt, source)
            _rate(stage, wide, flux, spacing, alpha, beta, gamma, source)
            for i in range(n):
                u[i] = (u[i] + 2.0 * (stage[i] + dt * source[i])) / 3.0
        frames[t] = u
    return True


@_compiled
def interpolate(times: Array, values: Array, t: int, now: float, out: Array) -> None:
    """out = the values (t, n) at a time between frames t − 1 and t, by the cubic through four."""
    count = min(4, len(values))
    first = max(0, min(t - 2, len(values) - count))
    out[:] = 0.0
    for j in range(first, first + count):
        weight = 1.0
        for other in range(first, first + count):
            if other != j:
                weight *= (now - times[other]) / (times[j] - times[other])
        for i in range(out.size):
            out[i] += weight * values[j, i]


@_compiled
def _rate(
    u: Array,
    wide: Array,
    flux: Array,
    spacing: float,
    alpha: float,
    beta: float,
    gamma: float,
    source: Array,
) -> None:
    """source −= differences of the flux of u."""
    n = u.size
    for i in range(n):
        wide[i + 3] = u[i]
    for k in range(3):
        wide[k] = u[(k - 3) % n]
        wide[n + 3 + k] = u[k % n]
    one, two = beta / (12.0 * spacing), gamma / (8.0 * spacing * spacing)
    for i in range(n + 1):
        a, b, c = wide[i], wide[i + 1], wide[i + 2]
        d, e, f = wide[i + 3], wide[i + 4], wide[i + 5]
        left, right = max(_face(a, b, c, d, e), 0.0), min(_face(f, e, d, c, b), 0.0)
        slope = b - e + 15.0 * (d - c)
        bend = 7.0 * (b + e) - 6.0 * (c + d) - (a + f)
        flux[i] = 0.5 * alpha * max(left * left, right * right) - one * slope + two * bend
    for i in range(n):
        source[i] -= (flux[i + 1] - flux[i]) / spacing


@_compiled
def _face(a: float, b: float, c: float, d: float, e: float) -> float:
    """The value at the face between c and d from the averages of five cells."""
    left = 13.0 / 12.0 * (a - 2.0 * b + c) ** 2 + 0.25 * (a - 4.0 * b + 3.0 * c) ** 2
    middle = 13.0 / 12.0 * (b - 2.0 * c + d) ** 2 + 0.25 * (b - d) ** 2
    right = 13.0 / 12.0 * (c - 2.0 * d + e) ** 2 + 0.25 * (3.0 * c - 4.0 * d + e) ** 2
    apart = abs(left - right)
    p = 1.0 + (apart / (left + _TINY)) ** 2
    q = 6.0 + 6.0 * (apart / (middle + _TINY)) ** 2
    r = 3.0 + 3.0 * (apart / (right + _TINY)) ** 2
    low, mid, high = 2.0 * a - 7.0 * b + 11.0 * c, 5.0 * c - b + 2.0 * d, 2.0 * c + 5.0 * d - e
    return (p * low + q * mid + r * high) / (6.0 * (p + q + r))
