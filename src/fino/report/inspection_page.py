"""An inspection as files: numbers, pictures and a section that the report can show.

RUN/inspection/inspection.json   the numbers
RUN/inspection/*.png             the pictures
RUN/inspection/section.html      both, as a part of a page
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fino.inspection.amplification import Amplification
from fino.inspection.classical import AXES
from fino.inspection.inspect import Inspection
from fino.inspection.layers import GateReport, LayerReport, StrongStencil
from fino.inspection.stability import Stability
from fino.report import look
from fino.report.inspection_words import inspection_json, inspection_sections
from fino.report.look import ERROR_MAP, INK, color_of, dashes_of, drawn
from fino.report.stability_words import name_wave, verdict

__all__ = ["inspection_section", "write_figures", "write_inspection"]

#: Stencils that are drawn.
_SHOWN = 4


def write_figures(found: Inspection, folder: str | Path) -> list[Path]:
    """Every picture of an inspection as a PNG file."""
    return [
        look.save(figure, Path(folder) / f"{name}.png")
        for name, (figure, _) in _draw(found).items()
    ]


def write_inspection(found: Inspection, folder: str | Path) -> Path:
    """Write numbers, pictures and the section into a folder."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_figures(found, folder)
    text = json.dumps(inspection_json(found), indent=1, ensure_ascii=False)
    (folder / "inspection.json").write_text(text + "\n", encoding="utf-8")
    (folder / "section.html").write_text(_section_html(found), encoding="utf-8")
    return folder


def _section_html(found: Inspection) -> str:
    """The inspection as a part of a page, its pictures inside."""
    pictures = [
        {
            "name": f"inspection-{name}",
            "caption": caption,
            "svg": Markup(look.inline(figure, f"inspection-{name}")),
        }
        for name, (figure, caption) in _draw(found).items()
    ]
    template = look.template("inspection.html.j2")
    return template.render(sections=inspection_sections(found)[1:], pictures=pictures)


def inspection_section(run: str | Path | None) -> Markup | None:
    """The section that `fino inspect RUN` left in a run, None if it left none."""
    if run is None:
        return None
    path = Path(run) / "inspection" / "section.html"
    return Markup(path.read_text(encoding="utf-8")) if path.is_file() else None


def _draw(found: Inspection) -> dict[str, tuple[Figure, str]]:
    """Every figure that applies, by name, with what is seen on it."""
    pictures: dict[str, tuple[Figure, str]] = {}
    if found.layers:
        pictures["stencils"] = (
            _draw_stencils(found.layers),
            "The strongest learned stencils, and below each its symbol: what it does to waves, "
            "beside the exact derivative that the nearest textbook stencil stands for.",
        )
    if found.gates:
        pictures["gates"] = (
            _draw_gates(found.gates),
            "How often each gate is open on data, channels sorted.",
        )
    if found.stability is not None:
        pictures["bound"] = (
            _draw_bound(found.stability),
            "The measured error beside Proposition 1. Above the dotted line a constant guess "
            "satisfies a bound as well.",
        )
    if found.amplification is not None:
        true = found.stability.true_amplification if found.stability else None
        pictures["waves"] = (
            _draw_waves(found.amplification, true),
            "By what factor each wave grows in a step, linearised about a constant state. "
            "Above the line it grows without end.",
        )
    return pictures


def _draw_stencils(layers: list[LayerReport]) -> Figure:
    """The strongest stencils of the network and their symbols."""
    strong = [(layer, one) for layer in layers for one in layer.strongest]
    strong = sorted(strong, key=lambda item: -item[1].share)[:_SHOWN]
    with drawn(2.5 * len(strong) + 0.4, 4.4) as figure:
        axes = figure.subplots(2, len(strong), squeeze=False)
        for column, (layer, one) in enumerate(strong):
            _draw_weights(axes[0, column], one)
            name = layer.name.replace(".operator.stencil", "")
            near = one.report.nearest
            axes[0, column].set_title(f"{name} {one.input}→{one.output}", fontsize=9)
            axes[0, column].set_xlabel(
                f"near {near.name.split(', ', 1)[0]}, distance {near.distance:.2f}", fontsize=8
            )
            _draw_symbol(axes[1, column], one, legend=column == 0)
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
        light = abs(value) > 0.6 * largest
        axes.text(
            i,
            j,
            f"{value:.2f}",
            ha="center",
            va="center",
            fontsize=8,
            color="white" if light else INK,
        )


