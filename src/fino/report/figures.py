"""The pictures: fields, space and time, errors as they grow, spectra, training, error and cost.

Every function returns a matplotlib `Figure`; `look.save` writes it, `look.inline` puts it on a
page.  Truth and prediction always share one colour scale, and titles say what is seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fino.report.look import ERROR_MAP, FIELD_MAP, INK, color_of, dashes_of, drawn
from fino.report.scene import Scene

__all__ = ["error_over_time", "fields", "pareto", "space_time", "spectra", "training_curve"]


def fields(scene: Scene, channel: int = 0, count: int = 4) -> Figure:
    """Truth, prediction and error at several times, as maps or as lines."""
    scene = scene.flat()
    return _maps(scene, channel, count) if scene.dims == 2 else _lines(scene, channel, count)


def _maps(scene: Scene, channel: int, count: int) -> Figure:
    if scene.steady:
        return _steady_maps(scene, channel)
    moments = scene.moments(count)
    worst = scene.error_limit(channel)
    with drawn(2.0 * len(moments) + 1.1, 3 * 2.0 * scene.tallness + 0.5) as figure:
        figure.set_layout_engine("compressed")
        axes = figure.subplots(3, len(moments), squeeze=False)
        rows = (("truth", scene.truth), (scene.model, scene.prediction), ("error", scene.error))
        for row, (name, values) in enumerate(rows):
            is_error = name == "error"
            for column, frame in enumerate(moments):
                image = _map(axes[row, column], scene, values[frame, channel], is_error)
                image.set_clim(*((-worst, worst) if is_error else scene.limits(channel)))
                if row == 0:
                    axes[row, column].set_title(f"t = {scene.times[frame]:.4g}", loc="center")
            axes[row, 0].set_ylabel(name, fontsize=11)
            if row > 0:
                beside = axes[2, :] if is_error else axes[:2, :]
                _bar(figure, image, beside, scene, channel, is_error)
        figure.supxlabel(scene.place, fontsize=9)
        return figure


def _steady_maps(scene: Scene, channel: int) -> Figure:
    """A steady problem in one row: what was given, the truth, the prediction, the error."""
    worst = scene.error_limit(channel)
    parts = [("truth", scene.truth[-1, channel]), (scene.model, scene.prediction[-1, channel])]
    parts = [*parts, ("error", scene.error[-1, channel])]
    if scene.given is not None:
        parts = [("input", scene.given[channel]), *parts]
    with drawn(2.6 * len(parts), 2.5 * scene.tallness + 0.3) as figure:
        figure.set_layout_engine("compressed")
        axes = figure.subplots(1, len(parts), squeeze=False)[0]
        for panel, (name, values) in zip(axes, parts, strict=True):
            is_error = name == "error"
            image = _map(panel, scene, values, is_error)
            if name != "input":
                image.set_clim(*((-worst, worst) if is_error else scene.limits(channel)))
            panel.set_title(name, loc="center")
            if name != "truth":
                _bar(figure, image, panel, scene, channel, is_error, named=name != "input")
        figure.supxlabel(scene.place, fontsize=9)
        return figure


def _map(axes: Axes, scene: Scene, values: np.ndarray, is_error: bool) -> Any:
    image = axes.imshow(
        scene.picture(values), cmap=ERROR_MAP if is_error else FIELD_MAP, aspect="auto"
    )
    axes.set_box_aspect(scene.tallness)
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)
    return image


def _bar(
    figure: Figure,
    image: Any,
    beside: Any,
    scene: Scene,
    channel: int,
    is_error: bool,
    named: bool = True,
) -> None:
    ends = "neither" if is_error or not named else _ends(scene, channel)
    bar = figure.colorbar(image, ax=beside, shrink=0.9, aspect=22, pad=0.02, extend=ends)
    if named:
        bar.set_label(f"{'error of ' if is_error else ''}{scene.label(channel)}")
    bar.outline.set_visible(False)


def _ends(scene: Scene, channel: int) -> str:
    """Arrows on the colour bar where the prediction leaves the truth's range."""
    low, high = scene.limits(channel)
    slack = 1e-3 * (high - low)
    below = np.nanmin(scene.prediction[:, channel]) < low - slack
    above = np.nanmax(scene.prediction[:, channel]) > high + slack
    return {(True, True): "both", (True, False): "min", (False, True): "max"}.get(
        (bool(below), bool(above)), "neither"
    )


