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
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from fino.durable import write_json
from fino.machine import threads
from fino.model.build import build
from fino.recipe.cases import Case
from fino.recipe.data import Files, make_data, open_data
from fino.recipe.recipe import DataChoice
from fino.recipe.steps import Experiment, Step, plan
from fino.training.fit import Interrupted, fit, resume
from fino.training.run import Run

if TYPE_CHECKING:
    from fino.report.page import Picture

__all__ = ["Experiment", "Outcome", "carry_out", "find_obstacles", "plan"]

#: Called with what happened: the share done, or a training step.
Show = Callable[[Any], None]
#: What is to be trained: the case, its data file, its run folder, and whether to go on with it.
Order = tuple[Case, Path, Path, bool]
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


def carry_out(
    experiment: Experiment, watch: Watch | None = None, jobs: int | None = None
) -> Iterator[Outcome]:
    """Do every step that is not done yet, in order; training up to `jobs` cases at a time."""
    quiet: Watch = lambda steps: nullcontext(lambda happened: None)  # noqa: E731
    work = _Work(experiment, watch or quiet, jobs or experiment.recipe.jobs)
    ledger = experiment.ledger
    _check_device(experiment)
    with ledger.locked():
        write_json(experiment.folder / "recipe.json", experiment.recipe.model_dump(mode="json"))
        for group in _group(experiment.steps, work.jobs):
            todo = [step for step in group if ledger.state(step) != "done"]
            yield from (Outcome(step, skipped=True) for step in group if step not in todo)
            if len(todo) > 1:
                yield from _train_together(work, todo)
            else:
                yield from (_do(work, step) for step in todo)


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
    began, ledger = time.monotonic(), work.experiment.ledger
    resumes = _prepare(work, step)
    with work.watch([step]) as show:
        if step.kind == "generate":
            ledger.files.add(step.place, make_data(step.case.data, step.place, show))
        elif step.kind == "train":
            order = (step.case, step.data, step.place, resumes)
            work.runs[step.place] = _train(order, ledger.files, show)
        elif step.kind == "evaluate":
            _evaluate(work, step, show)
        else:
            _report(work, step, show)
    seconds = time.monotonic() - began
    ledger.finish(step, seconds)
    return Outcome(step, skipped=False, seconds=seconds)


def _prepare(work: _Work, step: Step) -> bool:
    """Make room for a step and note its beginning; says whether it resumes a training.

    What took long to make and is in the way is set aside, never thrown away.
    """
    ledger, run = work.experiment.ledger, step.place
    state = ledger.state(step)
    for path in find_obstacles(step, state):
        _set_aside(path, work.experiment.folder / "set-aside")
    if step.kind == "train" and state == "new" and run.exists():
        raise ValueError(
            f"{run} exists already and is not of this recipe. Choose another folder with --out."
        )
    resumes = step.kind == "train" and state == "begun" and run.exists()
    if resumes and not (run / "settings.json").is_file():
        _set_aside(run, work.experiment.folder / "set-aside")  # not a step of it was trained
        resumes = False
    ledger.begin(step)
    return resumes


def find_obstacles(step: Step, state: str) -> list[Path]:
    """Data and trained models of an earlier fingerprint, or damaged ones."""
    wanted = state in ("changed", "lost") and step.kind in ("generate", "train")
    if not wanted or not step.place.exists():
        return []
    beside = step.place.parent.glob(f"{step.place.name}*") if step.kind == "generate" else ()
    return sorted(beside) or [step.place]


def _set_aside(path: Path, place: Path) -> None:
    """Move it to set-aside/1, or to 2, 3 … if one of its name is there already."""
    free = next(place / str(i) for i in count(1) if not (place / str(i) / path.name).exists())
    free.mkdir(parents=True, exist_ok=True)
    path.rename(free / path.name)


def _train(order: Order, files: Files, show: Show) -> Run:
    case, path, folder, resumes = order
    data = open_data(case.data, path, files)
    # From the building on: threads of two processes on the same cores wait for each other, and
    # building on a gigabyte took three minutes instead of half a minute.
    with threads(case.train.get("threads")):
        if resumes:
            return resume(folder, data, progress=show)
        model = build(case.model, data, **{"seed": case.seed, **case.build})
        return fit(model, data, out=folder, progress=show, **case.train)


