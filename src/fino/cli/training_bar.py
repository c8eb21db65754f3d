"""The bar of a training run: loss, validation error, learning rate, speed, time left."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fino.training.loop import Happened

__all__ = ["status", "training_bar"]


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