def _lines(scene: Scene, channel: int, count: int) -> Figure:
    moments = scene.moments(count)
    (x,) = scene.grid.coordinates()
    low, high = scene.limits(channel)
    margin, worst = 0.08 * (high - low), 1.08 * scene.error_limit(channel)
    with drawn(2.3 * len(moments) + 0.9, 3.9) as figure:
        axes = figure.subplots(
            2, len(moments), sharex=True, sharey="row", squeeze=False, height_ratios=(2, 1)
        )
        for column, frame in enumerate(moments):
            above, below = axes[:, column]
            above.plot(x, scene.truth[frame, channel], color=INK, linewidth=3.2, alpha=0.35)
            above.plot(x, scene.prediction[frame, channel], color=color_of(0), linewidth=1.4)
            below.axhline(0.0, color=INK, linewidth=0.6, alpha=0.4)
            below.plot(x, scene.error[frame, channel], color=color_of(1), linewidth=1.2)
            title = "steady" if scene.steady else f"t = {scene.times[frame]:.4g}"
            above.set_title(title, loc="center")
            below.set_xlabel(scene.axis_label(0))
        axes[0, 0].set(ylim=(low - margin, high + margin), ylabel=scene.label(channel))
        axes[1, 0].set(ylim=(-worst, worst), ylabel="error")
        axes[0, 0].set_xlim(*sorted(scene.grid.extent[0]))
        lines = axes[0, 0].get_lines()
        figure.legend(lines, ["truth", scene.model], loc="outside upper right", ncols=2)
        return figure


def space_time(scene: Scene, channel: int = 0) -> Figure:
    """A line's whole history as a map: space to the right, time upwards."""
    if scene.dims != 1:
        raise ValueError(f"space and time fit in one map for a line, not in {scene.dims}D.")
    worst = scene.error_limit(channel)
    times = scene.times
    step = float(times[1] - times[0]) if len(times) > 1 else 1.0
    box = (*scene.grid.extent[0], float(times[0]) - step / 2, float(times[-1]) + step / 2)
    panels = (("truth", scene.truth), (scene.model, scene.prediction), ("error", scene.error))
    with drawn(8.6, 3.6) as figure:
        axes = figure.subplots(1, 3, sharey=True)
        for panel, (name, values) in zip(axes, panels, strict=True):
            is_error = name == "error"
            image = panel.imshow(
                values[:, channel],
                origin="lower",
                extent=box,
                aspect="auto",
                cmap=ERROR_MAP if is_error else FIELD_MAP,
            )
            image.set_clim(*((-worst, worst) if is_error else scene.limits(channel)))
            panel.set_title(name, loc="center")
            panel.set_xlabel(scene.axis_label(0))
            if name != "truth":
                beside = [panel] if is_error else list(axes[:2])
                bar = figure.colorbar(image, ax=beside, aspect=28, pad=0.02)
                bar.set_label(f"{'error of ' if is_error else ''}{scene.label(channel)}")
                bar.outline.set_visible(False)
        axes[0].set_ylabel("time")
        return figure


def error_over_time(
    times: Sequence[float],
    series: Mapping[str, Sequence[float | None]],
    band: tuple[Sequence[float], Sequence[float]] | None = None,
    label: str = "nRMSE",
) -> Figure:
    """How the error grows, on a logarithmic axis: the model first, then its floors.

    `band` is the range that most of the model's samples lie in.
    """
    with drawn(7.2, 3.9) as figure:
        axes = figure.subplots()
        if band is not None:
            low, high = (np.array(side, dtype=float) for side in band)
            axes.fill_between(times, low, high, color=color_of(0), alpha=0.15, linewidth=0)
        for place, (name, values) in enumerate(series.items()):
            y = np.array(values, dtype=float)
            y[y <= 0] = np.nan
            axes.plot(times, y, color=color_of(place), linestyle=dashes_of(place), label=name)
        axes.set_yscale("log")
        axes.grid(True)
        axes.set(xlabel="time", ylabel=label, xlim=(min(times), max(times)))
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
        return figure


