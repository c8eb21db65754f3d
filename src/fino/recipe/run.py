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

Several cases can be trained at a time, each in a process of its own.  On small fields two models
at once with a thread each do more than one model with two threads.  A process whose parent is
gone stops by itself, so that no run is ever worked on twice.

    python -m fino.recipe.run < order.json        what such a process is started with
"""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import torch

from fino.data.dataset import Dataset
from fino.durable import write_whole
from fino.model.build import build
from fino.recipe.cases import Case
from fino.recipe.data import Files, make_data, open_data
from fino.recipe.recipe import DataChoice
from fino.recipe.steps import Experiment, Step, plan
from fino.training.run import Interrupted, Run, fit, resume
from fino.training.threads import threads

if TYPE_CHECKING:
    from fino.report.page import Picture

__all__ = ["Experiment", "Outcome", "carry_out", "draw_sweep", "find_obstacles", "plan"]

#: Called with what happened: the share done, or a training step.
Show = Callable[[Any], None]
#: Given the steps at hand, a context whose value is called with the progress of the only one.
Watch = Callable[[Sequence[Step]], AbstractContextManager[Show]]


@dataclass(frozen=True)
class Outcome:
    """What happened to a step: skipped, or done in so many seconds."""

    step: Step
    skipped: bool
    seconds: float = 0.0


@dataclass(frozen=True)
class _Work:
    """An experiment that is being carried out, with the runs that this process has trained."""

    experiment: Experiment
    watch: Watch
    jobs: int
    runs: dict[Path, Run] = field(default_factory=dict)

    @property
    def files(self) -> Files:
        return self.experiment.ledger.files

    def data(self, step: Step) -> Dataset:
        return open_data(step.more["case"].data, step.more["data"], self.files)


def carry_out(
    experiment: Experiment, watch: Watch | None = None, jobs: int | None = None
) -> Iterator[Outcome]:
    """Do every step that is not done yet, in order; training up to `jobs` cases at a time."""
    quiet: Watch = lambda steps: nullcontext(lambda happened: None)  # noqa: E731
    work = _Work(experiment, watch or quiet, jobs or experiment.recipe.jobs)
    ledger = experiment.ledger
    _check_device(experiment)
    with ledger.locked():
        content = json.dumps(experiment.recipe.model_dump(mode="json"), indent=1) + "\n"
        write_whole(experiment.folder / "recipe.json", content.encode())
        for group in _group(experiment.steps, work.jobs):
            todo = [step for step in group if ledger.state(step) != "done"]
            yield from (Outcome(step, skipped=True) for step in group if step not in todo)
            if len(todo) > 1:
                yield from _train_together(work, todo)
            else:
                yield from (_do(work, step) for step in todo)


def _group(steps: Sequence[Step], jobs: int) -> Iterator[list[Step]]:
    """The steps in order, one by one; with several jobs all training at the place of its first."""
    trains = [step for step in steps if step.kind == "train"]
    for step in steps:
        if step.kind != "train" or jobs == 1:
            yield [step]
        elif step is trains[0]:
            yield trains


def _do(work: _Work, step: Step) -> Outcome:
    """Do one step and remember it."""
    began = time.monotonic()
    going_on = _prepare(work, step)
    with work.watch([step]) as show:
        if step.kind == "generate":
            data = make_data(step.more["choice"], step.more["path"], show)
            work.files.add(step.more["path"], data)
        elif step.kind == "train":
            _train(work, step, going_on, show)
        elif step.kind == "evaluate":
            _evaluate(work, step, show)
        else:
            _report(work, step, show)
    seconds = time.monotonic() - began
    work.experiment.ledger.finish(step, seconds)
    return Outcome(step, skipped=False, seconds=seconds)


def _prepare(work: _Work, step: Step) -> bool:
    """Make room for a step and note its beginning; says whether a training is to be gone on with.

    What took long to make and is in the way is set aside, never thrown away.
    """
    ledger = work.experiment.ledger
    state = ledger.state(step)
    for path in find_obstacles(step, state):
        _set_aside(path, work.experiment.folder / "set-aside")
    going_on = False
    if step.kind == "train":
        run: Path = step.more["run"]
        if state == "new" and run.exists():
            raise ValueError(
                f"{run} exists already and is not of this recipe. Choose another folder with --out."
            )
        if state == "begun" and run.exists() and not (run / "settings.json").is_file():
            shutil.rmtree(run)  # not a step of it was trained
        going_on = state == "begun" and run.exists()
    ledger.begin(step)
    return going_on


def find_obstacles(step: Step, state: str) -> list[Path]:
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


def _train(work: _Work, step: Step, going_on: bool, show: Show) -> None:
    run = _train_case(step.more["case"], work.data(step), step.more["run"], going_on, show)
    work.runs[step.more["run"]] = run


def _train_case(case: Case, data: Dataset, folder: Path, going_on: bool, show: Show) -> Run:
    # From the building on: threads of two processes on the same cores wait for each other, and
    # building on a gigabyte took three minutes instead of half a minute.
    with threads(case.train.get("threads")):
        if going_on:
            return resume(folder, data, progress=show)
        model = build(case.model, data, **{"seed": case.seed, **case.build})
        return fit(model, data, out=folder, progress=show, **case.train)


# The pages and the scores are imported where they are needed: a process that trains does without.
def _evaluate(work: _Work, step: Step, show: Show) -> None:
    from fino.evaluation.evaluate import evaluate

    case, folder = step.more["case"], step.more["run"]
    run = work.runs.get(folder, folder)
    with threads(case.train.get("threads")):
        evaluate(run, work.data(step), command=work.experiment.command, progress=show)
    reported = {other.more["run"] for other in work.experiment.steps if other.kind == "report"}
    if folder not in reported:
        work.runs.pop(folder, None)  # a sweep would fill the memory with its models


def _report(work: _Work, step: Step, show: Show) -> None:
    from fino.report.page import write_report

    run = work.runs.pop(step.more["run"], step.more["run"])
    more, rivals = draw_sweep(step.needs), step.more["rivals"]
    page = step.more["page"]
    write_report(run, work.data(step), rivals=rivals, more=more, out=page, progress=show)


def draw_sweep(scores: Sequence[Step]) -> list[Picture]:
    """One picture for each setting that the scored cases vary: error against its value."""
    from fino.metrics.scores import Scores
    from fino.report.page import Picture
    from fino.report.swept import Point, swept

    cases = [step.more["case"] for step in scores]
    keys = dict.fromkeys(key for case in cases for key in case.varied)
    found = [Scores.load(step.more["run"])["nrmse"] for step in scores] if keys else []
    pictures = []
    for key in keys:
        setting = key.rpartition(".")[2]
        series: dict[str, list[Point]] = {}
        for case, score in zip(cases, found, strict=True):
            if key not in case.varied or not math.isfinite(score.value):
                continue
            rest = [f"{k.rpartition('.')[2]} {v}" for k, v in case.varied.items() if k != key]
            value = case.varied[key]
            value = "×".join(map(str, value)) if isinstance(value, list | tuple) else value
            point = Point(value, score.value, score.low, score.high)
            series.setdefault(", ".join([case.model, *rest]), []).append(point)
        if series:
            caption = "Bars hold the middle 95 % over test samples; dots of one value are seeds."
            figure, title = swept(setting, series), f"Error against {setting}"
            pictures.append(Picture(f"sweep-{setting}", figure, title, caption))
    return pictures


def _train_together(work: _Work, steps: list[Step]) -> Iterator[Outcome]:
    """Train several cases at a time, each in a process, and remember each when it ends."""
    waiting = [(step, _prepare(work, step)) for step in steps]
    work.files.save()  # the processes read what is known about the data
    running: dict[Step, tuple[subprocess.Popen[str], IO[str], float]] = {}
    with work.watch(steps):
        try:
            while waiting or running:
                while waiting and len(running) < work.jobs:
                    step, going_on = waiting.pop(0)
                    running[step] = (*_start_training(work, step, going_on), time.monotonic())
                for step, (process, errors, began) in list(running.items()):
                    if process.poll() is not None:
                        del running[step]
                        with errors:
                            _check_end(process.returncode, errors)
                        seconds = time.monotonic() - began
                        work.experiment.ledger.finish(step, seconds)
                        yield Outcome(step, skipped=False, seconds=seconds)
                time.sleep(0.1)
        finally:
            for process, _, _ in running.values():
                process.send_signal(signal.SIGTERM)
            for process, errors, _ in running.values():
                process.wait()
                errors.close()


def _start_training(
    work: _Work, step: Step, going_on: bool
) -> tuple[subprocess.Popen[str], IO[str]]:
    """A process that was told what to train, and the file that its errors go to.

    Its own session keeps Ctrl-C for the parent; a pipe would fill up, since nobody reads it.
    """
    errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
    case: Case = step.more["case"]
    train = {"threads": max(1, (os.cpu_count() or 1) // work.jobs), **case.train}
    order = {
        "case": {**asdict(case), "data": case.data.model_dump(mode="json"), "train": train},
        "path": str(step.more["data"]),
        "folder": str(step.more["run"]),
        "going_on": going_on,
        "hashes": str(work.experiment.ledger.folder / "hashes.json"),
        "parent": os.getpid(),
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "fino.recipe.run"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=errors,
        text=True,
        start_new_session=True,
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(order))
    process.stdin.close()
    return process, errors


def _check_end(code: int, errors: IO[str]) -> None:
    if code == 130:
        raise Interrupted("a training process was stopped, everything is saved.")
    if code:
        errors.seek(0)
        lines = errors.read().strip().splitlines()
        raise ValueError(lines[-1] if lines else f"a training process ended with code {code}.")


def _serve_training() -> int:
    """Train what standard input says, as long as the process that said it lives."""
    order = json.load(sys.stdin)
    content = order["case"]
    case = Case(**{**content, "data": DataChoice(**content["data"])})

    def show(happened: Any) -> None:
        if os.getppid() != order["parent"]:
            raise Interrupted

    try:
        data = open_data(case.data, Path(order["path"]), Files(Path(order["hashes"])))
        _train_case(case, data, Path(order["folder"]), order["going_on"], show)
    except Interrupted:
        return 130
    except (ValueError, OSError) as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return 2
    return 0


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


if __name__ == "__main__":
    sys.exit(_serve_training())
