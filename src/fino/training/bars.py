"""What is shown while a training happens: a bar, a line in a notebook, or lines in a file.

Everything goes to standard error, so that standard output stays clean.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.progress import Progress

    from fino.training.loop import Happened

__all__ = ["make_bars", "training_bar", "training_bars"]

#: How often what is shown is drawn anew, in times a second.
_REFRESH = 4


@contextmanager
def training_bar(quiet: bool = False) -> Iterator[Callable[[Happened], None]]:
    """A bar with the time left, validation error, loss and speed.

    In a notebook it is one line that changes in place; piped, a new line at each validation.  The
    body gets a function to call with everything that happens.
    """
    began = time.monotonic()
    first: Happened | None = None
    nrmse: float | None = None
    with _draw(quiet) as draw:

        def show(happened: Happened) -> None:
            nonlocal first, nrmse
            first = first or happened
            if happened.validation is not None:
                nrmse = happened.validation.nrmse
            words = _status(first, happened, nrmse, time.monotonic() - began)
            draw(happened.share, words, happened.validation is not None)

        yield show


#: Draws (share done, words, whether a validation has just ended).
Draw = Callable[[float, str, bool], None]


@contextmanager
def _draw(quiet: bool) -> Iterator[Draw]:
    """The way that the place allows: a notebook, a terminal, a file."""
    if not quiet and _in_notebook():
        yield _notebook_line()
        return
    with _training_bars(quiet) as bar:
        task = bar.add_task("", total=1.0)

        def draw(share: float, words: str, validated: bool) -> None:
            bar.update(task, completed=share, description=words)
            if validated and not (quiet or bar.console.is_terminal):
                # A file cannot show a bar that moves.
                bar.console.print(f"{100 * share:3.0f} % {words}", soft_wrap=True)

        yield draw


def _in_notebook() -> bool:
    """Whether a Jupyter kernel runs this process; IPython in a terminal is a terminal."""
    shell = sys.modules.get("IPython")
    return shell is not None and hasattr(shell.get_ipython(), "kernel")


def _notebook_line() -> Draw:
    """A bar of text that is replaced in place; rich's own needs widgets that may be missing."""
    from IPython.display import HTML, display

    drawn = 0.0
    place = display(HTML(""), display_id=True)

    def draw(share: float, words: str, validated: bool) -> None:
        nonlocal drawn
        now = time.monotonic()
        if share >= 1 or now - drawn >= 1 / _REFRESH:
            drawn = now
            bar = f"<progress max=1 value={share:.3f}></progress>"
            place.update(HTML(f"{bar} <code>{100 * share:3.0f} % {words}</code>"))

    return draw


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
    return make_bars(quiet, BarColumn(bar_width=10), words)


def make_bars(quiet: bool, *columns: Any) -> Progress:
    """Bars of these columns on standard error; none if they should be quiet."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    return Progress(*columns, console=console, refresh_per_second=_REFRESH, disable=quiet)


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