# Scores and pages are imported where they are needed: a process that only trains does without.
def _evaluate(work: _Work, step: Step, show: Show) -> None:
    from fino.evaluation.evaluate import evaluate

    folder = step.place.parent
    data = open_data(step.case.data, step.data, work.experiment.ledger.files)
    with threads(step.case.train.get("threads")):
        run = work.runs.get(folder, folder)
        evaluate(run, data, command=work.experiment.command, progress=show)
    reports = [other for other in work.experiment.steps if other.kind == "report"]
    if all(step is not report.needs[0] for report in reports):
        work.runs.pop(folder, None)  # no page shows it; a sweep would fill the memory


def _report(work: _Work, step: Step, show: Show) -> None:
    from fino.report.page import report

    folder, *rivals = (score.place.parent for score in step.needs)
    data = open_data(step.case.data, step.data, work.experiment.ledger.files)
    run, more = work.runs.pop(folder, folder), _draw_sweep(step.needs)
    report(run, data, rivals=rivals, more=more, out=step.place, progress=show)


def _draw_sweep(scores: Sequence[Step]) -> list[Picture]:
    """One picture for each setting that the scored cases vary: error against its value."""
    from fino.metrics.scores import Scores
    from fino.report.curves import SweepPoint, error_over_setting
    from fino.report.page import Picture

    found = {step.case.name: Scores.load(step.place.parent)["nrmse"] for step in scores}
    pictures = []
    for key in dict.fromkeys(key for step in scores for key in step.case.varied):
        setting = key.rpartition(".")[2]
        series: dict[str, list[SweepPoint]] = {}
        for case in (step.case for step in scores):
            score = found[case.name]
            if key not in case.varied or not math.isfinite(score.value):
                continue
            rest = [f"{k.rpartition('.')[2]} {v}" for k, v in case.varied.items() if k != key]
            value = case.varied[key]
            value = "×".join(map(str, value)) if isinstance(value, list | tuple) else value
            point = SweepPoint(value, score.value, score.low, score.high)
            series.setdefault(", ".join([case.model, *rest]), []).append(point)
        if series:
            caption = "Bars hold the middle 95 % over test samples; dots of one value are seeds."
            figure, title = error_over_setting(setting, series), f"Error against {setting}"
            pictures.append(Picture(f"sweep-{setting}", figure, title, caption))
    return pictures


def _train_together(work: _Work, steps: list[Step]) -> Iterator[Outcome]:
    """Train several cases at a time, each in a process, and remember each when it ends."""
    ledger = work.experiment.ledger
    orders = [(step, _write_order(work, step, _prepare(work, step))) for step in steps]
    ledger.files.save()  # the processes read what is known about the data
    processes: list[subprocess.Popen[str]] = []
    over = threading.Event()

    def train(step: Step, order: str) -> tuple[Step, float]:
        began = time.monotonic()
        # A session of its own keeps Ctrl-C for this process.
        with subprocess.Popen(
            [sys.executable, "-m", "fino.recipe.run"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            processes.append(process)
            if over.is_set():
                process.terminate()
            _, errors = process.communicate(order)
        if process.returncode == 130:
            raise Interrupted("a training process was stopped, everything is saved.")
        if process.returncode:
            unsaid = f"a training process ended with code {process.returncode}."
            raise ValueError([unsaid, *errors.strip().splitlines()][-1])
        return step, time.monotonic() - began

    with work.watch(steps), ThreadPoolExecutor(work.jobs) as pool:
        try:
            for done in as_completed([pool.submit(train, *order) for order in orders]):
                step, seconds = done.result()
                ledger.finish(step, seconds)
                yield Outcome(step, skipped=False, seconds=seconds)
        finally:
            over.set()
            pool.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                process.terminate()


def _write_order(work: _Work, step: Step, resumes: bool) -> str:
    """What a process is told to train."""
    case = step.case
    train = {"threads": max(1, (os.cpu_count() or 1) // work.jobs), **case.train}
    return json.dumps(
        {
            "case": {**asdict(case), "data": case.data.model_dump(mode="json"), "train": train},
            "data": str(step.data),
            "run": str(step.place),
            "resumes": resumes,
            "hashes": str(work.experiment.ledger.folder / "hashes.json"),
            "parent": os.getpid(),
        }
    )


def _serve_training() -> int:
    """Train what standard input says, as long as the process that said it lives."""
    told = json.load(sys.stdin)
    case = Case(**{**told["case"], "data": DataChoice(**told["case"]["data"])})

    def show(happened: Any) -> None:
        if os.getppid() != told["parent"]:
            raise Interrupted

    try:
        order = (case, Path(told["data"]), Path(told["run"]), told["resumes"])
        _train(order, Files(Path(told["hashes"])), show)
    except Interrupted:
        return 130
    except (ValueError, OSError) as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(_serve_training())
