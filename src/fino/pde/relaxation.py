"""A sum of Chebyshev polynomials of the Darcy operator, applied to a field.

    Tₖ₊₁ = 2 B Tₖ − Tₖ₋₁        B = scale·A − 1, with eigenvalues between −1 and 1

Compiled; `expand` is the door.
"""

from __future__ import annotations

from numba import njit

from fino.pde.problem import Array

__all__ = ["expand"]

compiled = njit(nogil=True, cache=True, error_model="numpy")


@compiled
def _recur(
    now: Array,
    before: Array,
    between_rows: Array,
    between_columns: Array,
    scale: float,
    factor: float,
    weight: float,
    total: Array,
) -> None:
    """before ← factor·B now − (factor − 1)·before, and add it to the total.

    The fields carry a rim of zeros, the value outside.  A factor of two continues the
    recurrence, a factor of one begins it.
    """
    for i in range(total.shape[0]):
        for j in range(total.shape[1]):
            here = now[i + 1, j + 1]
            image = between_rows[i, j] * (here - now[i, j + 1])
            image += between_rows[i + 1, j] * (here - now[i + 2, j + 1])
            image += between_columns[i, j] * (here - now[i + 1, j])
            image += between_columns[i, j + 1] * (here - now[i + 1, j + 2])
            after = factor * (scale * image - here) - (factor - 1.0) * before[i + 1, j + 1]
            before[i + 1, j + 1] = after
            total[i, j] += weight * after


@compiled
def expand(
    field: Array,
    between_rows: Array,
    between_columns: Array,
    scale: float,
    weights: Array,
    total: Array,
) -> None:
    """total ← Σ weightsₖ Tₖ(B) field; the field (n0 + 2, n1 + 2) has a rim of zeros."""
    now, before = field, field.copy()
    for i in range(total.shape[0]):
        for j in range(total.shape[1]):
            total[i, j] = weights[0] * field[i + 1, j + 1]
    for k in range(1, weights.size):
        factor = 1.0 if k == 1 else 2.0
        _recur(now, before, between_rows, between_columns, scale, factor, weights[k], total)
        now, before = before, now
