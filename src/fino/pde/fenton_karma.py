"""Fenton and Karma's heart tissue, stepped by Heun's method with a fourth-order Laplacian.

    uₜ = D Δu − J_fi − J_so − J_si          p = 1 where u ≥ u_c, else 0
    vₜ = (1 − p)(1 − v)/τ_v⁻(u) − p v/τ_v⁺,  τ_v⁻ = τ_v1 where u ≥ u_v, else τ_v2
    wₜ = (1 − p)(1 − w)/τ_w⁻ − p w/τ_w⁺

    J_fi = −v p (1 − u)(u − u_c)/τ_d         fast inward current: the upstroke
    J_so = u (1 − p)/τ_0 + p/τ_r             slow outward current: back to rest
    J_si = −w (1 + tanh k(u − u_si))/(2τ_si)  slow inward current: the plateau

Nothing flows through the edges: beyond them lies the mirror image.  Compiled by numba; loops are
free of branches and run on several cells at once.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from fino.pde.problem import Array

__all__ = ["Tissue", "excite"]

#: The largest share of the explicit limit 2 / (D·32/3Δx²) that a step may take.
_STABLE = 0.8

#: Doublings in the exponential below; ten leave an error of 1e-7.
_DOUBLINGS = 10

_compiled = njit(nogil=True, cache=True, fastmath=True, error_model="numpy")


class Tissue(NamedTuple):
    """The constants of the ionic currents; times in ms."""

    tau_d: float
    tau_r: float
    tau_si: float
    tau_0: float
    tau_v_plus: float
    tau_v1: float
    tau_v2: float
    tau_w_plus: float
    tau_w_minus: float
    k: float
    u_c: float
    u_v: float
    u_si: float


@njit(nogil=True, cache=True, error_model="numpy")
def excite(
    state: Array,
    times: Array,
    spread: tuple[float, float],
    tissue: Tissue,
    step: float,
    frames: Array,
) -> bool:
    """March (u, v, w) in place and save (t, 3, n0, n1); False if numbers grow without bound.

    `spread` is D/Δx² of each axis; steps are at most `step` long.
    """
    rows, cells = state.shape[1:]
    now, ahead = np.empty((3, rows + 4, cells + 4)), np.empty((3, rows + 4, cells + 4))
    now[:, 2:-2, 2:-2] = state
    frames[0] = state[: frames.shape[1]]
    total = spread[0] + spread[1]
    largest = min(step, _STABLE * 2.0 / (total * 16.0 / 3.0)) if total > 0.0 else step
    for t in range(1, times.size):
        interval = times[t] - times[t - 1]
        steps = max(1, math.ceil(interval / largest * (1 - 1e-12)))
        dt = interval / steps
        for _ in range(steps):
            _mirror(now[0])
            _stage(now, now, ahead, spread, tissue, dt, 0.0)
            _mirror(ahead[0])
            _stage(ahead, now, now, spread, tissue, 0.5 * dt, 0.5)
        for c in range(frames.shape[1]):
            frames[t, c] = now[c, 2:-2, 2:-2]
        if not np.isfinite(now[0, 2:-2, 2:-2].sum()):
            return False
    state[:] = now[:, 2:-2, 2:-2]
    return True


@_compiled
def _mirror(u: Array) -> None:
    """Fill two cells beyond every edge."""
    rows, cells = u.shape
    for k in range(2):
        for j in range(2, cells - 2):
            u[1 - k, j] = u[2 + k, j]
            u[rows - 2 + k, j] = u[rows - 3 - k, j]
        for i in range(rows):
            u[i, 1 - k] = u[i, 2 + k]
            u[i, cells - 2 + k] = u[i, cells - 3 - k]


@_compiled
def _stage(
    y: Array,
    old: Array,
    out: Array,
    spread: tuple[float, float],
    tissue: Tissue,
    dt: float,
    share: float,
) -> None:
    """out = share·old + (1 − share)·y + dt·f(y), in every cell."""
    s0, s1 = spread[0] / 12.0, spread[1] / 12.0
    rest = 1.0 - share
    fast, slow, off, back = 1 / tissue.tau_d, 1 / tissue.tau_si, 1 / tissue.tau_0, 1 / tissue.tau_r
    v_close, v_near, v_far = 1 / tissue.tau_v_plus, 1 / tissue.tau_v1, 1 / tissue.tau_v2
    w_close, w_open = 1 / tissue.tau_w_plus, 1 / tissue.tau_w_minus
    u_c, u_v, u_si, k = tissue.u_c, tissue.u_v, tissue.u_si, tissue.k
    for i in range(2, y.shape[1] - 2):
        for j in range(2, y.shape[2] - 2):
            u, v, w = y[0, i, j], y[1, i, j], y[2, i, j]
            along = 16.0 * (y[0, i - 1, j] + y[0, i + 1, j]) - (y[0, i - 2, j] + y[0, i + 2, j])
            across = 16.0 * (y[0, i, j - 1] + y[0, i, j + 1]) - (y[0, i, j - 2] + y[0, i, j + 2])
            p = 1.0 if u >= u_c else 0.0
            open_v = v_near if u >= u_v else v_far
            current = fast * v * p * (1.0 - u) * (u - u_c) - off * u * (1.0 - p) - back * p
            current += slow * w * _switch(2.0 * k * (u - u_si))
            flow = s0 * (along - 30.0 * u) + s1 * (across - 30.0 * u)
            rate_v = (1.0 - p) * (1.0 - v) * open_v - p * v * v_close
            rate_w = (1.0 - p) * (1.0 - w) * w_open - p * w * w_close
            out[0, i, j] = share * old[0, i, j] + rest * u + dt * (flow + current)
            out[1, i, j] = share * old[1, i, j] + rest * v + dt * rate_v
            out[2, i, j] = share * old[2, i, j] + rest * w + dt * rate_w


@_compiled
def _switch(y: float) -> float:
    """½ (1 + tanh ½y) = 1 / (1 + e^(−y)) without a call, so that cells run abreast.

    e^(−y) = ((1 − y/2n) / (1 + y/2n))ⁿ for large n, here a power of two.
    """
    z = min(max(y, -40.0), 40.0) / (2.0 * 2**_DOUBLINGS)
    power = (1.0 - z) / (1.0 + z)
    for _ in range(_DOUBLINGS):
        power *= power
    return 1.0 / (1.0 + power)
