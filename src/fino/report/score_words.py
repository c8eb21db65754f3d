"""Scores in words: what was asked, which baselines are beaten, whether shipped scores hold."""

from __future__ import annotations

import math
from typing import Any

from fino.evaluation.evaluate import COMPARED, TOLERANCE, Reproduction
from fino.metrics.scores import Scores

__all__ = [
    "baseline_table",
    "describe_reproduction",
    "describe_task",
    "describe_verdict",
    "reproduction_table",
]

#: Columns and rows.
Cells = tuple[list[str], list[list[str]]]


def describe_task(data: dict[str, Any]) -> str:
    """What was scored, in a line, from the `data` block of scores."""
    words = f"{data['title'] or data['name']}: {data['samples']} {data['part']} samples"
    if data["steady"]:
        return f"{words}, steady"
    return f"{words}, {data['shown']} frames shown, {data['steps']} predicted"


def describe_verdict(scores: Scores) -> str:
    """Whether the model beats the baselines, in a sentence."""
    name, own, baselines = scores.model["name"], _own(scores), _values(scores)
    if not math.isfinite(own):
        return f"{name} diverges: it is of no use on these data."
    if not baselines:
        return f"{name} has nRMSE {own:.3g}; no baseline was measured beside it."
    beaten = scores.verdict["baselines"]
    lost = [f"{b} ({value:.3g})" for b, value in baselines.items() if not beaten[b]["beaten"]]
    if lost:
        return f"{name} (nRMSE {own:.3g}) does not beat {' or '.join(lost)}."
    best = min(baselines, key=lambda b: baselines[b])
    ratio = baselines[best] / own if own > 0 else math.inf
    return (
        f"{name} beats every baseline: nRMSE {own:.3g}, {ratio:.3g} times below the best of them, "
        f"{best} ({baselines[best]:.3g})."
    )


def baseline_table(scores: Scores) -> Cells:
    """Every baseline, what it scores, and how it compares."""
    metric, own, values = scores.verdict["metric"], _own(scores), _values(scores)
    rows = []
    for name, baseline in scores.baselines.items():
        ratio = f"{values[name] / own:.3g}" if own > 0 and math.isfinite(values[name]) else "–"
        certainty = scores.verdict["baselines"][name]["certainty"]
        errors = [baseline[m].short if m in baseline else "–" for m in ("rmse", metric)]
        rows.append([name, *errors, ratio, f"{100 * certainty:.0f} % of draws"])
    return ["baseline", "rmse", metric, "÷ ours", "beaten in"], rows


def describe_reproduction(both: Reproduction) -> str:
    """Whether the scores of today are those that were shipped, in a sentence."""
    count, of = both.today.data["samples"], both.shipped.data["samples"]
    if both.agrees is None:
        return (
            f"{count} of {of} test samples: they need not have the mean of all. "
            f"Leave --samples out to compare."
        )
    worst = max(both.differences[metric] for metric in COMPARED)
    word = "agree" if both.agrees else "do NOT agree"
    return (
        f"The scores {word} with those shipped: they differ by {worst:.1g} of themselves, "
        f"{TOLERANCE:g} is allowed."
    )


def reproduction_table(both: Reproduction) -> Cells:
    """Every metric of today beside the shipped one."""
    return ["metric", "today", "shipped", "difference"], [
        [m, f"{both.today[m].value:.6g}", f"{both.shipped[m].value:.6g}", f"{share:.1e}"]
        for m, share in both.differences.items()
    ]


def _own(scores: Scores) -> float:
    """The model's value of the metric that decides; the first scores did not repeat it there."""
    verdict = scores.verdict
    if "value" in verdict:
        return math.inf if verdict["value"] is None else float(verdict["value"])
    score = scores.metrics.get(verdict["metric"])
    return math.inf if score is None else score.value


def _values(scores: Scores) -> dict[str, float]:
    """The same of every baseline; what JSON cannot hold is inf."""
    return {
        name: math.inf if found["value"] is None else float(found["value"])
        for name, found in scores.verdict["baselines"].items()
    }
