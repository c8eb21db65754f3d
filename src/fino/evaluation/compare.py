"""Many runs side by side: the mean over seeds and how far the seeds lie apart.

Runs belong together when everything but the seed is the same; they stand in one table when they
were scored on the same samples of the same data in the same convention.
"""

from __future__ import annotations

import json
import math
import statistics
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fino.metrics import METRICS, metric_named
from fino.metrics.scores import Scores
from fino.training.run import Run, find_run

__all__ = ["Comparison", "Row", "Spread", "compare"]

_SCORES = "scores.json"
#: Costs that are averaged over seeds.
_COSTS = (
    "parameters",
    "multiply_adds",
    "seconds_per_step",
    "training_cpu_seconds",
    "peak_memory_bytes",
)


@dataclass(frozen=True)
class Spread:
    """A mean over runs and their standard deviation; of one run, its bootstrap interval."""

    mean: float
    deviation: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Row:
    """One model, or one baseline, over all of its seeds."""

    name: str
    values: dict[str, Spread]
    runs: int = 1
    seeds: tuple[int, ...] = ()
    cost: dict[str, float] | None = None
    is_baseline: bool = False


@dataclass(frozen=True)
class Comparison:
    """All rows that were measured on the same data."""

    task: str
    data: dict[str, Any]
    convention: str
    rows: tuple[Row, ...]
    baselines: tuple[Row, ...]

    def best(self, metric: str) -> tuple[str, ...]:
        """The names of the learned rows with the best mean of that metric.

        Several where means agree to the four digits that tables print: the same weights scored
        twice differ by rounding, and neither is better.
        """
        known = {row.name: row.values[metric].mean for row in self.rows if metric in row.values}
        finite = {name: mean for name, mean in known.items() if math.isfinite(mean)}
        if not finite:
            return ()
        best = (max if metric_named(metric).higher_is_better else min)(finite.values())
        return tuple(n for n, mean in finite.items() if math.isclose(mean, best, rel_tol=5e-5))

    @property
    def metrics(self) -> tuple[str, ...]:
        found = {name for row in (*self.rows, *self.baselines) for name in row.values}
        return tuple(name for name in METRICS if name in found)


def compare(runs: Sequence[Run | Scores | str | Path]) -> tuple[Comparison, ...]:
    """One comparison for each data set that the runs were scored on.

    A run may be given as its scores, its folder, its scores.json, or a shipped model's name; a
    folder that `fino run` filled stands for all of its runs.
    """
    if not runs:
        raise ValueError("compare should be given at least one run.")
    together: dict[str, list[Scores]] = {}
    for scores in (scores for run in runs for scores in _scores_of(run)):
        facts = {k: scores.data[k] for k in ("sha256", "part", "samples", "shown", "steps")}
        key = json.dumps([facts, scores.convention])
        together.setdefault(key, []).append(scores)
    return tuple(_comparison(group) for group in together.values())


def _scores_of(run: Run | Scores | str | Path) -> list[Scores]:
    if isinstance(run, Scores):
        return [run]
    if not isinstance(run, Run) and Path(run).exists():
        within = [] if (Path(run) / _SCORES).exists() else sorted(Path(run).glob(f"*/{_SCORES}"))
        places = within or [Path(run)]
        return [_warned(Scores.load(path), str(path)) for path in places]
    found = find_run(run)
    if found.scores is None:
        raise ValueError(f"There are no scores of {found.name}. Run fino.evaluate first.")
    return [_warned(found.scores, found.name)]


def _warned(scores: Scores, name: str) -> Scores:
    """The scores, with a warning if their data were made with another equation."""
    if "equation" in scores.trust:
        warnings.warn(f"{name}: {scores.trust['equation']}", stacklevel=5)
    return scores


def _comparison(group: list[Scores]) -> Comparison:
    alike: dict[str, list[Scores]] = {}
    for scores in group:
        rivals = [s.model for s in group if s.model["name"] == scores.model["name"]]
        # A setting that came later, and that earlier runs could not write, tells none apart.
        known = set.intersection(*(set(model.get("training", {})) for model in rivals))
        facts = _without_seed(scores.model, known)
        alike.setdefault(json.dumps(facts, sort_keys=True), []).append(scores)
    names = _names([members[0].model for members in alike.values()])
    rows = [_row(name, members) for name, members in zip(names, alike.values(), strict=True)]
    first = group[0]
    baselines: dict[str, Row] = {}
    for scores in group:
        for name, metrics in scores.baselines.items():
            values = {m: Spread(s.value, None, s.low, s.high) for m, s in metrics.items()}
            cost = scores.cost.get("baselines", {}).get(name)
            baselines.setdefault(name, Row(name, values, cost=cost, is_baseline=True))
    return Comparison(
        first.data["name"], first.data, first.convention, tuple(rows), tuple(baselines.values())
    )


def _row(name: str, members: list[Scores]) -> Row:
    values = {}
    for metric in members[0].metrics:
        found = [scores.metrics[metric] for scores in members if metric in scores.metrics]
        if len(found) == 1:
            values[metric] = Spread(found[0].value, None, found[0].low, found[0].high)
        else:
            numbers = [score.value for score in found]
            # A seed that diverged takes the mean with it, and has no distance from the others.
            is_known = all(math.isfinite(number) for number in numbers)
            deviation = statistics.stdev(numbers) if is_known else None
            values[metric] = Spread(statistics.fmean(numbers), deviation)
    seeds = (scores.model.get("training", {}).get("seed") for scores in members)
    cost = _mean_cost([scores.cost for scores in members])
    return Row(name, values, len(members), tuple(s for s in seeds if s is not None), cost)


def _mean_cost(costs: list[dict[str, Any]]) -> dict[str, float]:
    known = {key: [c[key] for c in costs if c.get(key) is not None] for key in _COSTS}
    return {key: statistics.fmean(values) for key, values in known.items() if values}


def _without_seed(model: dict[str, Any], known: set[str]) -> dict[str, Any]:
    """Everything but what was drawn or timed: seeds, weights, how often it was validated."""
    by_chance = {"seed", "validations", "validation_samples", "validation_share", "threads"}
    training = {k: v for k, v in model.get("training", {}).items() if k in known - by_chance}
    emulator = {k: v for k, v in model.get("emulator", {}).items() if k not in by_chance}
    rest = {k: v for k, v in model.items() if k != "sha256"}
    return {**rest, "emulator": emulator, "training": training}


def _names(models: list[dict[str, Any]]) -> list[str]:
    """The models' names, with the settings that tell two of one name apart."""
    names = []
    for model in models:
        rivals = [other for other in models if other["name"] == model["name"]]
        words = []
        for part in ("network", "emulator", "training", "learned_from"):
            for key, value in model.get(part, {}).items():
                others = [rival.get(part, {}).get(key) for rival in rivals]
                if key not in ("seed", "inputs") and any(other != value for other in others):
                    plain = "×".join(map(str, value)) if isinstance(value, list) else value
                    words.append(f"{key}={plain}")
        names.append(" ".join([model["name"], *words[:4]]))
    return [
        f"{n} #{names[: i + 1].count(n)}" if names.count(n) > 1 else n for i, n in enumerate(names)
    ]
