"""An inspection in sentences and tables, once for the terminal, the page and `print`."""

from __future__ import annotations

import cmath
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from fino.inspection.amplification import Amplification
from fino.inspection.stability import Stability

if TYPE_CHECKING:
    from fino.inspection.inspect import Inspection

__all__ = ["Section", "WordTable", "page", "sections"]


@dataclass(frozen=True)
class WordTable:
    """A small table of words and numbers."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class Section:
    """A heading, what it says, and the numbers behind it."""

    title: str
    lines: list[str] = field(default_factory=list)
    tables: list[WordTable] = field(default_factory=list)


def sections(found: Inspection) -> list[Section]:
    """The report in reading order."""
    return [
        _model(found),
        Section("Does it see far enough?", [_upper(found.reach.sentence)]),
        _learned(found),
        _stable(found),
    ]


def page(found: Inspection) -> str:
    """The report as plain text."""
    text = []
    for section in sections(found):
        text += [section.title, "─" * len(section.title), *section.lines]
        for table in section.tables:
            text += ["", *_text_table(table)]
        text.append("")
    return "\n".join(text).rstrip()


def _model(found: Inspection) -> Section:
    trained = f", on {found.data}" if found.data else ""
    lines = [
        f"{found.model}, {found.parameters:,} parameters, {found.history} frame"
        f"{'s' if found.history > 1 else ''} in, predicts the {found.predict}{trained}."
    ]
    if not found.is_local:
        lines.append(
            "It sees the whole field: reach and stencils say little about it, the stability part "
            "applies in full."
        )
    if "data" in found.notes:
        lines.append(f"Its data could not be opened: {found.notes['data']}")
    return Section("Model", lines)


def _learned(found: Inspection) -> Section:
    section = Section("What did it learn?")
    if found.layers:
        closer = sum(layer.is_classical for layer in found.layers)
        section.lines.append(
            f"{closer} of {len(found.layers)} layers of stencils lie clearly closer to the "
            "textbooks than random weights do."
        )
        section.tables.append(_stencil_table(found))
        section.tables.append(_strongest_table(found))
    else:
        section.lines.append(_upper(found.notes["stencils"]) + ".")
    if found.time_steps:
        values = found.time_steps.values()
        section.lines.append(
            f"Learned Δt: {min(values):.3g} to {max(values):.3g} "
            f"({', '.join(f'{n} {v:.3g}' for n, v in found.time_steps.items())})."
        )
    if found.gates:
        section.tables.append(_gate_table(found))
    else:
        section.lines.append(_upper(found.notes["gates"]) + ".")
    return section


def _stencil_table(found: Inspection) -> WordTable:
    rows = []
    for layer in found.layers:
        name, share = next(iter(layer.nearest.items()))
        rows.append(
            (
                _place(layer.name),
                str(layer.stencils),
                f"{name} ({share:.0%})",
                f"{layer.distance:.2f}",
                f"{layer.chance:.2f}",
            )
        )
    columns = ("layer", "stencils", "mostly nearest to", "distance", "chance")
    return WordTable("Stencils by layer", columns, rows)


def _strongest_table(found: Inspection) -> WordTable:
    strong = [(layer.name, one) for layer in found.layers for one in layer.strongest]
    strong.sort(key=lambda item: -item[1].share)
    rows = []
    for name, one in strong[:8]:
        report, nearest = one.report, one.report.nearest
        order = "exact" if report.order is None else str(report.order)
        rows.append(
            (
                f"{_place(name)} {one.input}→{one.output}",
                report.operator,
                order,
                f"{nearest.scale:.2g} × {nearest.name}",
                f"{nearest.distance:.2f}",
            )
        )
    columns = ("stencil", "operator", "order", "nearest", "distance")
    return WordTable("The strongest stencils", columns, rows)


def _gate_table(found: Inspection) -> WordTable:
    rows = [
        (
            gate.block.removesuffix(".operator"),
            f"{gate.average_open:.0%}",
            f"{gate.mean:.2f}",
            f"{gate.always_open} of {gate.channels}",
            f"{gate.always_shut} of {gate.channels}",
        )
        for gate in found.gates
    ]
    columns = ("gate of", "open", "mean opening", "always open", "never open")
    return WordTable("How often the gates are open on data", columns, rows)


def _stable(found: Inspection) -> Section:
    section = Section("Will it stay stable?")
    if found.stability is None:
        section.lines.append(_upper(found.notes["stability"]) + ".")
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
    grow = true.unstable
    if grow:
        lines.append(f"The solver's own largest |λ| there is {true.radius:.4f}.")
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


def _text_table(table: WordTable) -> list[str]:
    cells = [table.columns, *table.rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(table.columns))]
    lines = [table.title]
    for row in cells:
        padded = [
            cell.ljust(w) if i == 0 else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  " + "  ".join(padded))
    return lines


def _place(layer: str) -> str:
    return layer.replace(".operator.stencil", " stencil").replace(".project", " project")


def _wave(k: tuple[int, ...]) -> str:
    return str(k[0]) if len(k) == 1 else f"({', '.join(map(str, k))})"


def _factor(value: complex) -> str:
    return f"{abs(value):.4f} ∠ {math.degrees(cmath.phase(value)):.1f}°"


def _number(value: float) -> str:
    return f"{value:.2e}" if math.isfinite(value) else "∞"


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
