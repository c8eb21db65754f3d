"""`python -m lab results`: the page of results from the scores that are kept in the package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

__all__ = ["results"]


def results(
    *,
    out: Path = Path("docs/results.md"),
    climate: Path | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Build the page: `python -m lab results`.

    Tables, sentences and figures from the kept scores and the shipped models, about a minute.

    Parameters
    ----------
    out
        The page; its figures go into a folder beside it.
    climate
        The folder with the weather maps, for a picture of that task too.
    json
        Print the written files as JSON.
    """
    from fino.cli.console import progress, say, say_json
    from lab.write_results import write_results

    with progress("solving test samples", quiet=json) as show:
        written = write_results(out, climate, show)
    if json:
        say_json([str(path) for path in written])
        return
    for path in written:
        say(f"{path}: {path.stat().st_size / 1e3:.0f} kB")
