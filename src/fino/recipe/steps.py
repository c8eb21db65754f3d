"""The steps that lead from a recipe to its page, and what was done of them, from what.

A step is known by a fingerprint: the SHA-256 of its settings and of the results of the steps it
needs.  Beside the results, one small file for each step remembers it:

    steps/train-fino.json     {"fingerprint": …, "result": …, "seconds": …, "settings": …}

A record without a result is a step that was begun and not finished.  A step is done again when
its fingerprint has changed, when what it needs is done again, or when its result is not there.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from fino.durable import write_whole
from fino.model.store import model_hash
from fino.recipe.cases import (
    Case,
    estimate_evaluation,
    estimate_generation,
    estimate_training,
    list_cases,
)
from fino.recipe.data import Files, describe_source, group_key
from fino.recipe.recipe import Recipe, read_recipe

__all__ = ["Experiment", "Ledger", "Step", "plan"]

_REPORT_SECONDS = 10.0


@dataclass(frozen=True, eq=False)
class Step:
    """One piece of work: its kind, its name, what it depends on and how to see its result.

    `find_result` gives the identity of the result on disk, None if it is not there.  A result
    that `may_grow`, such as a model that somebody trained on, is still the step's own.
    """

    kind: str
    name: str
    settings: dict[str, Any]
    find_result: Callable[[], str | None]
    needs: tuple[Step, ...] = ()
    estimate: Callable[[], float] = lambda: 0.0
    may_grow: bool = False
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return f"{self.kind}-{self.name}" if self.name else self.kind

    @property
    def title(self) -> str:
        return f"{self.kind} {self.name}".rstrip()

    @cached_property
    def seconds(self) -> float:
        """About how long it takes."""
        return self.estimate()


class Ledger:
    """The records of an experiment's folder, and what is known about its files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "steps"
        self.files = Files(self.folder / "hashes.json")

    def record(self, step: Step) -> dict[str, Any]:
        """What is known about a step; nothing if there is no whole record."""
        try:
            content = json.loads((self.folder / f"{step.key}.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}

    def fingerprint(self, step: Step) -> str | None:
        """The SHA-256 of what goes in; None while something needed is missing."""
        if any(self.state(needed) != "done" for needed in step.needs):
            return None
        results = [needed.find_result() for needed in step.needs]
        content = json.dumps([step.kind, step.settings, results], sort_keys=True, default=str)
        return hashlib.sha256(content.encode()).hexdigest()

    def state(self, step: Step) -> str:
        """`done`, `begun`, `new`, or why it is to be done again: `changed`, `lost`."""
        record = self.record(step)
        if not record:
            return "new"
        fingerprint = self.fingerprint(step)
        if fingerprint is None or record.get("fingerprint") != fingerprint:
            return "changed"
        if record.get("result") is None:
            return "begun"
        result = step.find_result()
        same = result == record["result"] or (step.may_grow and result is not None)
        return "done" if same else "lost"

    def begin(self, step: Step) -> None:
        self._write(step, None, 0.0)

    def finish(self, step: Step, seconds: float) -> None:
        self._write(step, str(step.find_result()), seconds)
        self.files.save()

    def seconds(self, step: Step) -> float:
        """How long the step took when it was last done, or about how long it will take."""
        return float(self.record(step).get("seconds") or step.seconds)

    def _write(self, step: Step, result: str | None, seconds: float) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        content = {
            "fingerprint": self.fingerprint(step),
            "result": result,
            "seconds": round(seconds, 2),
            "settings": step.settings,
        }
        text = json.dumps(content, indent=1, default=str) + "\n"
        write_whole(self.folder / f"{step.key}.json", text.encode())

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder alone: two runs in one folder would undo each other."""
        import fcntl

        self.folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.folder / "lock", os.O_CREAT | os.O_RDWR)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise ValueError(f"Another run is at work in {self.folder.parent}.") from None
            yield
            self.files.save()
        finally:
            os.close(handle)


@dataclass(frozen=True)
class Experiment:
    """A recipe, the folder it fills, and the steps that lead there."""

    recipe: Recipe
    folder: Path
    cases: tuple[Case, ...]
    steps: tuple[Step, ...]
    ledger: Ledger
    command: str

    @property
    def pages(self) -> tuple[Path, ...]:
        return tuple(step.more["page"] for step in self.steps if step.kind == "report")

    def preview(self) -> tuple[list[tuple[Step, str, float]], float]:
        """Each step with its state and its seconds, and the seconds until all of them are done."""
        ledger = self.ledger
        steps = [(step, ledger.state(step), ledger.seconds(step)) for step in self.steps]
        todo = [(step.kind, seconds) for step, state, seconds in steps if state != "done"]
        trains = [seconds for kind, seconds in todo if kind == "train"]
        together = max([sum(trains) / self.recipe.jobs, *trains], default=0.0)
        return steps, together + sum(seconds for kind, seconds in todo if kind != "train")


def plan(
    recipe: Recipe | str | Path, out: str | Path | None = None, command: str = ""
) -> Experiment:
    """The steps of a recipe, checked as far as can be without doing any.

    `out` is the folder for everything, runs/RECIPE if not given; `command` is written into the
    scores as what led to them.
    """
    recipe = recipe if isinstance(recipe, Recipe) else read_recipe(recipe)
    if not recipe.data.is_given:
        raise ValueError(f"{recipe.name} needs data: {_what_to_give(recipe)}")
    folder = Path(out) if out is not None else Path("runs") / recipe.name
    ledger = Ledger(folder)
    cases = list_cases(recipe)
    steps: list[Step] = []
    pages: dict[str, list[Step]] = {}
    sources: dict[str, Step] = {}
    for case in cases:
        train = _train_step(case, folder, _data_step(case, folder, sources, ledger.files), ledger)
        score = _evaluate_step(case, train, ledger.files)
        steps += [train, score]
        pages.setdefault(group_key(case.data), []).append(score)
    first = [step for step in sources.values() if step.kind == "generate"]
    last = [_report_step(i, scores, folder, ledger) for i, scores in enumerate(pages.values())]
    return Experiment(recipe, folder, cases, (*first, *steps, *last), ledger, command)


def _data_step(case: Case, folder: Path, sources: dict[str, Step], files: Files) -> Step:
    """The step that makes a case's data, shared by all cases that learn from them.

    A user's own file is not made: its step is known to be done and only lends its hash.
    """
    choice = case.data
    settings = describe_source(choice, files)
    key = json.dumps(settings, sort_keys=True)
    if key in sources:
        return sources[key]
    if choice.file is not None:
        more = {"path": Path(choice.file), "choice": choice}
        sources[key] = Step("open", "", settings, lambda: str(settings["hash"]), more=more)
        return sources[key]
    name = choice.problem or "climate"
    used = sum(step.more["path"].stem.startswith(name) for step in sources.values())
    path = folder / "data" / (f"{name}-{used + 1}.h5" if used else f"{name}.h5")
    sources[key] = Step(
        "generate",
        path.stem,
        settings,
        lambda: files.hash(path, lambda: files.open(path).hash, "data"),
        estimate=lambda: estimate_generation(choice),
        more={"path": path, "choice": choice},
    )
    return sources[key]


def _train_step(case: Case, folder: Path, data: Step, ledger: Ledger) -> Step:
    settings: dict[str, Any] = {
        "model": case.model,
        "build": case.build,
        "train": case.train,
        "cut": case.data.model_dump(include={"split", "train", "history"}, exclude_none=True),
    }
    needs: tuple[Step, ...] = (data,)
    if data.kind == "open":
        settings, needs = {**settings, "data": data.settings}, ()
    run, files = folder / case.name, ledger.files
    config = run / "model" / "config.json"
    return Step(
        "train",
        case.name,
        settings,
        lambda: files.hash(config, lambda: model_hash(config.parent), "weights of"),
        needs,
        lambda: estimate_training(case, files),
        may_grow=True,
        more={"case": case, "run": run, "data": data.more["path"]},
    )


def _evaluate_step(case: Case, train: Step, files: Files) -> Step:
    place = train.more["run"] / "scores.json"
    return Step(
        "evaluate",
        case.name,
        {},
        lambda: files.bytes_hash(place),
        (train,),
        lambda: estimate_evaluation(case, files),
        more=train.more,
    )


def _report_step(number: int, scores: list[Step], folder: Path, ledger: Ledger) -> Step:
    """A page for each data set; the first case is shown in full, the others beside it."""
    name = "" if number == 0 else scores[0].name
    page = (folder / "reports" / name if name else folder) / "report.html"
    rivals = [score.more["run"] for score in scores[1:]]
    return Step(
        "report",
        name,
        {},
        lambda: ledger.files.bytes_hash(page),
        tuple(scores),
        lambda: _REPORT_SECONDS,
        more={**scores[0].more, "page": page, "rivals": rivals},
    )


def _what_to_give(recipe: Recipe) -> str:
    if "climate" in recipe.name:
        return "--set data.air=AIR.nc --set data.pressure=PRES.nc, NOAA's files as they come."
    return "--data FILE, or a [data] table with a problem or a file."
