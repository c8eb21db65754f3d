"""How the command line speaks: lines, tables, and bars that show the time left.

Bars go to standard error, so that standard output stays clean for `--json`.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Progress

    from fino.report.tables import Table
    from fino.training.loop import Happened

__all__ = [
    "printable",
    "progress",
    "say",
    "say_json",
    "show_table",
    "table",
    "training_bar",
    "training_bars",
]


def say(text: str = "", *, bold: str = "") -> None:
    """One line to the reader, after some words in bold; texts are printed as they are."""
    from rich.console import Console
    from rich.text import Text

    line = Text(printable(bold), style="bold") + Text(printable(text))
    Console(highlight=False, soft_wrap=True).print(line)


def printable(text: str) -> str:
    """A text whose control characters, which a terminal would act on, are spelt out."""
    return re.sub(r"[^\n\t\x20-\x7e\xa0-\U0010ffff]", lambda found: ascii(found[0])[1:-1], text)


def say_json(content: Any) -> None:
    """The same for a machine."""
    print(json.dumps(content, indent=2, default=str))


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """A table; the first column is text, the others are numbers and stand to the right."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(title=Text(printable(title)), title_justify="left", title_style="bold")
    for i, column in enumerate(columns):
        grid.add_column(Text(printable(column)), justify="right" if i else "left")
    for row in rows:
        grid.add_row(*(cell if isinstance(cell, Text) else printable(str(cell)) for cell in row))
    Console(markup=False).print(grid)


def show_table(one: Table) -> None:
    """A table of results with its notes; the best is in bold."""
    from rich.text import Text

    style = {True: "bold", False: ""}
    rows = [[Text(printable(c.text), style[c.best]) for c in row] for row in one.rows]
    table(one.title, one.columns, rows)
    for note in one.notes:
        say(f"  {note}")


@contextmanager
def progress(what: str, quiet: bool = False) -> Iterator[Callable[[float], None]]:
    """A bar with the time left; the body gets a function to call with the share done, 0 to 1."""
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import TimeRemainingColumn as TimeLeft

    percent, dot, left = (TextColumn(t) for t in ("{task.percentage:>3.0f} %", "·", "left"))
    told = TextColumn("{task.description}", markup=False)
    with _bars(
        quiet, told, BarColumn(), percent, TimeElapsedColumn(), dot, TimeLeft(), left
    ) as bar:
        task = bar.add_task(what, total=1.0)
        try:
            yield lambda share: bar.update(task, completed=share)
        except (ValueError, OSError):
            # What was asked is wrong: one line says so, and an empty bar above it says nothing.
            bar.live.transient = bar.tasks[0].completed == 0
            raise


@contextmanager
def training_bar(quiet: bool = False) -> Iterator[Callable[[Happened], None]]:
    """A bar with the time left, validation error, loss and speed; piped, a line a validation.

    The body gets a function to call with everything that happens.
    """
    began = time.monotonic()
    first: Happened | None = None
    nrmse: float | None = None
    with _training_bars(quiet) as bar:
        task = bar.add_task("", total=1.0)

        def show(happened: Happened) -> None:
            nonlocal first, nrmse
            first = first or happened
            if happened.validation is not None:
                nrmse = happened.validation.nrmse
            words = _status(first, happened, nrmse, time.monotonic() - began)
            bar.update(task, completed=happened.share, description=words)
            if happened.validation is not None and not (quiet or bar.console.is_terminal):
                # A file cannot show a bar that moves.
                bar.console.print(f"{100 * happened.share:3.0f} % {words}", soft_wrap=True)

        yield show


@contextmanager
def training_bars(runs: dict[str, Path], quiet: bool = False) -> Iterator[Callable[[Any], None]]:
    """One bar for each run that other processes are training, read from what they write down."""
    over = threading.Event()
    with _training_bars(quiet) as bar:
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


def _training_bars(quiet: bool) -> Progress:
    from rich.progress import BarColumn, TextColumn

    words = TextColumn("{task.percentage:>3.0f} % {task.description}", markup=False)
    return _bars(quiet, BarColumn(bar_width=10), words)


def _bars(quiet: bool, *columns: Any) -> Progress:
    from rich.console import Console
    from rich.progress import Progress

    return Progress(*columns, console=Console(stderr=True), refresh_per_second=4, disable=quiet)


def _latest(run: Path) -> tuple[float, str]:
    """What the last lines of a run's metrics say."""
    from fino.training.journal import read_metrics

    rows = read_metrics(run / "metrics.jsonl")
    if not rows:
        return 0.0, ""
    errors = [row["nrmse"] for row in rows if row["nrmse"] is not None]
    nrmse = f"{errors[-1]:.3g}" if errors else "–"
    last = rows[-1]
    return last["share"], f"loss {last['loss']:.3g} · val {nrmse} · step {last['step']}"


def _status(first: Happened, now: Happened, nrmse: float | None, seconds: float) -> str:
    """0:03:10 left · val 0.0042 · loss 0.31 · 23 steps/s · horizon 4: 80 columns with the bar."""
    rest = seconds * (1 - now.share) / max(1e-9, now.share - first.share)
    left = timedelta(seconds=round(rest)) if now.step > first.step else "?"
    error = "–" if nrmse is None else f"{nrmse:.3g}"
    speed = (now.step - first.step + 1) / max(seconds, 1e-9)
    return (
        f"{left} left · val {error} · loss {now.loss:.3g} · {speed:.3g} steps/s · "
        f"horizon {now.horizon}"
    )
