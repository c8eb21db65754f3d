"""`python -m lab ship`: put a trained run in the package, for everybody to use by name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

__all__ = ["ship"]


def ship(
    run: Path,
    name: str,
    *,
    limits: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    overwrite: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Ship a run: `python -m lab ship runs/laptop-shallow-water/fino shallow-water`.

    For maintainers: writes weights, card and scores into the package's own folder.

    Parameters
    ----------
    run
        A run folder with scores of its whole test part.
    name
        What it will be called, such as shallow-water.
    limits
        A sentence about where the model fails; may be repeated.
    overwrite
        Replace the model of that name.
    json
        Print the card as JSON.
    """
    from fino.cli.console import say, say_json
    from fino.training.run import PRETRAINED
    from lab.ship import ship as shipped

    folder = shipped(run, name, limits, overwrite=overwrite)
    card = PRETRAINED[name].card
    if json:
        say_json(card)
        return
    size = sum(path.stat().st_size for path in folder.iterdir())
    say(f"{name}: {PRETRAINED[name].title}")
    say(f"{folder}: {size / 1e3:.0f} kB. Try: fino evaluate --pretrained {name}")
