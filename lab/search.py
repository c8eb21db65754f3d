"""`python -m lab search`: the same search for every model, at the budget of the short table.

    python -m lab search advection                       what is missing, in order
    python -m lab search advection --minutes 60          run it until the time is over

Every model has six trials of two CPU-minutes on a task: three sizes, its recipe's own and the two
nearest of its small, paper's and large one, at two rates.  The trial with the lowest error on the
validation part is the model's row; it alone is scored on the test part.  A trial is as long as the
runs of the table, so that none is chosen by what a shorter one said.

Stop it at any moment and start it again: finished trials stand in lab/results/search.json.
"""

from __future__ import annotations

import json as jsonlib
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from fino.cli.console import say, say_json, table
from fino.durable import write_whole
from fino.evaluation.evaluate import evaluate
from fino.machine import threads
from fino.metrics.scores import Scores
from fino.model import MODELS
from fino.recipe.recipe import Recipe, read_recipe
from fino.settings import did_you_mean
from lab.keep import RESULTS, TASKS, keep_scores, load_kept
from lab.results_words import EXPECTED
from lab.sweep import train_case

__all__ = ["Trial", "load_trials", "run_trial", "search", "trials"]

#: What every trial was, and the error on the validation part that it ended with.
KEPT = RESULTS / "search.json"
#: Sizes for each model, rates, and seconds of a trial.
_SIZES, _RATES, _SECONDS = 3, (1e-2, 3e-3), 120
_NAMED = ("small", "paper", "large")
_STYLE = ("activation", "norm", "weight_norm")
#: What isolates FINO's block first, then the rest.
_ORDER = ("fino", "plain", "fno", "unet", "cnext-unet", "dilated-resnet")


@dataclass(frozen=True)
class Trial:
    """A size and a rate of a model on a task; size '' is that of the recipe."""

    task: str
    model: str
    size: str
    rate: float

    @property
    def row(self) -> str:
        """What its run is called."""
        return f"{self.model}-{self.size or 'recipe'}-{self.rate:.0e}"

    @property
    def changes(self) -> tuple[str, ...]:
        """What it changes in the recipe of the task, as a row of its own."""
        own = _shape(self.model, self.size) if self.size else {**_own(self.recipe, self.model)}
        training = {**self.recipe.train.get(self.model, {}), "learning_rate": self.rate}
        return (
            f"train.cpu_seconds={_SECONDS}",
            f'model.{self.row}.name="{self.model}"',
            *(f"model.{self.row}.{key}={jsonlib.dumps(value)}" for key, value in own.items()),
            *(f"train.{self.row}.{key}={jsonlib.dumps(v)}" for key, v in training.items()),
        )

    @property
    def recipe(self) -> Recipe:
        return read_recipe(f"laptop-{self.task}")


def trials(task: str, model: str) -> list[Trial]:
    """The six trials of a model: three sizes at two rates, the recipe's own first."""
    own = _own(read_recipe(f"laptop-{task}"), model)
    others = [
        size
        for size in _NAMED
        if own.get("size") != size and not (own and _shape(model, size).items() <= own.items())
    ]
    sizes = ["", *others][:_SIZES]
    return [Trial(task, model, size, rate) for size, rate in product(sizes, _RATES)]


def _shape(model: str, size: str) -> dict[str, Any]:
    """A named size without the activation and the norms of its paper, which did worse here."""
    return {k: v for k, v in MODELS[model].sizes[size].items() if k not in _STYLE}


def _own(recipe: Recipe, model: str) -> Mapping[str, Any]:
    """What a recipe says of the shape of a model; without a word, the small size."""
    found = dict(recipe.model.get(model, {}))
    return found or ({} if model in ("fino", "plain") else {"size": "small"})


