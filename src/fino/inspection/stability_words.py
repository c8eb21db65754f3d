"""The stability of a step in sentences: errors, constants, bounds, waves."""

from __future__ import annotations

import cmath
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from fino.inspection.amplification import Amplification
from fino.inspection.section import Section, WordTable, upper
from fino.inspection.stability import Stability

if TYPE_CHECKING:
    from fino.inspection.inspect import Inspection

__all__ = ["stability_section"]


def stability_section(found: Inspection) -> Section:
    section = Section("Will it stay stable?")
    if found.stability is None:
        section.lines.append(upper(found.notes["stability"]) + ".")
    else:
        section.lines.extend(_measured(found.stability))
        section.tables.append(_bound_table(found.stability))
    if found.amplification is not None:
        true = found.stability.true_amplification if found.stability else None
        section.lines.extend(_waves(found.amplification, true))
    reasons = {**found.notes, **(found.stability.notes if found.stability else {})}
    for part in ("amplification", "true_constant", "layers"):
        if part in reasons and not (part == "layers" and found.stability is None):
            section.lines.append(f"Not measured: {reasons[part]}.")
    if found.stability is not None:
        section.lines.append(
            f"All of it was measured at some states of the {found.stability.part} part: evidence, "
            "not a proof. Errors are in units of each channel's spread."
        )
    return section


def _measured(stable: Stability) -> list[str]:
    bound = stable.bound
    lines = [
        f"One step from true histories is wrong by {stable.epsilon_mean:.2e} on average, "
        f"ε = {stable.epsilon:.2e} at worst.",
        f"Lipschitz constant of the learned step, history included: C = {stable.constant:.4g} "
        f"(from {min(stable.constants):.4g}, at {len(stable.constants)} states).",
    ]
    if stable.true_constant is not None:
        lines.append(
            f"The true step, one frame to the next, stretches by at least "
            f"{stable.true_constant:.4g}."
        )
    if stable.layers is not None:
        lines.append(
            f"Upper bound of C from the norms of the layers: {stable.layers.constant:.3g}."
        )
    steps, total = bound.useful_steps, len(bound.bound)
    lines.append(
        f"Proposition 1, ε(C^K − 1)/(C − 1): {bound.verdict.upper()}. It stays below the spread "
        f"of the data ({bound.spread:.2g}) for {steps} of {total} steps; the measured error at "
        f"step {total} is {_number(bound.typical[-1])} (worst {_number(bound.measured[-1])}), the "
        f"bound {_number(bound.bound[-1])}."
    )
    if bound.grown is not None:
        chosen = [j for j in (1, 2, 5, 10, 20, 50, 100) if j < len(stable.growth)]
        growth = ", ".join(f"{stable.growth[j]:.3g} over {j}" for j in chosen)
        lines.append(
            f"Shaken, the step let an error in one frame grow by {growth} steps; summed up, that "
            f"is {_number(bound.grown[-1])} at step {total}, below the spread for "
            f"{bound.grown_useful_steps} steps."
        )
    lines.append(_bounded(stable))
    return lines


def _bounded(stable: Stability) -> str:
    run = stable.bounded
    far = f"{run.steps} steps, {run.steps // max(1, run.horizon)}× the data's own horizon"
    if run.first_left is None:
        return (
            f"All {run.trajectories} rollouts stayed within twice the range of the data for {far}."
        )
    return (
        f"{run.trajectories - run.stayed} of {run.trajectories} rollouts left twice the range of "
        f"the data, the first at step {run.first_left} (asked for {far})."
    )


def _waves(factors: Amplification, true: Amplification | None) -> list[str]:
    about = ", ".join(f"{v:.3g}" for v in factors.state)
    growing = factors.unstable
    lead = f"Linearised about the constant state ({about}) on a periodic grid, "
    if growing:
        named = ", ".join(f"k = {_wave(k)} (|λ| = {g:.4f})" for k, g in growing[:5])
        more = f" and {len(growing) - 5} more" if len(growing) > 5 else ""
        waves = "1 wave grows" if len(growing) == 1 else f"{len(growing)} waves grow"
        lines = [f"{lead}{waves}: {named}{more}."]
    else:
        lines = [f"{lead}no wave grows: the largest |λ| is {factors.radius:.4f}."]
    if true is None:
        return lines
    wave = (1, *[0] * (factors.wavenumbers.shape[1] - 1))
    mine, exact = factors.modes_of(*wave), true.modes_of(*wave)
    if len(mine) and len(exact):
        pairs = [(one, mine[np.argmin(np.abs(mine - one))]) for one in exact]
        told = "; ".join(f"{_factor(one)} became {_factor(close)}" for one, close in pairs)
        lines.append(f"The longest wave, from the solver on this grid to the learned step: {told}.")
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
            f"The solver itself grows waves, most k = {_wave(k)} by {growth:.4f}{learned}."
        )
    limit = 1 + factors.tolerance
    waves = [tuple(int(i) for i in k) for k in true.wavenumbers]
    grown = [k for k in waves if len(factors.modes_of(*k)) and abs(factors.modes_of(*k)[0]) > limit]
    alone = [k for k in grown if abs(true.modes_of(*k)[0]) <= limit]
    if alone:
        named = ", ".join(_wave(k) for k in alone)
        lines.append(
            f"Of {len(waves)} waves compared, the learned step alone grows {len(alone)}: "
            f"k = {named}."
        )
    return lines


def _bound_table(stable: Stability) -> WordTable:
    bound = stable.bound
    total = len(bound.bound)
    chosen = sorted({k for k in (1, 2, 5, 10, 20, 50, 100, 200) if k <= total} | {total})
    rows = []
    for k in chosen:
        row: list[Any] = [bound.typical[k - 1], bound.measured[k - 1], bound.bound[k - 1]]
        if bound.grown is not None:
            row.append(bound.grown[k - 1])
        rows.append((str(k), *(_number(v) for v in row)))
    columns: tuple[str, ...] = ("step K", "error, mean", "error, worst", "ε(C^K−1)/(C−1)")
    if bound.grown is not None:
        columns = (*columns, "ε Σ growth")
    return WordTable("The bound beside the measured error", columns, rows)


def _wave(k: tuple[int, ...]) -> str:
    return str(k[0]) if len(k) == 1 else f"({', '.join(map(str, k))})"


def _factor(value: complex) -> str:
    return f"{abs(value):.4f} ∠ {math.degrees(cmath.phase(value)):.1f}°"


def _number(value: float) -> str:
    return f"{value:.2e}" if math.isfinite(value) else "∞"
