"""`fino generate`: solve a problem many times and keep the solutions in a file."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

__all__ = ["generate"]


def generate(
    name: str,
    *,
    samples: int,
    seed: int = 0,
    out: Path | None = None,
    stride_space: int = 1,
    stride_time: int = 1,
    initial: str = "ours",
    set: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    vary: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    overwrite: bool = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Make data: `fino generate shallow-water --samples 200 --out data/swe.h5`.

    A run that was interrupted goes on where it stopped when it is called again.

    Parameters
    ----------
    name
        One of the problems that `fino list` names.
    samples
        How many trajectories to make.
    seed
        Another seed gives other trajectories.
    out
        The file to write; NAME.h5 if not given.
    stride_space
        Keep every n-th cell along each axis.
    stride_time
        Keep every n-th frame.
    initial
        `ours`, or `pdebench` for the initial conditions of the released files.
    set
        A setting of the problem, such as `--set beta=2`; may be repeated.
    vary
        A parameter that is drawn for every trajectory, such as `--vary beta=0.1:4`,
        `--vary nu=log:1e-3:1` or `--vary rho=1,2,5`; may be repeated.
    overwrite
        Replace a file that exists, or an unfinished one with other settings.
    json
        Print what was made as JSON.
    """
    from fino.cli.console import progress, say, say_json
    from fino.data.generate import plan
    from fino.recipe.recipe import change_tables

    wanted = plan(
        name,
        samples,
        seed,
        stride_space=stride_space,
        stride_time=stride_time,
        initial=initial,
        vary=dict(_split(word) for word in vary),
        **change_tables({}, set, example="beta=2"),
    )
    path = out or Path(f"{name}.h5")
    shape = " × ".join(map(str, wanted.card.shape))
    if not json:
        size = 4 * prod(wanted.card.shape) / 1e6
        say(f"Making {name} in {path}: {shape} (sample × time × channel × space), {size:.1f} MB.")
    with progress(name, quiet=json) as show:
        data = wanted.make(path, overwrite, show)
    cost = data.card.cost.seconds if data.card.cost else None
    if json:
        say_json({"path": path, "shape": data.shape, "hash": data.hash, "seconds": cost})
        return
    for flaw in data.card.flaws:
        say(f"Known flaw: {flaw}")
    say(f"Done. The card is beside it: {path}.card.md")


def _split(word: str) -> tuple[str, str]:
    name, equals, choice = word.partition("=")
    if not equals:
        raise ValueError(f"--vary should be NAME=RANGE, such as beta=0.1:4, got '{word}'.")
    return name.strip(), choice