def spectra(
    wavenumbers: Sequence[int], series: Mapping[str, Sequence[float]], title: str = ""
) -> Figure:
    """Energy at each wavenumber: the truth, the prediction, and the error between them."""
    with drawn(7.2, 3.9) as figure:
        axes = figure.subplots()
        k = np.array(wavenumbers, dtype=float)
        positive = [np.array(values, dtype=float) for values in series.values()]
        for (name, _), energy in zip(series.items(), positive, strict=True):
            energy = np.where(energy > 0, energy, np.nan)
            if name == "truth":
                axes.plot(k, energy, color=INK, linewidth=3.4, alpha=0.35, label=name)
            else:
                place = 1 if name == "error" else 0
                axes.plot(k, energy, color=color_of(place), linestyle=dashes_of(place), label=name)
        axes.set_xscale("symlog", linthresh=1.0, linscale=0.35)
        axes.set_yscale("log")
        axes.grid(True)
        ticks = [t for t in (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512) if t <= k.max()]
        axes.set_xticks(ticks, [str(t) for t in ticks])
        axes.set_xticks([], minor=True)
        top = max(float(np.nanmax(energy)) for energy in positive)
        axes.set_ylim(max(1e-14 * top, 0.3 * _smallest(positive)), 3 * top)
        axes.set(xlabel="wavenumber (waves across the domain)", ylabel="energy", xlim=(0, k.max()))
        axes.set_title(title)
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
        return figure


def _smallest(series: Sequence[np.ndarray]) -> float:
    values = np.concatenate([s[np.isfinite(s) & (s > 0)] for s in series] or [np.ones(1)])
    return float(values.min()) if values.size else 1.0


def training_curve(records: Sequence[Mapping[str, Any]]) -> Figure:
    """Loss and validation error against the CPU-seconds that were spent."""
    with drawn(7.2, 3.4) as figure:
        axes = figure.subplots()
        for place, (key, name) in enumerate((("validation", "validation"), ("loss", "training"))):
            points = [
                (float(r["cpu_seconds"]), float(r[key]))
                for r in records
                if r.get(key) is not None and r.get("cpu_seconds") is not None and r[key] > 0
            ]
            if points:
                x, y = zip(*points, strict=True)
                faint: dict[str, Any] = (
                    {"alpha": 0.75, "linewidth": 1.2} if key == "loss" else {"linewidth": 2.0}
                )
                marker = "o" if len(points) < 40 and key == "validation" else None
                axes.plot(
                    x, y, color=color_of(place), label=name, marker=marker, markersize=3.5, **faint
                )
        axes.set_yscale("log")
        axes.grid(True)
        axes.set(xlabel="CPU-seconds", ylabel="loss and validation error")
        axes.xaxis.set_major_locator(MaxNLocator(6))
        axes.legend(loc="upper right")
        return figure


def pareto(
    rows: Sequence[Mapping[str, Any]], cost: str, error: str, labels: tuple[str, str]
) -> Figure:
    """Error against cost; the line joins what nothing beats in both.

    Each row has a `name`, the two numbers, and optionally `spread` of the error.
    """
    known = [r for r in rows if r.get(cost) and r.get(error)]
    with drawn(6.4, 4.4) as figure:
        axes = figure.subplots()
        best = [
            r
            for r in known
            if not any(o[cost] <= r[cost] and o[error] <= r[error] and o is not r for o in known)
        ]
        best.sort(key=lambda r: r[cost])
        axes.plot(
            [r[cost] for r in best],
            [r[error] for r in best],
            color=INK,
            alpha=0.35,
            linewidth=1.2,
            drawstyle="steps-post",
            zorder=1,
        )
        for place, row in enumerate(known):
            spread = row.get("spread") or None
            axes.errorbar(
                row[cost], row[error], yerr=spread, fmt="o", color=color_of(place), markersize=7
            )
            axes.annotate(
                row["name"],
                (row[cost], row[error]),
                xytext=(8, 5),
                textcoords="offset points",
                fontsize=9,
            )
        axes.set(xscale="log", yscale="log", xlabel=labels[0], ylabel=labels[1])
        axes.margins(0.18)
        axes.grid(True)
        return figure
