"""Exponential time differencing: the linear terms of v̇ = L v + N(v, t) are exact.

    ETDRK4: S. M. Cox, P. C. Matthews, J. Comput. Phys. 176 (2002) 430; coefficients by contour
    integrals: A.-K. Kassam, L. N. Trefethen, SIAM J. Sci. Comput. 26 (2005) 1214

Here v are Fourier coefficients, so that L is one number for each of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fino.pde.problem import Array

__all__ = ["Coefficients", "advance"]

#: Points of the contour in half a plane; eight give ten digits.
_CONTOUR = 16


class Coefficients(NamedTuple):
    """Those of one time step, each of the shape of the rates L."""

    whole: Array
    half: Array
    first: Array
    start: Array
    middle: Array
    end: Array

    @classmethod
    def of(cls, rates: Array, dt: float) -> Coefficients:
        """Mean values over a circle around each z = Δt·rate, where nothing cancels.

        Around real rates the two halves of the circle are alike, and one of them will do.
        """
        z0, real = dt * rates, not np.iscomplexobj(rates)
        first, start, middle, end = (np.zeros(rates.shape, rates.dtype) for _ in range(4))
        count = _CONTOUR if real else 2 * _CONTOUR
        for angle in np.pi * (np.arange(count) + 0.5) / _CONTOUR:
            z = z0 + np.exp(1j * angle)
            e, cube = np.exp(z), z**3
            means = (
                (np.exp(z / 2) - 1) / z,
                (-4 - z + e * (4 - 3 * z + z**2)) / cube,
                (4 + 2 * z + e * (2 * z - 4)) / cube,
                (-4 - 3 * z - z**2 + e * (4 - z)) / cube,
            )
            for total, mean in zip((first, start, middle, end), means, strict=True):
                total += mean.real if real else mean
        share = dt / count
        return cls(
            np.exp(z0), np.exp(z0 / 2), *(share * sums for sums in (first, start, middle, end))
        )


def advance(
    v: Array, table: Coefficients, rate: Callable[[Array], Array], drive: Any = (0, 0, 0)
) -> Array:
    """One step; N is the rate of v and what drives it at the begin, the middle and the end."""
    halfway = table.half * v
    begin = rate(v) + drive[0]
    a = halfway + table.first * begin
    rate_a = rate(a) + drive[1]
    rate_b = rate(halfway + table.first * rate_a) + drive[1]
    rate_c = rate(table.half * a + table.first * (2 * rate_b - begin)) + drive[2]
    rate_a += rate_b
    return table.whole * v + table.start * begin + table.middle * rate_a + table.end * rate_c
