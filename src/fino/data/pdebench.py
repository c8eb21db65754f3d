"""PDEBench's three HDF5 layouts, read as they come and written for its loaders.

    tensor    `tensor` (sample, time, *space); with `nu` (sample, *space) for Darcy flow
    fields    `density`, `pressure`, `Vx`, … (sample, time, *space) each
    groups    "0000", "0001", …: `data` (time, *space, channel), `grid/x`, `grid/t`

Beside these, an array (sample,) is a parameter of each trajectory and one on the grid, (*space) or
(sample, *space), a known field; in a numbered group, a number and an array (*space).

The files do not say what lies beyond their edges; it follows from the problem, and for
compressible flow from the file's name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from fino.data.card import Card
from fino.data.conditions import gather_conditions
from fino.data.dataset import Dataset
from fino.data.frames import (
    FieldFrames,
    GuardedFrames,
    Rows,
    View,
    as_text,
    as_texts,
    find_axis,
    find_clock,
    find_number,
    open_array,
    read_line,
)
from fino.data.split import split_by_rule
from fino.durable import whole_file
from fino.grid import boundary_per_axis
from fino.pde import PROBLEMS
from fino.settings import did_you_mean

__all__ = ["export_pdebench", "is_pdebench", "layout_for", "read_pdebench"]

#: The loader's channel order.
_FIELDS = ("density", "pressure", "Vx", "Vy", "Vz")

#: What users of the released files should know (pdebench/PDEBench and our own measurements).
_FLAWS = {
    "advection": (
        "Files made before September 2023 move at twice the stated speed.",
        "The solver's own diffusion is larger than the error of good models.",
    ),
    "diffusion-reaction-1d": (
        "Solved in single precision with tiny steps: with rho = 1 the solution stops moving "
        "early, so that the last frame repeated is a near-perfect prediction.",
    ),
    "compressible-1d": ("Viscosity is multiplied by density.",),
    "darcy-pdebench": (
        "The output is a relaxation at t = 1.75 from an unknown start, not the steady state.",
    ),
    "shallow-water": (
        "1000 samples are 81 distinct trajectories; test samples recur in training.",
    ),
}

_NUMBERED = re.compile(r"^\d{4,}$")

_LAYOUTS = ("tensor", "fields", "groups")


def is_pdebench(file: h5py.File) -> bool:
    """Whether an open HDF5 file has one of the three layouts."""
    return "tensor" in file or "density" in file or any(_NUMBERED.match(key) for key in file)


def read_pdebench(
    path: Path, boundary: str | Sequence[str] | None = None, name: str | None = None
) -> Dataset:
    """Open a PDEBench file; `boundary` and `name` override what it is taken for."""
    file = h5py.File(path, "r")
    read = _tensor if "tensor" in file else _fields if "density" in file else _groups
    frames, lines, times, fields = read(file, path)
    samples, count, _, *points = frames.shape
    axes = [find_axis(line, n) for line, n in zip(lines, points, strict=True)]
    if not all(even for _, _, even in axes):
        raise ValueError("its coordinates should be evenly spaced.")
    parameters = _parameters(path, file)
    theta, known = _beside(file, frames.shape, fields)
    constant, conditions, told = gather_conditions(frames.shape, {**parameters, **theta}, known, {})
    kind = name or _name(file, fields, len(points), parameters)
    steady = bool(frames.inputs)
    start, dt = find_clock(None if steady else times, count)
    card = Card(
        name=kind,
        title=f"PDEBench: {path.name}",
        fields=fields,
        inputs=("nu",) if steady else (),
        points=tuple(points),
        extent=tuple(extent for extent, _, _ in axes),
        offset=tuple(offset for _, offset, _ in axes),
        boundary=boundary_per_axis(boundary or _boundary(path, file, kind), len(points)),
        start=start,
        dt=dt,
        frames=count,
        samples=samples,
        steady=steady,
        parameters=constant,
        **told,
        solver="PDEBench's",
        initial="pdebench",
        flaws=_FLAWS.get(kind, ()),
        split=split_by_rule(samples, "last" if read is _groups else "first"),
    )
    card = _known(card)
    if "symmetries" in file.attrs:
        card = card.changed(
            symmetries=as_texts(file.attrs["symmetries"]),
            directions=tuple(word or None for word in as_texts(file.attrs.get("directions", ()))),
        )
    return Dataset(card, GuardedFrames(frames, path), path=path, conditions=conditions)


Layout = tuple[FieldFrames, list[np.ndarray | None], np.ndarray | None, tuple[str, ...]]


def _is_darcy(file: h5py.File) -> bool:
    """Whether there is a coefficient on the grid; a viscosity for each sample is a parameter."""
    return "nu" in file and file["nu"].ndim > 1


def _tensor(file: h5py.File, path: Path) -> Layout:
    u = open_array(file["tensor"], path)
    dims = _dims((u,), "'tensor'")
    if not _is_darcy(file):
        frames = FieldFrames((View(u, "stxyz"[: 2 + dims]),))
        return frames, _axes(file, dims), read_line(file, "t-coordinate"), ("u",)
    nu = open_array(file["nu"], path)
    if u.shape[1] != 1 or nu.shape != (u.shape[0], *u.shape[2:]):
        raise ValueError(f"'tensor' {u.shape} and 'nu' {nu.shape} do not belong together.")
    space = "xyz"[:dims]
    frames = FieldFrames((View(u, ("s", 0, *space)),), (View(nu, f"s{space}"),))
    return frames, _axes(file, dims), None, ("u",)


def _fields(file: h5py.File, path: Path) -> Layout:
    names = tuple(name for name in _FIELDS if name in file)
    arrays = tuple(open_array(file[name], path) for name in names)
    dims = _dims(arrays, ", ".join(names))
    frames = FieldFrames(tuple(View(array, "stxyz"[: 2 + dims]) for array in arrays))
    return frames, _axes(file, dims), read_line(file, "t-coordinate"), names


def _groups(file: h5py.File, path: Path) -> Layout:
    names = sorted(key for key in file if _NUMBERED.match(key))
    arrays = tuple(open_array(file[name]["data"], path) for name in names)
    dims = _dims(arrays, "the numbered groups")
    channels = arrays[0].shape[-1]
    if channels > 64:
        raise ValueError(f"{channels} channels are more than 64: is space last by mistake?")
    fields = tuple("uvw"[:channels]) if channels <= 3 else tuple(f"u{i}" for i in range(channels))
    fields = ("h",) if (dims, channels) == (2, 1) else fields
    grid, space = file[names[0]]["grid"], "xyz"[:dims]
    frames = FieldFrames((View(Rows(arrays), f"st{space}c"),))
    return frames, [read_line(grid, axis) for axis in space], read_line(grid, "t"), fields


def _beside(
    file: h5py.File, shape: Sequence[int], fields: Sequence[str]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Parameters (sample,) and known fields that stand beside the trajectories, by name."""
    samples, points = shape[0], tuple(shape[3:])
    groups = [file[key] for key in sorted(file) if _NUMBERED.match(key)]
    taken = {"tensor", "data", "grid", *_FIELDS, *fields, *(["nu"] if _is_darcy(file) else [])}
    found: dict[str, np.ndarray] = {}
    for name, one in (groups[0] if groups else file).items():
        if name in taken or not isinstance(one, h5py.Dataset) or one.dtype.kind not in "fiub":
            continue
        if groups and one.shape in ((), points):
            found[name] = np.stack([np.asarray(group[name], np.float64) for group in groups])
        elif not groups and one.shape in ((samples,), points, (samples, *points)):
            found[name] = np.asarray(one, np.float64)
    lines = {name for name in found if name.endswith("-coordinate")}
    theta = {n: v for n, v in found.items() if v.shape == (samples,) and n not in lines}
    return theta, {n: v for n, v in found.items() if n not in theta and n not in lines}


