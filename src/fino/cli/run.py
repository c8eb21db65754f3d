"""`fino run`: a recipe, from nothing to a page."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fino.cli.console import progress, say, say_json, show_table, table
from fino.cli.data import SplitOptions, data_table, tell_data

if TYPE_CHECKING:
    from fino.data.dataset import Dataset
    from fino.recipe.run import Experiment, Outcome
    from fino.recipe.steps import Step

__all__ = ["run"]

#: The recipe for a user's own file, when only the file is given.
_OWN = "your-data"
_PLANNED = {
    "done": "skip, done before",
    "begun": "go on with it",
    "new": "do",
    "changed": "do again, its inputs changed",
    "lost": "do again, its result is gone",
}


def run(
    recipe: str | None = None,
    *,
    data: Path | None = None,
    options: SplitOptions | None = None,
    model: tuple[str, ...] = (),
    minutes: float | None = None,
    out: Path | None = None,
    set: tuple[str, ...] = (),
    jobs: int | None = None,
    dry_run: bool = False,
    json: bool = False,
) -> None:
    """Run a recipe: `fino run quickstart`, or on your own file: `fino run --data my.h5`.

    Generates the data, trains every model, scores them next to the baselines and writes one page.
    What is done already is skipped; after an interruption the same command goes on.

    Args:
        recipe: A recipe that `fino list recipes` names, or a TOML file.
        data: Your own data file instead of the recipe's.
        options: What the data file does not say.
        model: Train this model; may be repeated, the first is reported in full.
        minutes: The budget of each model in wall-clock minutes instead of the recipe's.
        out: The folder for everything; runs/RECIPE if not given.
        set: Any setting: `--set data.samples=50`, `--set model.fino.width=8`, `--set seeds=[0,1]`.
        jobs: Train so many models at a time, each in a process of its own.
        dry_run: Say what would be done and about how long it would take, and do nothing.
        json: Print the result as JSON.
    """
    from fino.recipe.recipe import read_recipe
    from fino.recipe.run import plan

    if recipe is None and data is None:
        raise ValueError("Which recipe? Try `fino run quickstart`, or `fino run --data FILE`.")
    parts = data_table(data, options)
    parts |= {"models": list(model)} if model else {}
    changes = [*set, f"jobs={jobs}"] if jobs is not None else [*set]
    chosen = read_recipe(recipe or _OWN, changes, budget={"minutes": minutes}, **parts)
    if out is None and data is not None and recipe is None:
        out = Path("runs") / data.stem
    experiment = plan(chosen, out, command=shlex.join(["fino", *sys.argv[1:]]))
    if dry_run:
        _tell_plan(experiment, json)
    else:
        _tell_results(experiment, _carry_out(experiment, json), json)


def _tell_plan(experiment: Experiment, json: bool) -> None:
    steps, left = experiment.preview()
    recipe = experiment.recipe
    data = _own_data(experiment)
    if json:
        planned = [
            {"step": s.key, "state": state, "skip": state == "done", "seconds": round(seconds, 1)}
            for s, state, seconds in steps
        ]
        answer = {"recipe": recipe.name, "out": experiment.folder, "steps": planned}
        say_json({**answer, "seconds": round(left, 1)})
        return
    if data is not None:
        tell_data(data)
    rows = [
        [s.title, _PLANNED[state], "–" if state == "done" else _about(seconds)]
        for s, state, seconds in steps
    ]
    table(recipe.title or recipe.name, ["step", "what", "about"], rows)
    say(f"{_in_all(experiment, left)}, into {experiment.folder}. Nothing was done now.")


def _own_data(experiment: Experiment) -> Dataset | None:
    """The user's own file, which has to have something to score; None where data are generated."""
    from fino.recipe.data import open_data

    choice = experiment.cases[0].data
    if choice.file is None:
        return None
    data = open_data(choice, Path(choice.file), experiment.ledger.files)
    if not len(data.test):
        cut = "" if data.steady else "cut a long trajectory in time with --window 16, or "
        raise ValueError(
            f"{choice.file} holds one trajectory, which leaves no test part to score: {cut}name "
            "a file for the test with --test-data FILE."
        )
    return data


