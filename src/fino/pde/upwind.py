"""The kernel of linear advection: upwind finite volumes with limited slopes, one sample at a time.

u*  = uⁿ − ½ C (f(uⁿ)ᵢ − f(uⁿ)ᵢ₋₁)
uⁿ⁺¹ = uⁿ − C (f(u*)ᵢ − f(u*)ᵢ₋₁)        f(u)ᵢ = uᵢ + ½ sᵢ,  C = β Δt / Δx > 0
"""

from __future__ import annotations

from numba import njit

from fino.pde.limiters import central
from fino.pde.problem import Array

__all__ = ["advance"]


@njit(nogil=True, cache=True, fastmath=True, error_model="numpy")
def advance(u: Array, middle: Array, face: Array, courant: float, steps: int) -> None:
    """`steps` steps in place on a periodic line; `middle` and `face` are room to work."""
    for _ in range(steps):
        _stage(u, u, face, 0.5 * courant, middle)
        _stage(u, middle, face, courant, u)


@njit(nogil=True, cache=True, fastmath=True, error_model="numpy")
def _stage(before: Array, u: Array, face: Array, courant: float, after: Array) -> None:
    n = u.size
    face[0] = u[0] + 0.5 * central(u[0] - u[n - 1], u[1] - u[0])
    for i in range(1, n - 1):
        face[i] = u[i] + 0.5 * central(u[i] - u[i - 1], u[i + 1] - u[i])
    face[n - 1] = u[n - 1] + 0.5 * central(u[n - 1] - u[n - 2], u[0] - u[n - 1])
    after[0] = before[0] - courant * (face[0] - face[n - 1])
    for i in range(1, n):
        after[i] = before[i] - courant * (face[i] - face[i - 1])
