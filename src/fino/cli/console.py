"""How the command line speaks: lines, tables, and bars that show the time left.

Bars go to standard error, so that standard output stays clean for `--json`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fino.report.tables import Table

__all__ = [
    "printable",
    "progress",
    "say",
    "say_json",
    "show_table",
    "table",
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
    """A table; the first column is text, the others are numbers and stand to the right.

    One that is too wide for the terminal loses its rules, so that its numbers stay whole.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(title=Text(printable(title)), title_justify="left", title_style="bold")
    for i, column in enumerate(columns):
        justify: Any = "right" if i else "left"
        grid.add_column(Text(printable(column)), justify=justify, overflow="fold")
    for row in rows:
        grid.add_row(*(cell if isinstance(cell, Text) else printable(str(cell)) for cell in row))
    console = Console(markup=False)
    if console.measure(grid, options=console.options.update(width=1000)).maximum > console.width:
        grid.box, grid.pad_edge, grid.padding = box.SIMPLE_HEAD, False, (0, 1, 0, 0)
    console.print(grid)


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

    from fino.training.bars import make_bars

    percent, dot, left = (TextColumn(t) for t in ("{task.percentage:>3.0f} %", "·", "left"))
    told = TextColumn("{task.description}", markup=False)
    with make_bars(
        quiet, told, BarColumn(), percent, TimeElapsedColumn(), dot, TimeLeft(), left
    ) as bar:
        task = bar.add_task(what, total=1.0)
        try:
            yield lambda share: bar.update(task, completed=share)
        except (ValueError, OSError):
            # What was asked is wrong: one line says so, and an empty bar above it says nothing.
            bar.live.transient = bar.tasks[0].completed == 0
            raise