def _dims(arrays: tuple[Any, ...], words: str) -> int:
    """The axes of space in arrays that have two others; they are all alike."""
    shapes = {array.shape for array in arrays}
    if len(shapes) != 1 or not 3 <= len(arrays[0].shape) <= 5:
        raise ValueError(
            f"{words} should have one shape with 1 to 3 axes of space, got {sorted(shapes)[:3]}."
        )
    return len(arrays[0].shape) - 2


def _axes(file: h5py.File, dims: int) -> list[np.ndarray | None]:
    return [read_line(file, f"{axis}-coordinate") for axis in "xyz"[:dims]]


def _parameters(path: Path, file: h5py.File) -> dict[str, Any]:
    """Equation parameters from the attributes, else from the file's name."""
    found: dict[str, Any] = {}
    for name in ("beta", "nu", "rho", "eta", "zeta"):
        value = find_number(file.attrs, name)
        match = re.search(rf"{name}(\d+\.?\d*(?:e-?\d+)?)", path.name, re.IGNORECASE)
        if value is not None or match:
            found[name] = float(match[1]) if match and value is None else value
    if "Shock" in path.name:
        found["start"] = "shock"
    if "trans" in path.name:
        found["boundary"] = "outgoing"
    return found


def _name(file: h5py.File, fields: tuple[str, ...], dims: int, parameters: dict[str, Any]) -> str:
    """What the file is about, in our words; files that we wrote say so themselves."""
    if "name" in file.attrs:
        return as_text(file.attrs["name"])
    if "density" in fields:
        return f"compressible-{dims}d"
    if "tensor" not in file:
        known = {(2, 1): "shallow-water", (2, 2): "diffusion-reaction-2d"}
        return known.get((dims, len(fields)), f"pdebench-{dims}d")
    if _is_darcy(file):
        return "darcy-pdebench"
    if "rho" in parameters and dims == 1:
        return "diffusion-reaction-1d"
    if "beta" in parameters and dims == 1:
        return "advection"
    return "burgers" if "nu" in parameters else f"pdebench-{dims}d"


