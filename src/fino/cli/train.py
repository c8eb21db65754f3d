"""`fino train`: a model for your data, in minutes, in a folder that can be resumed."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

if TYPE_CHECKING:
    from fino.training.run import Run

__all__ = ["train"]


def train(
    *overrides: Annotated[str, Parameter(allow_leading_hyphen=True)],
    data: Path | None = None,
    model: Annotated[str, Parameter(accepts_keys=False)] = "fino",
    minutes: float | None = None,
    cpu_seconds: float | None = None,
    steps: int | None = None,
    epochs: int | None = None,
    out: Path | None = None,
    resume: Path | None = None,
    recipe: Path | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Train a model: `fino train --data swe.h5 --model fino --minutes 5 --out runs/swe`.

    Ctrl-C saves; `fino train --resume runs/swe` goes on and ends with the same weights.
    With several processes: `torchrun --nproc-per-node 2 -m fino train …`.

    Parameters
    ----------
    overrides
        Any setting: `--model.width 48`, `--train.horizon 8`, `--train.optimizer adamw`.
        `--train.seed 1` draws the first weights anew too.
    data
        The data file, as `fino generate` writes it or any that `fino.open` reads.
    model
        One of the models that `fino list` names.
    minutes
        The budget in wall-clock minutes; five if no budget is given.
    cpu_seconds
        The budget in seconds of processor time.
    steps
        The budget in steps.
    epochs
        The budget in passes over the training part.
    out
        The run folder; a new one under runs/ if not given.
    resume
        A run folder to go on with.
    recipe
        A TOML file with tables [model] and [train].
    json
        Print the result as JSON.
    """
    from fino.machine import keep_freed_memory
    from fino.training.overrides import merged, parse_overrides, read_tables

    keep_freed_memory()
    tables = parse_overrides(overrides)
    if recipe is not None:
        tables = merged(read_tables(recipe), tables)
    budget = {"minutes": minutes, "cpu_seconds": cpu_seconds, "steps": steps, "epochs": epochs}
    tables["train"].update({name: value for name, value in budget.items() if value is not None})
    quiet = json or int(os.environ.get("RANK", "0")) > 0
    from fino.training.fit import Interrupted

    try:
        if resume is not None:
            run = _resumed(resume, tables, quiet)
        elif data is not None:
            run = _fitted(data, model, out, tables, quiet)
        else:
            raise ValueError("fino train needs --data FILE, or --resume RUN.")
    except Interrupted as stopped:
        print(f"fino: {stopped}", file=sys.stderr)
        sys.exit(130)
    _tell(run, json, quiet)


def _fitted(
    path: Path, name: str, out: Path | None, tables: dict[str, dict[str, Any]], quiet: bool
) -> Run:
    import fino
    from fino.cli.console import say
    from fino.cli.training_bar import training_bar
    from fino.report.plan_words import describe_plan
    from fino.training.choices import choose_settings
    from fino.training.settings import TrainingSettings

    data = fino.open(path)
    chosen = {"seed": tables["train"].get("seed", 0), **tables["model"]}
    model = fino.build(chosen.pop("name", name), data, **chosen)
    settings = choose_settings(TrainingSettings(**tables["train"]), model, data)
    if not quiet:
        say(f"[bold]{data.card.title or data.card.name}[/bold] from {path}")
        for line in describe_plan(settings, model, data):
            say(f"  {line}")
    with training_bar(quiet) as show:
        return fino.fit(model, data, out=out, progress=show, **settings.model_dump())


def _resumed(folder: Path, tables: dict[str, dict[str, Any]], quiet: bool) -> Run:
    from fino.cli.console import say
    from fino.cli.training_bar import training_bar
    from fino.training.fit import resume

    if tables["model"]:
        raise ValueError("--resume goes on with the model that is there: leave out --model.*.")
    if not quiet:
        say(f"Going on with {folder} …")
    with training_bar(quiet) as show:
        return resume(folder, progress=show, **tables["train"])


def _tell(run: Run, json: bool, quiet: bool) -> None:
    from fino.cli.console import say, say_json
    from fino.model.store import model_hash

    best, folder = run.best, run.folder
    assert folder is not None
    last = run.metrics[-1]
    if json and int(os.environ.get("RANK", "0")) == 0:
        say_json(
            {
                "run": run.folder,
                "steps": last["step"],
                "best": best,
                "cpu_seconds": last["cpu_seconds"],
                "wall_seconds": last["wall_seconds"],
                "weights_sha256": model_hash(folder / "model"),
            }
        )
    if quiet:
        return
    if best is None:
        say(f"Every validation rollout diverged. The run is in {run.folder}.")
    else:
        say(
            f"Best at step {best['step']} of {last['step']}: validation rollout nRMSE "
            f"{best['nrmse']:.3g}. The run is in {run.folder}."
        )
    say(f"Next: fino evaluate {run.folder}")