def _draw_symbol(axes: Axes, one: StrongStencil, legend: bool) -> None:
    """The larger of real and imaginary part, over wavenumbers."""
    found = one.report.symbol_of_nearest()
    imaginary = np.abs(found.exact.imag).max() > np.abs(found.exact.real).max()
    part = np.imag if imaginary else np.real
    axes.axhline(0, color=INK, linewidth=0.6, alpha=0.5)
    axes.plot(found.theta / np.pi, part(found.learned), color=color_of(0), label="learned")
    axes.plot(
        found.theta / np.pi,
        part(found.exact),
        color=color_of(1),
        linestyle=dashes_of(1),
        label="exact",
    )
    which = "imaginary" if imaginary else "real"
    axes.set_xlim(0, 1)
    axes.set_xlabel(f"θ/π along {AXES[found.axis]}, {which} part", fontsize=8)
    if legend:
        axes.legend()


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
    with drawn(6.4, 3.6) as figure:
        axes = figure.subplots()
        lines = [
            (bound.typical, "measured, mean"),
            (bound.measured, "measured, worst"),
            (bound.bound, f"ε(C^K − 1)/(C − 1), C = {stable.constant:.3g}"),
        ]
        if bound.grown is not None:
            lines.append((bound.grown, "ε Σ measured growth"))
        for place, (values, label) in enumerate(lines):
            shown = np.where(np.isfinite(values) & (values <= ceiling), values, np.nan)
            axes.plot(steps, shown, color=color_of(place), linestyle=dashes_of(place), label=label)
        axes.axhline(
            bound.spread, color=INK, linestyle=":", linewidth=1.2, label="spread of the data"
        )
        axes.set(yscale="log", xlabel="step K", ylabel="error / spread of each channel")
        axes.set_title(
            f"Proposition 1 is {verdict(bound)}: below the data's spread for {bound.useful_steps} "
            f"of {len(steps)} steps"
        )
        axes.grid(True)
        axes.legend(loc="best")
        return figure


def _draw_waves(factors: Amplification, true: Amplification | None = None) -> Figure:
    """|λ| over wavenumbers along each axis, the solver's own beside it."""
    with drawn(6.4, 3.4) as figure:
        axes = figure.subplots()
        for axis in range(factors.wavenumbers.shape[1]):
            k, values = factors.along(axis)
            axes.plot(
                k,
                np.abs(values),
                color=color_of(2 * axis),
                linestyle=dashes_of(2 * axis),
                marker="o",
                markersize=3,
                label=f"learned, along {AXES[axis]}",
            )
        if true is not None:
            k, values = true.along(0)
            axes.plot(
                k,
                np.abs(values),
                color=color_of(1),
                linestyle=dashes_of(1),
                marker="s",
                markersize=3,
                label="the solver on this grid",
            )
        axes.axhline(1.0, color=INK, linewidth=0.8)
        growing = factors.unstable
        title = f"No wave grows: |λ| ≤ {factors.radius:.4f}"
        if growing:
            wave, growth = growing[0]
            count = "1 wave grows" if len(growing) == 1 else f"{len(growing)} waves grow"
            title = f"{count}, most k = {name_wave(wave)}: |λ| = {growth:.3f}"
        axes.set_title(title)
        lowest = min(float(f.growth.min()) for f in (factors, true) if f is not None)
        axes.set_ylim(bottom=0 if lowest < 0.5 else lowest - 0.05)
        axes.set(xlabel="waves over the domain, k", ylabel="|λ| a step")
        axes.grid(True)
        axes.legend(loc="lower left")
        return figure
