"""A learned stencil, questioned like a classical one: which derivative, how accurate, near what?

    Σ_p w_p u(x + p h)  =  Σ_α m_α ∂^α u(x),      m_α = Σ_p w_p (p h)^α / α!

The moments m_α say which differential operator the weights stand for, the first moment that
should vanish and does not says to which order, and the symbol Σ_p w_p e^{i p·θ} says for which
waves it holds.

Learned stencils are compared with those of the textbooks, such as

    ∂x    second order    (−u₋₁ + u₊₁) / 2h
    ∂x    fourth order    (u₋₂ − 8u₋₁ + 8u₊₁ − u₊₂) / 12h
    ∇²    9-point         (corners + 4 edges − 20 centre) / 6h²

each in physical units: applied to samples of a smooth u at the given spacing, it returns its
derivative of u up to its order of accuracy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product
from typing import Any

import numpy as np

from fino.streams import numpy_stream

__all__ = [
    "AXES",
    "StencilReport",
    "chance_distance",
    "moments",
    "name_terms",
    "nearest_classical",
    "stencil_report",
    "symbol",
]

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
#: A moment below this share of what its terms could add up to counts as zero.
_TOLERANCE = 0.02
_RANDOM_STENCILS = 500


@dataclass(frozen=True)
class Nearest:
    """The textbook stencil closest to the learned one after the best scaling.

    `distance` is |w − scale · classical| / |w|: zero for the same stencil, one for one that has
    nothing in common.
    """

    name: str
    scale: float
    distance: float
    terms: Terms

    @property
    def axis(self) -> int:
        """The axis that its derivative looks along; the first if it looks along none or many."""
        return next((axis for axis, power in enumerate(self.terms[0][0]) if power), 0)


@dataclass(frozen=True, eq=False)
class Symbol:
    """What a stencil does to the wave e^{iθx/h} along one axis, beside the exact operator."""

    axis: int
    theta: np.ndarray
    learned: np.ndarray
    exact: np.ndarray


@dataclass(frozen=True, eq=False)
class StencilReport:
    """All that a stencil's weights say about themselves.

    `terms` is the operator with its coefficients in physical units, `order` the order of
    accuracy (None where no further moment is left), `moments` the numbers behind both.
    """

    weights: np.ndarray
    spacing: tuple[float, ...]
    operator: str
    terms: Terms
    order: int | None
    moments: dict[tuple[int, ...], float]
    nearest: Nearest

    def symbol_of_nearest(self) -> Symbol:
        """Against the derivative of the nearest textbook stencil, scaled alike."""
        near = self.nearest
        scaled = tuple((alpha, near.scale * c) for alpha, c in near.terms)
        return symbol(self.weights, self.spacing, scaled, near.axis)


def stencil_report(weights: np.ndarray, spacing: Sequence[float]) -> StencilReport:
    """Everything about one stencil, an array of odd length on every axis."""
    weights, h = np.asarray(weights, dtype=np.float64), tuple(float(d) for d in spacing)
    if weights.ndim != len(h) or any(n % 2 == 0 for n in weights.shape):
        raise ValueError(
            f"a stencil should have an odd number of weights on each of {len(h)} axes, "
            f"got shape {weights.shape}."
        )
    terms, order = _operator_of(weights, h)
    name = name_terms(terms) if terms else "nothing"
    (nearest,) = nearest_classical(weights[None], h)
    return StencilReport(weights, h, name, terms, order, moments(weights, h, 2), nearest)


def moments(
    weights: np.ndarray, spacing: Sequence[float], highest: int, *, signed: bool = True
) -> dict[tuple[int, ...], float]:
    """m_α for every |α| ≤ highest, in physical units; unsigned, as if no two terms could cancel."""
    offsets = [(np.arange(n) - n // 2) * h for n, h in zip(weights.shape, spacing, strict=True)]
    if not signed:
        weights, offsets = np.abs(weights), [np.abs(line) for line in offsets]
    every = (a for a in product(range(highest + 1), repeat=weights.ndim) if sum(a) <= highest)
    found = {}
    for alpha in sorted(every, key=lambda alpha: (sum(alpha), tuple(-a for a in alpha))):
        monomial = np.ones(())
        for line, power in zip(offsets, alpha, strict=True):
            monomial = np.multiply.outer(monomial, line**power / math.factorial(power))
        found[alpha] = float((weights * monomial).sum())
    return found


def _operator_of(weights: np.ndarray, spacing: Sequence[float]) -> tuple[Terms, int | None]:
    """The leading derivative and the order of accuracy: the two lowest orders that do not vanish.

    A moment is measured against the same sum with all its terms positive, so that the answer
    depends neither on the scale of the weights nor on the spacing.
    """
    highest, cells = 2 * max(weights.shape) + 2, (1.0,) * weights.ndim
    signed = moments(weights, cells, highest)
    largest = moments(weights, cells, highest, signed=False)
    size = np.abs(weights).sum()
    present = [
        alpha
        for alpha, m in signed.items()
        if abs(m) > _TOLERANCE * largest[alpha] and largest[alpha] > 1e-9 * size
    ]
    if not present:
        return (), None
    leading = min(sum(alpha) for alpha in present)
    terms = tuple(
        (alpha, signed[alpha] * math.prod(h**a for h, a in zip(spacing, alpha, strict=True)))
        for alpha in present
        if sum(alpha) == leading
    )
    beyond = [sum(alpha) for alpha in present if sum(alpha) > leading]
    return terms, (min(beyond) - leading if beyond else None)


def symbol(weights: np.ndarray, spacing: Sequence[float], terms: Terms, axis: int = 0) -> Symbol:
    """The stencil's answer to waves along one axis, up to the shortest that the grid carries."""
    theta = np.linspace(math.pi / 64, math.pi, 64)
    line = weights.sum(axis=tuple(a for a in range(weights.ndim) if a != axis))
    offsets = np.arange(len(line)) - len(line) // 2
    learned = np.exp(1j * np.outer(theta, offsets)) @ line
    exact = np.zeros(64, dtype=complex)
    for alpha, coefficient in terms:
        if all(power == 0 for a, power in enumerate(alpha) if a != axis):
            exact += coefficient * (1j * theta / spacing[axis]) ** alpha[axis]
    return Symbol(axis, theta, learned, exact)


