"""What a sweep found, as pictures for the page."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fino.metrics.scores import Scores
from fino.recipe.steps import Step
from fino.report.curves import SweepPoint, error_over_setting
from fino.report.page import Picture

__all__ = ["findings"]


def findings(scores: Sequence[Step]) -> list[Picture]:
    """One picture for each setting that the scored cases vary: error against its value."""
    cases = [step.more["case"] for step in scores]
    found = [Scores.load(step.more["run"])["nrmse"] for step in scores]
    pictures = []
    for key in dict.fromkeys(key for case in cases for key in case.varied):
        setting = key.rpartition(".")[2]
        series: dict[str, list[SweepPoint]] = {}
        for case, score in zip(cases, found, strict=True):
            if key not in case.varied or not math.isfinite(score.value):
                continue
            rest = [f"{k.rpartition('.')[2]} {v}" for k, v in case.varied.items() if k != key]
            point = SweepPoint(_plain(case.varied[key]), score.value, score.low, score.high)
            series.setdefault(", ".join([case.model, *rest]), []).append(point)
        if series:
            figure, title = error_over_setting(setting, series), f"Error against {setting}"
            caption = "Bars hold the middle 95 % over test samples; dots of one value are seeds."
            pictures.append(Picture(f"sweep-{setting}", figure, title, caption))
    return pictures


def _plain(value: object) -> object:
    """A value that can be told apart and written: lists as words."""
    return "×".join(map(str, value)) if isinstance(value, list | tuple) else value
