"""The steps that lead from a recipe to its page, known before any of them is done."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fino.data.store import read_native
from fino.model.store import model_hash
from fino.recipe.estimate import (
    seconds_to_evaluate,
    seconds_to_generate,
    seconds_to_report,
    seconds_to_train,
)
from fino.recipe.recipe import Recipe, read_recipe
from fino.recipe.sources import source_key, source_settings
from fino.recipe.steps import Ledger, Step, file_hash
from fino.recipe.sweep import Case, cases

__all__ = ["Experiment", "plan"]


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
        "cut": case.data.model_dump(include={"split", "train", "history"}, exclude_none=True),
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


def _what_to_give(recipe: Recipe) -> str:
    if "climate" in recipe.name:
        return "--set data.air=AIR.nc --set data.pressure=PRES.nc, NOAA's files as they come."
    return "--data FILE, or a [data] table with a problem or a file."
