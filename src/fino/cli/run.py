"""`fino run`: a recipe, from nothing to a page."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

if TYPE_CHECKING:
    from fino.recipe.recipe import Recipe
    from fino.recipe.run import Experiment, Outcome
    from fino.recipe.steps import Step

__all__ = ["run"]

#: The recipe for a user's own file, when only the file is given.
_OWN = "your-data"
_BUDGETS = ("minutes", "cpu_seconds", "steps", "epochs")
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
    model: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    minutes: float | None = None,
    out: Path | None = None,
    set: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    jobs: int | None = None,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Run a recipe: `fino run quickstart`, or on your own file: `fino run --data my.h5`.

    Generates the data, trains every model, scores them next to the baselines and writes one page.
    What is done already is skipped; after an interruption the same command goes on.

    Parameters
    ----------
    recipe
        A recipe that `fino list recipes` names, or a TOML file.
    data
        Your own data file instead of the recipe's.
    model
        Train this model; may be repeated, the first is reported in full.
    minutes
        The budget of each model in wall-clock minutes instead of the recipe's.
    out
        The folder for everything; runs/RECIPE if not given.
    set
        Any setting: `--set data.samples=50`, `--set model.fino.width=8`, `--set seeds=[0,1]`.
    jobs
        Train so many models at a time, each in a process of its own.
    dry_run
        Say what would be done and about how long it would take, and do nothing.
    json
        Print the result as JSON.
    """
    from fino.recipe.run import plan

    words = [*set, f"jobs={jobs}"] if jobs is not None else [*set]
    chosen = _recipe(recipe, data, model, minutes, words)
    folder = out
    if folder is None and data is not None and recipe is None:
        folder = Path("runs") / data.stem
    experiment = plan(chosen, folder, command=shlex.join(["fino", *sys.argv[1:]]))
    if dry_run:
        _tell_plan(experiment, json)
        return
    _carry_out(experiment, json)


def _recipe(
    name: str | None,
    data: Path | None,
    models: tuple[str, ...],
    minutes: float | None,
    changes: list[str],
) -> Recipe:
    from fino.recipe.recipe import changed_tables, made, other_base, read_tables

    if name is None and data is None:
        raise ValueError("Which recipe? Try `fino run quickstart`, or `fino run --data FILE`.")
    stem, content = read_tables(name or _OWN, other_base(changes))
    if data is not None:
        content["data"] = {"file": str(data)}
    if models:
        content["models"] = list(models)
    if minutes is not None:
        kept = {k: v for k, v in content.get("train", {}).items() if k not in _BUDGETS}
        content["train"] = {**kept, "minutes": minutes}
    return made(stem, changed_tables(content, changes))


def _carry_out(experiment: Experiment, json: bool) -> None:
    from fino.cli.console import say
    from fino.recipe.run import carry_out, in_the_way

    if not json:
        say(f"[bold]{experiment.recipe.title or experiment.recipe.name}[/bold]")
        for step, state, seconds in _planned(experiment):
            words = "done before" if state == "done" else _about(seconds)
            if in_the_way(step, state):
                words += ", anew: what is there was made otherwise and goes to set-aside/"
            say(f"  {step.title:<32} {words}")
        left = _left(experiment)
        long = f"About {_about(left)} in all" if left else "Everything is done already"
        say(f"{long}, into {experiment.folder}. Ctrl-C keeps what is done.\n")
    outcomes = []
    try:
        for outcome in carry_out(experiment, _watch(quiet=json)):
            outcomes.append(outcome)
            if not json and not outcome.skipped:
                say(f"  [green]✓[/green] {outcome.step.title}, {outcome.seconds:.1f} s")
    except KeyboardInterrupt:
        print("fino: stopped, what is done is saved. The same command goes on.", file=sys.stderr)
        sys.exit(130)
    _tell(experiment, outcomes, json)


