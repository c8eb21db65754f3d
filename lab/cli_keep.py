"""`python -m lab keep`: put the scores of finished runs into lab/results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

__all__ = ["keep"]


def keep(
    *folders: Path,
    task: str | None = None,
    case: str | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Keep scores: `python -m lab keep runs/laptop-*`.

    For maintainers: writes lab/results/TASK/CASE.json for every run that has
    scores.  `python -m lab compare` and `python -m lab results` read them.

    Parameters
    ----------
    folders
        Folders that `fino run` filled, or single runs.
    task
        The task, if it is not the recipe's name without `laptop-`, or with the data's name
        after `ablation-…`.
    case
        The case of a single run, if it is not the folder's name.
    json
        Print the written files as JSON.
    """
    from fino.cli.console import say, say_json
    from lab.saved import keep as kept

    if not folders:
        raise ValueError("keep should be given folders, such as runs/laptop-*.")
    written = [path for folder in folders for path in kept(folder, task, case)]
    if json:
        say_json([str(path) for path in written])
        return
    for path in written:
        say(f"{path.parent.name}/{path.name}: {path.stat().st_size / 1e3:.0f} kB")
    say("Next: python -m lab results")
