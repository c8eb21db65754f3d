"""`python -m lab bench horizon`: rollouts far past the end of training, beside the truth.

A run was trained on trajectories of some length.  Its test samples are solved again from the same
start with the same time step for several times as long, and every model is rolled out to the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from fino.cli.console import progress, say, say_json, table
from fino.data.card import Card
from fino.data.dataset import Dataset
from fino.evaluation.evaluate import evaluate
from fino.metrics.scores import Scores
from fino.model.baselines import Persistence
from fino.model.pretrained import plan_again, solve_samples
from fino.training.run import PRETRAINED, Run, find_run
from lab.keep import keep_scores

__all__ = ["LOST", "Far", "find_runs", "horizon", "measure_far", "score_runs", "solve_longer"]

Progress = Callable[[float], None]

#: An error of more than so many times the truth's own size counts as a blow-up.
LOST = 10.0


@dataclass(frozen=True)
class Far:
    """The nRMSE of a rollout at the training horizon, at the end, and at its worst."""

    within: float
    end: float
    worst: float
    bounded: bool


def horizon(
    *runs: Path,
    times: int = 5,
    samples: int = 10,
    keep: bool = False,
    json: bool = False,
) -> None:
    """Which models stay stable: `python -m lab bench horizon runs/laptop-advection`.

    Test samples are solved again for several times as long, and every run is rolled out to the
    end.

    Parameters
    ----------
    runs
        Runs on the same data, folders of `fino run`, or names of pretrained models.
    times
        How many times as long as the data of the training.
    samples
        How many test samples.
    keep
        Keep the scores in lab/results, for `python -m lab results`.
    json
        Print the numbers as JSON.
    """
    if not runs:
        raise ValueError("horizon should be given a run, such as runs/laptop-advection.")
    found = {name: run for place in runs for name, run in find_runs(place).items()}
    with progress("solving and rolling out", quiet=json) as show:
        scored = score_runs(found, times, samples, show)
    task = next(iter(scored.values())).data["name"]
    if keep:
        for name, scores in scored.items():
            keep_scores(scores, f"horizon-{task}", name)
    rows = {name: measure_far(scores, times) for name, scores in scored.items()}
    if json:
        say_json({name: vars(row) for name, row in rows.items()})
        return
    table(
        f"{task}: nRMSE over {times} times the time of training, {samples} samples",
        ["run", "at the end of training", f"at {times} times", "worst", "bounded"],
        [
            [
                name,
                f"{r.within:.3g}",
                f"{r.end:.3g}",
                f"{r.worst:.3g}",
                "yes" if r.bounded else "NO",
            ]
            for name, r in rows.items()
        ],
    )
    say(f"Bounded: no sample diverged, and the error stayed below {LOST:g} times the truth.")


def measure_far(scores: Scores, times: float) -> Far:
    """Read the errors over time, which span so many (`times`) training horizons."""
    errors = [math.inf if value is None else value for value in scores.over_time["nrmse"]["model"]]
    frames = scores.data["shown"] + len(errors)
    within = max(0, round((frames - 1) / times) - scores.data["shown"])
    worst = max(errors)
    return Far(errors[within], errors[-1], worst, scores.diverged == 0 and worst <= LOST)


def solve_longer(
    card: Card, times: int, samples: int, show: Progress | None = None, part: str = "test"
) -> Dataset:
    """The first samples of a part, solved for so many times as long with the same step."""
    known = card.parameters
    if card.steady or "frames" not in known or "duration" not in known or card.split is None:
        raise ValueError(f"{card.name} has no time to go on in: choose data that move.")
    if times < 1:
        raise ValueError(f"times should be 1 or more, got {times}.")
    frames, duration = int(known["frames"]), float(known["duration"])  # type: ignore[arg-type]
    again = plan_again(card, frames=times * (frames - 1) + 1, duration=times * duration)
    return solve_samples(again, card.split.samples(part)[:samples], show)


def find_runs(folder: str | Path) -> dict[str, Path]:
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


def score_runs(
    runs: dict[str, Path], times: int = 5, samples: int = 10, show: Progress | None = None
) -> dict[str, Scores]:
    """The scores of every run over the longer time, and of persistence."""
    show = show or (lambda share: None)
    opened = {name: find_run(run) for name, run in runs.items()}
    cards = {name: run.data_card for name, run in opened.items()}
    card = next(iter(cards.values()))
    for name, other in cards.items():
        if (other.name, other.parameters, other.seed) != (card.name, card.parameters, card.seed):
            raise ValueError(f"{name} learned from other data than {next(iter(cards))}.")
    data = solve_longer(card, times, samples, lambda share: show(share / 2))
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