def _boundary(path: Path, file: h5py.File, name: str) -> str | tuple[str, ...]:
    if "boundary" in file.attrs:  # only files that we wrote say so
        return as_texts(file.attrs["boundary"])
    if name.startswith("darcy"):
        return "dirichlet"
    outgoing = name.startswith("compressible") and "trans" in path.name
    bounded = name in ("shallow-water", "diffusion-reaction-2d")
    return "neumann" if outgoing or bounded else "periodic"


def _known(card: Card) -> Card:
    """Add what our own problem of that name knows: words, symmetries, the fastest wave."""
    kind = PROBLEMS.get(card.name)
    if kind is None:
        return card
    own = {key: value for key, value in card.parameters.items() if key in kind.model_fields}
    try:
        problem = kind(**own)
    except (ValueError, TypeError):
        return card
    same = len(problem.fields) == len(card.fields)
    return card.changed(
        equation=problem.equation,
        fields=problem.fields if same else card.fields,
        units=problem.units if same else (),
        symmetries=problem.symmetries if same else (),
        directions=problem.directions if same else (),
        speed=problem.speed,
        parameters=own,
    )


def export_pdebench(
    data: Dataset, path: str | Path, layout: str = "auto", overwrite: bool = False
) -> Path:
    """Write a data set for PDEBench's loaders.

    path         the HDF5 file to write
    layout       "tensor", one field on a line, or Darcy flow with its coefficient `nu`; "fields",
                 an array for each field; "groups", a group for each trajectory, channels last;
                 "auto" takes the one that PDEBench uses for such data
    overwrite    replace a file that exists
    """
    target = Path(path)
    if target.exists() and not overwrite:
        raise ValueError(f"{target} exists already. Choose another name, or allow overwriting.")
    chosen = layout_for(data) if layout == "auto" else layout
    if chosen not in _LAYOUTS:
        raise ValueError(f"Unknown layout '{layout}'. {did_you_mean(layout, ['auto', *_LAYOUTS])}")
    if chosen == "tensor" and data.channels != 1:
        raise ValueError(f"the layout 'tensor' holds one field, {data.card.name} has more.")
    if chosen != "tensor" and data.steady:
        raise ValueError(f"{data.card.name} is steady: PDEBench keeps such data as 'tensor'.")
    target.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(target) as temporary, h5py.File(temporary, "w") as file:
        if chosen == "groups":
            _write_groups(data, file)
        else:
            _write_arrays(data, file, data.fields if chosen == "fields" else ("tensor",))
        file.attrs["name"] = data.card.name
        file.attrs["boundary"] = list(data.grid.boundary)
        for name in ("symmetries", "directions"):
            words = ["" if word is None else str(word) for word in getattr(data.card, name)]
            file.attrs.create(name, words, dtype=h5py.string_dtype())
        _write_beside(data, file, chosen == "groups")
        for key, value in data.card.parameters.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                file.attrs["Nu" if key == "nu" else key] = float(value)
    return target


