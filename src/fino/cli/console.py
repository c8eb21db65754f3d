"""How the command line speaks: lines, tables and a bar that shows the time left."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

__all__ = ["progress", "say", "say_json", "table"]


def say(text: str = "") -> None:
    """One line to the reader; [bold] and friends work."""
    from rich.console import Console

    Console(highlight=False, soft_wrap=True).print(text)


def say_json(content: Any) -> None:
    """The same for a machine."""
    print(json.dumps(content, indent=2, default=str))


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """A table; the first column is text, the others are numbers and stand to the right."""
    from rich.console import Console
    from rich.table import Table

    grid = Table(title=title, title_justify="left", title_style="bold")
    for i, column in enumerate(columns):
        grid.add_column(column, justify="right" if i else "left")
    for row in rows:
        grid.add_row(*(str(cell) for cell in row))
    Console().print(grid)


@contextmanager
def progress(what: str, quiet: bool = False) -> Iterator[Callable[[float], None]]:
    """A bar with the time left; the body gets a function to call with the share done, 0 to 1.

    It writes to standard error, so that standard output stays clean for `--json`.
    """
    if quiet:
        yield lambda share: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.progress import TimeRemainingColumn as TimeLeft

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
        TextColumn("·"),
        TimeLeft(),
        TextColumn("left"),
        console=Console(stderr=True),
    ) as bar:
        task = bar.add_task(what, total=1.0)
        try:
            yield lambda share: bar.update(task, completed=share)
        except (ValueError, OSError):
            # What was asked is wrong: one line says so, and an empty bar above it says nothing.
            bar.live.transient = bar.tasks[0].completed == 0
            raise
