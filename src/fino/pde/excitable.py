"""FitzHugh and Nagumo's medium with error control: Dormand and Prince's fifth-order method.

    uₜ = Dᵤ Δu + u − u³ − k − v,    vₜ = Dᵥ Δv + u − v

The grid is coarse enough for an explicit method: the fastest mode decays at a rate of about
8·D/Δx², only a few times the rate at which frames are saved.  Every step is compared with a
fourth-order one at no extra cost, and repeated if they differ by more than the tolerance; so
the white noise at the start gets small steps and the smooth field later gets large ones.
J. R. Dormand, P. J. Prince, J. Comput. Appl. Math. 6 (1980) 19.

Compiled by numba; `evolve` is the entry.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from fino.pde.problem import Array

__all__ = ["evolve", "step"]

_compiled = njit(nogil=True, cache=True, error_model="numpy")

#: How each stage is put together from the slopes before it.  Row 5 is the step itself, and
#: row 6 the step minus its fourth-order companion.
_WEIGHTS = np.array(
    [
        [1 / 5, 0, 0, 0, 0, 0, 0],
        [3 / 40, 9 / 40, 0, 0, 0, 0, 0],
        [44 / 45, -56 / 15, 32 / 9, 0, 0, 0, 0],
        [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729, 0, 0, 0],
        [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656, 0, 0],
        [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84, 0],
        [71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40],
    ]
)


@_compiled
def _beyond(i: int, n: int) -> int:
    """The cell that a place up to n beyond an edge mirrors."""
    return -1 - i if i < 0 else 2 * n - 1 - i if i >= n else i


@_compiled
def _slope(y: Array, rate: Array, spread: Array, k: float, far: float) -> None:
    """Diffusion without flux through the edges, and the reaction: (2, n0, n1) → (2, n0, n1).

    `spread` holds D/Δx² for each field and axis; `far` is the weight of the second neighbours in
    the Laplacian, 0 for second order and −1/12 for fourth.
    """
    rows, cells = y.shape[1], y.shape[2]
    near = 1.0 - 4.0 * far
    for i in range(rows):
        up, down = _beyond(i - 1, rows), _beyond(i + 1, rows)
        upper, lower = _beyond(i - 2, rows), _beyond(i + 2, rows)
        for c in range(2):
            f, out, along, across = y[c], rate[c], spread[c, 0], spread[c, 1]
            for j in range(2, cells - 2):
                twice = 2.0 * f[i, j]
                bend = near * (f[up, j] + f[down, j] - twice)
                bend += far * (f[upper, j] + f[lower, j] - twice)
                side = near * (f[i, j - 1] + f[i, j + 1] - twice)
                side += far * (f[i, j - 2] + f[i, j + 2] - twice)
                out[i, j] = along * bend + across * side
            for j in (0, 1, cells - 2, cells - 1):
                twice = 2.0 * f[i, j]
                bend = near * (f[up, j] + f[down, j] - twice)
                bend += far * (f[upper, j] + f[lower, j] - twice)
                beside = f[i, _beyond(j - 1, cells)] + f[i, _beyond(j + 1, cells)]
                second = f[i, _beyond(j - 2, cells)] + f[i, _beyond(j + 2, cells)]
                side = near * (beside - twice) + far * (second - twice)
                out[i, j] = along * bend + across * side
        for j in range(cells):
            a, b = y[0, i, j], y[1, i, j]
            rate[0, i, j] += a - a * a * a - k - b
            rate[1, i, j] += a - b


@_compiled
def _combine(y: Array, slopes: Array, row: int, dt: float, out: Array) -> None:
    """out = y + Δt·Σ weights·slopes, line by line so that a line stays in the nearest memory."""
    for k in range(y.shape[0]):
        for i in range(y.shape[1]):
            for j in range(y.shape[2]):
                out[k, i, j] = y[k, i, j]
            for s in range(7):
                weight = dt * _WEIGHTS[row, s]
                if weight != 0.0:
                    for j in range(y.shape[2]):
                        out[k, i, j] += weight * slopes[s, k, i, j]


@_compiled
def step(
    y: Array, slopes: Array, spread: Array, k: float, dt: float, out: Array, far: float = 0.0
) -> None:
    """One step from y to `out`; slopes[0] is known before, slopes[6] is the next one's first."""
    for s in range(6):
        _combine(y, slopes, s, dt, out)
        _slope(out, slopes[s + 1], spread, k, far)


@_compiled
def _error(y: Array, out: Array, slopes: Array, dt: float, tolerance: float) -> float:
    """Root mean square of the step's error in units of the tolerance."""
    total = 0.0
    for k in range(y.shape[0]):
        for i in range(y.shape[1]):
            for j in range(y.shape[2]):
                difference = 0.0
                for s in range(7):
                    difference += _WEIGHTS[6, s] * slopes[s, k, i, j]
                size = max(abs(y[k, i, j]), abs(out[k, i, j]))
                ratio = dt * difference / (tolerance * (1.0 + size))
                total += ratio * ratio
    return math.sqrt(total / y.size)


@_compiled
def evolve(
    start: Array,
    times: Array,
    spread: Array,
    k: float,
    fastest: float,
    tolerance: float,
    far: float,
    frames: Array,
) -> None:
    """Fill `frames` (t, 2, n0, n1) from `start` (2, n0, n1).

    `fastest` is about the greatest rate of change; the first step is a small part of it.  Where
    no step is small enough, as with numbers that are not finite, nothing more is filled in.
    """
    y, out, slopes = start.copy(), np.empty(start.shape), np.empty((7, *start.shape))
    frames[0] = start
    _slope(y, slopes[0], spread, k, far)
    dt, before = 0.1 / fastest, 1.0
    for frame in range(1, times.size):
        rest = times[frame] - times[frame - 1]
        while rest > 0.0:
            steps = max(1.0, math.ceil(rest / dt - 1e-9))
            trial = rest / steps
            step(y, slopes, spread, k, trial, out, far)
            error = _error(y, out, slopes, trial, tolerance) + 1e-10
            if error <= 1.0:
                y[:] = out
                slopes[0] = slopes[6]
                # two errors steer the step, so it does not see-saw where stability limits it
                dt = trial * min(5.0, 0.9 * error**-0.14 * before**0.08)
                before = error
                rest = rest - trial if steps > 1.0 else 0.0
            elif trial * fastest > 1e-9:
                dt = trial * max(0.2, 0.9 * error**-0.2)
            else:
                return
        frames[frame] = y
