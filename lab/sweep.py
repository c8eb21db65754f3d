"""`python -m lab sweep`: run what docs/results.md still calls "not run", in the order of value.

    python -m lab sweep                      what is missing, in order, with the time it takes
    python -m lab sweep --minutes 120        run it, one after another, until the time is over
    python -m lab sweep --only plain --minutes 60

A cell is a model on a task: `fino run laptop-TASK --model MODEL`, in a folder for each task, so
that models share its data.  Its scores are kept as soon as there are any.  Stop it at any moment
and start it again: a training that was begun goes on from its checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fino.cli.console import progress, say, say_json, table
from fino.metrics.scores import Scores
from fino.recipe.recipe import read_recipe
from fino.recipe.run import carry_out, plan
from fino.settings import did_you_mean
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
#: What isolates FINO's block, then the local rivals of later years, then the others together.
_FIRST = ("plain", "cnext-unet", "dilated-resnet")


@dataclass(frozen=True)
class Cell:
    """A model on a task that has no kept score."""

    task: str
    model: str

    @property
    def recipe(self) -> str:
        return f"laptop-{self.task}"


def missing_cells() -> list[Cell]:
    """The empty cells of the table of equal budgets, the most telling first."""
    empty = missing({task: standings(cases) for task, cases in load_kept().items()})
    groups = [{name} for name in _FIRST] + [{*EXPECTED} - {*_FIRST}]
    return [
        Cell(task, model)
        for models in groups
        for task in _TASKS
        for model in empty.get(task, [])
        if model in models
    ]


def sweep(
    *,
    minutes: float = 0.0,
    only: tuple[str, ...] = (),
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
    out
        The folder of the runs, one for each task inside.
    json
        Print the cells that are missing as JSON.
    """
    for name in only:
        if name not in (known := [*_TASKS, *EXPECTED]):
            hint = did_you_mean(name, known)
            raise ValueError(f"only should be tasks or models, got '{name}'. {hint}")
    cells = [c for c in missing_cells() if not only or {c.task, c.model} & {*only}]
    if not minutes:
        _tell(cells, json)
        return
    end = time.monotonic() + 60 * minutes
    for cell in cells:
        if time.monotonic() >= end:
            break
        scores = run_cell(cell, out)
        kept = keep_scores(scores, cell.task, cell.model)
        say(f"{cell.task}, {cell.model}: nRMSE {scores['nrmse'].value:.3g}, kept in {kept}")
    say("Next: python -m lab results --readme README.md")


def run_cell(cell: Cell, out: Path, changes: Sequence[str] = ()) -> Scores:
    """Train and score a cell, or go on where it was stopped."""
    experiment = plan(read_recipe(cell.recipe, changes, models=[cell.model]), out / cell.task)
    with progress(f"{cell.task}, {cell.model}") as show:
        for done, _ in enumerate(carry_out(experiment), start=1):
            show(done / len(experiment.steps))
    return Scores.load(experiment.folder / cell.model)


def _tell(cells: list[Cell], json: bool) -> None:
    if json:
        say_json([{"task": cell.task, "model": cell.model} for cell in cells])
        return
    rows = [[cell.task, cell.model, "20"] for cell in cells]
    table("Not run, in the order of value", ["task", "model", "CPU-minutes"], rows)
    say(f"{len(cells)} cells. Next: python -m lab sweep --minutes 120")
