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

Kill it at any moment and run it again: it goes on where it was.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fino
from fino.data.durable import write_whole
from fino.data.store import read_native
from fino.evaluation.evaluate import evaluate
from fino.experiment.estimate import (
    seconds_to_evaluate,
    seconds_to_generate,
    seconds_to_report,
    seconds_to_train,
)
from fino.experiment.recipe import Recipe, read_recipe
from fino.experiment.sources import make, opened, source_key, source_settings
from fino.experiment.steps import Ledger, Step, file_hash
from fino.experiment.sweep import Case, cases
from fino.model.store import model_hash
from fino.report.page import write_report
from fino.training.run import fit, resume

__all__ = ["Experiment", "Outcome", "carry_out", "plan"]

#: Given a step, a context whose value is called with its progress.
Watch = Callable[[Step], AbstractContextManager[Callable[[Any], None]]]


@dataclass(frozen=True)
class Experiment:
    """A recipe, the folder it fills, and the steps that lead there."""

    recipe: Recipe
    folder: Path
    cases: tuple[Case, ...]
    steps: tuple[Step, ...]
    command: str

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.folder)

    @property
    def pages(self) -> tuple[Path, ...]:
        return tuple(step.more["page"] for step in self.steps if step.kind == "report")


@dataclass(frozen=True)
class Outcome:
    """What happened to a step: skipped, or done in so many seconds."""

    step: Step
    skipped: bool
    seconds: float = 0.0


def plan(
    recipe: Recipe | str | Path, out: str | Path | None = None, command: str = ""
) -> Experiment:
    """The steps of a recipe, checked as far as can be without doing any."""
    recipe = recipe if isinstance(recipe, Recipe) else read_recipe(recipe)
    if not recipe.data.is_given:
        raise ValueError(f"{recipe.name} needs data: {_what_to_give(recipe)}")
    folder = Path(out) if out is not None else Path("runs") / recipe.name
    found = cases(recipe)
    steps: list[Step] = []
    pages: dict[str, list[Step]] = {}
    made: dict[str, Step] = {}
    for case in found:
        data = _data_step(case, folder, made)
        train = _train_step(case, folder, data)
        score = Step(
            "evaluate",
            case.name,
            {},
            lambda place=folder / case.name / "scores.json": file_hash(place),  # type: ignore[misc]
            (train,),
            seconds_to_evaluate(case),
            more=train.more,
        )
        steps += [train, score]
        pages.setdefault(source_key(case.data), []).append(score)
    first = [step for step in made.values() if step.kind == "generate"]
    last = [_report_step(i, scores, folder) for i, scores in enumerate(pages.values())]
    return Experiment(recipe, folder, found, (*first, *steps, *last), command)


def carry_out(experiment: Experiment, watch: Watch | None = None) -> Iterator[Outcome]:
    """Do every step that is not done yet, in order."""
    look = watch or (lambda step: nullcontext(lambda share: None))
    ledger = experiment.ledger
    _check_device(experiment)
    with ledger.locked():
        content = json.dumps(experiment.recipe.model_dump(mode="json"), indent=1) + "\n"
        write_whole(experiment.folder / "recipe.json", content.encode())
        for step in experiment.steps:
            state = ledger.state(step)
            if state == "done":
                yield Outcome(step, skipped=True)
                continue
            began = time.monotonic()
            _clear(step, state)
            ledger.begin(step)
            with look(step) as show:
                result = _WORK[step.kind](experiment, step, state, show)
            seconds = time.monotonic() - began
            ledger.finish(step, result, seconds)
            yield Outcome(step, skipped=False, seconds=seconds)


def _data_step(case: Case, folder: Path, made: dict[str, Step]) -> Step:
    """The step that makes a case's data, shared by all cases that learn from them.

    A user's own file is not made: its step is known to be done and only lends its hash.
    """
    choice = case.data
    settings = source_settings(choice)
    key = json.dumps(settings, sort_keys=True)
    if key not in made:
        if choice.file is not None:
            more = {"path": Path(choice.file), "choice": choice}
            made[key] = Step("open", "", settings, lambda: str(settings["hash"]), more=more)
        else:
            name = choice.problem or "climate"
            used = sum(step.more["path"].stem.startswith(name) for step in made.values())
            path = folder / "data" / (f"{name}-{used + 1}.h5" if used else f"{name}.h5")
            more = {"path": path, "choice": choice}
            made[key] = Step(
                "generate",
                path.stem,
                settings,
                lambda: _data_hash(path),
                seconds=seconds_to_generate(choice),
                more=more,
            )
    return made[key]


