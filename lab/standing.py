"""Each model's error on each task, and whether it meets the bars that were set beforehand.

Errors of several seeds are averaged; the interval of a row is the widest of its seeds', so that
two rows whose intervals do not overlap are apart for every pair of seeds.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fino.metrics.scores import Score, Scores
from lab.keep import SHIPPED, group_seeds
from lab.paper import AUDIT, READS_AS, numbers, task_of

__all__ = [
    "Bar",
    "Standing",
    "bar_of",
    "best_baseline",
    "lowest_baseline",
    "mean_curve",
    "papers",
    "retuned",
    "standing",
    "standings",
    "with_shipped",
]

#: The share of the paper's FINO that ours should stay below, and in which metric.
_SHARES = {
    "advection": ("rmse", 0.5),
    "compressible-1d": ("rmse", 1.0),
    "darcy-pdebench": ("rmse", 1.0),
    "diffusion-reaction-2d": ("nrmse", 0.1),
    "shallow-water": ("rmse", 0.5),
}


@dataclass(frozen=True)
class Standing:
    """One row of one task."""

    case: str
    rmse: float
    nrmse: float
    deviation: float | None
    low: float
    high: float
    seeds: int
    minutes: float | None

    @property
    def words(self) -> str:
        """The error as it is printed: mean ± deviation over seeds, or with its interval."""
        if not math.isfinite(self.nrmse):
            return "diverged"
        if self.deviation is not None:
            return f"{self.nrmse:.3g} ± {self.deviation:.1g} ({self.seeds} seeds)"
        return f"{self.nrmse:.3g} ({self.low:.3g} – {self.high:.3g})"

    def is_apart_from(self, other: Standing) -> bool:
        """Whether the two intervals do not overlap."""
        return self.high < other.low or other.high < self.low


def standing(case: str, seeds: Sequence[Scores]) -> Standing:
    """The seeds of a case as one row."""
    errors = [scores["nrmse"] for scores in seeds]
    values = [score.value for score in errors]
    spent = [s.cost["training_cpu_seconds"] for s in seeds if s.cost.get("training_cpu_seconds")]
    finite = all(map(math.isfinite, values))
    return Standing(
        case=case,
        rmse=statistics.fmean(scores["rmse"].value for scores in seeds),
        nrmse=statistics.fmean(values),
        deviation=statistics.stdev(values) if finite and len(values) > 1 else None,
        low=min(_low(score) for score in errors),
        high=max(_high(score) for score in errors),
        seeds=len(seeds),
        minutes=statistics.fmean(spent) / 60 if spent else None,
    )


def standings(cases: Mapping[str, Scores]) -> dict[str, Standing]:
    """Every row of a task, FINO first."""
    return {
        name: standing(name, [cases[member] for member in members])
        for name, members in group_seeds(cases).items()
    }


def best_baseline(scores: Scores) -> tuple[str, Score] | None:
    """The baseline with the smallest error."""
    known = {
        name: baseline["nrmse"]
        for name, baseline in scores.baselines.items()
        if "nrmse" in baseline
    }
    best = min(known, key=lambda name: known[name].value, default=None)
    return None if best is None else (best, known[best])


def mean_curve(seeds: Sequence[Scores]) -> list[float | None]:
    """nRMSE over time, averaged over seeds; from where one of them has no number there is none."""
    at_each_time = zip(*(scores.over_time["nrmse"]["model"] for scores in seeds), strict=True)
    return [None if None in errors else statistics.fmean(errors) for errors in at_each_time]


def lowest_baseline(cases: Iterable[Scores]) -> tuple[str, Score] | None:
    """The baseline with the smallest error that any of the cases was scored beside."""
    found = [baseline for scores in cases if (baseline := best_baseline(scores))]
    return min(found, key=lambda baseline: baseline[1].value, default=None)


def with_shipped(
    tasks: Mapping[str, Mapping[str, Scores]], models: Mapping[str, Scores]
) -> dict[str, dict[str, Scores]]:
    """The scores of each task, and those of its shipped model if they are of the same data."""
    found = {task: dict(cases) for task, cases in tasks.items()}
    for task, scores in models.items():
        if scores.data["sha256"] in {own.data["sha256"] for own in found.get(task, {}).values()}:
            found[task][SHIPPED] = scores
    return found


def papers(task: str, metric: str, model: str = "fino") -> float | None:
    """What the paper prints for a model, its misnamed columns read as we read them."""
    name = task_of(task)
    for entry in numbers(name, model) if name else ():
        if READS_AS.get((entry.task, entry.metric), entry.metric) == metric:
            return entry.value
    return None


def retuned(task: str) -> float | None:
    """The nRMSE of the independently retuned FNO, where there is one."""
    if task == "darcy":
        # It was measured on PDEBench's own data, which are still relaxing.
        return None
    found = [e.value for e in AUDIT if e.task == task_of(task) and e.row == "FNO retuned"]
    return found[0] if found else None


@dataclass(frozen=True)
class Bar:
    """What the shipped model was to reach, in words, and whether it does."""

    words: str
    met: bool


def bar_of(task: str, scores: Scores) -> Bar:
    """The bar of a task: a share of the paper's error, or clearly below every baseline."""
    if task in _SHARES:
        metric, share = _SHARES[task]
        paper = papers(task, metric)
        assert paper is not None
        words = f"{metric} ≤ {share * paper:.3g}"
        words += "" if share == 1 else f", {share:g} × the paper's"
        return Bar(words, scores[metric].value <= share * paper)
    found = best_baseline(scores)
    if found is None:
        return Bar("below every baseline; none was measured", False)
    baseline, score = found
    met = _high(scores["nrmse"]) < _low(score)
    return Bar(f"clearly below every baseline ({baseline} {score.value:.3g})", met)


def _low(score: Score) -> float:
    return score.value if score.low is None else score.low


def _high(score: Score) -> float:
    return score.value if score.high is None else score.high