def nearest_classical(stencils: np.ndarray, spacing: Sequence[float]) -> list[Nearest]:
    """The closest textbook stencil of each, after the best scaling: (n, *window) → n answers."""
    table, flat, norms = _table(tuple(float(h) for h in spacing), stencils.shape[1:])
    w = np.asarray(stencils, dtype=np.float64).reshape(len(stencils), -1)
    size = np.linalg.norm(w, axis=1)
    inner = w @ (flat / norms[:, None]).T
    best = np.abs(inner).argmax(axis=1)
    shared = inner[np.arange(len(w)), best]
    left = np.sqrt(np.maximum(size**2 - shared**2, 0.0))
    distance = np.where(size > 0, left / np.maximum(size, 1e-300), 1.0)
    found = zip(best, shared / norms[best], distance, strict=True)
    return [Nearest(table[b].name, float(s), float(d), table[b].terms) for b, s, d in found]


@cache
def chance_distance(window: tuple[int, ...]) -> float:
    """The median distance of random stencils of this window to the table.

    A learned stencil that lies no closer resembles nothing in the textbooks.
    """
    noise = numpy_stream(0, "random stencils", *window).standard_normal((_RANDOM_STENCILS, *window))
    found = nearest_classical(noise, (1.0,) * len(window))
    return float(np.median([nearest.distance for nearest in found]))


@cache
def _table(
    spacing: tuple[float, ...], window: tuple[int, ...]
) -> tuple[tuple[Classical, ...], np.ndarray, np.ndarray]:
    """The textbook stencils inside a window: flat weights and their lengths."""
    known = classical_stencils(spacing, window)
    flat = np.zeros((len(known), math.prod(window)))
    for row, stencil in zip(flat, known, strict=True):
        beside = [((b - a) // 2,) * 2 for a, b in zip(stencil.weights.shape, window, strict=True)]
        row[:] = np.pad(stencil.weights, beside).ravel()
    return known, flat, np.linalg.norm(flat, axis=1)


@dataclass(frozen=True, eq=False)
class Classical:
    """A textbook stencil: which derivative, how accurate, and its weights (odd on every axis).

    An order of None is exact.
    """

    name: str
    terms: Terms
    order: int | None
    weights: np.ndarray


def classical_stencils(
    spacing: tuple[float, ...], window: tuple[int, ...]
) -> tuple[Classical, ...]:
    """Every textbook stencil that fits a window, at some spacing on each of its axes.

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
    for name, line in (("binomial mean", _BINOMIAL), ("box mean", (1 / 3, 1 / 3, 1 / 3))):
        found.append(Classical(name, identity, 2, _outer([line] * dims)))
    for step in product((-1, 0, 1), repeat=dims):
        if any(step):
            where = ", ".join(f"{AXES[a]}{s:+d}" for a, s in enumerate(step) if s)
            weights = _outer([np.eye(3)[s + 1] for s in step])
            found.append(Classical(f"copy from {where}", identity, 1, weights))
    return tuple(
        known
        for known in found
        if all(a <= b for a, b in zip(known.weights.shape, window, strict=True))
    )


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
    title = f"{_name_one(alpha)} {name}, order {order}"
    return Classical(title, ((alpha, 1.0),), order, _outer(lines))


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
