"""Data sets written for other people's loaders: PDEBench's three layouts.

tensor    one field along a line, or Darcy flow with its coefficient `nu`
fields    density, pressure and velocities, one array each
groups    everything else: a numbered group for each trajectory, channels last
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from fino.data.dataset import Dataset
from fino.durable import whole_file
from fino.settings import did_you_mean

__all__ = ["LAYOUTS", "export_pdebench", "layout_for"]


def export_pdebench(
    data: Dataset, path: str | Path, layout: str = "auto", overwrite: bool = False
) -> Path:
    """Write a PDEBench file; its layout follows from the data unless one is named."""
    target = Path(path)
    if target.exists() and not overwrite:
        raise ValueError(f"{target} exists already. Choose another name, or allow overwriting.")
    chosen = layout_for(data) if layout == "auto" else layout
    if chosen not in LAYOUTS:
        raise ValueError(f"Unknown layout '{layout}'. {did_you_mean(layout, ['auto', *LAYOUTS])}")
    target.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(target) as temporary, h5py.File(temporary, "w") as file:
        LAYOUTS[chosen](data, file)
        file.attrs["name"] = data.card.name
        file.attrs["boundary"] = list(data.grid.boundary)
        for name in ("symmetries", "directions"):
            words = ["" if word is None else str(word) for word in getattr(data.card, name)]
            file.attrs.create(name, words, dtype=h5py.string_dtype())
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


def _write_tensor(data: Dataset, file: h5py.File) -> None:
    if data.channels != 1:
        raise ValueError(f"the layout 'tensor' holds one field, {data.card.name} has more.")
    samples, frames, _, *points = data.shape
    u = file.create_dataset("tensor", (samples, 1 if data.steady else frames, *points), "f4")
    nu = file.create_dataset("nu", (samples, *points), "f4") if data.steady else None
    for i in range(samples):
        trajectory = data.read([i])[0, :, 0].numpy()
        u[i] = trajectory[1:] if data.steady else trajectory
        if nu is not None:
            nu[i] = trajectory[0]
    _write_axes(data, file)


def _write_fields(data: Dataset, file: h5py.File) -> None:
    _refuse_steady(data)
    samples, frames, _, *points = data.shape
    arrays = [file.create_dataset(name, (samples, frames, *points), "f4") for name in data.fields]
    for i in range(samples):
        for array, channel in zip(arrays, data.read([i])[0].unbind(dim=1), strict=True):
            array[i] = channel.numpy()
    _write_axes(data, file)


def _write_groups(data: Dataset, file: h5py.File) -> None:
    _refuse_steady(data)
    digits = max(4, len(str(len(data) - 1)))
    for i in range(len(data)):
        group = file.create_group(f"{i:0{digits}d}")
        channels_last = np.moveaxis(data.read([i])[0].numpy(), 1, -1)
        group.create_dataset("data", data=channels_last, compression="lzf")
        for axis, line in zip("xyz", data.grid.coordinates(), strict=False):
            group[f"grid/{axis}"] = line.astype(np.float32)
        group["grid/t"] = data.card.times.astype(np.float32)
        group.attrs["config"] = json.dumps(data.card.parameters)


def _write_axes(data: Dataset, file: h5py.File) -> None:
    """Coordinates, and the times, of which PDEBench lists one more than there are frames."""
    for axis, line in zip("xyz", data.grid.coordinates(), strict=False):
        file[f"{axis}-coordinate"] = line.astype(np.float32)
    if not data.steady:
        times = data.card.start + data.dt * np.arange(data.frames + 1)
        file["t-coordinate"] = times.astype(np.float32)


def _refuse_steady(data: Dataset) -> None:
    if data.steady:
        raise ValueError(f"{data.card.name} is steady: PDEBench keeps such data as 'tensor'.")


LAYOUTS: dict[str, Callable[[Dataset, Any], None]] = {
    "tensor": _write_tensor,
    "fields": _write_fields,
    "groups": _write_groups,
}
