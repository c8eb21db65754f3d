"""Far past the end of training: the truth is solved for five times as long, and who stays near it?

A run learned from trajectories of some length.  Its test samples are solved again from the same
start with the same time step, only longer, and every model is rolled out to the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from fino.data.card import Card
from fino.data.dataset import Dataset
from fino.evaluation.evaluate import evaluate
from fino.metrics.scores import Scores
from fino.model.baselines import Persistence
from fino.model.pretrained import plan_again, solve_samples
from fino.training.run import PRETRAINED, Run, find_run

__all__ = ["LOST", "Far", "far", "horizons", "longer", "runs_in"]

Progress = Callable[[float], None]

#: An error of so many times the truth's own size is not a prediction any more but a blow-up.
LOST = 10.0


@dataclass(frozen=True)
class Far:
    """How a rollout fared: the error at the training horizon, at the end, and its worst."""

    within: float
    end: float
    worst: float
    bounded: bool


def far(scores: Scores, times: float) -> Far:
    """What the errors over time say, given how many training horizons they span."""
    errors = [math.inf if value is None else value for value in scores.over_time["nrmse"]["model"]]
    frames = scores.data["shown"] + len(errors)
    within = max(0, round((frames - 1) / times) - scores.data["shown"])
    worst = max(errors)
    return Far(errors[within], errors[-1], worst, scores.diverged == 0 and worst <= LOST)


def longer(card: Card, times: int, samples: int, progress: Progress | None = None) -> Dataset:
    """The first test samples of a card, solved for so many times as long with the same step."""
    known = card.parameters
    if card.steady or "frames" not in known or "duration" not in known or card.split is None:
        raise ValueError(f"{card.name} has no time to go on in: choose data that move.")
    if times < 1:
        raise ValueError(f"times should be 1 or more, got {times}.")
    frames, duration = int(known["frames"]), float(known["duration"])  # type: ignore[arg-type]
    again = plan_again(card, frames=times * (frames - 1) + 1, duration=times * duration)
    return solve_samples(again, card.split.samples("test")[:samples], progress)


def runs_in(folder: str | Path) -> dict[str, Path]:
    """The runs of a `fino run` folder by name, a run itself, or a pretrained model."""
    folder = Path(folder)
    if not folder.exists() and str(folder) in PRETRAINED:
        return {"fino-shipped": folder}
    if (folder / "model").is_dir():
        return {folder.name: folder}
    found = {path.parent.name: path.parent for path in sorted(folder.glob("*/model/"))}
    if not found:
        raise ValueError(f"There is no run at {folder}.")
    return found


def horizons(
    runs: dict[str, Path], times: int = 5, samples: int = 10, progress: Progress | None = None
) -> dict[str, Scores]:
    """The scores of every run over the longer time, and of the guess that nothing changes."""
    show = progress or (lambda share: None)
    opened = {name: find_run(run) for name, run in runs.items()}
    cards = {name: run.data_card for name, run in opened.items()}
    card = next(iter(cards.values()))
    for name, other in cards.items():
        if (other.name, other.parameters, other.seed) != (card.name, card.parameters, card.seed):
            raise ValueError(f"{name} learned from other data than {next(iter(cards))}.")
    data = longer(card, times, samples, lambda share: show(share / 2))
    found = {}
    for name, run in opened.items():
        found[name] = _score(run, data)
        show((1 + len(found) / (len(opened) + 1)) / 2)
    found["persistence"] = evaluate(Persistence(data.grid), data, baselines=False)
    show(1.0)
    return found


def _score(run: Run, data: Dataset) -> Scores:
    """The model alone on the longer data, so that the run's folder keeps its own scores."""
    scores = evaluate(run.model, data, baselines=False)
    if run.is_shipped:
        return scores
    return replace(scores, model={**scores.model, "training": run.recorded_settings})
