"""From nothing to a result: generate → train → evaluate → report, skipping what is done.

    experiment = plan("quickstart", "runs/quickstart")
    for outcome in carry_out(experiment):
        …                                         # one outcome for each step, in order

    runs/quickstart/
      data/advection.h5     the data
      fino/, fno/           a run folder for each case, with its scores.json
      report.html           the page
      recipe.json           what was asked
      steps/                what was done, from what
      set-aside/            what was made with other settings, should you want it back

Kill it at any moment and run it again: it goes on where it was.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import torch

from fino.durable import write_whole
from fino.evaluation.evaluate import evaluate
from fino.recipe.findings import findings
from fino.recipe.plan import Experiment, plan
from fino.recipe.sources import make, opened
from fino.recipe.steps import Ledger, Step, file_hash
from fino.recipe.training import Order, train_case, train_together
from fino.report.page import report
from fino.training.threads import threads

__all__ = ["Experiment", "Outcome", "carry_out", "in_the_way", "plan"]

#: Given the steps at hand, a context whose value is called with the progress of the only one.
Watch = Callable[[Sequence[Step]], AbstractContextManager[Callable[[Any], None]]]


@dataclass(frozen=True)
class Outcome:
    """What happened to a step: skipped, or done in so many seconds."""

    step: Step
    skipped: bool
    seconds: float = 0.0


def carry_out(
    experiment: Experiment, watch: Watch | None = None, jobs: int | None = None
) -> Iterator[Outcome]:
    """Do every step that is not done yet, in order; training up to `jobs` cases at a time."""
    look = watch or (lambda steps: nullcontext(lambda share: None))
    ledger = experiment.ledger
    _check_device(experiment)
    with ledger.locked():
        content = json.dumps(experiment.recipe.model_dump(mode="json"), indent=1) + "\n"
        write_whole(experiment.folder / "recipe.json", content.encode())
        for group in _grouped(experiment, jobs or experiment.recipe.jobs):
            todo = [step for step in group if ledger.state(step) != "done"]
            yield from (Outcome(step, skipped=True) for step in group if step not in todo)
            if len(todo) > 1:
                yield from _trained(ledger, todo, look, jobs or experiment.recipe.jobs)
            else:
                yield from (_done(experiment, step, look) for step in todo)


def _grouped(experiment: Experiment, jobs: int) -> Iterator[list[Step]]:
    """The steps in order, one by one; with several jobs all training at the place of its first."""
    trains = [step for step in experiment.steps if step.kind == "train"]
    for step in experiment.steps:
        if step.kind != "train" or jobs == 1:
            yield [step]
        elif step is trains[0]:
            yield trains


def _done(experiment: Experiment, step: Step, look: Watch) -> Outcome:
    """Do one step and remember it."""
    ledger = experiment.ledger
    began, state = time.monotonic(), ledger.state(step)
    _clear(ledger, step, state)
    ledger.begin(step)
    with look([step]) as show:
        result = _WORK[step.kind](experiment, step, state, show)
    seconds = time.monotonic() - began
    ledger.finish(step, result, seconds)
    return Outcome(step, skipped=False, seconds=seconds)


def _trained(ledger: Ledger, steps: list[Step], look: Watch, jobs: int) -> Iterator[Outcome]:
    """Train several at the same time and remember each when it ends."""
    orders = []
    for step in steps:
        state = ledger.state(step)
        _clear(ledger, step, state)
        orders.append(_order(step, state))
        ledger.begin(step)
    with look(steps):
        for number, seconds in train_together(orders, jobs):
            ledger.finish(steps[number], str(steps[number].present()), seconds)
            yield Outcome(steps[number], skipped=False, seconds=seconds)


def _clear(ledger: Ledger, step: Step, state: str) -> None:
    """Make room for the step; what took long to make is set aside, never thrown away."""
    for path in in_the_way(step, state):
        _set_aside(path, ledger.folder.parent / "set-aside")
    if step.kind != "train":
        return
    run: Path = step.more["run"]
    if state == "new" and run.exists():
        raise ValueError(
            f"{run} exists already and is not of this recipe. Choose another folder with --out."
        )
    if state == "begun" and run.exists() and not (run / "settings.json").is_file():
        shutil.rmtree(run)  # not a step of it was trained


def in_the_way(step: Step, state: str) -> list[Path]:
    """Data and trained models of an earlier fingerprint, or damaged ones."""
    if state not in ("changed", "lost") or step.kind not in ("generate", "train"):
        return []
    if step.kind == "train":
        return [step.more["run"]] if step.more["run"].exists() else []
    path: Path = step.more["path"]
    return sorted(path.parent.glob(f"{path.name}*")) if path.exists() else []


def _set_aside(path: Path, place: Path) -> None:
    """Move it to set-aside/1, or to 2, 3 … if one of its name is there already."""
    free = next(place / str(i) for i in count(1) if not (place / str(i) / path.name).exists())
    free.mkdir(parents=True, exist_ok=True)
    path.rename(free / path.name)


def _generate(experiment: Experiment, step: Step, state: str, show: Callable[[float], None]) -> str:
    path = step.more["path"]
    return make(step.more["choice"], path, overwrite=not path.exists(), progress=show).hash


def _order(step: Step, state: str) -> Order:
    run: Path = step.more["run"]
    return step.more["case"], step.more["data"], run, state == "begun" and run.exists()


def _train(experiment: Experiment, step: Step, state: str, show: Callable[[Any], None]) -> str:
    return train_case(_order(step, state), show)


def _evaluate(experiment: Experiment, step: Step, state: str, show: Callable[[float], None]) -> str:
    case, folder = step.more["case"], step.more["run"]
    data = opened(case.data, step.more["data"])
    with threads(case.train.get("threads")):
        evaluate(folder, data, command=experiment.command, progress=show)
    return str(file_hash(folder / "scores.json"))


def _report(experiment: Experiment, step: Step, state: str, show: Callable[[float], None]) -> str:
    case = step.more["case"]
    data = opened(case.data, step.more["data"])
    page, rivals = step.more["page"], step.more["rivals"]
    more = findings(step.needs)
    report(step.more["run"], data, rivals=rivals, more=more, out=page, progress=show)
    return str(file_hash(page))


_WORK: dict[str, Callable[[Experiment, Step, str, Callable[[Any], None]], str]] = {
    "generate": _generate,
    "train": _train,
    "evaluate": _evaluate,
    "report": _report,
}


def _check_device(experiment: Experiment) -> None:
    """Refuse at once what would fail after the data are made."""
    wanted = {str(case.train.get("device", "cpu")) for case in experiment.cases}
    if any(device.startswith("cuda") for device in wanted) and not torch.cuda.is_available():
        instead = experiment.recipe.name.replace("paper-", "laptop-")
        other = f" Try `fino run {instead}`," if instead != experiment.recipe.name else ""
        raise ValueError(
            f"{experiment.recipe.name} is for a GPU and torch sees none here.{other} or add "
            "--set train.device=cpu and wait."
        )
