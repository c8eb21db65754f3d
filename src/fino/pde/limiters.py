"""Slopes that make no new extremes: the ingredient of second order without ringing.

    monotonised central    s = sign(c) · min(2|a|, 2|b|, |c|)   if a b > 0,  else 0

with a, b the differences to the two neighbours and c = (a + b) / 2.  van Leer (1977).
"""

from __future__ import annotations

from numba import njit

__all__ = ["central"]


@njit(nogil=True, cache=True, fastmath=True, error_model="numpy")
def central(a: float, b: float) -> float:
    """The monotonised central slope.

    Written with minima and maxima instead of branches, so that it runs on a whole vector of
    cells at once.
    """
    c = 0.5 * (a + b)
    upward = min(min(2.0 * a, 2.0 * b), c)
    downward = max(max(2.0 * a, 2.0 * b), c)
    return max(upward, 0.0) + min(downward, 0.0)
