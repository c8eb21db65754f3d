"""`python -m lab front`: what a trajectory costs with every kept model, measured on one machine.

The scores that are kept come from several machines, so their times do not compare.  What a network
costs depends on its settings alone, not on its weights: each is built again from the settings that
its scores carry, and all of a task are timed in turn, on one thread, sixteen trajectories at once.
What is cheaper and better than a model takes it off the front of error against cost.
"""

from __future__ import annotations

import json as text
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from fino.cli.console import progress, say, say_json, table
from fino.durable import write_json
from fino.machine import describe_machine, keep_freed_memory, threads
from fino.metrics.scores import Scores
from fino.model import MODELS
from lab import keep
from lab.bench_speed import time_in_turn
from lab.keep import SHIPPED, group_seeds, load_kept, load_shipped
from lab.standing import Standing

__all__ = ["KEPT", "front", "front_words", "load_seconds", "on_front", "time_task", "undominated"]

#: Task → case → seconds a trajectory.
KEPT = "seconds.json"
_BATCH = 16

Seconds = Mapping[str, Mapping[str, float]]


def front(*, repeats: int = 15, json: bool = False) -> None:
    """Time every kept model on this machine: `python -m lab front` (half an idle minute).

    Parameters
    ----------
    repeats
        Rounds in which every network of a task runs once; medians are kept.
    json
        Print what is kept as JSON.
    """
    tasks = {**load_kept(), **load_kept("short-")}
    for task, scores in load_shipped().items():
        tasks.setdefault(task, {})[SHIPPED] = scores
    keep_freed_memory()
    found: dict[str, dict[str, float]] = {}
    with threads(1), progress("timing", quiet=json) as show:
        for number, (task, cases) in enumerate(tasks.items(), start=1):
            one = {row: cases[names[0]] for row, names in group_seeds(cases).items()}
            found[task] = time_task(one, repeats)
            show(number / len(tasks))
    machine = f"{describe_machine()}, {torch.backends.cpu.get_cpu_capability()}"
    kept = {"machine": machine, "load": os.getloadavg()[0], "batch": _BATCH, "seconds": found}
    write_json(keep.RESULTS / KEPT, kept)
    if json:
        say_json(kept)
        return
    for task, seconds in found.items():
        rows = [(name, f"{1e3 * value:.3g}") for name, value in seconds.items()]
        table(task, ("model", "ms a trajectory"), rows)
    say("Next: python -m lab results --readme README.md")


def time_task(cases: Mapping[str, Scores], repeats: int) -> dict[str, float]:
    """Seconds a trajectory of each case's network, all in turn."""
    jobs = {name: _step(scores) for name, scores in cases.items()}
    taken = time_in_turn(jobs, repeats)
    return {
        name: float(f"{taken[name] * scores.data['steps'] / _BATCH:.4g}")
        for name, scores in cases.items()
    }


def _step(scores: Scores) -> Callable[[], object]:
    """A step of a batch by a network like the one that was scored."""
    settings: dict[str, Any] = dict(scores.model["network"])
    torch.manual_seed(0)
    net = MODELS[scores.model["name"]](**settings).eval()
    x = torch.randn(_BATCH, settings["inputs"], *scores.data["points"])
    theta = settings.get("parameters") or 0
    given = (x, torch.randn(_BATCH, theta)) if theta else (x,)

    def run() -> object:
        with torch.no_grad():
            return net(*given)

    return run


def load_seconds() -> dict[str, dict[str, float]]:
    """Task → row → seconds a trajectory; empty where nothing was timed."""
    path = keep.RESULTS / KEPT
    return dict(text.loads(path.read_text())["seconds"]) if path.exists() else {}


def undominated(points: Sequence[tuple[float, float]]) -> list[int]:
    """The places of (cost, error) that no other one beats in both, the cheapest first."""
    best = [i for i in range(len(points)) if not _dominators(points, i)]
    return sorted(best, key=lambda i: points[i][0])


def _dominators(points: Sequence[tuple[float, float]], place: int) -> list[int]:
    """The places that are no dearer and no worse than one."""
    own = points[place]
    others = (i for i in range(len(points)) if i != place)
    return [i for i in others if points[i][0] <= own[0] and points[i][1] <= own[1]]


def on_front(rows: Mapping[str, Standing], seconds: Mapping[str, float]) -> list[str]:
    """The rows that no other one beats in both error and seconds, the cheapest first."""
    names, points = _timed(rows, seconds)
    return [names[i] for i in undominated(points)]


def _timed(
    rows: Mapping[str, Standing], seconds: Mapping[str, float]
) -> tuple[list[str], list[tuple[float, float]]]:
    """The rows that were timed, and the seconds and error of each."""
    names = [name for name in rows if name in seconds]
    return names, [(seconds[name], rows[name].nrmse) for name in names]


def front_words(rows: Mapping[str, Mapping[str, Standing]], seconds: Seconds) -> list[str]:
    """On how many tasks no model is both cheaper and better than FINO, and which are elsewhere."""
    better = {
        task: _better_than_fino(cases, seconds[task])
        for task, cases in rows.items()
        if "fino" in cases and "fino" in seconds.get(task, {}) and len(cases) > 1
    }
    if not better:
        return []
    beaten = [f"{task} ({', '.join(words)})" for task, words in better.items() if words]
    elsewhere = f"; on the others: {'; '.join(beaten)}" if beaten else ""
    return [
        f"By error and seconds of inference, no model is both cheaper and better than FINO on "
        f"{len(better) - len(beaten)} of {len(better)} tasks{elsewhere}."
    ]


def _better_than_fino(rows: Mapping[str, Standing], seconds: Mapping[str, float]) -> list[str]:
    """The rows that are no dearer and no worse than FINO, in words."""
    names, points = _timed(rows, seconds)
    fino = names.index("fino")
    return [
        f"{names[i]} {points[i][1]:.3g} at {points[i][0] / points[fino][0]:.2g} of the time"
        for i in _dominators(points, fino)
    ]
