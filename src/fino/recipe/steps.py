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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fino.durable import hold_alone, write_json
from fino.model.store import model_hash
from fino.recipe.cases import Case, estimate_seconds, list_cases
from fino.recipe.data import Files, describe_source
from fino.recipe.recipe import Recipe, read_recipe

__all__ = ["Experiment", "Step", "plan"]


@dataclass(frozen=True, eq=False)
class Step:
    """One piece of work: generate, train, evaluate or report, for a case and its data file.

    `place` is what it leaves: the data file, the run folder, scores.json, the page.
    """

    kind: str
    name: str
    settings: dict[str, Any]
    place: Path
    case: Case
    data: Path
    needs: tuple[Step, ...] = ()

    @property
    def key(self) -> str:
        return f"{self.kind}-{self.name}" if self.name else self.kind

    @property
    def title(self) -> str:
        return f"{self.kind} {self.name}".rstrip()


class _Ledger:
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

    def result(self, step: Step) -> str | None:
        """The hash of what a step left; None if it is not there."""
        if step.kind == "train":
            folder = step.place / "model"
            return self.files.hash(folder / "config.json", lambda: model_hash(folder), "weights of")
        if step.kind == "generate":
            return self.files.hash(step.place, lambda: self.files.open(step.place).hash, "data")
        return self.files.bytes_hash(step.place)

    def fingerprint(self, step: Step) -> str | None:
        """The SHA-256 of what goes in; None while something needed is missing."""
        if any(self.state(needed) != "done" for needed in step.needs):
            return None
        results = [self.result(needed) for needed in step.needs]
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
        result = self.result(step)
        # A model that somebody trained on is still the step's own.
        same = result is not None if step.kind == "train" else result == record["result"]
        return "done" if same else "lost"

    def seconds(self, step: Step) -> float:
        """How long the step took when it was last done, or about how long it will take."""
        took = self.record(step).get("seconds")
        return float(took or estimate_seconds(step.kind, step.case, self.files))

    def begin(self, step: Step) -> None:
        self._write(step, None, 0.0)

    def finish(self, step: Step, seconds: float) -> None:
        self._write(step, str(self.result(step)), seconds)
        self.files.save()

    def _write(self, step: Step, result: str | None, seconds: float) -> None:
        content = {
            "fingerprint": self.fingerprint(step),
            "result": result,
            "seconds": round(seconds, 2),
            "settings": step.settings,
        }
        write_json(self.folder / f"{step.key}.json", content)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder alone: two runs in one folder would undo each other."""
        with hold_alone(self.folder / "lock", f"Another run is at work in {self.folder.parent}"):
            yield
            self.files.save()


@dataclass(frozen=True)
class Experiment:
    """A recipe, the folder it fills, and the steps that lead there."""

    recipe: Recipe
    folder: Path
    cases: tuple[Case, ...]
    steps: tuple[Step, ...]
    ledger: _Ledger
    command: str

    @property
    def pages(self) -> tuple[Path, ...]:
        return tuple(step.place for step in self.steps if step.kind == "report")

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
        maps = "--set data.air=AIR.nc --set data.pressure=PRES.nc, NOAA's files as they come."
        file = "--data FILE, or a [data] table with a problem or a file."
        raise ValueError(f"{recipe.name} needs data: {maps if 'climate' in recipe.name else file}")
    folder = Path(out) if out is not None else Path("runs") / recipe.name
    ledger, cases = _Ledger(folder), list_cases(recipe)
    sources: dict[str, Step] = {}
    pages: dict[str, list[Step]] = {}
    steps: list[Step] = []
    for case in cases:
        train = _train_step(case, folder, sources, ledger.files)
        place = train.place / "scores.json"
        score = Step("evaluate", case.name, {}, place, case, train.data, (train,))
        steps += [train, score]
        tested = case.data.model_dump_json(exclude={"train"})
        pages.setdefault(tested, []).append(score)
    # A page for each test set; the first case is shown in full, the others beside it.
    for number, scores in enumerate(pages.values()):
        first, name = scores[0], scores[0].name if number else ""
        page = (folder / "reports" / name if name else folder) / "report.html"
        steps.append(Step("report", name, {}, page, first.case, first.data, tuple(scores)))
    return Experiment(recipe, folder, cases, (*sources.values(), *steps), ledger, command)


def _train_step(case: Case, folder: Path, sources: dict[str, Step], files: Files) -> Step:
    """The training of a case.  `sources` gets the step that makes its data, one for many cases.

    A user's own file is not made: its hash is a setting of the training.
    """
    source = describe_source(case.data, files)
    settings: dict[str, Any] = {
        "model": case.model,
        "build": case.build,
        "train": case.train,
        "cut": case.data.model_dump(include={"split", "train", "history"}, exclude_none=True),
    }
    run = folder / case.name
    if case.data.file is not None:
        settings["data"] = source
        return Step("train", case.name, settings, run, case, Path(case.data.file))
    key = json.dumps(source, sort_keys=True)
    if key not in sources:
        name = case.data.problem or "climate"
        used = sum(step.name.startswith(name) for step in sources.values())
        path = folder / "data" / (f"{name}-{used + 1}.h5" if used else f"{name}.h5")
        sources[key] = Step("generate", path.stem, source, path, case, path)
    generate = sources[key]
    return Step("train", case.name, settings, run, case, generate.place, (generate,))
