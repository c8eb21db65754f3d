"""`python -m lab pages`: the pages to play with, from the shipped weights.

A page is made for every shipped model that runs beside a classical solver of its own.
"""

from __future__ import annotations

from pathlib import Path

from fino.cli.console import say
from fino.export.page import SOLVERS
from fino.export.write import export
from fino.training.run import PRETRAINED

__all__ = ["PAGES", "pages"]

#: Where the pages lie that README and docs link to.
PAGES = Path(__file__).parents[1] / "docs" / "pages"


def pages(*, out: Path = PAGES) -> None:
    """Write the page of every shipped model that has a classical solver to play beside.

    Parameters
    ----------
    out
        The folder for the pages; those that are there are replaced.
    """
    for name, run in PRETRAINED.items():
        if run.data_card.name in SOLVERS:
            path = out / f"{name}.html"
            export(run, "page", path, overwrite=True)
            say(f"{path}: {path.stat().st_size / 1e3:.0f} kB")
