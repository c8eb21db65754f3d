"""Files of The Well as trajectories.

    t0_fields/pressure  (sample, time, *space)          one channel
    t1_fields/velocity  (sample, time, *space, d)       velocity_x, velocity_y
    t2_fields/stress    (sample, time, *space, d, d)    stress_xx, stress_xy, …

    t0_fields/depth     (*space), (sample, *space)      a known field
    scalars/Re          (), (sample,); (time,)          a parameter; a number known in advance

What does not change in time, or is the same for every sample, is not predicted: models are given
it.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
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
    View,
    as_text,
    as_texts,
    find_axis,
    find_clock,
    find_number,
    open_array,
)

__all__ = ["is_well", "read_well"]

_BOUNDARY = {"PERIODIC": "periodic", "WALL": "reflect", "OPEN": "neumann"}


def is_well(file: h5py.File) -> bool:
    """Whether an open HDF5 file follows The Well's layout."""
    return "t0_fields" in file and "dimensions" in file


def read_well(path: Path) -> Dataset:
    """Open a file of The Well."""
    file = h5py.File(path, "r")
    axes = as_texts(file["dimensions"].attrs["spatial_dims"])
    if not 1 <= len(axes) <= 3:
        raise ValueError(f"it should have one to three axes of space, got {len(axes)}.")
    clock, *lines = (_line(file, axis) for axis in ("time", *axes))
    edges, points = [find_axis(line, len(line)) for line in lines], tuple(map(len, lines))
    fields, others = _fields(file, axes, path)
    shapes = {view.shape for view in fields.values()}
    if len(shapes) != 1 or next(iter(shapes))[1:] != (len(clock), 1, *points):
        raise ValueError(f"its fields {sorted(shapes)} do not fit its grid and times.")
    steady = len(clock) == 1
    inputs = {n: others.pop(n) for n in list(others) if steady and others[n].shape[3:] == points}
    if steady and len(inputs) != len(fields):
        raise ValueError("it has a single frame and no input field to go with it.")
    frames = FieldFrames(tuple(fields.values()), tuple(inputs.values()))
    beside = _scalars(file, fields)
    for label, view in others.items():
        beside["forcing" if "t" in view.axes else "known"][label] = _spread(view, points)
    constant, conditions, told = gather_conditions(frames.shape, **beside)
    start, dt = find_clock(clock, len(clock))
    name = as_text(file.attrs.get("dataset_name", path.stem))
    uneven = [axis for axis, (_, _, even) in zip(axes, edges, strict=True) if not even]
    card = Card(
        name=name,
        title=f"The Well: {name}",
        fields=tuple(fields),
        inputs=tuple(inputs),
        points=points,
        extent=tuple(extent for extent, _, _ in edges),
        offset=tuple(offset for _, offset, _ in edges),
        boundary=_boundary(file, axes),
        start=start,
        dt=dt,
        frames=2 if steady else len(clock),
        samples=frames.shape[0],
        steady=steady,
        parameters=constant,
        **told,
        flaws=tuple(f"Axis {a} is not evenly spaced, but taken as if it were." for a in uneven),
    )
    return Dataset(card, GuardedFrames(frames, path), path=path, conditions=conditions)


def _fields(
    file: h5py.File, axes: tuple[str, ...], path: Path
) -> tuple[dict[str, View], dict[str, View]]:
    """Every channel that is to be predicted, and the fields that are known, by name.

    To be predicted is what differs from sample to sample and from time to time.
    """
    found: tuple[dict[str, View], dict[str, View]] = ({}, {})
    for order in range(3):
        group = file.get(f"t{order}_fields")
        names = [] if group is None else group.attrs.get("field_names", list(group))
        for name in as_texts(names):
            numbers, flags = open_array(group[name], path), group[name].attrs
            there = np.broadcast_to(flags.get("dim_varying", True), len(axes))
            letters = [axis for axis, varies in zip("xyz", there, strict=False) if varies]
            moves = [k for k in ("sample", "time") if bool(flags.get(f"{k}_varying", True))]
            letters = [*(word[0] for word in moves), *letters]
            for component in product(range(len(axes)), repeat=order):
                label = f"{name}_{''.join(axes[i] for i in component)}" if order else name
                found[len(moves) < 2][label] = View(numbers, (*letters, *component))
    return found


def _spread(view: View, points: tuple[int, ...]) -> np.ndarray:
    """A known field or a forcing on every point, also along the axes that it does not have."""
    every = (slice(None),) * len(points)
    rows = np.stack([view.read(i, slice(None), every)[:, 0] for i in range(view.size("s"))])
    missing = [2 + i for i in range(len(points)) if "xyz"[i] not in view.axes]
    whole = np.broadcast_to(np.expand_dims(rows, missing), (*rows.shape[:2], *points))
    whole = whole if "t" in view.axes else whole[:, 0]
    return whole if "s" in view.axes else whole[0]


def _scalars(file: h5py.File, fields: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Parameters of the file and of its samples, and numbers that vary in time."""
    names = as_texts(file.attrs.get("simulation_parameters", []))
    numbers = {name: find_number(file.attrs, name) for name in names}
    found: dict[str, dict[str, Any]] = {"parameters": {}, "known": {}, "forcing": {}}
    found["parameters"] = {name: v for name, v in numbers.items() if v is not None}
    group = file.get("scalars", {})
    for name in as_texts(group.attrs.get("field_names", list(group))) if group else ():
        values = np.asarray(group[name], dtype=np.float64)
        moves = bool(group[name].attrs.get("time_varying", False))
        label = f"{name}_parameter" if name in fields else name
        found["forcing" if moves else "parameters"][label] = (
            values if values.ndim else float(values)
        )
    return found


def _line(file: h5py.File, axis: str) -> np.ndarray:
    """The coordinates of an axis, those of the first sample where they differ."""
    dataset = file["dimensions"][axis]
    if dataset.ndim > 2 or dataset.size > 2**24:
        raise ValueError(f"'{axis}' should be a list of numbers, got shape {dataset.shape}.")
    values = np.asarray(dataset, dtype=np.float64)
    line = np.asarray(values[0] if values.ndim == 2 else values)
    if line.size == 0 or not np.isfinite(line).all():
        raise ValueError(f"'{axis}' should hold finite numbers.")
    return line


def _boundary(file: h5py.File, axes: tuple[str, ...]) -> tuple[str, ...]:
    """What each axis ends in; open unless the file says otherwise."""
    found = dict.fromkeys(axes, "neumann")
    group = file.get("boundary_conditions")
    for name in group if group is not None else ():
        attributes = group[name].attrs
        kind = _BOUNDARY.get(as_text(attributes.get("bc_type", "OPEN")).upper(), "neumann")
        for axis in as_texts(attributes.get("associated_dims", [])):
            if axis in found:
                found[axis] = kind
    return tuple(found[axis] for axis in axes)
