"""Flow through a porous block: the operator −∇·(ν∇u), its inverse, and how it relaxes.

    (A u)ᵢ = Σ over the four faces of  ν_face·(uᵢ − u_neighbour)/Δx²

ν_face is the mean of the two cells, and beyond the edge ν repeats while u is zero in the cell
outside: PDEBench's discretisation, in which u vanishes half a cell outside the domain.

`solve_steady` inverts A by conjugate gradients; the sine transform inverts the operator with ν = 1
exactly, so the number of iterations depends on the contrast of ν but not on the grid.
`relax` multiplies by exp(−A·t) with Chebyshev polynomials: a few thousand cheap sweeps with a
known error, where time steps would take hundreds of thousands.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import njit

from fino.pde.problem import Array

__all__ = ["apply", "relax", "solve_steady"]

_MOST_ITERATIONS = 10_000

_compiled = njit(nogil=True, cache=True, error_model="numpy")


def faces(
    nu: Array, spacing: tuple[float, ...], offset: tuple[float, ...] = (0.5, 0.5)
) -> tuple[Array, Array]:
    """ν/Δx² on the faces between rows (n0 + 1, n1) and between columns (n0, n1 + 1).

    Points off the centres of their cells, as every s-th of a grid are, lie 2·offset of a cell from
    where u vanishes at the low edge: the flux there is larger, and the first cells are narrower.
    """
    padded = np.pad(nu, 1, mode="edge")
    between_rows = 0.5 * (padded[1:, 1:-1] + padded[:-1, 1:-1]) / spacing[0] ** 2
    between_columns = 0.5 * (padded[1:-1, 1:] + padded[1:-1, :-1]) / spacing[1] ** 2
    for sides, axis in ((between_rows, 0), (between_columns, 1)):
        sides.swapaxes(0, axis)[0] /= 2 * offset[axis]
        sides.swapaxes(0, 1 - axis)[0] *= 0.5 + offset[1 - axis]
    return between_rows, between_columns


def apply(sides: tuple[Array, Array], u: Array) -> Array:
    """A u, with zero outside."""
    padded = np.pad(u, 1)
    down = sides[0] * np.diff(padded[:, 1:-1], axis=0)
    right = sides[1] * np.diff(padded[1:-1], axis=1)
    return -np.diff(down, axis=0) - np.diff(right, axis=1)


def solve_steady(
    nu: Array,
    source: Array,
    spacing: tuple[float, ...],
    tolerance: float = 1e-10,
    offset: tuple[float, ...] = (0.5, 0.5),
) -> Array:
    """The u with A u = source, until the residual is `tolerance` of the source: (n0, n1)."""
    sides, precondition = faces(nu, spacing, offset), _inverse_laplacian(nu.shape, spacing)
    u, residual = np.zeros(nu.shape), np.array(source, dtype=np.float64)
    residual[0] *= 0.5 + offset[0]
    residual[:, 0] *= 0.5 + offset[1]
    small = tolerance * _dot(residual, residual) ** 0.5
    direction, before = np.zeros(nu.shape), 1.0
    for _ in range(_MOST_ITERATIONS):
        if _dot(residual, residual) ** 0.5 <= small:
            return u
        better = precondition(residual)
        now = _dot(residual, better)
        direction = better + (now / before) * direction
        image = apply(sides, direction)
        length = now / _dot(direction, image)
        u += length * direction
        residual -= length * image
        before = now
    raise ValueError(
        f"The Darcy solver did not reach {tolerance:g} in {_MOST_ITERATIONS:,} iterations: use a "
        "smaller contrast of 'low' and 'high' or a larger 'tolerance'."
    )


def relax(
    nu: Array, u: Array, spacing: tuple[float, ...], t: float, tolerance: float = 1e-10
) -> Array:
    """exp(−A t) u, to `tolerance` of the largest value of u: (n0, n1) → (n0, n1)."""
    between_rows, between_columns = faces(nu, spacing)
    # no row of A sums to more than this in absolute value, so neither does an eigenvalue
    across_rows = between_rows[1:] + between_rows[:-1]
    across_columns = between_columns[:, 1:] + between_columns[:, :-1]
    largest = 2 * float((across_rows + across_columns).max())
    weights = chebyshev_weights(0.5 * largest * t, tolerance)
    expanded = _expand(np.pad(u, 1), between_rows, between_columns, 2 / largest, weights)
    return np.asarray(expanded)


def chebyshev_weights(tau: float, tolerance: float) -> Array:
    """cₖ with exp(−τ(1 + x)) = Σ cₖ Tₖ(x) on [−1, 1], as many as the tolerance needs.

    cₖ = ±2 e^(−τ) Iₖ(τ): the modified Bessel functions fall off beyond k ≈ √τ.
    """
    from scipy.special import ive

    k = np.arange(int(40 + 10 * np.sqrt(tau)))
    weights = 2.0 * ive(k, tau) * (-1.0) ** k
    weights[0] /= 2
    left_out = np.cumsum(np.abs(weights)[::-1])[::-1]
    return weights[: max(2, int(np.count_nonzero(left_out > tolerance)))]


@_compiled
def _expand(
    field: Array, between_rows: Array, between_columns: Array, scale: float, weights: Array
) -> Array:
    """Σ weightsₖ Tₖ(B) field; the field (n0 + 2, n1 + 2) has a rim of zeros, the value outside.

    Tₖ₊₁ = 2 B Tₖ − Tₖ₋₁        B = scale·A − 1, with eigenvalues between −1 and 1
    """
    now, before = field, field.copy()
    total = weights[0] * field[1:-1, 1:-1]
    for k in range(1, weights.size):
        factor, weight = 1.0 if k == 1 else 2.0, weights[k]
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
        now, before = before, now
    return total


def _dot(a: Array, b: Array) -> float:
    """The inner product, without BLAS: its own threads would fight with ours."""
    return float((a * b).sum())


def _inverse_laplacian(
    shape: tuple[int, ...], spacing: tuple[float, ...]
) -> Callable[[Array], Array]:
    """The exact inverse of A for ν = 1: sine waves that vanish in the cells outside."""
    from scipy.fft import dstn

    modes = [
        (2 / dx * np.sin(0.5 * np.pi * np.arange(1, n + 1) / (n + 1))) ** 2
        for n, dx in zip(shape, spacing, strict=True)
    ]
    decay = modes[0][:, None] + modes[1][None, :]

    def inverse(f: Array) -> Array:
        return dstn(dstn(f, type=1, norm="ortho") / decay, type=1, norm="ortho")

    return inverse
