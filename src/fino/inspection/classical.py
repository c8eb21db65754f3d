"""The stencils of the textbooks, as a table to compare learned ones with.

    ∂x    second order    (−u₋₁ + u₊₁) / 2h
    ∂x    fourth order    (u₋₂ − 8u₋₁ + 8u₊₁ − u₊₂) / 12h
    ∇²    9-point         (corners + 4 edges − 20 centre) / 6h²

Each is stored in physical units: applied to samples of a smooth u at the given spacing, it
returns its derivative of u up to its order of accuracy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product
from typing import Any

import numpy as np

__all__ = ["AXES", "Classical", "Terms", "classical_stencils", "name_terms"]

AXES = "xyz"

#: A differential operator with constant coefficients: ((2, 0), 1.0), ((0, 2), 1.0) is ∂xx + ∂yy.
Terms = tuple[tuple[tuple[int, ...], float], ...]

#: Stencils on a line of unit spacing: name, derivative, order of accuracy, weights.
_ON_A_LINE: tuple[tuple[str, int, int, tuple[float, ...]], ...] = (
    ("central", 1, 2, (-1 / 2, 0, 1 / 2)),
    ("backward", 1, 1, (-1, 1, 0)),
    ("forward", 1, 1, (0, -1, 1)),
    ("central", 1, 4, (1 / 12, -2 / 3, 0, 2 / 3, -1 / 12)),
    ("backward", 1, 2, (1 / 2, -2, 3 / 2, 0, 0)),
    ("forward", 1, 2, (0, 0, -3 / 2, 2, -1 / 2)),
    ("central", 2, 2, (1, -2, 1)),
    ("central", 2, 4, (-1 / 12, 4 / 3, -5 / 2, 4 / 3, -1 / 12)),
    ("central", 3, 2, (-1 / 2, 1, 0, -1, 1 / 2)),
    ("central", 4, 2, (1, -4, 6, -4, 1)),
)
_CENTRAL = (-1 / 2, 0, 1 / 2)
_BINOMIAL = (1 / 4, 1 / 2, 1 / 4)
_BOX = (1 / 3, 1 / 3, 1 / 3)


@dataclass(frozen=True, eq=False)
class Classical:
    """A textbook stencil: which derivative, how accurate, and its weights (odd on every axis).

    An order of None is exact.
    """

    name: str
    terms: Terms
    order: int | None
    weights: np.ndarray

    @property
    def radius(self) -> int:
        return max(n // 2 for n in self.weights.shape)


@cache
def classical_stencils(spacing: tuple[float, ...], radius: int) -> tuple[Classical, ...]:
    """Every textbook stencil that fits a window of this radius, in as many dimensions as spacings.

    Shifted copies of a cell count as stencils of the identity: transport by whole cells is made
    of them.
    """
    dims = len(spacing)
    identity = ((_along([], dims), 1.0),)
    found = [Classical("identity", identity, None, np.ones((1,) * dims))]
    for axis in range(dims):
        for name, power, order, line in _ON_A_LINE:
            found.append(_derivative(_along([axis], dims, power), name, order, line, spacing))
    found += _laplacians(spacing) if dims > 1 else []
    for pair in combinations(range(dims), 2):
        found.append(_derivative(_along(pair, dims), "central", 2, _CENTRAL, spacing))
    for axis in range(dims) if dims > 1 else ():
        alpha = _along([axis], dims)
        found.append(_derivative(alpha, "smoothed across", 2, _CENTRAL, spacing, _BINOMIAL))
    for name, line in (("binomial mean", _BINOMIAL), ("box mean", _BOX)):
        found.append(Classical(name, identity, 2, _outer([line] * dims)))
    for step in product((-1, 0, 1), repeat=dims):
        if any(step):
            where = ", ".join(f"{AXES[a]}{s:+d}" for a, s in enumerate(step) if s)
            weights = _outer([np.eye(3)[s + 1] for s in step])
            found.append(Classical(f"copy from {where}", identity, 1, weights))
    return tuple(stencil for stencil in found if stencil.radius <= radius)


def name_terms(terms: Terms) -> str:
    """The operator in symbols: ∂x, ∂xx + ∂yy as ∇², 'identity' for no derivative at all."""
    dims = len(terms[0][0])
    second = {_along([axis], dims, 2) for axis in range(dims)}
    coefficients = [c for _, c in terms]
    even = max(coefficients) - min(coefficients) <= 0.05 * max(map(abs, coefficients))
    if dims > 1 and {alpha for alpha, _ in terms} == second and even:
        return "∇²"
    return " + ".join(_name_one(alpha) for alpha, _ in terms)


def _name_one(alpha: tuple[int, ...]) -> str:
    letters = "".join(AXES[axis] * count for axis, count in enumerate(alpha))
    return f"∂{letters}" if letters else "identity"


def _outer(lines: Sequence[Any]) -> np.ndarray:
    """The tensor product of one line of weights for each axis."""
    weights = np.ones(())
    for line in lines:
        weights = np.multiply.outer(weights, np.asarray(line, dtype=float))
    return weights


def _derivative(
    alpha: tuple[int, ...],
    name: str,
    order: int,
    line: Sequence[float],
    spacing: tuple[float, ...],
    across: Sequence[float] = (1.0,),
) -> Classical:
    """∂^α: `line` along each axis that is differentiated, `across` along the others."""
    lines = [
        np.array(line) / h**power if power else np.array(across)
        for power, h in zip(alpha, spacing, strict=True)
    ]
    return Classical(
        f"{_name_one(alpha)} {name}, order {order}", ((alpha, 1.0),), order, _outer(lines)
    )


def _along(axes: Sequence[int], dims: int, power: int = 1) -> tuple[int, ...]:
    """The exponents of a derivative along some axes."""
    return tuple(power * int(axis in axes) for axis in range(dims))


def _laplacians(spacing: tuple[float, ...]) -> list[Classical]:
    """Sums of second derivatives; the 9-point one needs a square grid in two dimensions."""
    dims = len(spacing)
    terms = tuple((_along([axis], dims, 2), 1.0) for axis in range(dims))
    found = []
    for order in (2, 4):
        line = next(np.array(w) for _, d, o, w in _ON_A_LINE if (d, o) == (2, order))
        middle = np.arange(len(line)) == len(line) // 2
        total = np.zeros((len(line),) * dims)
        for axis, h in enumerate(spacing):
            total += _outer([line / h**2 if a == axis else middle for a in range(dims)])
        title = f"∇² {1 + dims * (len(line) - 1)}-point, order {order}"
        found.append(Classical(title, terms, order, total))
    if dims == 2 and math.isclose(*spacing, rel_tol=1e-6):
        nine = np.array(((1, 4, 1), (4, -20, 4), (1, 4, 1))) / (6 * spacing[0] ** 2)
        found.append(Classical("∇² 9-point, order 2", terms, 2, nine))
    return found
