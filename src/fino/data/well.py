"""Files of The Well, one or a folder of them, as trajectories.

    t0_fields/pressure  (sample, time, *space)          one channel
    t1_fields/velocity  (sample, time, *space, d)       velocity_x, velocity_y
    t2_fields/stress    (sample, time, *space, d, d)    stress_xx, stress_xy, …

A folder with train, valid and test inside is cut in those parts.  Fields that do not change in
time are not channels here; the card says which were left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, product
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from fino.data.card import Card
from fino.data.dataset import Dataset
from fino.data.frames import (
    FieldFrames,
    Frames,
    GuardedFrames,
    PairFrames,
    Picked,
    as_text,
    as_texts,
    find_number,
    open_array,
    read_line,
)
from fino.data.split import Split, split_by_rule

__all__ = ["find_well_files", "is_well", "read_well"]

_BOUNDARY = {"PERIODIC": "periodic", "WALL": "reflect", "OPEN": "neumann"}
_PARTS = {"train": "train", "valid": "validation", "test": "test"}


@dataclass(frozen=True, eq=False)
class _Files:
    """The samples of several files, one after another."""

    files: tuple[Frames, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return (sum(f.shape[0] for f in self.files), *self.files[0].shape[1:])

    def read(self, samples: Sequence[int], times: slice, space: tuple[slice, ...]) -> np.ndarray:
        ends = list(accumulate(f.shape[0] for f in self.files))
        parts = []
        for i in samples:
            file = int(np.searchsorted(ends, i, side="right"))
            first = ends[file - 1] if file else 0
            parts.append(self.files[file].read([i - first], times, space))
        return np.concatenate(parts)


def is_well(file: h5py.File) -> bool:
    """Whether an open HDF5 file follows The Well's layout."""
    return "t0_fields" in file and "dimensions" in file


def find_well_files(folder: Path) -> list[Path]:
    """The HDF5 files of a folder, of its train, valid and test, and the same inside its data."""
    return [
        file
        for place in (folder, folder / "data")
        for inside in (place, *(place / name for name in _PARTS))
        for file in sorted([*inside.glob("*.h5"), *inside.glob("*.hdf5")])
    ]


def read_well(files: Sequence[Path]) -> Dataset:
    """Open files of one data set; the parts that their folders name become the split."""
    opened = [_read_one(path) for path in files]
    card, first = opened[0]
    parts: dict[str, list[int]] = {}
    samples = 0
    for path, (other, frames) in zip(files, opened, strict=True):
        if frames.shape[1:] != first.shape[1:] or other.fields != card.fields:
            raise ValueError(
                f"{path.name} holds {frames.shape[1:]} of {', '.join(other.fields)}, the first "
                f"file {first.shape[1:]} of {', '.join(card.fields)}: not one data set."
            )
        numbers = range(samples, samples + frames.shape[0])
        if path.parent.name in _PARTS:
            parts.setdefault(_PARTS[path.parent.name], []).extend(numbers)
        samples = numbers.stop
    split = Split.of("by The Well's folders", **parts) if parts else split_by_rule(samples)
    frames = _Files(tuple(f for _, f in opened)) if len(opened) > 1 else first
    place = files[0] if len(files) == 1 else files[0].parent
    return Dataset(card.changed(samples=samples, split=split), frames, path=place)


def _read_one(path: Path) -> tuple[Card, Frames]:
    file = h5py.File(path, "r")
    axes = as_texts(file["dimensions"].attrs["spatial_dims"])
    if not 1 <= len(axes) <= 3:
        raise ValueError(f"it should have one to three axes of space, got {len(axes)}.")
    points, extents, offsets = zip(*(_axis(file["dimensions"], axis) for axis in axes), strict=True)
    fields, constants = _fields(file, axes, path)
    if not fields:
        raise ValueError("it has no field that changes in time.")
    clock = _times(file)
    shapes = {a.shape for a in fields.values()}
    if len(shapes) != 1 or next(iter(shapes))[1:] != (len(clock), *points):
        raise ValueError(f"its fields {sorted(shapes)} do not fit its grid and times.")
    steady = len(clock) == 1
    inputs = {n: a for n, a in constants.items() if a.shape[1:] == points}
    if steady and len(inputs) != len(fields):
        raise ValueError("it has a single frame and no input field to go with it.")
    arrays: Frames = FieldFrames(tuple(fields.values()))
    if steady:
        arrays = PairFrames(tuple(inputs.values()), tuple(Picked(a, (0,)) for a in fields.values()))
    left_out = () if steady else tuple(constants)
    name = as_text(file.attrs.get("dataset_name", path.stem))
    card = Card(
        name=name,
        title=f"The Well: {name}",
        fields=tuple(fields),
        inputs=tuple(inputs) if steady else (),
        points=points,
        extent=extents,
        offset=offsets,
        boundary=_boundary(file, axes),
        start=float(clock[0]),
        dt=1.0 if steady else float(clock[-1] - clock[0]) / (len(clock) - 1),
        frames=2 if steady else len(clock),
        samples=arrays.shape[0],
        steady=steady,
        parameters=_parameters(file),
        flaws=(f"Constant fields that are not read: {', '.join(left_out)}.",) if left_out else (),
    )
    return card, GuardedFrames(arrays, path)


def _fields(
    file: h5py.File, axes: tuple[str, ...], path: Path
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Every channel that changes in time, and the constant fields, by name."""
    varying: dict[str, Any] = {}
    constant: dict[str, Any] = {}
    for order in range(3):
        group = file.get(f"t{order}_fields")
        names = [] if group is None else group.attrs.get("field_names", list(group))
        for name in as_texts(names):
            dataset = group[name]
            whole = bool(np.all(dataset.attrs.get("dim_varying", True)))
            if not whole or not bool(dataset.attrs.get("sample_varying", True)):
                constant[name] = dataset
                continue
            numbers = open_array(dataset, path)
            found = varying if bool(dataset.attrs.get("time_varying", True)) else constant
            for component in product(range(len(axes)), repeat=order):
                label = f"{name}_{''.join(axes[i] for i in component)}" if order else name
                found[label] = Picked(numbers, (), component) if order else numbers
    return varying, constant


def _times(file: h5py.File) -> np.ndarray:
    dataset = file["dimensions"]["time"]
    if dataset.ndim > 2 or dataset.size > 2**24:
        raise ValueError(f"its times should be a list, got shape {dataset.shape}.")
    values = np.asarray(dataset, dtype=np.float64)
    clock = values[0] if values.ndim == 2 else values
    if len(clock) == 0 or not np.isfinite(clock).all():
        raise ValueError("its times should be finite numbers.")
    if len(clock) > 1 and clock[-1] <= clock[0]:
        raise ValueError("its times should increase.")
    return np.asarray(clock)


def _axis(dimensions: Any, axis: str) -> tuple[int, tuple[float, float], float]:
    """Points, edges and offset of evenly spaced coordinates: centres if they can be, else nodes."""
    line = read_line(dimensions, axis)
    if line is None or len(line) < 2:
        raise ValueError("its coordinates should have at least two points.")
    spacing = (line[-1] - line[0]) / (len(line) - 1)
    if spacing == 0:
        raise ValueError("its coordinates should be distinct.")
    offset = 0.0 if line[0] == 0.0 else 0.5
    low = float(line[0] - offset * spacing)
    return len(line), (low, low + float(spacing) * len(line)), offset


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


def _parameters(file: h5py.File) -> dict[str, Any]:
    names = as_texts(file.attrs.get("simulation_parameters", []))
    values = {name: find_number(file.attrs, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}
