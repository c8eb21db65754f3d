"""Score a pretrained model again, on its test data solved again, and set the two side by side."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fino.data.dataset import Dataset
from fino.evaluation.evaluate import evaluate
from fino.evaluation.runs import subject_from_shelf
from fino.metrics import METRICS
from fino.metrics.scores import Scores
from fino.model.pretrained import Pretrained

__all__ = ["JUDGED", "TOLERANCE", "Reproduction", "reproduce"]

#: How far a score may come out otherwise on another machine, which adds in another order.
TOLERANCE = 0.01
#: The metrics that have to agree; the others, such as the worst point, are shown.
JUDGED = ("rmse", "nrmse")


@dataclass(frozen=True)
class Reproduction:
    """The scores of today beside those that came with the package."""

    name: str
    today: Scores
    shipped: Scores

    @property
    def differences(self) -> dict[str, float]:
        """By how much of itself each metric differs."""
        found = {}
        for metric in (m for m in METRICS if m in self.today.metrics and m in self.shipped.metrics):
            new, old = self.today[metric].value, self.shipped[metric].value
            found[metric] = 0.0 if new == old else abs(new - old) / abs(old) if old else math.inf
        return found

    @property
    def agrees(self) -> bool | None:
        """Whether they are the same within the tolerance; None if fewer samples were scored."""
        if self.today.data["samples"] != self.shipped.data["samples"]:
            return None
        return all(self.differences[metric] <= TOLERANCE for metric in JUDGED)

    @property
    def sentence(self) -> str:
        count, of = self.today.data["samples"], self.shipped.data["samples"]
        if self.agrees is None:
            return (
                f"{count} of {of} test samples: they need not have the mean of all. "
                f"Leave --samples out to compare."
            )
        worst = max(self.differences[metric] for metric in JUDGED)
        word = "agree" if self.agrees else "do NOT agree"
        return (
            f"The scores {word} with those shipped: they differ by {worst:.1g} of themselves, "
            f"{TOLERANCE:g} is allowed."
        )

    def rows(self) -> tuple[list[str], list[list[str]]]:
        columns = ["metric", "today", "shipped", "difference"]
        return columns, [
            [m, f"{self.today[m].value:.6g}", f"{self.shipped[m].value:.6g}", f"{share:.1e}"]
            for m, share in self.differences.items()
        ]

    def content(self) -> dict[str, Any]:
        """The same for a machine."""
        both = {
            m: {"today": self.today[m].value, "shipped": self.shipped[m].value}
            for m in self.differences
        }
        samples = {"today": self.today.data["samples"], "shipped": self.shipped.data["samples"]}
        return {
            "name": self.name,
            "samples": samples,
            "metrics": both,
            "tolerance": TOLERANCE,
            "agrees": self.agrees,
            "sentence": self.sentence,
        }


def reproduce(
    shelved: Pretrained,
    data: Dataset | str | Path | None = None,
    samples: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> Reproduction:
    """Solve the test samples of a pretrained model and score it on them.

    `data` are for models whose data cannot be solved again.
    """
    show = progress or (lambda share: None)
    subject = subject_from_shelf(shelved, data, samples, lambda share: show(share / 2))
    if subject.known is None:
        raise ValueError(
            f"These are not the data of '{shelved.name}': their SHA-256 differs. To score it on "
            f"others, load it with fino.pretrained and call fino.evaluate."
        )
    today = evaluate(
        subject, samples=samples, baselines=False, progress=lambda share: show((1 + share) / 2)
    )
    return Reproduction(shelved.name, today, subject.known)
