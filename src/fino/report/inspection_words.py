"""An inspection in sentences and tables, once for the terminal, the page and JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fino.inspection.inspect import Inspection
from fino.inspection.layers import GateReport, LayerReport, PriorReport, StrongStencil
from fino.inspection.reach import Reach
from fino.inspection.stencil import name_terms
from fino.report.stability_words import (
    bound_rows,
    describe_samples,
    describe_stability,
    describe_waves,
    verdict,
)
from fino.report.words import cells

__all__ = ["inspection_json", "inspection_sections", "strongest_stencils"]

#: Why a part of an inspection is missing, by the word that the inspection has for it.
_REASONS = {
    "steady": "a steady problem is answered in one step: nothing is rolled out",
    "no data": "errors and their growth are measured on data: pass data",
    "not equivariant": (
        "the step does not commute with shifts of the grid, so waves are not its eigenvectors"
    ),
    "unknown network": "a bound from layer norms is known for FINO and U-Net only",
    "no solver": "there is no solver for {data} here that starts from its frames",
    "state not in frames": (
        "a saved frame of {data} ({fields}) does not hold the solver's whole state, so the true "
        "step cannot be perturbed"
    ),
}


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


def inspection_sections(found: Inspection) -> list[Section]:
    """The report in reading order."""
    reach = describe_reach(found.reach, found.prior.kind, found.data or "")
    far_enough = Section("Does it see far enough?", [_upper(reach)])
    return [_model(found), far_enough, _learned(found), _stability(found)]


def inspection_json(found: Inspection) -> dict[str, Any]:
    """The numbers of an inspection with the sentences that belong to them."""
    content, said = found.to_dict(), describe_missing(found)
    content["reach"]["sentence"] = describe_reach(found.reach, found.prior.kind, found.data or "")
    measured = found.stability.notes if found.stability else {}
    content["notes"] = {part: why for part, why in said.items() if part not in measured}
    if found.stability is not None:
        content["stability"]["notes"] = {part: said[part] for part in measured}
        content["stability"]["bound"]["verdict"] = verdict(found.stability.bound)
    return content


def describe_missing(found: Inspection) -> dict[str, str]:
    """Why a part is missing, for each part that is."""
    said, fields = {}, ", ".join(found.fields)
    for part, why in {**found.notes, **(found.stability.notes if found.stability else {})}.items():
        sentence = _REASONS.get(why)
        said[part] = sentence.format(data=found.data, fields=fields) if sentence else why
    if not found.layers:
        said["stencils"] = "this model has no stencils: it mixes cells in another way"
    if not found.gates:
        said["gates"] = "there are no gates" if found.data else "gates need data to open"
    if not found.time_steps:
        said["time steps"] = "no block has a learned time step"
    return said


def describe_reach(found: Reach, prior: str = "frame", data: str = "the problem") -> str:
    """Whether a model sees far enough, and what would help if not; `prior` is its kind."""
    is_local = all(math.isfinite(r) for r in found.radius)
    sees = f"this model sees {cells(found.radius) if is_local else 'the whole field'}"
    if found.needed is None:
        return f"{sees} cells a step ({cells(found.length)} in length)." if is_local else f"{sees}."
    if found.source == "steady":
        lead = f"{data} is steady: its answer depends on the whole input everywhere, so "
        if is_local:
            return f"{lead}no reach is enough; {sees} cells of {cells(found.points)}."
        return f"{lead}only a model that sees the whole field can be exact; this one does."
    moved = f"the data move {cells(found.needed)} cells a step"
    if found.source == "estimated":
        moved += " (estimated from the data)"
    if found.enough:
        return f"{moved}, {sees}: far enough."
    short = max(c / r for r, c in zip(found.radius, found.needed, strict=True))
    stride = found.stride_time
    finer = f"a smaller time stride (at most {max(1, math.floor(stride / short))}, now {stride})"
    if stride == 1:
        finer = f"data saved {math.ceil(short)} times as often"
    levels = f"levels = {found.levels} or " if found.levels else ""
    carried = (
        " What it adds to, past frames combined, brings the motion along;"
        " that holds for motion that repeats as in its data, and for no other."
    )
    return f"{moved}, {sees}: use {levels}{finer}.{carried if prior == 'linear' else ''}"


def describe_prior(found: PriorReport) -> list[str]:
    """Which frames are combined, or which equation the stencil stands for."""
    if found.kind == "increment":
        return ["It adds to the last frame."]
    lines = []
    if found.frames:
        combined = ", ".join(
            f"{' / '.join(f'{w:.3f}' for w in weights)} × the frame of {ago} step"
            f"{'s' if ago > 1 else ''} ago"
            for ago, weights in found.frames.items()
        )
        lines.append(f"It adds to {combined}.")
    for name, terms in found.equation.items():
        right = " ".join(
            f"{coefficient:+.3g} {f'{name_terms(((alpha, 1.0),))} ' if any(alpha) else ''}{source}"
            for (source, alpha), coefficient in terms.items()
        )
        lines.append(f"It adds to a scheme that stands for ∂t {name} = {right or '0'}.")
    return lines


def _model(found: Inspection) -> Section:
    plural, trained = "s" if found.history > 1 else "", f", on {found.data}" if found.data else ""
    frames = f"{found.history} frame{plural} in{trained}"
    lines = [f"{found.model}, {found.parameters:,} parameters, {frames}."]
    if not found.is_local:
        lines.append(
            "It sees the whole field: reach and stencils say little about it, the stability part "
            "applies in full."
        )
    if "data" in found.notes:
        lines.append(f"Its data could not be opened: {found.notes['data']}")
    return Section("Model", lines)


def _learned(found: Inspection) -> Section:
    missing, lines, tables = describe_missing(found), describe_prior(found.prior), []
    if found.layers:
        closer = sum(layer.is_classical for layer in found.layers)
        lines.append(
            f"{closer} of {len(found.layers)} layers of stencils lie clearly closer to the "
            "textbooks than random weights do."
        )
        tables += [_stencil_table(found.layers), _strongest_table(found.layers)]
    else:
        lines.append(_upper(missing["stencils"]) + ".")
    if found.time_steps:
        values = found.time_steps.values()
        lines.append(
            f"Learned Δt: {min(values):.3g} to {max(values):.3g} "
            f"({', '.join(f'{n} {v:.3g}' for n, v in found.time_steps.items())})."
        )
    if found.gates:
        tables.append(_gate_table(found.gates))
    else:
        lines.append(_upper(missing["gates"]) + ".")
    return Section("What did it learn?", lines, tables)


def _stencil_table(layers: Sequence[LayerReport]) -> WordTable:
    rows = []
    for layer in layers:
        name, share = next(iter(layer.nearest.items()))
        distances = (f"{layer.distance:.2f}", f"{layer.chance:.2f}")
        rows.append((_place(layer.name), str(layer.stencils), f"{name} ({share:.0%})", *distances))
    columns = ("layer", "stencils", "mostly nearest to", "distance", "chance")
    return WordTable("Stencils by layer", columns, rows)


def strongest_stencils(layers: Sequence[LayerReport]) -> list[tuple[str, StrongStencil]]:
    """The strongest stencils of all layers, each with the name of its layer."""
    every = [(layer.name, one) for layer in layers for one in layer.strongest]
    return sorted(every, key=lambda item: -item[1].share)


def _strongest_table(layers: Sequence[LayerReport]) -> WordTable:
    rows = []
    for name, one in strongest_stencils(layers)[:8]:
        report, nearest = one.report, one.report.nearest
        place = f"{_place(name)} {one.input}→{one.output}"
        order = "exact" if report.order is None else str(report.order)
        near = (f"{nearest.scale:.2g} × {nearest.name}", f"{nearest.distance:.2f}")
        rows.append((place, report.operator, order, *near))
    columns = ("stencil", "operator", "order", "nearest", "distance")
    return WordTable("The strongest stencils", columns, rows)


def _gate_table(gates: Sequence[GateReport]) -> WordTable:
    rows = []
    for gate in gates:
        block, opening = gate.block.removesuffix(".operator"), f"{gate.mean:.2f}"
        always = [f"{n} of {gate.channels}" for n in (gate.always_open, gate.always_shut)]
        rows.append((block, f"{gate.average_open:.0%}", opening, *always))
    columns = ("gate of", "open", "mean opening", "always open", "never open")
    return WordTable("How often the gates are open on data", columns, rows)


def _stability(found: Inspection) -> Section:
    missing, stable, lines, tables = describe_missing(found), found.stability, [], []
    if stable is None:
        lines.append(_upper(missing["stability"]) + ".")
    else:
        lines += describe_stability(stable)
        tables = [WordTable("The bound beside the measured error", *bound_rows(stable.bound))]
    if found.amplification is not None:
        true = stable.true_amplification if stable else None
        lines += describe_waves(found.amplification, true)
    parts = ("amplification", "true_constant", "layers")
    lines += [f"Not measured: {missing[part]}." for part in parts if part in missing]
    if stable is not None:
        lines.append(describe_samples(stable))
    return Section("Will it stay stable?", lines, tables)


def _upper(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def _place(layer: str) -> str:
    return layer.replace(".operator.stencil", " stencil").replace(".project", " project")
