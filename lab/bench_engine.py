"""`python -m lab bench engine`: rollouts by compiled C against torch, one thread, interleaved.

Each round rolls a model out once with either engine, so that both see the same machine.  What is
timed is the processor's time of this process, which others on the machine change little; the
ratio of a round is what counts, and the median over the rounds is shown.

ratio             torch's time over C's, of one `fino.rollout`
share of peak     2 · multiply–adds / time, against a large float32 matrix product in the same round
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch

import fino
from fino.cli.console import say, say_json, table
from fino.export.check import random_start
from fino.export.engine import compile_step
from fino.export.program import describe
from fino.machine import keep_freed_memory, threads
from fino.model.emulator import Emulator, EmulatorSettings
from fino.model.fino import Fino

__all__ = ["CASES", "COLUMNS", "Race", "engine", "race"]

#: The columns of the table.
COLUMNS = (
    *("model", "torch\nms", "C ms", "ratio", "wanted"),
    *("torch\nof peak", "C\nof peak", "differ\nby"),
)

#: Case → a shipped model, or (points, width) of a FINO of the default depth; and the ratio wanted.
CASES: dict[str, tuple[Any, float | None]] = {
    "advection: 1D, width 16": ("advection", 3.5),
    "compressible-1d: 1D, width 48": ("compressible-1d", 3.5),
    "diffusion-reaction-2d: width 16": ("diffusion-reaction-2d", 1.7),
    "128², width 16, two levels": (((128, 128), 16), 1.7),
    "shallow-water: 2D, width 32": ("shallow-water", 1.2),
    "32³, width 16, two levels": (((32, 32, 32), 16), None),
}
_PEAK_SIZE = 1024
_STEPS = 30


@dataclass(frozen=True)
class Race:
    """One model: medians over the rounds, times of a step in milliseconds."""

    case: str
    torch: float
    c: float
    ratio: float
    wanted: float | None
    torch_share: float
    c_share: float
    difference: float


def engine(*, rounds: int = 30, steps: int = _STEPS, json: bool = False) -> None:
    """Time `fino.rollout` with both engines, one trajectory on one thread.

    Parameters
    ----------
    rounds
        How often each model is rolled out by each engine, in turn.
    steps
        Steps of a rollout.
    json
        Print for a machine.
    """
    keep_freed_memory()
    load = os.getloadavg()[0]
    with threads(1):
        rows = list(race(CASES, rounds, steps))
    if json:
        say_json({"load": load, "rounds": rounds, "cases": [asdict(row) for row in rows]})
        return
    say(f"one trajectory, one thread, float32, torch {torch.__version__}, {rounds} rounds")
    busy = "others are at work too" if load > 1.2 else "idle"
    say(f"load of the machine at the start: {load:.1f} on {os.cpu_count()} cores ({busy})")
    table("a step of fino.rollout", COLUMNS, [_cells(row) for row in rows])


def _cells(row: Race) -> Sequence[str]:
    return (
        row.case,
        f"{row.torch:.3f}",
        f"{row.c:.3f}",
        f"{row.ratio:.2f}",
        "" if row.wanted is None else f"{row.wanted:.1f}",
        f"{row.torch_share:.0%}",
        f"{row.c_share:.0%}",
        f"{row.difference:.0e}",
    )


def race(cases: dict[str, tuple[Any, float | None]], rounds: int, steps: int) -> Iterator[Race]:
    """Every case by itself: torch, C and the matrix product in turn."""
    a, b = torch.randn(2, _PEAK_SIZE, _PEAK_SIZE)
    for case, (what, wanted) in cases.items():
        model = fino.pretrained(what) if isinstance(what, str) else _untrained(*what)
        compile_step(model)
        program = describe(model)
        start = random_start(program, 1, model.grid.points)
        jobs: dict[str, Callable[[], Any]] = {
            "torch": partial(fino.rollout, model, start, steps, engine="torch"),
            "c": partial(fino.rollout, model, start, steps, engine="c"),
            "peak": partial(torch.mm, a, b),
        }
        times = _time_rounds(jobs, rounds)
        work = program.multiply_adds * start.history[0, 0, 0].numel() * steps
        peak = [_PEAK_SIZE**3 / seconds for seconds in times["peak"]]
        share = {
            name: statistics.median(
                work / seconds / most for seconds, most in zip(times[name], peak, strict=True)
            )
            for name in ("torch", "c")
        }
        difference = (jobs["torch"]() - jobs["c"]()).abs().max() / jobs["torch"]().abs().max()
        yield Race(
            case,
            torch=1e3 * statistics.median(times["torch"]) / steps,
            c=1e3 * statistics.median(times["c"]) / steps,
            ratio=statistics.median(t / c for t, c in zip(times["torch"], times["c"], strict=True)),
            wanted=wanted,
            torch_share=share["torch"],
            c_share=share["c"],
            difference=float(difference),
        )


def _time_rounds(jobs: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each job in every round, after one round to warm up."""
    taken: dict[str, list[float]] = {name: [] for name in jobs}
    for round_ in range(rounds + 1):
        for name, job in jobs.items():
            begin = time.process_time()
            job()
            if round_:
                taken[name].append(time.process_time() - begin)
    return taken


def _untrained(points: tuple[int, ...], width: int) -> Emulator:
    """A FINO of the default depth for one field, as `build` would make it."""
    grid = fino.Grid(points, ((0.0, 1.0),) * len(points), ("periodic",) * len(points))
    shown = EmulatorSettings(model="fino", fields=("u",), predict="increment")
    torch.manual_seed(0)
    network = Fino(len(points), shown.inputs(grid), 1, width=width, activation="gelu")
    model = Emulator(network, shown, grid).eval()
    model.output_std.fill_(0.01)
    return model
