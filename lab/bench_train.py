"""What a CPU-second of training buys: FINO and FNO on two tasks, error against time spent.

Each budget is a run of its own, because the schedules stretch over the budget.  Time is that of
the process, on one thread, with validation counted in.  Both networks get the same loss,
optimiser, schedule and prediction; their own settings were chosen on validation data with the
same number of trials (docs/log.md).  What is shown is measured on the test part.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import fino
from fino.data.dataset import Dataset
from fino.durable import whole_file, write_whole
from fino.machine import keep_freed_memory
from fino.settings import did_you_mean

__all__ = ["TASKS", "Outcome", "Task", "bench_train", "draw_outcomes"]


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


def bench_train(
    folder: Path,
    tasks: Sequence[str] = (),
    models: Sequence[str] = ("fino", "fno"),
    budgets: Sequence[int] = (60, 300),
    seeds: Sequence[int] = (0,),
    progress: Callable[[str, float], None] | None = None,
) -> Iterator[Outcome]:
    """Train every model on every task with every budget; what is there already is read."""
    keep_freed_memory()
    for name in tasks or TASKS:
        if name not in TASKS:
            raise ValueError(f"Unknown task '{name}'. {did_you_mean(name, list(TASKS))}")
        task = TASKS[name]
        data = _data(task, folder, progress)
        for budget in budgets:
            for model in models:
                for seed in seeds:
                    yield _outcome(name, task, data, model, budget, seed, folder, progress)


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


def _data(task: Task, folder: Path, progress: Callable[[str, float], None] | None) -> Dataset:
    def show(share: float) -> None:
        if progress is not None:
            progress(f"data of {task.problem}", share)

    data: Dataset = fino.generate(
        task.problem,
        samples=task.samples,
        out=folder / f"{task.problem}.h5",
        stride_space=task.stride_space,
        stride_time=task.stride_time,
        progress=show,
        **task.settings,
    )
    return data


def _outcome(
    name: str,
    task: Task,
    data: Dataset,
    model: str,
    budget: int,
    seed: int,
    folder: Path,
    progress: Callable[[str, float], None] | None,
) -> Outcome:
    place = folder / f"{name}-{model}-{budget}s-seed{seed}"
    done = place / "outcome.json"
    if done.is_file():
        return Outcome(**json.loads(done.read_text()))
    run = _trained(task, data, model, budget, seed, place, progress)
    rmse, nrmse = _errors(run.model, data)
    rows = run.metrics
    outcome = Outcome(
        task=name,
        model=model,
        budget=budget,
        seed=seed,
        rmse=rmse,
        nrmse=nrmse,
        steps=rows[-1]["step"],
        cpu_seconds=rows[-1]["cpu_seconds"],
        measure=task.measure,
        bar=task.bars.get(budget),
        curve=tuple((r["cpu_seconds"], r["nrmse"]) for r in rows if r["nrmse"] is not None),
    )
    write_whole(done, json.dumps(asdict(outcome), indent=1).encode())
    return outcome


def _trained(
    task: Task,
    data: Dataset,
    model: str,
    budget: int,
    seed: int,
    place: Path,
    progress: Callable[[str, float], None] | None,
) -> Any:
    """A finished run, going on with one that was interrupted."""
    from fino.training.fit import resume

    def show(happened: Any) -> None:
        if progress is not None:
            progress(place.name, happened.share)

    if (place / "settings.json").is_file():
        return resume(place, data, progress=show)
    emulator = fino.build(model, data, seed=seed)
    return fino.fit(
        emulator,
        data,
        out=place,
        progress=show,
        **{"seed": seed, "cpu_seconds": budget, "threads": 1, **task.train},
    )


def _errors(model: Any, data: Dataset) -> tuple[float, float]:
    """RMSE and nRMSE of rollouts over the test part, in PDEBench's way of averaging."""
    from fino.metrics import nrmse, rmse

    totals = [0.0, 0.0]
    for i in range(len(data.test)):
        frames = data.test.read([i])
        truth = frames[:, model.history :]
        prediction = fino.rollout(model, frames[:, : model.history], truth.shape[1])
        for k, measure in enumerate((rmse, nrmse)):
            totals[k] += float(measure(prediction, truth).mean()) / len(data.test)
    return totals[0], totals[1]
