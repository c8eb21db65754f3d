"""The exact solution of a gas tube with one jump, after Toro's book, chapter 4."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq


def exact(left, right, gamma, speeds):
    """Density, pressure and velocity on the rays x/t = speeds; states are (ρ, p, v)."""
    p_star = brentq(
        lambda p: _change(p, left, gamma) + _change(p, right, gamma) + right[2] - left[2],
        1e-12,
        100 * max(left[1], right[1]),
        xtol=1e-15,
    )
    gained = _change(p_star, right, gamma) - _change(p_star, left, gamma)
    v_star = 0.5 * (left[2] + right[2] + gained)
    mirrored = _side((right[0], right[1], -right[2]), p_star, -v_star, gamma, -speeds)
    mirrored[2] *= -1
    return np.where(speeds < v_star, _side(left, p_star, v_star, gamma, speeds), mirrored)


def _change(p, state, gamma):
    """How much the velocity changes across the wave that takes the state to pressure p."""
    rho, p0, _ = state
    if p > p0:
        return (p - p0) * np.sqrt(2 / (rho * ((gamma + 1) * p + (gamma - 1) * p0)))
    sound = np.sqrt(gamma * p0 / rho)
    return 2 * sound / (gamma - 1) * ((p / p0) ** ((gamma - 1) / (2 * gamma)) - 1)


def _side(state, p_star, v_star, gamma, speeds):
    """The solution left of the contact."""
    rho, p, v = state
    sound, ratio = np.sqrt(gamma * p / rho), (gamma - 1) / (gamma + 1)
    at_rest = np.array(state)[:, None]
    if p_star > p:
        stronger = 1 + (gamma + 1) / (2 * gamma) * (p_star / p - 1)
        shock = v - sound * np.sqrt(stronger)
        rho_star = rho * (p_star / p + ratio) / (ratio * p_star / p + 1)
        behind = np.array([rho_star, p_star, v_star])[:, None]
        return np.where(speeds < shock, at_rest, behind)
    rho_star = rho * (p_star / p) ** (1 / gamma)
    behind = np.array([rho_star, p_star, v_star])[:, None]
    head, tail = v - sound, v_star - np.sqrt(gamma * p_star / rho_star)
    inside = np.clip(speeds, head, tail)
    local = 2 / (gamma + 1) * sound + ratio * (v - inside)
    fan = np.stack(
        [
            rho * (local / sound) ** (2 / (gamma - 1)),
            p * (local / sound) ** (2 * gamma / (gamma - 1)),
            2 / (gamma + 1) * (sound + (gamma - 1) / 2 * v + inside),
        ]
    )
    return np.where(speeds < head, at_rest, np.where(speeds > tail, behind, fan))
