"""`fino generate`, `fino import` and `fino export-data`: data files, made and rewritten."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cyclopts import Parameter

from fino.cli.console import progress, say, say_json

if TYPE_CHECKING:
    from fino.data.dataset import Dataset

__all__ = [
    "FileOptions",
    "SplitOptions",
    "data_table",
    "export_data",
    "generate",
    "import_data",
    "options_of",
    "tell_data",
]

_GROUP = Parameter(name="*", group="What a data file does not say")


@_GROUP
@dataclass(frozen=True)
class FileOptions:
    """Options of every verb that opens a data file; `fino.open` takes the same as keywords."""

    array: str | None = None
    """The arrays to predict: u, or u,v."""
    inputs: str | None = None
    """The arrays that the others are the answer to, for a steady problem."""
    axes: str | None = None
    """What each axis is: "sample time x"."""
    dt: float | None = None
    """The time between two frames."""
    extent: str | None = None
    """The edges of the domain: 0:1, or 0:1,0:2."""
    boundary: str | None = None
    """What lies beyond them: periodic, dirichlet, neumann or reflect; one, or one for each axis."""
    fields: str | None = None
    """Other names for the channels."""
    known: str | None = None
    """Arrays with fields that are constant in time and known."""
    forcing: str | None = None
    """Arrays that vary in time and are known in advance."""
    mask: str | None = None
    """An array that is not zero where cells are not part of the domain."""
    symmetries: str | None = None
    """What takes solutions to solutions, of shift, flip, rotate and sign: shift,flip."""
    directions: str | None = None
    """The axis that each field points along, - for a scalar, which a flip turns: -,x,y."""
    leave_out: str | None = None
    """Numbers of samples to leave out: 4,7."""


@_GROUP
@dataclass(frozen=True)
class SplitOptions(FileOptions):
    """The same, and what is given to models or says which samples are for what."""

    parameters: str | None = None
    """Arrays with a number for each trajectory, that models are given."""
    window: int | None = None
    """Cut long trajectories into stretches of so many frames; the last frames are the test part."""
    test: float | None = None
    """How many samples are the test part (50), or what share (0.1)."""
    validation: float | None = None
    """The same for the validation part."""
    split: str | None = None
    """Which samples are the test part: the first tenth (first) or the last (last)."""
    test_data: str | None = None
    """Another file that is the test part."""


def options_of(options: FileOptions | None) -> dict[str, Any]:
    """The keywords of `fino.open` that were given on the command line."""
    given = {} if options is None else asdict(options)
    return {key: value for key, value in given.items() if value is not None}


def data_table(data: Path | None, options: FileOptions | None) -> dict[str, Any]:
    """The [data] of a recipe for a file that was given on the command line; {} if none was."""
    told = options_of(options)
    if data is None and told:
        raise ValueError(f"--{next(iter(told))} would say how to read a file: add --data FILE.")
    return {} if data is None else {"data": {"file": str(data), "reading": told}}


def tell_data(data: Dataset, parts: bool = True) -> None:
    """How a file was understood, what was guessed and how its samples are divided."""
    from fino.report.words import describe_few, describe_given

    facts = data.card.facts()
    known = [facts[name] for name in ("fields", "grid", "time") if facts.get(name)]
    if (mask := data.conditions.mask) is not None:
        known.append(f"{(~mask[0].astype(bool)).sum()} cells left out as NaN or by the mask")
    samples = "1 sample" if len(data) == 1 else f"{len(data)} samples"
    say(f"  Data: {samples} of {'; '.join(map(str, known))}")
    if given := describe_given(data):
        say(f"  Given to models beside the frames: {given}")
    for guess in data.card.guesses:
        say(f"  Guessed: {guess}")
    if parts:
        say(f"  Parts: {data.split.describe()}")
        if not len(data.test):
            say("  There is no test part to score. --window 16 cuts one long trajectory in time.")
        if few := describe_few(len(data)):
            say(f"  {few}")


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
    if data.card.cost and data.card.cost.truth_error is not None:
        error = data.card.cost.truth_error
        say(f"Solved on cells half as wide, the first sample differs by {error:.2g} (nRMSE).")
    for flaw in data.card.flaws:
        say(f"Known flaw: {flaw}")
    say(f"Done. The card is beside it: {path}.card.md")


def _split(word: str) -> tuple[str, str]:
    name, equals, choice = word.partition("=")
    if not equals:
        raise ValueError(f"--vary should be NAME=RANGE, such as beta=0.1:4, got '{word}'.")
    return name.strip(), choice


def import_data(
    path: Path,
    *,
    out: Path,
    options: SplitOptions | None = None,
    overwrite: bool = False,
    json: bool = False,
) -> None:
    """Convert data to a file of fino: `fino import mine.npz --out mine.h5 --dt 0.01`.

    What the file does not say is asked for.  Later verbs then need no options.

    Args:
        path: A file or folder of any kind that fino opens: npy, npz, mat, pt, NetCDF, zarr, HDF5,
            csv.
        out: The file to write.
        options: What the file does not say.
        overwrite: Replace a file that exists.
        json: Print what was written as JSON.
    """
    from fino.data.open import open as open_data
    from fino.data.store import save

    data = open_data(path, **options_of(options))
    if not json:
        tell_data(data)
    kept = save(data, out, overwrite)
    if json:
        say_json(
            {"path": out, "shape": kept.shape, "hash": kept.hash, "guesses": data.card.guesses}
        )
        return
    say(f"{out}: {' × '.join(map(str, kept.shape))} (sample × time × channel × space).")
    say(f"The card is beside it: {out}.card.md\nNext: fino run --data {out}")


def export_data(
    path: Path,
    *,
    to: Literal["pdebench", "fino"],
    out: Path,
    options: SplitOptions | None = None,
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
        options: What the file does not say.
        layout: Which of PDEBench's layouts; `auto` takes the one that it uses for such data.
        stride_space: Keep every n-th cell along each axis.
        stride_time: Keep every n-th frame.
        overwrite: Replace a file that exists.
        json: Print what was written as JSON.
    """
    from fino.data.open import open as open_data
    from fino.data.pdebench import export_pdebench, layout_for
    from fino.data.store import save

    data = open_data(path, **options_of(options))
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