def _carry_out(experiment: Experiment, json: bool) -> list[Outcome]:
    from fino.recipe.run import carry_out, find_obstacles
    from fino.report.words import duration

    data = _own_data(experiment)
    if not json:
        steps, left = experiment.preview()
        say(bold=experiment.recipe.title or experiment.recipe.name)
        if data is not None:
            tell_data(data)
        for step, state, seconds in steps:
            words = "done before" if state == "done" else _about(seconds)
            if find_obstacles(step, state):
                words += ", anew: what is there was made otherwise and goes to set-aside/"
            say(f"  {step.title:<32} {words}")
        say(f"{_in_all(experiment, left)}, into {experiment.folder}. Ctrl-C keeps what is done.\n")
    outcomes = []
    try:
        for outcome in carry_out(experiment, partial(_watch, quiet=json)):
            outcomes.append(outcome)
            if not json and not outcome.skipped:
                say(f"  ✓ {outcome.step.title}, {duration(outcome.seconds)}")
    except KeyboardInterrupt:
        print("fino: stopped, what is done is saved. The same command goes on.", file=sys.stderr)
        sys.exit(130)
    return outcomes


def _watch(steps: Sequence[Step], quiet: bool) -> AbstractContextManager[Callable[[Any], None]]:
    """The bar of a step, or of all that are trained together."""
    from fino.training.bars import training_bar, training_bars

    if len(steps) > 1:
        return training_bars({step.name: step.place for step in steps}, quiet)
    step = steps[0]
    return training_bar(quiet) if step.kind == "train" else progress(step.title, quiet)


def _tell_results(experiment: Experiment, outcomes: list[Outcome], json: bool) -> None:
    from fino.evaluation.compare import compare
    from fino.metrics.scores import Scores
    from fino.report import tables
    from fino.report.words import describe_verdict

    runs = [experiment.folder / case.name for case in experiment.cases]
    scores = {run.name: Scores.load(run) for run in runs}
    nrmse = {name: found["nrmse"].value for name, found in scores.items()}
    if json:
        done = [o.step.key for o in outcomes if not o.skipped]
        skipped = [o.step.key for o in outcomes if o.skipped]
        answer = {"recipe": experiment.recipe.name, "pages": experiment.pages}
        say_json({**answer, "done": done, "skipped": skipped, "nrmse": nrmse})
        return
    say()
    for result in compare(runs):
        show_table(tables.comparison(result, costs=False, intervals=False))
    if any(case.varied for case in experiment.cases) or len(experiment.recipe.seeds) > 1:
        best = min(nrmse, key=lambda name: nrmse[name])
        say(f"The best of {len(runs)} runs is {best}: nRMSE {nrmse[best]:.3g}.")
    else:
        for found in scores.values():
            say(describe_verdict(found))
    lines = [f"fino inspect {runs[0]}"]
    lines += [f"fino compare {experiment.folder}/*/scores.json"] if len(runs) > 1 else []
    say(f"\nOpen {experiment.pages[0]} in a browser. Then:")
    if experiment.cases[0].data.file is None:
        lines += ["fino list recipes", "fino run --data YOUR-FILE.nc"]
    else:
        lines += [f"fino rollout {runs[0]} --movie rollout.gif"]
    for line in lines:
        say(f"  {line}")


def _in_all(experiment: Experiment, seconds: float) -> str:
    if not seconds:
        return "Everything is done already"
    jobs, trained = experiment.recipe.jobs, sum(s.kind == "train" for s in experiment.steps)
    at_once = f", training {min(jobs, trained)} models at once" if min(jobs, trained) > 1 else ""
    return f"About {_about(seconds)} in all{at_once}"


def _about(seconds: float) -> str:
    """5 s, 3 min, 2 h, 4 days."""
    for size, name in ((86400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    return f"{max(1.0, seconds):.0f} s"
