"""`python -m lab bench train`: error against CPU-seconds, as a table and a curve."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from fino.cli.console import progress, say, say_json, table

__all__ = ["train"]


def train(
    *tasks: str,
    models: tuple[str, ...] = ("fino", "fno"),
    budgets: tuple[int, ...] = (60, 300),
    seeds: tuple[int, ...] = (0,),
    out: Path = Path("runs/bench-train"),
    json: Annotated[bool, Parameter(negative="")] = False,
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
    from dataclasses import asdict

    from lab.bench_train import TASKS, bench_train, draw_outcomes

    if not json:
        runs = len(tasks or TASKS) * len(models) * len(budgets) * len(seeds)
        minutes = runs / len(budgets) * sum(budgets) / 60
        say(f"{runs} runs of {minutes:.0f} CPU-minutes in all, on one thread, in {out} …")
    rows = []
    with progress("bench train", quiet=json) as show:

        def moved(what: str, share: float) -> None:
            show(share)

        for outcome in bench_train(out, tasks, models, budgets, seeds, moved):
            rows.append(outcome)
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
