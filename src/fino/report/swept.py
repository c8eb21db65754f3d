"""What a sweep found: the error against the setting that was varied, a line for each model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from fino.report.look import color_of, dashes_of, drawn, logarithmic

__all__ = ["Point", "swept"]


@dataclass(frozen=True)
class Point:
    """One run of a sweep: the value of the setting, the error, and the interval it lies in."""

    value: Any
    error: float
    low: float | None = None
    high: float | None = None


def swept(setting: str, series: Mapping[str, Sequence[Point]], label: str = "nRMSE") -> Figure:
    """Error against a setting: to scale if it is a number, else one place for each value.

    Runs of one value are seeds: the line goes through their mean, each is drawn as a dot, and a
    run that is alone shows its interval over samples.
    """
    values = list(dict.fromkeys(point.value for points in series.values() for point in points))
    numeric = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    wide = numeric and min(values) > 0 and max(values) >= 10 * min(values)
    with drawn(6.4, 3.9) as figure:
        axes = figure.subplots()
        for place, (name, points) in enumerate(series.items()):
            alike = {v: [p for p in points if p.value == v] for v in values}
            alike = {v: found for v, found in alike.items() if found}
            at = [float(v) if numeric else float(values.index(v)) for v in alike]
            means = [float(np.mean([p.error for p in found])) for found in alike.values()]
            style: dict[str, Any] = {"color": color_of(place)}
            axes.plot(at, means, label=name, linestyle=dashes_of(place), **style)
            for x, found in zip(at, alike.values(), strict=True):
                axes.plot([x] * len(found), [p.error for p in found], "o", markersize=6, **style)
                low, high = found[0].low, found[0].high
                if len(found) == 1 and low is not None and high is not None:
                    axes.vlines(x, low, high, alpha=0.5, **style)
        axes.set(xlabel=setting, ylabel=label, yscale="log")
        if wide:
            axes.set_xscale("log")
            logarithmic(axes, "x")
        if not numeric or len(values) <= 8:
            axes.set_xticks(
                values if numeric else range(len(values)), [str(value) for value in values]
            )
            axes.set_xticks([], minor=True)
        logarithmic(axes, "y")
        axes.margins(x=0.08)
        axes.grid(True)
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
        return figure
