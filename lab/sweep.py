"""`python -m lab sweep`: run what docs/results.md still calls "not run", in the order of value.

    python -m lab sweep                      what is missing, in order, with the time it takes
    python -m lab sweep --minutes 120        run it, one after another, until the time is over
    python -m lab sweep --only plain --minutes 60
    python -m lab sweep --short --minutes 200        the table of two CPU-minutes

A cell is a model on a task: `fino run laptop-TASK --model MODEL`, in a folder for each task, so
that models share its data.  Its scores are kept as soon as there are any.  Stop it at any moment
and start it again: a training that was begun goes on from its checkpoint.

The short table takes every model anew if it is run in an empty `lab/results/short-*`: a budget of
processor time is only the same for all where the processor is.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fino.cli.console import progress, say, say_json, table
from fino.evaluation.evaluate import evaluate
from fino.machine import threads
from fino.metrics.scores import Scores
from fino.recipe.data import open_data
from fino.recipe.recipe import read_recipe
from fino.recipe.run import carry_out, plan
from fino.settings import did_you_mean
from fino.training.run import find_run
from lab.keep import keep_scores, load_kept
from lab.results_words import EXPECTED, missing
from lab.standing import standings

__all__ = ["Cell", "missing_cells", "run_cell", "sweep"]

#: Tasks whose data are cheap and that tell models apart come first; climate's files are yours.
_TASKS = (
    "advection",
    "diffusion-reaction-2d",
    "darcy",
    "compressible-1d",
    "shallow-water",
    "darcy-pdebench",
    "diffusion-reaction-1d",
)
#: The short budget, in which the papers' sizes are too slow where a recipe does not say one.
_SHORT = (
    "train.cpu_seconds=120",
    *(f"model.{m}.size=small" for m in ("ufno", "ffno", "transolver", "dilated-resnet")),
    "model.cnext-unet.size=small",
)
_SMALL_LOCAL_FNO = ("diffusion-reaction-2d", "compressible-1d", "diffusion-reaction-1d")
#: What isolates FINO's block, then the local rivals of later years, then the others together.
_FIRST = ("plain", "cnext-unet", "dilated-resnet")


@dataclass(frozen=True)
class Cell:
    """A model on a task that has no kept score."""

    task: str
    model: str
    short: bool = False

    @property
    def recipe(self) -> str:
        return f"laptop-{self.task}"

    @property
    def kept_as(self) -> str:
        return f"short-{self.task}" if self.short else self.task

    @property
    def changes(self) -> tuple[str, ...]:
        """What the short budget changes in the recipe."""
        if not self.short:
            return ()
        small = ("model.local-fno.size=small",) if self.task in _SMALL_LOCAL_FNO else ()
        return (*_SHORT, *small)


def missing_cells(short: bool = False) -> list[Cell]:
    """The empty cells of the table of equal budgets, the most telling first."""
    kept = load_kept("short-" if short else "")
    named = {task.removeprefix("short-"): standings(cases) for task, cases in kept.items()}
    empty = missing(named)
    groups = [{name} for name in _FIRST] + [{*EXPECTED} - {*_FIRST}]
    return [
        Cell(task, model, short)
        for models in groups
        for task in _TASKS
        for model in empty.get(task, [])
        if model in models
    ]


def sweep(
    *,
    minutes: float = 0.0,
    only: tuple[str, ...] = (),
    short: bool = False,
    out: Path = Path("runs/sweep"),
    json: bool = False,
) -> None:
    """Run missing cells of the results until the time is over: `python -m lab sweep --minutes 60`.

    Parameters
    ----------
    minutes
        Wall-clock minutes after which no other cell is begun; 0 only lists them.
    only
        Models or tasks to choose from.
    short
        Two CPU-minutes a cell instead of twenty, for the table of the short budget.
    out
        The folder of the runs, one for each task inside.
    json
        Print the cells that are missing as JSON.
    """
    for name in only:
        if name not in (known := [*_TASKS, *EXPECTED]):
            hint = did_you_mean(name, known)
            raise ValueError(f"only should be tasks or models, got '{name}'. {hint}")
    cells = [c for c in missing_cells(short) if not only or {c.task, c.model} & {*only}]
    if not minutes:
        _tell(cells, json)
        return
    end = time.monotonic() + 60 * minutes
    for cell in cells:
        if time.monotonic() >= end:
            break
        others = load_kept(cell.kept_as).get(cell.kept_as, {}).values()
        scores = run_cell(cell, out, baselines=not any(other.baselines for other in others))
        kept = keep_scores(scores, cell.kept_as, cell.model)
        say(f"{cell.task}, {cell.model}: nRMSE {scores['nrmse'].value:.3g}, kept in {kept}")
    say("Next: python -m lab results --readme README.md")


def run_cell(cell: Cell, out: Path, changes: Sequence[str] = (), baselines: bool = True) -> Scores:
    """Train and score a cell, or go on where it was stopped.

    Baselines and the classical solver are the same for all models of a task: one that has them is
    enough.
    """
    recipe = read_recipe(cell.recipe, [*cell.changes, *changes], models=[cell.model])
    experiment = plan(recipe, out / cell.kept_as)
    steps = [step for step in experiment.steps if step.kind in ("generate", "train")]
    with progress(f"{cell.task}, {cell.model}") as show:
        for done, _ in enumerate(carry_out(replace(experiment, steps=tuple(steps))), start=1):
            show(done / (len(steps) + 1))
        run = find_run(experiment.folder / cell.model, open_data(recipe.data, steps[-1].data))
        with threads(1):
            evaluate(run, baselines=baselines, worth=baselines, command=experiment.command)
    return Scores.load(experiment.folder / cell.model)


def _tell(cells: list[Cell], json: bool) -> None:
    if json:
        say_json([{"task": cell.task, "model": cell.model} for cell in cells])
        return
    rows = [[cell.task, cell.model, "2" if cell.short else "20"] for cell in cells]
    table("Not run, in the order of value", ["task", "model", "CPU-minutes"], rows)
    say(f"{len(cells)} cells. Next: python -m lab sweep --minutes 120")