def _watch(quiet: bool) -> Callable[[Sequence[Step]], Any]:
    from fino.cli.console import progress
    from fino.cli.training_bar import training_bar, training_bars

    @contextmanager
    def look(steps: Sequence[Step]) -> Iterator[Callable[[Any], None]]:
        if len(steps) > 1:
            bar = training_bars({step.name: step.more["run"] for step in steps}, quiet)
        else:
            step = steps[0]
            bar = training_bar(quiet) if step.kind == "train" else progress(step.title, quiet)
        with bar as show:
            yield show

    return look


def _planned(experiment: Experiment) -> list[tuple[Step, str, float]]:
    ledger = experiment.ledger
    return [(s, ledger.state(s), ledger.seconds(s) or s.seconds) for s in experiment.steps]


def _left(experiment: Experiment) -> float:
    """Seconds until all is done, when so many are trained at a time."""
    todo = [(step, seconds) for step, state, seconds in _planned(experiment) if state != "done"]
    trains = [seconds for step, seconds in todo if step.kind == "train"]
    together = max([sum(trains) / experiment.recipe.jobs, *trains], default=0.0)
    return together + sum(seconds for step, seconds in todo if step.kind != "train")


def _tell_plan(experiment: Experiment, json: bool) -> None:
    from fino.cli.console import say, say_json, table

    planned, left = _planned(experiment), _left(experiment)
    if json:
        steps = [
            {"step": s.key, "state": state, "skip": state == "done", "seconds": round(seconds, 1)}
            for s, state, seconds in planned
        ]
        say_json(
            {
                "recipe": experiment.recipe.name,
                "out": experiment.folder,
                "steps": steps,
                "seconds": round(left, 1),
            }
        )
        return
    rows = [
        [s.title, _PLANNED[state], "–" if state == "done" else _about(seconds)]
        for s, state, seconds in planned
    ]
    table(experiment.recipe.title or experiment.recipe.name, ["step", "what", "about"], rows)
    long = f"About {_about(left)} in all" if left else "Everything is done already"
    say(f"{long}, into {experiment.folder}. Nothing was done now.")


def _tell(experiment: Experiment, outcomes: list[Outcome], json: bool) -> None:
    from fino.cli.console import say, say_json, table
    from fino.evaluation.compare import compare
    from fino.metrics.scores import Scores
    from fino.report import tables
    from fino.report.score_words import describe_verdict

    runs = [experiment.folder / case.name for case in experiment.cases]
    if json:
        say_json(
            {
                "recipe": experiment.recipe.name,
                "pages": experiment.pages,
                "done": [o.step.key for o in outcomes if not o.skipped],
                "skipped": [o.step.key for o in outcomes if o.skipped],
                "nrmse": {run.name: Scores.load(run)["nrmse"].value for run in runs},
            }
        )
        return
    say()
    for result in compare(runs):
        one = tables.comparison(result, costs=False, intervals=False)
        rows = [[f"[bold]{c.text}[/bold]" if c.best else c.text for c in row] for row in one.rows]
        table(one.title, one.columns, rows)
    if any(case.varied for case in experiment.cases) or len(experiment.recipe.seeds) > 1:
        nrmse = {run.name: Scores.load(run)["nrmse"].value for run in runs}
        best = min(nrmse, key=lambda name: nrmse[name])
        say(f"The best of {len(runs)} runs is {best}: nRMSE {nrmse[best]:.3g}.")
    else:
        for run in runs:
            say(describe_verdict(Scores.load(run)))
    say(f"\nOpen [bold]{experiment.pages[0]}[/bold] in a browser. Then:")
    for line in _next(experiment, runs):
        say(f"  {line}")


def _next(experiment: Experiment, runs: list[Path]) -> list[str]:
    lines = [f"fino inspect {runs[0]}"]
    if len(runs) > 1:
        lines.append(f"fino compare {experiment.folder}/*/scores.json")
    return [*lines, "fino list recipes", "fino run --data YOUR-FILE.h5"]


def _about(seconds: float) -> str:
    """5 s, 3 min, 2 h, 4 days."""
    for size, name in ((86400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    return f"{max(1.0, seconds):.0f} s"
