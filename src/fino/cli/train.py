"""`fino train`: a model for your data, in minutes, in a folder that can be resumed."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from fino.cli.console import say, say_json
from fino.cli.data import SplitOptions, data_table, tell_data

if TYPE_CHECKING:
    from fino.data.dataset import Dataset
    from fino.recipe.recipe import Recipe
    from fino.training.run import Run

__all__ = ["train"]


def train(
    *,
    data: Path | None = None,
    options: SplitOptions | None = None,
    model: str | None = None,
    start_from: Annotated[str | None, Parameter(name="--from")] = None,
    minutes: float | None = None,
    cpu_seconds: float | None = None,
    steps: int | None = None,
    epochs: int | None = None,
    out: Path | None = None,
    resume: Path | None = None,
    recipe: str | None = None,
    stride_time: str | None = None,
    set: tuple[str, ...] = (),
    json: bool = False,
) -> None:
    """Train a model: `fino train --data swe.h5 --model fino --minutes 5 --out runs/swe`.

    Ctrl-C saves; `fino train --resume runs/swe` goes on and ends with the same weights.
    With several processes: `torchrun --nproc-per-node 2 -m fino train …`.

    Args:
        data: The data file, as `fino generate` writes it or any that `fino.open` reads.
        options: What the data file does not say.
        model: One of the models that `fino list` names; the recipe's first, or fino.
        start_from: A run, a model folder or a shipped model to begin with instead of random
            weights; with other fields its first and last layers are widened.
        minutes: The budget in wall-clock minutes; five if no budget is given.
        cpu_seconds: The budget in seconds of processor time.
        steps: The budget in steps.
        epochs: The budget in passes over the training part.
        out: The run folder; a new one under runs/ if not given.
        resume: A run folder to go on with.
        recipe: A recipe by name or as a TOML file: what it says for this model, and its data file
            if `--data` is not given.  Budgets on the command line replace its own.
        stride_time: Learn steps of so many frames; auto takes the longest that the reach allows.
        set: Any setting: `--set model.width=48`, `--set train.horizon=8`, `--set data.train=100`.
            `--set train.seed=1` draws the first weights anew too.
        json: Print the result as JSON.
    """
    from fino.machine import keep_freed_memory
    from fino.recipe.recipe import read_recipe
    from fino.training.fit import Interrupted

    keep_freed_memory()
    for word in set:
        if word.split("=")[0].split(".")[0].strip() in ("models", "jobs", "sweep"):
            raise ValueError(f"fino train trains one model: --set {word} is for `fino run`.")
    budget = {"minutes": minutes, "cpu_seconds": cpu_seconds, "steps": steps, "epochs": epochs}
    chosen = read_recipe(recipe, set, budget=budget, **data_table(data, options))
    quiet = json or int(os.environ.get("RANK", "0")) > 0
    try:
        if resume is None:
            run = _fit(chosen, model, start_from, out, quiet, stride_time)
        else:
            _check_alone(
                resume,
                **{"model": model, "from": start_from, "out": out, "stride-time": stride_time},
            )
            run = _resume(resume, chosen, quiet)
    except Interrupted as stopped:
        print(f"fino: {stopped}", file=sys.stderr)
        sys.exit(130)
    _tell(run, json, quiet)


def _fit(
    recipe: Recipe,
    name: str | None,
    source: str | None,
    out: Path | None,
    quiet: bool,
    stride: str | None = None,
) -> Run:
    from fino.model.build import build
    from fino.model.transfer import begin_from
    from fino.recipe.cases import choose_case
    from fino.recipe.data import open_data
    from fino.report.words import describe_plan
    from fino.training.choices import choose_settings
    from fino.training.fit import fit
    from fino.training.run import find_run
    from fino.training.settings import TrainingSettings

    case = choose_case(recipe, name)
    if case.data.file is None:
        other = f", or make them: fino run {recipe.name}" if case.data.is_given else ""
        raise ValueError(f"fino train needs --data FILE, or --resume RUN{other}.")
    data = open_data(case.data, Path(case.data.file))
    data = _strided(data, stride, case.model)
    kept = ""
    if source is None:
        model = build(case.model, data, **{"seed": case.seed, **case.build})
    elif case.build or name is not None:
        raise ValueError(f"--from {source} says which model it is: leave out --model and [model].")
    else:
        model, kept = begin_from(find_run(source).model, data, case.seed)
    # What was learned before would be lost by the large first steps that random weights need.
    gentle = {} if source is None else {"learning_rate": 1e-3}
    asked = TrainingSettings(**{**gentle, **case.train})
    settings = choose_settings(asked, model, data)
    if not quiet:
        say(f" from {case.data.file}", bold=data.card.title or data.card.name)
        tell_data(data)
        if kept:
            say(f"  from {source}: kept {kept}")
        for line in describe_plan(settings, model, data, asked):
            say(f"  {line}")
    return fit(model, data, out=out, progress=not quiet, **settings.model_dump())


def _strided(data: Dataset, stride: str | None, model: str) -> Dataset:
    """Every n-th frame of the data; `auto` is as many as the model's reach allows."""
    from fino.model.build import longest_stride

    if stride is None:
        return data
    if stride != "auto" and not (stride.isdecimal() and int(stride) > 0):
        raise ValueError(f"--stride-time should be auto or a whole number, got '{stride}'.")
    frames = longest_stride(data, model) if stride == "auto" else int(stride)
    return data.strided(time=frames) if frames > 1 else data


def _check_alone(folder: Path, **options: Any) -> None:
    """Refuse options that a run which goes on would have to ignore."""
    for name, value in options.items():
        if value is not None:
            raise ValueError(f"--resume goes on with {folder} as it is: leave out --{name}.")


def _resume(folder: Path, recipe: Recipe, quiet: bool) -> Run:
    from fino.recipe.cases import find_settings
    from fino.training.fit import resume

    _, build, changes = find_settings(recipe, recipe.models[0])
    if build:
        raise ValueError("--resume goes on with the model that is there: leave out [model].")
    if "seeds" in recipe.model_fields_set:
        changes["seed"] = recipe.seeds[0]
    if not quiet:
        say(f"Going on with {folder} …")
    return resume(folder, recipe.data.file, progress=not quiet, **changes)


def _tell(run: Run, json: bool, quiet: bool) -> None:
    from fino.model.store import model_hash

    best = run.best
    unknown = dict.fromkeys(("cpu_seconds", "wall_seconds", "step"))  # metrics.jsonl was emptied
    last = run.metrics[-1] if run.metrics else unknown
    if json and int(os.environ.get("RANK", "0")) == 0:
        spent = {key: last[key] for key in ("cpu_seconds", "wall_seconds")}
        weights = model_hash(run.folder / "model") if run.folder else None
        facts = {"run": run.folder, "steps": last["step"], "best": best, **spent}
        say_json({**facts, "weights_sha256": weights})
    if quiet:
        return
    found = "Every validation rollout diverged."
    if best is not None:
        of, error = f"step {best['step']} of {last['step']}", f"{best['nrmse']:.3g}"
        found = f"Best at {of}: validation rollout nRMSE {error}."
    say(f"{found} The run is in {run.folder}.\nNext: fino evaluate {run.folder}")
