"""The curves: errors as they grow, spectra, training, error against cost and against a setting.

Every function returns a matplotlib `Figure`.  The model's line is blue and whole, baselines are
dashed, the truth is broad and grey.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fino.evaluation.compare import Comparison
from fino.report.look import INK, color_of, line_style, plotted, short

__all__ = [
    "SweepPoint",
    "band_over_time",
    "cost_and_error",
    "coverage_over_time",
    "error_against_seconds",
    "error_over_parameter",
    "error_over_setting",
    "error_over_time",
    "estimated_errors",
    "is_outside",
    "pareto",
    "scale_of",
    "solver_lines",
    "spectra",
    "training_curve",
]


def error_over_time(
    times: Sequence[float],
    series: Mapping[str, Sequence[float | None]],
    band: tuple[Sequence[float], Sequence[float]] | None = None,
) -> Figure:
    """How the error grows, on a logarithmic axis: the model first, then its baselines.

    `band` is the range that most of the model's samples lie in.
    """
    ends = (min(times), max(times))
    with plotted(7.2, 3.9, "beside", xlabel="time", ylabel="nRMSE", xlim=ends, yscale="log") as (
        figure,
        axes,
    ):
        if band is not None:
            low, high = (np.array(side, dtype=float) for side in band)
            axes.fill_between(times, low, high, color=color_of(0), alpha=0.15, linewidth=0)
        for place, (name, values) in enumerate(series.items()):
            y = np.array(values, dtype=float)
            y[y <= 0] = np.nan
            axes.plot(times, y, label=short(name), **line_style(place))
        return figure


def band_over_time(
    times: np.ndarray,
    truth: np.ndarray,
    predicted: np.ndarray,
    band: tuple[np.ndarray, np.ndarray],
    name: str,
) -> Figure:
    """One cell in time: the truth, the prediction and the band around it."""
    with plotted(7.2, 3.2, "beside", xlabel="time", ylabel=name) as (figure, axes):
        axes.fill_between(times, *band, color=color_of(0), alpha=0.2, linewidth=0, label="band")
        for place, (label, values) in enumerate({"prediction": predicted, "truth": truth}.items()):
            axes.plot(times, values, label=label, **line_style(place))
        return figure


def coverage_over_time(
    times: Sequence[float], levels: Sequence[float], held: Sequence[Sequence[float]]
) -> Figure:
    """The share of cells that each band held at every step, beside what it should hold."""
    with plotted(7.2, 3.2, "beside", xlabel="time", ylabel="cells held", ylim=(0, 1.02)) as (
        figure,
        axes,
    ):
        for place, (level, shares) in enumerate(zip(levels, held, strict=True)):
            axes.axhline(level, color=color_of(place), alpha=0.4, linewidth=1)
            axes.plot(times, shares, label=f"{100 * level:.0f} %", **line_style(place))
        return figure


def error_over_parameter(
    name: str,
    values: Sequence[float],
    errors: Sequence[float | None],
    trained: Sequence[float] | None,
) -> Figure:
    """The error of each trajectory against a parameter of it; the trained range is shaded."""
    x, y = np.array(values, dtype=float), np.array(errors, dtype=float)
    outside = np.zeros(len(x), dtype=bool) if trained is None else is_outside(x, trained)
    labels = {"xlabel": short(name), "ylabel": "nRMSE", "xscale": scale_of(values), "yscale": "log"}
    with plotted(6.4, 3.9, "best" if outside.any() else None, **labels) as (figure, axes):
        if trained is not None:
            axes.axvspan(*trained, color=color_of(0), alpha=0.1, linewidth=0)
        for place, (some, label) in enumerate(((~outside, "inside"), (outside, "outside"))):
            style: dict[str, Any] = {"marker": "os"[place], "color": color_of(place)}
            if some.any():
                named = f"{label} of the trained range"
                axes.plot(x[some], y[some], label=named, linestyle="none", markersize=5, **style)
        return figure


def estimated_errors(
    estimates: Sequence[float | None], errors: Sequence[float | None], close: float
) -> Figure:
    """The estimated error of each trajectory against the true one, and what counts as close."""
    x, y = np.array(errors, dtype=float), np.array(estimates, dtype=float)
    known = np.isfinite(x) & np.isfinite(y) & (x > 0) & (y > 0)
    x, y = x[known], y[known]
    labels = {"xlabel": "nRMSE", "ylabel": "estimated nRMSE", "xscale": "log", "yscale": "log"}
    with plotted(6.4, 3.9, None, **labels) as (figure, axes):
        if len(x):
            ends = np.array([min(x.min(), y.min()) / 1.2, max(x.max(), y.max()) * 1.2])
            axes.fill_between(ends, ends / close, ends * close, color=color_of(0), alpha=0.1, lw=0)
            axes.plot(ends, ends, color=color_of(0), linewidth=0.8)
            axes.plot(x, y, linestyle="none", marker="o", markersize=4, color=color_of(1))
        return figure


def is_outside(values: Any, trained: Sequence[float]) -> np.ndarray:
    """Which values of a parameter lie outside of the range that was trained on."""
    low, high = trained
    slack = 1e-3 * max(high - low, 1e-12)
    return np.asarray((np.asarray(values) < low - slack) | (np.asarray(values) > high + slack))


def scale_of(values: Sequence[float]) -> str:
    """The scale of an axis: logarithmic for positive values that span a factor of ten."""
    return "log" if min(values) > 0 and max(values) >= 10 * min(values) else "linear"


def spectra(wavenumbers: Sequence[int], series: Mapping[str, Sequence[float]]) -> Figure:
    """Energy at each wavenumber: the truth, the prediction, and the error between them."""
    across = "wavenumber (waves across the domain)"
    with plotted(7.2, 3.9, "beside", xlabel=across, ylabel="energy", yscale="log") as (
        figure,
        axes,
    ):
        k = np.array(wavenumbers, dtype=float)
        styles = {"truth": {"color": INK, "linewidth": 3.4, "alpha": 0.35}, "error": line_style(1)}
        for name, values in series.items():
            energy = np.array(values, dtype=float)
            energy[energy <= 0] = np.nan
            axes.plot(k, energy, label=short(name), **styles.get(name, line_style(0)))
        axes.set_xscale("symlog", linthresh=1.0, linscale=0.35)
        ticks = [t for t in (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512) if t <= k.max()]
        axes.set_xticks(ticks, [str(t) for t in ticks])
        axes.set_xticks([], minor=True)
        shown = [v for values in series.values() for v in values if 0 < v < math.inf]
        if shown:
            axes.set_ylim(max(1e-14 * max(shown), 0.3 * min(shown)), 3 * max(shown))
        axes.set_xlim(0, k.max())
        return figure


def training_curve(records: Sequence[Mapping[str, Any]]) -> Figure:
    """Loss and validation error against the CPU-seconds that were spent."""
    labels = {"xlabel": "CPU-seconds", "ylabel": "error", "yscale": "log"}
    with plotted(7.2, 3.4, "upper right", **labels) as (figure, axes):
        validated = "nrmse" if any(r.get("nrmse") is not None for r in records) else "validation"
        for place, (key, name) in enumerate(
            ((validated, "validation, nRMSE of the rollout"), ("loss", "training loss"))
        ):
            points = [
                (float(r["cpu_seconds"]), float(r[key]))
                for r in records
                if r.get(key) is not None and r.get("cpu_seconds") is not None and r[key] > 0
            ]
            if points:
                style: dict[str, Any] = {"alpha": 0.75, "linewidth": 1.2}
                if key == validated:
                    style = {"linewidth": 2.0, "marker": "o" if len(points) < 40 else None}
                x, y = zip(*points, strict=True)
                axes.plot(x, y, color=color_of(place), label=name, markersize=3.5, **style)
        _mark_horizons(axes, records)
        axes.xaxis.set_major_locator(MaxNLocator(6))
        return figure


def _mark_horizons(axes: Axes, records: Sequence[Mapping[str, Any]]) -> None:
    """A line where longer rollouts are asked for: the loss rises there, and should."""
    horizon = records[0].get("horizon") if records else None
    for record in records:
        longer = record.get("horizon")
        if longer != horizon and longer is not None:
            x = float(record["cpu_seconds"])
            axes.axvline(x, color=INK, linewidth=0.8, alpha=0.4, linestyle=":")
            place: dict[str, Any] = {"xytext": (3, 0), "textcoords": "offset points"}
            place["xycoords"] = ("data", "axes fraction")
            axes.annotate(f"{longer} steps", (x, 0.02), fontsize=8, alpha=0.8, **place)
            horizon = longer


def pareto(rows: Sequence[Mapping[str, Any]], labels: tuple[str, str]) -> Figure:
    """Error against cost; the line joins what nothing beats in both.

    Each row has a `name`, a `cost`, an `error`, and optionally the `spread` of the error.
    """
    known = [r for r in rows if r.get("cost") and r.get("error")]
    named = dict(zip(("xlabel", "ylabel"), labels, strict=True))
    with plotted(6.4, 4.4, xscale="log", yscale="log", **named) as (figure, axes):
        points = [(row["cost"], row["error"]) for row in known]
        best: list[tuple[float, float]] = []
        for cost, error in sorted(points):  # the cheapest first
            if not best or error < best[-1][1]:
                best.append((cost, error))
        faint: dict[str, Any] = {"color": INK, "alpha": 0.35, "linewidth": 1.2, "zorder": 1}
        axes.plot([c for c, _ in best], [e for _, e in best], drawstyle="steps-post", **faint)
        for place, (row, at) in enumerate(zip(known, points, strict=True)):
            spread = row.get("spread") or None
            axes.errorbar(*at, yerr=spread, fmt="o", color=color_of(place), markersize=7)
            beside: dict[str, Any] = {"xytext": (8, 5), "textcoords": "offset points"}
            axes.annotate(short(row["name"]), at, fontsize=9, **beside)
        axes.margins(0.18)
        return figure


def cost_and_error(comparison: Comparison, metric: str = "nrmse") -> Figure:
    """Error against multiply-adds a step for learned rows; against time where there are none."""
    counted = all("multiply_adds" in (row.cost or {}) for row in comparison.rows)
    cost = "multiply_adds" if counted else "seconds_per_step"
    label = "multiply-adds a step" if counted else "seconds a step"
    rows = [
        {
            "name": row.name,
            "cost": (row.cost or {}).get(cost),
            "error": row.values[metric].mean,
            "spread": row.values[metric].deviation,
        }
        for row in (*comparison.rows, *(() if counted else comparison.baselines))
        if metric in row.values
    ]
    return pareto(rows, (label, metric))


def error_against_seconds(measured: Mapping[str, Mapping[str, Any]]) -> Figure:
    """Error against processor time: the solvers' curve, and every model as a dot on the same plane.

    `measured` has what `fino.evaluation.worth` found for each model; the solvers are the first's.
    """
    labels = {"xlabel": "CPU-seconds for a trajectory", "ylabel": "nRMSE"}
    with plotted(6.4, 3.9, "beside", xscale="log", yscale="log", **labels) as (figure, axes):
        curve = next(iter(measured.values()))["curve"]
        for place, (label, seconds, errors) in enumerate(solver_lines(curve)):
            axes.plot(
                seconds,
                errors,
                marker=".",
                linestyle=("-", "--", ":", "-.")[place % 4],
                color=INK,
                alpha=0.6,
                label=label,
            )
        for place, (name, found) in enumerate(measured.items()):
            style: dict[str, Any] = {"color": color_of(place), "linestyle": ""}
            axes.plot(found["seconds"], found["nrmse"], "D", label=short(name), **style)
            label = f"{short(name)}, {found['batch']} at once"
            axes.plot(
                found["seconds_batched"], found["nrmse"], "d", mfc="none", label=label, **style
            )
        return figure


def solver_lines(curve: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[float], list[float]]]:
    """The solvers that were tried as a line for each variant: label, CPU-seconds, errors."""
    lines = []
    for variant in {str(solved["settings"]): solved["settings"] for solved in curve}.values():
        own = [s for s in curve if s["settings"] == variant and s["nrmse"] > 0]
        own.sort(key=lambda s: s["seconds"])
        label = "".join(f", {name} {value}" for name, value in variant.items())
        seconds, errors = ([s[key] for s in own] for key in ("seconds", "nrmse"))
        lines.append((f"solver{label}", seconds, errors))
    return lines


@dataclass(frozen=True)
class SweepPoint:
    """One run of a sweep: the value of the setting, the error, and the interval it lies in."""

    value: Any
    error: float
    low: float | None = None
    high: float | None = None


def error_over_setting(setting: str, series: Mapping[str, Sequence[SweepPoint]]) -> Figure:
    """Error against a setting: to scale if it is a number, else one place for each value.

    Runs of one value are seeds: the line goes through their mean, each is drawn as a dot, and a
    run that is alone shows its interval over samples.
    """
    values = list(dict.fromkeys(point.value for points in series.values() for point in points))
    numeric = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    scale = scale_of(values) if numeric else "linear"
    labels = {"xlabel": setting, "ylabel": "nRMSE", "xscale": scale, "yscale": "log"}
    with plotted(6.4, 3.9, "beside", **labels) as (figure, axes):
        for place, (name, points) in enumerate(series.items()):
            alike: dict[Any, list[SweepPoint]] = {}
            for point in sorted(points, key=lambda point: values.index(point.value)):
                alike.setdefault(point.value, []).append(point)
            at = [float(v) if numeric else float(values.index(v)) for v in alike]
            means = [float(np.mean([p.error for p in found])) for found in alike.values()]
            style: dict[str, Any] = {"color": color_of(place)}
            axes.plot(at, means, label=short(name), **line_style(place))
            for x, found in zip(at, alike.values(), strict=True):
                axes.plot([x] * len(found), [p.error for p in found], "o", markersize=6, **style)
                low, high = found[0].low, found[0].high
                if len(found) == 1 and low is not None and high is not None:
                    axes.vlines(x, low, high, alpha=0.5, **style)
        if not numeric or len(values) <= 8:
            axes.set_xticks(values if numeric else range(len(values)), [str(v) for v in values])
            axes.set_xticks([], minor=True)
        axes.margins(x=0.08)
        return figure
