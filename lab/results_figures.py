"""The figures of the results: every task a panel, every model the same colour in all of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from fino.report import look
from fino.report.look import ERROR_MAP, FIELD_MAP, INK, color_of, dashes_of, drawn, logarithmic
from fino.report.scene import Scene, color_limits
from lab.front import undominated

__all__ = ["Dot", "error_and_cost", "errors_over_time", "field_panels", "save_small"]

#: Models in the order of their colours.
_ORDER = ("fino", "fno", "unet", "ufno", "ffno", "local-fno", "transolver")
#: Baselines in the order of their dashes.
_BASELINES = ("solver", "persistence", "best-lag", "climatology", "training-mean")
_COLUMNS = 4
_BYTES = 150_000


@dataclass(frozen=True)
class Dot:
    """One model in a panel: what it costs, how wrong it is, and within what."""

    name: str
    cost: float
    error: float
    low: float
    high: float
    shipped: bool = False


def error_and_cost(
    panels: Mapping[str, Sequence[Dot]], baselines: Mapping[str, tuple[str, float]]
) -> Figure:
    """nRMSE against ms a trajectory; a star is the model that is shipped."""
    with drawn(_width(panels), 2.75 * _rows(panels)) as figure:
        shown: dict[str, Any] = {}
        for axes, (title, dots) in zip(_grid(figure, panels), panels.items(), strict=False):
            if not dots:
                _nothing(axes, title)
                continue
            _front(axes, dots)
            for dot in dots:
                line = axes.errorbar(
                    dot.cost,
                    dot.error,
                    yerr=[[max(0.0, dot.error - dot.low)], [max(0.0, dot.high - dot.error)]],
                    fmt="*" if dot.shipped else "o",
                    markersize=12 if dot.shipped else 6,
                    color=_color(dot.name),
                    elinewidth=1.0,
                )
                shown.setdefault(f"{dot.name}, shipped" if dot.shipped else dot.name, line)
            if title in baselines:
                shown.setdefault("best baseline", _baseline_line(axes, *baselines[title], dots))
            _finish(axes, title, "ms a trajectory")
        figure.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=5)
        return figure


def _baseline_line(axes: Axes, name: str, error: float, dots: Sequence[Dot]) -> Any:
    """A dashed line with its name at the left, on the side where the cheapest model is not."""
    first = min(dots, key=lambda dot: dot.cost)
    below = error < first.error < 1.5 * error
    axes.annotate(
        name,
        (0.02, error),
        xycoords=("axes fraction", "data"),
        xytext=(0, -3 if below else 3),
        textcoords="offset points",
        verticalalignment="top" if below else "bottom",
        fontsize=8,
    )
    return axes.axhline(error, color=INK, linewidth=1.0, linestyle="--")


def errors_over_time(
    panels: Mapping[str, tuple[Sequence[float], Mapping[str, Sequence[float | None]]]],
    marks: Mapping[str, float] | None = None,
) -> Figure:
    """nRMSE against time: models are whole lines, baselines grey and dashed.

    `marks` are times to be marked, such as where training ended.
    """
    with drawn(_width(panels), 2.75 * _rows(panels) + 0.3) as figure:
        shown: dict[str, Any] = {}
        for axes, (title, (times, series)) in zip(
            _grid(figure, panels), panels.items(), strict=False
        ):
            for name, values in series.items():
                y = np.array([math.nan if v is None else v for v in values], dtype=float)
                y[(y <= 0) | (y > 1e4)] = np.nan
                is_baseline = name in _BASELINES
                style: dict[str, Any] = {"color": _color(name), "linewidth": 1.6}
                if is_baseline:
                    style = {"color": INK, "alpha": 0.5, "linewidth": 0.9}
                dashes = _dashes(name) if is_baseline else "-" if name in _ORDER else "-."
                (line,) = axes.plot(times, y, linestyle=dashes, zorder=3 - is_baseline, **style)
                shown.setdefault(f"baseline: {name}" if is_baseline else name, line)
            axes.set_yscale("log")
            if marks and title in marks:
                axes.axvline(marks[title], color=INK, linewidth=0.8, linestyle=":")
            _finish(axes, title, "time", log_x=False)
        columns = 6 if len(panels) >= _COLUMNS else 4
        figure.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=columns)
        return figure


def field_panels(scenes: Mapping[str, Scene]) -> Figure:
    """Truth, prediction and error of one test sample of each task.

    Lines are maps of space and time; planes show their last frame.
    """
    rows = -(-len(scenes) // 2)
    with drawn(11.0, 2.0 * rows) as figure:
        blocks: Any = figure.subfigures(rows, 2, squeeze=False)
        for block, (title, scene) in zip(blocks.ravel(), scenes.items(), strict=False):
            block.suptitle(title, x=0.02, ha="left", fontsize=9)
            axes = block.subplots(1, 3)
            scene = scene.flat()
            parts = (("truth", scene.truth), ("FINO", scene.prediction), ("error", scene.error))
            for panel, (name, values) in zip(axes, parts, strict=True):
                is_error = name == "error"
                picture, box = _picture(scene, values)
                image = panel.imshow(
                    picture, cmap=ERROR_MAP if is_error else FIELD_MAP, aspect="auto"
                )
                panel.set_box_aspect(box)
                worst = scene.error_limit(0)
                image.set_clim(*((-worst, worst) if is_error else color_limits(scene.truth[:, 0])))
                panel.set(xticks=[], yticks=[])
                panel.set_xlabel(f"{name}, ±{worst:.2g}" if is_error else name, fontsize=8)
                for spine in panel.spines.values():
                    spine.set_visible(False)
        return figure


def save_small(figure: Figure, path: str | Path) -> Path:
    """Write a PNG; with a palette of 256 colours if it would be large."""
    path = look.save(figure, path)
    if path.stat().st_size > _BYTES:
        with Image.open(path) as picture:
            content = BytesIO()
            palette = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
            palette.save(content, "png", optimize=True)
        path.write_bytes(content.getvalue())
    return path


def _picture(scene: Scene, values: np.ndarray) -> tuple[np.ndarray, float]:
    if scene.dims == 1:
        return values[::-1, 0], 0.8
    return scene.picture(values[-1, 0]), scene.tallness


def _color(name: str) -> str:
    """The colour of a model; variants such as fino-shipped have that of their model."""
    models = [m for m in _ORDER if name == m or name.startswith(f"{m}-")]
    return color_of(_ORDER.index(models[0])) if models else "#777777"


def _dashes(baseline: str) -> Any:
    return dashes_of(1 + _BASELINES.index(baseline))


def _rows(panels: Mapping[str, Any]) -> int:
    return max(1, -(-len(panels) // _COLUMNS))


def _width(panels: Mapping[str, Any]) -> float:
    return 11.0 if len(panels) >= _COLUMNS else max(7.0, 3.2 * len(panels))


def _grid(figure: Figure, panels: Mapping[str, Any]) -> list[Axes]:
    columns = max(1, min(_COLUMNS, len(panels)))
    axes = list(figure.subplots(_rows(panels), columns, squeeze=False).ravel())
    for unused in axes[len(panels) :]:
        unused.set_visible(False)
    return axes


def _front(axes: Axes, dots: Sequence[Dot]) -> None:
    """A line through what nothing beats in both."""
    best = [dots[i] for i in undominated([(d.cost, d.error) for d in dots])]
    x, y = [d.cost for d in best], [d.error for d in best]
    axes.plot(x, y, color=INK, alpha=0.35, linewidth=1.1, drawstyle="steps-post", zorder=1)


def _nothing(axes: Axes, title: str) -> None:
    axes.set_title(title, fontsize=9.5)
    axes.text(0.5, 0.5, "not run", ha="center", va="center", transform=axes.transAxes)
    axes.set(xticks=[], yticks=[])


def _widened(low: float, high: float, factor: float) -> tuple[float, float]:
    """Limits of a logarithmic axis that span at least a factor."""
    more = max(1.0, factor / (high / low)) ** 0.5
    return low / more, high * more


def _finish(axes: Axes, title: str, label: str, log_x: bool = True) -> None:
    axes.set_title(title, fontsize=9.5)
    axes.set_xlabel(label, fontsize=8.5)
    axes.set_ylabel("nRMSE", fontsize=8.5)
    axes.set_yscale("log")
    if log_x:
        axes.set_xscale("log")
        axes.margins(0.15)
        axes.set_xlim(*_widened(*axes.get_xlim(), 20))
        axes.set_ylim(*_widened(*axes.get_ylim(), 8))
        logarithmic(axes, "x")
    logarithmic(axes, "y")
    axes.grid(True)
