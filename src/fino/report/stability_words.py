"""The stability of a step in sentences: errors, constants, bounds, waves."""

from __future__ import annotations

import cmath
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fino.inspection.amplification import Amplification
from fino.inspection.stability import ErrorBound, Stability

__all__ = [
    "bound_rows",
    "count_growing",
    "describe_samples",
    "describe_stability",
    "describe_waves",
    "name_wave",
    "verdict",
]

#: Steps at which the bound and the growth are shown.
_SHOWN = (1, 2, 5, 10, 20, 50, 100, 200)


def verdict(bound: ErrorBound) -> str:
    """'useful' if the bound says something to the end of the held-out trajectories."""
    return "useful" if bound.is_useful else "vacuous"


def describe_stability(stable: Stability) -> list[str]:
    """Errors, constants, the bound, and whether long rollouts stay in range."""
    bound, true, layers = stable.bound, stable.true_constant, stable.layers
    lines = [
        f"One step from true histories is wrong by {stable.epsilon_mean:.2e} on average, "
        f"ε = {stable.epsilon:.2e} at worst.",
        f"Lipschitz constant of the learned step, history included: C = {stable.constant:.4g} "
        f"(from {min(stable.constants):.4g}, at {len(stable.constants)} states).",
    ]
    if true is not None:
        lines.append(f"The true step, one frame to the next, stretches by at least {true:.4g}.")
    if layers is not None:
        lines.append(f"Upper bound of C from the norms of the layers: {layers.constant:.3g}.")
    steps, total = bound.useful_steps, len(bound.bound)
    lines.append(
        f"Proposition 1, ε(C^K − 1)/(C − 1): {verdict(bound).upper()}. It stays below the spread "
        f"of the data ({bound.spread:.2g}) for {steps} of {total} steps; the measured error at "
        f"step {total} is {_number(bound.typical[-1])} (worst {_number(bound.measured[-1])}), the "
        f"bound {_number(bound.bound[-1])}."
    )
    chosen = [j for j in _SHOWN if j < len(stable.growth)]
    growth = ", ".join(f"{stable.growth[j]:.3g} over {j}" for j in chosen)
    lines.append(
        f"A small error in one frame grew at most by {growth} steps; summed up, that is "
        f"{_number(bound.grown[-1])} at step {total}, below the spread for "
        f"{bound.grown_useful_steps} steps."
    )
    return [*lines, _bounded(stable)]


def _bounded(stable: Stability) -> str:
    run = stable.bounded
    far = f"{run.steps} steps, {run.steps // max(1, run.horizon)}× the data's own horizon"
    if run.first_left is None:
        who = "A rollout" if run.trajectories == 1 else f"All {run.trajectories} rollouts"
        return f"{who} stayed within twice the range of the data for {far}."
    return (
        f"{run.trajectories - run.stayed} of {run.trajectories} rollouts left twice the range of "
        f"the data, the first at step {run.first_left} (asked for {far})."
    )


def describe_waves(factors: Amplification, true: Amplification | None = None) -> list[str]:
    """Which waves grow, and which of them grow in the solver too."""
    about, growing = ", ".join(f"{v:.3g}" for v in factors.state), factors.unstable
    lead = f"Linearised about the constant state ({about}) on a periodic grid, "
    lines = [f"{lead}no wave grows: the largest |λ| is {factors.radius:.4f}."]
    if growing:
        named = ", ".join(f"k = {name_wave(k)} (|λ| = {g:.4f})" for k, g in growing[:5])
        more = f" and {len(growing) - 5} more" if len(growing) > 5 else ""
        lines = [f"{lead}{count_growing(growing)}: {named}{more}."]
    if true is None:
        return lines
    wave = (1, *[0] * (factors.wavenumbers.shape[1] - 1))
    mine, exact = factors.modes_of(*wave), true.modes_of(*wave)
    if len(mine) and len(exact):
        pairs = [(one, mine[np.argmin(np.abs(mine - one))]) for one in exact]
        compared = "; ".join(f"{_factor(one)} became {_factor(close)}" for one, close in pairs)
        lines.append(
            f"The longest wave, from the solver on this grid to the learned step: {compared}."
        )
        lasting = int((np.abs(mine) > 0.95).sum())
        if lasting > len(exact):
            lines.append(
                f"It has {lasting} factors above 0.95 where the solver has {len(exact)}: the "
                "others live in the history."
            )
    return [*lines, *_beside_solver(factors, true)]


def _beside_solver(factors: Amplification, true: Amplification) -> list[str]:
    """Which waves grow by rights, because the solver grows them too, and which do not."""
    lines = []
    if true.unstable:
        k, growth = true.unstable[0]
        mine = factors.modes_of(*k)
        learned = f", the learned step {abs(mine[0]):.4f}" if len(mine) else ""
        lines.append(
            f"The solver itself grows waves, most k = {name_wave(k)} by {growth:.4f}{learned}."
        )
    waves = [tuple(k.tolist()) for k in true.wavenumbers]
    grown = {k for k, _ in factors.unstable} - {k for k, _ in true.unstable}
    alone = [name_wave(k) for k in waves if k in grown]
    if alone:
        lines.append(
            f"Of {len(waves)} waves compared, the learned step alone grows {len(alone)}: "
            f"k = {', '.join(alone)}."
        )
    return lines


def bound_rows(bound: ErrorBound) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Columns and rows of the bound beside the measured error."""
    total = len(bound.bound)
    series = {
        "error, mean": bound.typical,
        "error, worst": bound.measured,
        "ε(C^K−1)/(C−1)": bound.bound,
        "ε Σ growth": bound.grown,
    }
    chosen = sorted({k for k in _SHOWN if k <= total} | {total})
    rows = [(str(k), *(_number(values[k - 1]) for values in series.values())) for k in chosen]
    return ("step K", *series), rows


def describe_samples(stable: Stability) -> str:
    """What all of it rests on."""
    return (
        f"All of it was measured at some states of the {stable.part} part "
        f"({_count(stable.single_steps, 'single step')} on "
        f"{_count(stable.trajectories, 'sample')}, {_count(len(stable.constants), 'state')}, "
        f"{_count(stable.bounded.trajectories, 'long rollout')}): evidence, not a proof. Errors "
        "are in units of each channel's spread."
    )


def name_wave(k: tuple[int, ...]) -> str:
    """3, or (3, 1) on a plane."""
    return str(k[0]) if len(k) == 1 else f"({', '.join(map(str, k))})"


def count_growing(waves: Sequence[Any]) -> str:
    """1 wave grows, or 3 waves grow."""
    return "1 wave grows" if len(waves) == 1 else f"{len(waves)} waves grow"


def _factor(value: complex) -> str:
    return f"{abs(value):.4f} ∠ {math.degrees(cmath.phase(value)):.1f}°"


def _number(value: float) -> str:
    return f"{value:.2e}" if math.isfinite(value) else "∞"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