def load_trials() -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Task → model → its finished trials, with size, rate, validation error and cost."""
    return jsonlib.loads(KEPT.read_text()) if KEPT.is_file() else {}


def search(
    task: str,
    *,
    minutes: float = 0.0,
    only: tuple[str, ...] = (),
    out: Path = Path("runs/search"),
    json: bool = False,
) -> None:
    """Search sizes and rates for every model alike: `python -m lab search advection --minutes 60`.

    Parameters
    ----------
    task
        One of the paper's tasks whose data are solved, such as advection.
    minutes
        Wall-clock minutes after which no other trial is begun; 0 only lists them.
    only
        Models to choose from.
    out
        The folder of the runs.
    json
        Print the trials that are missing as JSON.
    """
    for name, known in ((task, TASKS), *((model, EXPECTED) for model in only)):
        if name not in known:
            raise ValueError(f"Unknown task or model '{name}'. {did_you_mean(name, known)}")
    order = [*_ORDER, *(name for name in EXPECTED if name not in _ORDER)]
    wanted = [t for model in order if model in (only or EXPECTED) for t in trials(task, model)]
    left = [trial for trial in wanted if not _is_done(trial)]
    if not minutes:
        _tell(left, json)
        return
    end = time.monotonic() + 60 * minutes
    for trial in left:
        if time.monotonic() >= end:
            break
        found = run_trial(trial, out)
        say(f"{task}, {trial.row}: validation nRMSE {found['validation']:.3g}")
        if all(_is_done(other) for other in trials(task, trial.model)):
            kept = _score_best(task, trial.model, out)
            say(f"{task}, {trial.model}: nRMSE {kept['nrmse'].value:.3g} on the test part")
    say("Next: python -m lab results --readme README.md")


def run_trial(trial: Trial, out: Path, changes: tuple[str, ...] = ()) -> dict[str, Any]:
    """Train a trial, or go on where it was stopped, and write down how it ended."""
    _, run, spent = _train(trial, out, changes)
    best = run.best
    found = {
        "size": trial.size or "recipe",
        "rate": trial.rate,
        "validation": math.inf if best is None else float(f"{best['nrmse']:.6g}"),
        "parameters": run.model.parameters_count,
        "training_cpu_seconds": round(spent, 1),
    }
    kept = load_trials()
    rows = kept.setdefault(trial.task, {}).setdefault(trial.model, [])
    rows.append(found)
    write_whole(KEPT, (jsonlib.dumps(kept, indent=1) + "\n").encode())
    return found


def _train(trial: Trial, out: Path, changes: tuple[str, ...] = ()) -> tuple[str, Any, float]:
    """The command, the run and the CPU-seconds of a trial, trained if that is still to be done."""
    recipe = read_recipe(f"laptop-{trial.task}", [*trial.changes, *changes], models=[trial.row])
    run, command = train_case(recipe, out / trial.task, trial.row, trial.task)
    spent = run.metrics[-1].get("cpu_seconds", 0.0) if run.metrics else 0.0
    return command, run, spent


def _score_best(task: str, model: str, out: Path) -> Scores:
    """Score the trial that validation prefers on the test part, and keep the scores."""
    rows = load_trials()[task][model]
    best = min(rows, key=lambda row: row["validation"])
    size = "" if best["size"] == "recipe" else best["size"]
    command, run, _ = _train(Trial(task, model, size, best["rate"]), out)
    kept_as = f"searched-{task}"
    first = not any(other.baselines for other in load_kept(kept_as).get(kept_as, {}).values())
    with threads(1):
        scores = evaluate(run, baselines=first, worth=False, command=command)
    keep_scores(scores, kept_as, model)
    return scores


def _is_done(trial: Trial) -> bool:
    rows = load_trials().get(trial.task, {}).get(trial.model, [])
    return any((r["size"], r["rate"]) == (trial.size or "recipe", trial.rate) for r in rows)


def _tell(left: list[Trial], json: bool) -> None:
    if json:
        say_json([{"model": t.model, "size": t.size or "recipe", "rate": t.rate} for t in left])
        return
    rows = [[t.model, t.size or "recipe", f"{t.rate:g}"] for t in left]
    table("Trials to run, two CPU-minutes each", ["model", "size", "rate"], rows)
    say(f"{len(left)} trials. Next: python -m lab search TASK --minutes 60")
