"""Proposition 1 as a measuring tool: does the error bound say anything?

    e_K ≤ ε (C^K − 1)/(C − 1),     K ε for C = 1

The proof compares Ψ (learned) and Φ (true) in one of two orders.  With Ψ in the middle,

    Ψ(u_k) − Φ(ũ_k) = [Ψ(u_k) − Ψ(ũ_k)] + [Ψ(ũ_k) − Φ(ũ_k)],

ε is the learned step's error on *true* states, which held-out data measure, and C belongs to the
*learned* step.  The paper's order needs ε on the model's own states, which nobody measures.

A bound is *useful* while it is smaller than the spread of the data: beyond that, a constant
guess satisfies it as well, and it is *vacuous*.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["ErrorBound", "geometric_sum", "judge"]


@dataclass(frozen=True, eq=False)
class ErrorBound:
    """The bound beside the measured error over the steps of a rollout.

    All in units of the channels' own spread; `measured` is the worst held-out trajectory,
    `typical` the mean one.  `grown` replaces C^j by the measured growth over j steps.
    """

    epsilon: float
    constant: float
    bound: np.ndarray
    measured: np.ndarray
    typical: np.ndarray
    spread: float
    grown: np.ndarray | None = None

    @property
    def useful_steps(self) -> int:
        """How many steps the bound stays below the data's own spread."""
        return _steps_below(self.bound, self.spread)

    @property
    def grown_useful_steps(self) -> int | None:
        if self.grown is None:
            return None
        return _steps_below(self.grown, self.spread)

    @property
    def verdict(self) -> str:
        """'useful' if it says something to the end of the held-out trajectories."""
        return "useful" if self.useful_steps == len(self.bound) else "vacuous"

    @property
    def holds(self) -> bool:
        """Whether the measured error stayed below it, as it must where C holds everywhere."""
        finite = np.isfinite(self.bound)
        return bool((self.measured[finite] <= self.bound[finite] * (1 + 1e-6) + 1e-12).all())


def geometric_sum(constant: float, steps: int) -> np.ndarray:
    """(C^K − 1)/(C − 1) for K = 1 … steps, without cancellation near C = 1; inf past the floats."""
    with np.errstate(over="ignore"):
        return np.cumsum(np.power(float(constant), np.arange(steps)))


def judge(
    epsilon: float,
    constant: float,
    errors: np.ndarray,
    spread: float,
    growth: np.ndarray | None = None,
) -> ErrorBound:
    """The bound for measured ε and C beside measured errors (trajectories, steps).

    `growth` (steps,) is what becomes of an error after 0, 1, 2 … steps.
    """
    steps = errors.shape[1]
    grown = None if growth is None else epsilon * np.cumsum(growth[:steps])
    return ErrorBound(
        epsilon,
        constant,
        epsilon * geometric_sum(constant, steps),
        errors.max(axis=0),
        errors.mean(axis=0),
        spread,
        grown,
    )


def _steps_below(bound: np.ndarray, limit: float) -> int:
    above = ~(bound < limit)
    return int(np.argmax(above)) if above.any() else len(bound)
