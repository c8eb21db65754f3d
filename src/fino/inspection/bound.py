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

__all__ = ["ErrorBound", "geometric_sum", "interpolated_growth", "judge"]


@dataclass(frozen=True, eq=False)
class ErrorBound:
    """The bound beside the measured error over the steps of a rollout.

    All in units of the channels' own spread; `measured` is the worst held-out trajectory,
    `typical` the mean one.  `linearised` replaces C^j by the measured growth over j steps.
    """

    epsilon: float
    constant: float
    bound: np.ndarray
    measured: np.ndarray
    typical: np.ndarray
    spread: float
    linearised: np.ndarray | None = None

    @property
    def useful_steps(self) -> int:
        """How many steps the bound stays below the data's own spread."""
        return _steps_below(self.bound, self.spread)

    @property
    def linearised_useful_steps(self) -> int | None:
        if self.linearised is None:
            return None
        return _steps_below(self.linearised, self.spread)

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


def interpolated_growth(growth: dict[int, float], steps: int) -> np.ndarray:
    """Growth over 0 … steps − 1 steps from measurements at a few, geometric in between.

    Past the last measurement it goes on at the last measured rate.
    """
    known = sorted({0: 1.0, **growth}.items())
    at = np.array([j for j, _ in known], dtype=float)
    logs = np.log(np.maximum([g for _, g in known], 1e-30))
    wanted = np.arange(steps, dtype=float)
    inside = np.interp(wanted, at, logs)
    if len(at) > 1:
        rate = (logs[-1] - logs[-2]) / (at[-1] - at[-2])
        inside = np.where(wanted > at[-1], logs[-1] + rate * (wanted - at[-1]), inside)
    with np.errstate(over="ignore"):
        return np.exp(inside)


def judge(
    epsilon: float,
    constant: float,
    errors: np.ndarray,
    spread: float,
    growth: dict[int, float] | None = None,
) -> ErrorBound:
    """The bound for measured ε and C beside measured errors (trajectories, steps)."""
    steps = errors.shape[1]
    linearised = None
    if growth:
        linearised = epsilon * np.cumsum(interpolated_growth(growth, steps))
    return ErrorBound(
        epsilon,
        constant,
        epsilon * geometric_sum(constant, steps),
        errors.max(axis=0),
        errors.mean(axis=0),
        spread,
        linearised,
    )


def _steps_below(bound: np.ndarray, limit: float) -> int:
    above = ~(bound < limit)
    return int(np.argmax(above)) if above.any() else len(bound)
