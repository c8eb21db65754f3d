"""An inspection as files: numbers, pictures and a section that the report can show.

RUN/inspection/inspection.json   the numbers
RUN/inspection/*.png             the pictures
RUN/inspection/section.json      the sentences and tables, for the run's page
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fino.durable import check_no_link, plain, write_whole
from fino.inspection.amplification import Amplification
from fino.inspection.inspect import Inspection
from fino.inspection.layers import GateReport, LayerReport, StrongStencil
from fino.inspection.stability import Stability
from fino.inspection.stencil import AXES
from fino.report import look
from fino.report.curves import scale_of
from fino.report.inspection_words import (
    count_growing,
    inspection_json,
    inspection_sections,
    name_wave,
    strongest_stencils,
    verdict,
)
from fino.report.look import ERROR_MAP, INK, as_file_name, color_of, drawn, line_style, plotted

__all__ = ["inspection_section", "write_figures", "write_inspection"]

#: Stencils that are drawn.
_SHOWN = 4
#: What is seen on each figure.
_CAPTIONS = {
    "stencils": "The strongest learned stencils, and below each its symbol: what it does to waves, "
    "beside the exact derivative that the nearest textbook stencil stands for.",
    "time-steps": "The learned Δt of every block over the trained range of a parameter; the dotted "
    "line is the value that the rest is looked at with.",
    "gates": "How often each gate is open on data, channels sorted.",
    "bound": "The measured error beside Proposition 1. Above the dotted line a constant guess "
    "satisfies a bound as well.",
    "waves": "By what factor each wave grows in a step, linearised about a constant state. "
    "Above the line it grows without end.",
}


def write_figures(found: Inspection, folder: str | Path) -> list[Path]:
    """Every picture of an inspection as a PNG file."""
    return _save(_draw(found), Path(folder))


def write_inspection(found: Inspection, folder: str | Path) -> Path:
    """Write numbers, pictures and the section into a folder."""
    folder = Path(folder)
    check_no_link(folder)
    figures = _draw(found)
    _save(figures, folder)
    captions = {
        name: next(said for part, said in _CAPTIONS.items() if name.startswith(part))
        for name in figures
    }
    section = {"sections": plain(inspection_sections(found)[1:]), "pictures": captions}
    for name, content in (("inspection", inspection_json(found)), ("section", section)):
        text = json.dumps(content, indent=1, ensure_ascii=False)
        write_whole(folder / f"{name}.json", f"{text}\n".encode())
    return folder


def inspection_section(run: str | Path | None) -> dict[str, Any] | None:
    """What `fino inspect RUN` left in a run for its page, None if it left nothing."""
    folder = None if run is None else Path(run) / "inspection"
    if folder is None or not (folder / "section.json").is_file():
        return None
    try:
        content = json.loads((folder / "section.json").read_text(encoding="utf-8"))
        pictures = [
            {
                "name": f"inspection-{as_file_name(name)}",
                "caption": caption,
                "address": _address(folder / f"{as_file_name(name)}.png"),
            }
            for name, caption in content["pictures"].items()
        ]
        return {"sections": content["sections"], "pictures": pictures}
    except (ValueError, KeyError, TypeError, AttributeError, OSError):
        raise ValueError(
            f"{folder} is damaged: its section cannot be read. Run `fino inspect {run}` again."
        ) from None


def _address(picture: Path) -> str:
    """A PNG file as a data address."""
    return "data:image/png;base64," + base64.b64encode(picture.read_bytes()).decode()


def _save(figures: dict[str, Figure], folder: Path) -> list[Path]:
    return [look.save(figure, folder / f"{name}.png") for name, figure in figures.items()]


def _draw(found: Inspection) -> dict[str, Figure]:
    """Every figure that applies, by name."""
    figures, stable = {}, found.stability
    if found.layers:
        figures["stencils"] = _draw_stencils(found.layers)
    for name, over in found.time_steps_over.items():
        figures[as_file_name(f"time-steps-{name}", figures)] = _draw_time_steps(
            name, over, found.theta.values[name]
        )
    if found.gates:
        figures["gates"] = _draw_gates(found.gates)
    if stable is not None:
        figures["bound"] = _draw_bound(stable)
    if found.amplification is not None:
        true = stable.true_amplification if stable else None
        figures["waves"] = _draw_waves(found.amplification, true)
    return figures


def _draw_stencils(layers: list[LayerReport]) -> Figure:
    """The strongest stencils of the network and their symbols."""
    strong = strongest_stencils(layers)[:_SHOWN]
    with drawn(2.5 * len(strong) + 0.4, 4.4) as figure:
        axes = figure.subplots(2, len(strong), squeeze=False)
        for above, below, (layer, one) in zip(*axes, strong, strict=True):
            name, near = layer.replace(".operator.stencil", ""), one.report.nearest
            words = f"near {near.name.split(', ', 1)[0]}, distance {near.distance:.2f}"
            _draw_weights(above, one)
            above.set_title(f"{name} {one.input}→{one.output}", fontsize=9)
            above.set_xlabel(words, fontsize=8)
            _draw_symbol(below, one)
        axes[1, 0].legend()
        axes[1, 0].set_ylabel("symbol")
        return figure


def _draw_weights(axes: Axes, one: StrongStencil) -> None:
    """A line's weights as bars, a plane's as a map, a block's by its middle."""
    weights = one.report.weights
    while weights.ndim > 2:
        weights = weights[weights.shape[0] // 2]
    largest = np.abs(weights).max() or 1.0
    if weights.ndim == 1:
        places = np.arange(len(weights)) - len(weights) // 2
        axes.bar(places, weights, width=0.6, color=color_of(0))
        axes.axhline(0, color=INK, linewidth=0.6)
        axes.set(ylim=(-1.15 * largest, 1.15 * largest), xticks=places)
        return
    # the first axis of space points right, as on every other picture
    axes.imshow(weights.T, cmap=ERROR_MAP, vmin=-largest, vmax=largest, origin="lower")
    axes.set(xticks=[], yticks=[])
    for (i, j), value in np.ndenumerate(weights):
        color = "white" if abs(value) > 0.6 * largest else INK
        axes.text(i, j, f"{value:.2f}", ha="center", va="center", fontsize=8, color=color)


def _draw_symbol(axes: Axes, one: StrongStencil) -> None:
    """The larger of real and imaginary part, over wavenumbers."""
    found = one.report.symbol_of_nearest()
    imaginary = np.abs(found.exact.imag).max() > np.abs(found.exact.real).max()
    part = np.imag if imaginary else np.real
    axes.axhline(0, color=INK, linewidth=0.6, alpha=0.5)
    for place, (values, label) in enumerate(((found.learned, "learned"), (found.exact, "exact"))):
        axes.plot(found.theta / np.pi, part(values), label=label, **line_style(place))
    which = "imaginary" if imaginary else "real"
    axes.set_xlim(0, 1)
    axes.set_xlabel(f"θ/π along {AXES[found.axis]}, {which} part", fontsize=8)


def _draw_time_steps(name: str, over: dict[str, Any], here: float) -> Figure:
    """Δt of every block over a parameter."""
    labels = {"xlabel": name, "ylabel": "Δt", "xscale": scale_of(over["values"])}
    with plotted(6.4, 3.4, "beside", **labels) as (figure, axes):
        for place, (block, steps) in enumerate(over["time_steps"].items()):
            axes.plot(over["values"], steps, label=block, **line_style(place))
        axes.axvline(here, color=INK, linestyle=":", linewidth=1.2)
        return figure


def _draw_gates(gates: list[GateReport]) -> Figure:
    """One row of channels for each block, dark where the gate is always open."""
    width = max(gate.channels for gate in gates)
    picture = np.full((len(gates), width), np.nan)
    for row, gate in enumerate(gates):
        picture[row, : gate.channels] = sorted(gate.open_share, reverse=True)
    with drawn(6.4, 0.32 * len(gates) + 1.1) as figure:
        axes = figure.subplots()
        image = axes.imshow(picture, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        names = [gate.block.removesuffix(".operator") for gate in gates]
        axes.set_yticks(range(len(gates)), names)
        axes.set_xlabel("channel, sorted")
        axes.set_xticks([])
        figure.colorbar(image, ax=axes, label="share of cells where open", pad=0.02)
        return figure


def _draw_bound(stable: Stability) -> Figure:
    """Errors and bounds over the steps of a rollout."""
    bound = stable.bound
    steps = np.arange(1, len(bound.bound) + 1)
    ceiling = 1e3 * bound.spread
    labels = {"xlabel": "step K", "ylabel": "error / spread of each channel", "yscale": "log"}
    with plotted(6.4, 3.6, "best", **labels) as (figure, axes):
        # First, so that a logarithmic axis has something positive where errors exceed the ceiling.
        dotted: dict[str, Any] = {"color": INK, "linestyle": ":", "linewidth": 1.2}
        axes.axhline(bound.spread, label="spread of the data", **dotted)
        lines = [
            (bound.typical, "measured, mean"),
            (bound.measured, "measured, worst"),
            (bound.bound, f"ε(C^K − 1)/(C − 1), C = {stable.constant:.3g}"),
            (bound.grown, "ε Σ measured growth"),
        ]
        for place, (values, label) in enumerate(lines):
            shown = np.where(np.isfinite(values) & (values <= ceiling), values, np.nan)
            axes.plot(steps, shown, label=label, **line_style(place))
        axes.set_title(
            f"Proposition 1 is {verdict(bound)}: below the data's spread for {bound.useful_steps} "
            f"of {len(steps)} steps"
        )
        return figure


def _draw_waves(factors: Amplification, true: Amplification | None = None) -> Figure:
    """|λ| over wavenumbers along each axis, the solver's own beside it."""
    labels = {"xlabel": "waves over the domain, k", "ylabel": "|λ| a step"}
    with plotted(6.4, 3.4, "lower left", **labels) as (figure, axes):
        lines = [
            (factors.along(axis), 2 * axis, "o", f"learned, along {AXES[axis]}")
            for axis in range(factors.wavenumbers.shape[1])
        ]
        if true is not None:
            lines.append((true.along(0), 1, "s", "the solver on this grid"))
        for (k, values), place, marker, label in lines:
            style = {**line_style(place), "marker": marker, "markersize": 3}
            axes.plot(k, np.abs(values), label=label, **style)
        axes.axhline(1.0, color=INK, linewidth=0.8)
        growing = factors.unstable
        title = f"No wave grows: |λ| ≤ {factors.radius:.4f}"
        if growing:
            wave, growth = growing[0]
            title = f"{count_growing(growing)}, most k = {name_wave(wave)}: |λ| = {growth:.3f}"
        axes.set_title(title)
        lowest = min(float(f.growth.min()) for f in (factors, true) if f is not None)
        axes.set_ylim(bottom=0 if lowest < 0.5 else lowest - 0.05)
        return figure
