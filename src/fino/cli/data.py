"""`fino generate` and `fino export-data`: data files, made and rewritten."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Literal

from fino.cli.console import progress, say, say_json

__all__ = ["export_data", "generate"]


def generate(
    name: str,
    *,
    samples: int,
    seed: int = 0,
    out: Path | None = None,
    stride_space: int = 1,
    stride_time: int = 1,
    refine: int | None = None,
    initial: str = "ours",
    set: tuple[str, ...] = (),
    vary: tuple[str, ...] = (),
    overwrite: bool = False,
    json: bool = False,
) -> None:
    """Make data: `fino generate shallow-water --samples 200 --out data/swe.h5`.

    A run that was interrupted goes on where it stopped when it is called again.

    Args:
        name: One of the problems that `fino list` names.
        samples: How many trajectories to make.
        seed: Another seed gives other trajectories.
        out: The file to write; NAME.h5 if not given.
        stride_space: Keep every n-th cell along each axis.
        stride_time: Keep every n-th frame.
        refine: Solve on cells so many times finer along each axis and keep the means over the
            problem's own cells; as many times as the problem recommends if not given.
        initial: `ours`, or `pdebench` for the initial conditions of the released files.
        set: A setting of the problem, such as `--set beta=2`; may be repeated.
        vary: A parameter that is drawn for every trajectory, such as `--vary beta=0.1:4`,
            `--vary nu=log:1e-3:1` or `--vary rho=1,2,5`; may be repeated.
        overwrite: Replace a file that exists, or an unfinished one with other settings.
        json: Print what was made as JSON.
    """
    from fino.data.generate import plan
    from fino.recipe.recipe import change_tables

    wanted = plan(
        name,
        samples,
        seed,
        stride_space=stride_space,
        stride_time=stride_time,
        refine=refine,
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


def export_data(
    path: Path,
    *,
    to: Literal["pdebench", "fino"],
    out: Path,
    layout: Literal["auto", "tensor", "fields", "groups"] = "auto",
    stride_space: int = 1,
    stride_time: int = 1,
    overwrite: bool = False,
    json: bool = False,
) -> None:
    """Write data for other loaders: `fino export-data swe.h5 --to pdebench --out swe.hdf5`.

    Args:
        path: A file or folder of any format that fino opens.
        to: `pdebench` for PDEBench's loaders; `fino` for our own format, which The Well's loader
            reads too.
        out: The file to write.
        layout: Which of PDEBench's layouts; `auto` takes the one that it uses for such data.
        stride_space: Keep every n-th cell along each axis.
        stride_time: Keep every n-th frame.
        overwrite: Replace a file that exists.
        json: Print what was written as JSON.
    """
    from fino.data.open import open as open_data
    from fino.data.pdebench import export_pdebench, layout_for
    from fino.data.store import save

    data = open_data(path)
    if stride_space != 1 or stride_time != 1:
        data = data.strided(stride_space, stride_time)
    if to == "pdebench":
        export_pdebench(data, out, layout, overwrite)
        kind = f"PDEBench, layout {layout_for(data) if layout == 'auto' else layout}"
    else:
        save(data, out, overwrite)
        kind = "fino (The Well's layout)"
    if json:
        say_json({"path": out, "format": kind, "shape": data.shape})
    else:
        say(f"{out}: {' × '.join(map(str, data.shape))}, {kind}.")
