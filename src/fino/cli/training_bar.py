"""The bar of a training run: loss, validation error, learning rate, speed, time left."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fino.training.loop import Happened

__all__ = ["status", "training_bar", "training_bars"]


@contextmanager
def training_bar(quiet: bool = False) -> Iterator[Callable[[Happened], None]]:
    """The body gets a function to call with everything that happens."""
    if quiet:
        yield lambda happened: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    began = time.monotonic()
    first: Happened | None = None
    nrmse: float | None = None
    columns = (BarColumn(bar_width=24), TextColumn("{task.percentage:>3.0f} % {task.description}"))
    with Progress(*columns, console=Console(stderr=True), refresh_per_second=4) as bar:
        task = bar.add_task("", total=1.0)

        def show(happened: Happened) -> None:
            nonlocal first, nrmse
            first = first or happened
            if happened.validation is not None:
                nrmse = happened.validation.nrmse
            seconds = time.monotonic() - began
            words = status(first, happened, nrmse, seconds)
            bar.update(task, completed=happened.share, description=words)

        yield show


@contextmanager
def training_bars(runs: dict[str, Path], quiet: bool = False) -> Iterator[Callable[[Any], None]]:
    """One bar for each run that other processes are training, read from what they write down."""
    if quiet:
        yield lambda happened: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (BarColumn(bar_width=24), TextColumn("{task.percentage:>3.0f} % {task.description}"))
    over = threading.Event()
    with Progress(*columns, console=Console(stderr=True), refresh_per_second=2) as bar:
        tasks = {name: bar.add_task(f"{name}: beginning", total=1.0) for name in runs}

        def follow() -> None:
            while not over.wait(0.5):
                for name, folder in runs.items():
                    share, words = _latest(folder)
                    if words:
                        bar.update(tasks[name], completed=share, description=f"{name}: {words}")

        reader = threading.Thread(target=follow, daemon=True)
        reader.start()
        try:
            yield lambda happened: None
        finally:
            over.set()
            reader.join()


def _latest(run: Path) -> tuple[float, str]:
    """What the last lines of a run's metrics say."""
    from fino.training.journal import read_metrics

    rows = read_metrics(run / "metrics.jsonl")
    if not rows:
        return 0.0, ""
    judged = [row["nrmse"] for row in rows if row["nrmse"] is not None]
    nrmse = f"{judged[-1]:.3g}" if judged else "–"
    last = rows[-1]
    return last["share"], f"loss {last['loss']:.3g} · val {nrmse} · step {last['step']}"


def status(first: Happened, now: Happened, nrmse: float | None, seconds: float) -> str:
    """One line: loss 0.31 · val 0.0042 · lr 2.1e-03 · 23 steps/s · 0:03:10 left."""
    done = max(1e-9, now.share - first.share)
    left = (
        timedelta(seconds=round(seconds * (1 - now.share) / done)) if now.step > first.step else "?"
    )
    judged = "–" if nrmse is None else f"{nrmse:.3g}"
    speed = (now.step - first.step + 1) / max(seconds, 1e-9)
    return (
        f"loss {now.loss:.3g} · val {judged} · lr {now.learning_rate:.1e} · "
        f"horizon {now.horizon} · {speed:.3g} steps/s · {left} left"
    )
