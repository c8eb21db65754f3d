"""`python -m lab sweep`: run what docs/results.md still calls "not run", in the order of value.

    python -m lab sweep                      what is missing, in order, with the time it takes
    python -m lab sweep --minutes 120        run it, one after another, until the time is over
    python -m lab sweep --only plain --only darcy --minutes 60
    python -m lab sweep --short --minutes 200        the table of two CPU-minutes
    python -m lab sweep --short --seed 1 --only fino --only plain --minutes 60
    python -m lab sweep --short --only climate --set data.air=air.mon.mean.nc \
        --set data.pressure=slp.mon.mean.nc --minutes 30

A cell is a model on a task: `fino run laptop-TASK --model MODEL`, in a folder for each task, so
that models share its data.  Its scores are kept as soon as there are any.  Stop it at any moment
and start it again: a training that was begun goes on from its checkpoint.

A budget of processor time is only the same for all where the processor is.  So the short table
takes every model anew if it is run in an empty `lab/results/short-*`, and `--again` runs cells that
are kept already, such as FINO's beside a rival's on another machine.
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
from fino.recipe.recipe import Recipe, read_recipe
from fino.recipe.run import carry_out, plan
from fino.settings import did_you_mean
from fino.training.run import Run, find_run
from lab.keep import keep_scores, load_kept
from lab.results_words import EXPECTED

__all__ = ["Cell", "missing_cells", "run_cell", "sweep", "train_case"]

#: Tasks whose data are cheap and that tell models apart come first; climate's files are yours to
#: give, as data.air and data.pressure.
_TASKS = (
    "advection",
    "diffusion-reaction-2d",
    "darcy",
    "compressible-1d",
    "shallow-water",
    "darcy-pdebench",
    "diffusion-reaction-1d",
    "climate",
)
#: The short budget, in which the papers' sizes are too slow where a recipe does not say one.
_SHORT = (
    "train.cpu_seconds=120",
    *(f"model.{m}.size=small" for m in ("ufno", "ffno", "transolver", "dilated-resnet")),
    "model.cnext-unet.size=small",
)
_SMALL_LOCAL_FNO = ("diffusion-reaction-2d", "compressible-1d", "diffusion-reaction-1d", "climate")
#: What isolates FINO's block, then the local rivals of later years, then the others together.
_FIRST = ("plain", "cnext-unet", "dilated-resnet")


@dataclass(frozen=True)
class Cell:
    """A model on a task, trained from a seed."""

    task: str
    model: str
    short: bool = False
    seed: int = 0

    @property
    def recipe(self) -> str:
        return f"laptop-{self.task}"

    @property
    def kept_as(self) -> str:
        return f"short-{self.task}" if self.short else self.task

    @property
    def case(self) -> str:
        """What its run and its kept scores are called."""
        return f"{self.model}-seed-{self.seed}" if self.seed else self.model

    @property
    def changes(self) -> tuple[str, ...]:
        """What seed and short budget change in the recipe."""
        seed = (f"seeds=[{self.seed}]",) if self.seed else ()
        if not self.short:
            return seed
        small = ("model.local-fno.size=small",) if self.task in _SMALL_LOCAL_FNO else ()
        return (*seed, *_SHORT, *small)


def missing_cells(short: bool = False, seed: int = 0, again: bool = False) -> list[Cell]:
    """The empty cells of the table of equal budgets, the most telling first; all, if `again`."""
    kept = load_kept("short-" if short else "")
    groups = [{name} for name in _FIRST] + [{*EXPECTED} - {*_FIRST}]
    cells = [
        Cell(task, model, short, seed)
        for models in groups
        for task in _TASKS
        for model in EXPECTED
        if model in models
    ]
    return [cell for cell in cells if again or cell.case not in kept.get(cell.kept_as, {})]


def sweep(
    *,
    minutes: float = 0.0,
    only: tuple[str, ...] = (),
    short: bool = False,
    seed: int = 0,
    again: bool = False,
    set: tuple[str, ...] = (),
    out: Path = Path("runs/sweep"),
    json: bool = False,
) -> None:
    """Run missing cells of the results until the time is over: `python -m lab sweep --minutes 60`.

    Parameters
    ----------
    minutes
        Wall-clock minutes after which no other cell is begun; 0 only lists them.
    only
        Models and tasks to choose from.
    short
        Two CPU-minutes a cell instead of twenty, for the table of the short budget.
    seed
        The seed of weights and batches; scores of other seeds than 0 are kept beside it.
    again
        Also the cells that are kept already, whose scores are replaced.
    set
        Any setting of the recipes, such as the files of climate: `--set data.air=air.mon.mean.nc`.
    out
        The folder of the runs, one for each task inside.
    json
        Print the cells that are missing as JSON.
    """
    for name in only:
        if name not in (known := [*_TASKS, *EXPECTED]):
            hint = did_you_mean(name, known)
            raise ValueError(f"only should be tasks or models, got '{name}'. {hint}")
    models = [name for name in only if name in EXPECTED] or EXPECTED
    tasks = [name for name in only if name in _TASKS] or _TASKS
    if not any(line.startswith("data.air=") for line in set):
        tasks = [task for task in tasks if task != "climate"]
    cells = missing_cells(short, seed, again)
    cells = [cell for cell in cells if cell.task in tasks and cell.model in models]
    if not minutes:
        _tell(cells, json)
        return
    end = time.monotonic() + 60 * minutes
    for cell in cells:
        if time.monotonic() >= end:
            break
        others = load_kept(cell.kept_as).get(cell.kept_as, {}).values()
        scores = run_cell(cell, out, set, baselines=not any(other.baselines for other in others))
        kept = keep_scores(scores, cell.kept_as, cell.case)
        say(f"{cell.task}, {cell.case}: nRMSE {scores['nrmse'].value:.3g}, kept in {kept}")
    say("Next: python -m lab results --readme README.md")


def run_cell(cell: Cell, out: Path, changes: Sequence[str] = (), baselines: bool = True) -> Scores:
    """Train and score a cell, or go on where it was stopped.

    Baselines and the classical solver are the same for all models of a task: one that has them is
    enough.
    """
    recipe = read_recipe(cell.recipe, [*cell.changes, *changes], models=[cell.model])
    run, command = train_case(recipe, out / cell.kept_as, cell.case, cell.task)
    with threads(1):
        return evaluate(run, baselines=baselines, worth=baselines, command=command)


def train_case(recipe: Recipe, folder: Path, case: str, task: str) -> tuple[Run, str]:
    """The run of one case of a recipe and its command, trained if that is still to be done."""
    experiment = plan(recipe, folder)
    steps = tuple(step for step in experiment.steps if step.kind in ("generate", "train"))
    with progress(f"{task}, {case}") as show:
        for done, _ in enumerate(carry_out(replace(experiment, steps=steps)), start=1):
            show(done / len(steps))
    run = find_run(experiment.folder / case, open_data(recipe.data, steps[-1].data))
    return run, experiment.command


def _tell(cells: list[Cell], json: bool) -> None:
    if json:
        say_json([{"task": cell.task, "model": cell.case} for cell in cells])
        return
    rows = [[cell.task, cell.case, "2" if cell.short else "20"] for cell in cells]
    table("To run, in the order of value", ["task", "model", "CPU-minutes"], rows)
    say(f"{len(cells)} cells. Next: python -m lab sweep --minutes 120")