def layout_for(data: Dataset) -> str:
    """The layout that PDEBench itself uses for such data."""
    if "density" in data.fields:
        return "fields"
    single = data.channels == 1 and (data.steady or data.grid.dims == 1)
    return "tensor" if single else "groups"


def _write_arrays(data: Dataset, file: h5py.File, names: tuple[str, ...]) -> None:
    """An array (sample, time, *space) for each channel; of steady data the output, beside `nu`.

    PDEBench lists one time more than there are frames.
    """
    samples, frames, _, *points = data.shape
    frames = 1 if data.steady else frames
    arrays = [file.create_dataset(name, (samples, frames, *points), "f4") for name in names]
    if data.steady:
        file.create_dataset("nu", (samples, *points), "f4")
    for i in range(samples):
        trajectory = data.read([i])[0].numpy()
        for channel, array in enumerate(arrays):
            array[i] = trajectory[-frames:, channel]
        if data.steady:
            file["nu"][i] = trajectory[0, 0]
    for axis, line in zip("xyz", data.grid.coordinates(), strict=False):
        file[f"{axis}-coordinate"] = line.astype(np.float32)
    if not data.steady:
        times = data.card.start + data.dt * np.arange(frames + 1)
        file["t-coordinate"] = times.astype(np.float32)


def _write_beside(data: Dataset, file: h5py.File, in_groups: bool) -> None:
    """Parameters and known fields of every trajectory, where `_beside` finds them."""
    if data.card.forcing or data.card.signals or data.card.walls:
        raise ValueError(
            f"{data.card.name} has forcing or a mask, for which PDEBench has no place."
        )
    kept = data.kept_conditions()
    tables: list[tuple[str, np.ndarray]] = []
    if kept.parameters is not None:
        tables += zip(data.card.varying, kept.parameters.T, strict=True)
    if kept.known is not None:
        tables += zip(data.card.known, np.moveaxis(kept.known, 1, 0), strict=True)
    for name, values in tables:
        rows = np.broadcast_to(values, (len(data), *values.shape[1:]))
        if not in_groups:
            file[name] = rows
        for i, row in enumerate(rows if in_groups else ()):
            file[_group_name(i, len(data))][name] = row


def _group_name(sample: int, samples: int) -> str:
    return f"{sample:0{max(4, len(str(samples - 1)))}d}"


def _write_groups(data: Dataset, file: h5py.File) -> None:
    for i in range(len(data)):
        group = file.create_group(_group_name(i, len(data)))
        channels_last = np.moveaxis(data.read([i])[0].numpy(), 1, -1)
        group.create_dataset("data", data=channels_last, compression="lzf")
        for axis, line in zip("xyz", data.grid.coordinates(), strict=False):
            group[f"grid/{axis}"] = line.astype(np.float32)
        group["grid/t"] = data.card.times.astype(np.float32)
        group.attrs["config"] = json.dumps(data.card.parameters)
