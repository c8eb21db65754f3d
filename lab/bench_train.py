"""`python -m lab bench train`: error against CPU-seconds, FINO and FNO on two tasks.

Each budget is a run of its own, because the schedules stretch over the budget.  Time is that of
the process, on one thread, with validation counted in.  Both networks get the same loss,
optimiser, schedule and prediction; their own settings were chosen on validation data with the
same number of trials (docs/log.md).  What is shown is measured on the test part.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import fino
from fino.cli.console import progress, say, say_json, table
from fino.data.dataset import Dataset
from fino.durable import whole_file, write_whole
from fino.machine import keep_freed_memory
from fino.metrics import nrmse, rmse
from fino.settings import did_you_mean
from fino.training.fit import fit, resume
from fino.training.loop import Happened
from fino.training.run import Run

__all__ = ["TASKS", "Outcome", "Task", "draw_outcomes", "measure_training", "train"]

Progress = Callable[[float], None]


@dataclass(frozen=True)
class Task:
    """Data, what is measured on them, and the bars: budget in CPU-seconds → error."""

    problem: str
    samples: int
    stride_space: int
    stride_time: int
    measure: str
    bars: dict[int, float]
    settings: dict[str, Any] = field(default_factory=dict)
    train: dict[str, Any] = field(default_factory=dict)


#: The bars are the paper's error and half of it; a fifth and an eighth of the paper's.
TASKS: dict[str, Task] = {
    "advection": Task(
        problem="advection",
        samples=1000,
        stride_space=8,
        stride_time=5,
        measure="rmse",
        bars={300: 0.00296, 1200: 0.0015},
        settings={"beta": 4.0},
    ),
    "diffusion-reaction-2d": Task(
        problem="diffusion-reaction-2d",
        samples=500,
        stride_space=2,
        stride_time=1,
        measure="nrmse",
        bars={300: 0.0073, 1200: 0.0045},
        # Ten rollouts of sixteen fields would eat most of a short budget, and more of FNO's.
        train={"validations": 5, "validation_samples": 4},
    ),
}


@dataclass(frozen=True)
class Outcome:
    """One run: errors are of rollouts over the whole test part, averaged as PDEBench does."""

    task: str
    model: str
    budget: int
    seed: int
    rmse: float
    nrmse: float
    steps: int
    cpu_seconds: float
    measure: str
    bar: float | None
    curve: tuple[tuple[float, float], ...]

    @property
    def error(self) -> float:
        return self.rmse if self.measure == "rmse" else self.nrmse


def train(
    *tasks: str,
    models: tuple[str, ...] = ("fino", "fno"),
    budgets: tuple[int, ...] = (60, 300),
    seeds: tuple[int, ...] = (0,),
    out: Path = Path("runs/bench-train"),
    json: bool = False,
) -> None:
    """Train FINO and FNO with equal budgets of processor time and compare their rollouts.

    What was trained before is read from the folder, so an interrupted bench goes on.

    Parameters
    ----------
    tasks
        `advection`, `diffusion-reaction-2d`; both if none is named.
    models
        Names from `fino list`.
    budgets
        CPU-seconds; each is a run of its own, because the schedules stretch over it.
    seeds
        One run for each.
    out
        Where data, runs, table and curve are kept.
    json
        Print for a machine.
    """
    if not json:
        runs = len(tasks or TASKS) * len(models) * len(budgets) * len(seeds)
        minutes = runs / len(budgets) * sum(budgets) / 60
        say(f"{runs} runs of {minutes:.0f} CPU-minutes in all, on one thread, in {out} …")
    with progress("bench train", quiet=json) as show:
        rows = list(measure_training(out, tasks, models, budgets, seeds, show))
    draw_outcomes(rows, out / "curve.png")
    if json:
        say_json([asdict(row) for row in rows])
        return
    for task in dict.fromkeys(row.task for row in rows):
        table(
            task,
            ("model", "CPU-s", "seed", "steps", "RMSE", "nRMSE", "bar", "met"),
            [
                (
                    row.model,
                    f"{row.cpu_seconds:.0f}",
                    row.seed,
                    row.steps,
                    f"{row.rmse:.5f}",
                    f"{row.nrmse:.5f}",
                    "" if row.bar is None else f"{row.measure} {row.bar:g}",
                    "" if row.bar is None else ("yes" if row.error <= row.bar else "no"),
                )
                for row in rows
                if row.task == task
            ],
        )
    say(f"The curve is in {out / 'curve.png'}.")


def measure_training(
    folder: Path,
    tasks: Sequence[str] = (),
    models: Sequence[str] = ("fino", "fno"),
    budgets: Sequence[int] = (60, 300),
    seeds: Sequence[int] = (0,),
    show: Progress | None = None,
) -> Iterator[Outcome]:
    """Train every model on every task with every budget; finished runs are read."""
    keep_freed_memory()
    for name in tasks or TASKS:
        if name not in TASKS:
            raise ValueError(f"Unknown task '{name}'. {did_you_mean(name, list(TASKS))}")
        task = TASKS[name]
        data = fino.generate(
            task.problem,
            samples=task.samples,
            out=folder / f"{task.problem}.h5",
            stride_space=task.stride_space,
            stride_time=task.stride_time,
            progress=show,
            **task.settings,
        )
        for budget, model, seed in product(budgets, models, seeds):
            place = folder / f"{name}-{model}-{budget}s-seed{seed}"
            done = place / "outcome.json"
            if done.is_file():
                yield Outcome(**json.loads(done.read_text()))
            else:
                run = _train(task, data, model, budget, seed, place, show)
                outcome = _score(run, name, model, budget, seed)
                write_whole(done, json.dumps(asdict(outcome), indent=1).encode())
                yield outcome


def draw_outcomes(outcomes: Sequence[Outcome], path: Path) -> None:
    """Error against CPU-seconds: one panel a task, one line a model, the bars dashed."""
    from matplotlib.figure import Figure

    tasks = list(dict.fromkeys(o.task for o in outcomes))
    figure = Figure(figsize=(5.5 * len(tasks), 4), layout="constrained")
    panels = figure.subplots(1, len(tasks), squeeze=False)[0]
    for axes, task in zip(panels, tasks, strict=True):
        rows = [o for o in outcomes if o.task == task]
        for colour, model in enumerate(dict.fromkeys(o.model for o in rows)):
            own = sorted((o for o in rows if o.model == model), key=lambda o: o.cpu_seconds)
            axes.plot(
                [o.cpu_seconds for o in own],
                [o.error for o in own],
                "o-",
                color=f"C{colour}",
                label=f"{model} (test)",
            )
        for budget, bar in TASKS[task].bars.items():
            axes.hlines(bar, 0.5 * budget, budget, colors="k", linestyles="--", lw=1)
            axes.annotate(f"bar {bar:g}", (budget, bar), fontsize=8)
        axes.set(xscale="log", yscale="log", xlabel="CPU-seconds", ylabel=rows[0].measure)
        axes.set_title(task)
        axes.grid(alpha=0.3, which="both")
        axes.legend()
    with whole_file(path) as temporary:
        figure.savefig(temporary, dpi=120, format="png")


def _train(
    task: Task,
    data: Dataset,
    model: str,
    budget: int,
    seed: int,
    place: Path,
    show: Progress | None,
) -> Run:
    """Train a run, or go on with one that was interrupted."""

    def follow(happened: Happened) -> None:
        if show is not None:
            show(happened.share)

    if (place / "settings.json").is_file():
        return resume(place, data, progress=follow)
    settings = {"seed": seed, "cpu_seconds": budget, "threads": 1, **task.train}
    return fit(fino.build(model, data, seed=seed), data, out=place, progress=follow, **settings)


def _score(run: Run, name: str, model: str, budget: int, seed: int) -> Outcome:
    """RMSE and nRMSE of rollouts over the test part, in PDEBench's way of averaging."""
    test, task, rows = run.data.test, TASKS[name], run.metrics
    errors = {"rmse": 0.0, "nrmse": 0.0}
    for sample in range(len(test)):
        given, truth = test.begin([sample], run.model.history)
        prediction = run.predict(given, truth.shape[1])
        for metric, measure in (("rmse", rmse), ("nrmse", nrmse)):
            errors[metric] += float(measure(prediction, truth).mean()) / len(test)
    return Outcome(
        task=name,
        model=model,
        budget=budget,
        seed=seed,
        **errors,
        steps=rows[-1]["step"],
        cpu_seconds=rows[-1]["cpu_seconds"],
        measure=task.measure,
        bar=task.bars.get(budget),
        curve=tuple((r["cpu_seconds"], r["nrmse"]) for r in rows if r["nrmse"] is not None),
    )