def _train_step(case: Case, folder: Path, data: Step) -> Step:
    settings: dict[str, Any] = {
        "model": case.model,
        "build": case.build,
        "train": case.train,
        "cut": case.data.model_dump(include={"split", "train"}, exclude_none=True),
    }
    needs: tuple[Step, ...] = (data,)
    if data.kind == "open":
        settings, needs = {**settings, "data": data.settings}, ()
    run = folder / case.name
    more = {"case": case, "run": run, "data": data.more["path"]}
    return Step(
        "train",
        case.name,
        settings,
        lambda: _weights_hash(run),
        needs,
        seconds_to_train(case),
        may_grow=True,
        more=more,
    )


def _report_step(number: int, scores: list[Step], folder: Path) -> Step:
    """A page for each data set; the first case is shown in full, the others beside it."""
    place = folder if number == 0 else folder / "reports" / scores[0].name
    page = place / "report.html"
    name = "" if number == 0 else scores[0].name
    more = {**scores[0].more, "page": page, "rivals": [s.more["run"] for s in scores[1:]]}
    return Step(
        "report",
        name,
        {},
        lambda: file_hash(page),
        tuple(scores),
        seconds_to_report(),
        more=more,
    )


def _clear(step: Step, state: str) -> None:
    """Remove what an earlier fingerprint left; never what the record does not know of."""
    again = state in ("changed", "lost")
    if step.kind == "generate" and again:
        step.more["path"].unlink(missing_ok=True)
    elif step.kind == "train":
        run: Path = step.more["run"]
        hardly_begun = state == "begun" and not (run / "settings.json").is_file()
        if run.exists() and (again or hardly_begun):
            shutil.rmtree(run)


def _generate(experiment: Experiment, step: Step, state: str, show: Callable[[float], None]) -> str:
    path = step.more["path"]
    return make(step.more["choice"], path, overwrite=not path.exists(), progress=show).hash


def _train(experiment: Experiment, step: Step, state: str, show: Callable[[Any], None]) -> str:
    case, folder = step.more["case"], step.more["run"]
    data = opened(case.data, step.more["data"])
    if state == "begun" and folder.exists():
        resume(folder, data, progress=show)
    else:
        model = fino.build(case.model, data, seed=case.seed, **case.build)
        fit(model, data, out=folder, progress=show, **case.train)
    return model_hash(folder / "model")


def _evaluate(experiment: Experiment, step: Step, state: str, show: Callable[[float], None]) -> str:
    case, folder = step.more["case"], step.more["run"]
    data = opened(case.data, step.more["data"])
    evaluate(folder, data, command=experiment.command, progress=show)
    return str(file_hash(folder / "scores.json"))


def _report(experiment: Experiment, step: Step, state: str, show: Callable[[float], None]) -> str:
    case = step.more["case"]
    data = opened(case.data, step.more["data"])
    page = step.more["page"]
    write_report(step.more["run"], data, rivals=step.more["rivals"], out=page, progress=show)
    return str(file_hash(page))


_WORK: dict[str, Callable[[Experiment, Step, str, Callable[[Any], None]], str]] = {
    "generate": _generate,
    "train": _train,
    "evaluate": _evaluate,
    "report": _report,
}


def _data_hash(path: Path) -> str | None:
    try:
        return read_native(path).hash
    except (OSError, ValueError, KeyError, RuntimeError):
        return None


def _weights_hash(run: Path) -> str | None:
    try:
        return model_hash(run / "model")
    except (OSError, ValueError):
        return None


def _check_device(experiment: Experiment) -> None:
    """Refuse at once what would fail after the data are made."""
    import torch

    wanted = {str(case.train.get("device", "cpu")) for case in experiment.cases}
    if any(device.startswith("cuda") for device in wanted) and not torch.cuda.is_available():
        instead = experiment.recipe.name.replace("paper-", "laptop-")
        other = f" Try `fino run {instead}`," if instead != experiment.recipe.name else ""
        raise ValueError(
            f"{experiment.recipe.name} is for a GPU and torch sees none here.{other} or add "
            "--set train.device=cpu and wait."
        )


def _what_to_give(recipe: Recipe) -> str:
    if "climate" in recipe.name:
        return "--set data.air=AIR.nc --set data.pressure=PRES.nc, NOAA's files as they come."
    return "--data FILE, or a [data] table with a problem or a file."
