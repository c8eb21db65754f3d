"""An inspection in sentences and tables, once for the terminal, the page and `print`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fino.inspection.section import Section, WordTable, in_text, upper
from fino.inspection.stability_words import stability_section

if TYPE_CHECKING:
    from fino.inspection.inspect import Inspection

__all__ = ["page", "sections"]


def sections(found: Inspection) -> list[Section]:
    """The report in reading order."""
    return [
        _model(found),
        Section("Does it see far enough?", [upper(found.reach.sentence)]),
        _learned(found),
        stability_section(found),
    ]


def page(found: Inspection) -> str:
    """The report as plain text."""
    return "\n\n".join(in_text(section) for section in sections(found))


def _model(found: Inspection) -> Section:
    trained = f", on {found.data}" if found.data else ""
    lines = [
        f"{found.model}, {found.parameters:,} parameters, {found.history} frame"
        f"{'s' if found.history > 1 else ''} in{trained}."
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
    section = Section("What did it learn?", found.base.sentences())
    if found.layers:
        closer = sum(layer.is_classical for layer in found.layers)
        section.lines.append(
            f"{closer} of {len(found.layers)} layers of stencils lie clearly closer to the "
            "textbooks than random weights do."
        )
        section.tables.append(_stencil_table(found))
        section.tables.append(_strongest_table(found))
    else:
        section.lines.append(upper(found.notes["stencils"]) + ".")
    if found.time_steps:
        values = found.time_steps.values()
        section.lines.append(
            f"Learned Δt: {min(values):.3g} to {max(values):.3g} "
            f"({', '.join(f'{n} {v:.3g}' for n, v in found.time_steps.items())})."
        )
    if found.gates:
        section.tables.append(_gate_table(found))
    else:
        section.lines.append(upper(found.notes["gates"]) + ".")
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


def _place(layer: str) -> str:
    return layer.replace(".operator.stencil", " stencil").replace(".project", " project")
