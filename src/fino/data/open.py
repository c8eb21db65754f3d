"""Any data file we know, opened by looking inside it.

    fino.open("swe.h5")                          ours, PDEBench's three layouts, The Well's
    fino.open(["air.sig995.2000.nc", …])         NOAA or ERA files: temperature → pressure
    fino.open("folder of NetCDF or Well files")

A file that cannot be read is answered with one line.  Our own files guard themselves with
checksums; others are tried out in a process of their own first (see `probe`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import h5py

from fino.data.climate import read_climate
from fino.data.dataset import Dataset
from fino.data.netcdf import is_netcdf3, is_netcdf4
from fino.data.pdebench import is_pdebench, read_pdebench
from fino.data.probe import one_line, probe
from fino.data.store import is_native, read_native
from fino.data.well import is_well, read_well, well_folder

__all__ = ["open", "read_foreign"]

Place = str | os.PathLike[str]

_KNOWN = "HDF5 files of fino, PDEBench and The Well, and NetCDF maps"


def open(path: Place | Sequence[Place], **options: Any) -> Dataset:
    """Open a data file, a folder, or a list of NetCDF files, whatever its format.

    `options` depend on the format: boundary=…, name=… for PDEBench; train=…, test=…, points=…
    for NetCDF maps.
    """
    places = [path] if isinstance(path, str | os.PathLike) else list(path)
    files = _files([Path(place) for place in places])
    named = str(files[0]) if len(files) == 1 else f"{files[0].parent} ({len(files)} files)"
    try:
        if len(files) == 1 and is_native(files[0]):
            return read_native(files[0], **options)
        probe(files, options)
        return read_foreign(files, options)
    except Exception as error:
        raise ValueError(f"{named} cannot be opened: {one_line(error)}") from error


def _files(places: list[Path]) -> list[Path]:
    """The files that were meant, folders opened; each is there and not empty."""
    if not places:
        raise ValueError("open should be given a file, a folder or a list of NetCDF files.")
    files: list[Path] = []
    for place in places:
        if not place.exists():
            raise FileNotFoundError(f"{place} does not exist.")
        if place.is_dir():
            inside = sorted(place.glob("*.nc")) or list(well_folder(place))
            if not inside:
                raise ValueError(f"the folder {place} has no NetCDF (.nc) or HDF5 files in it.")
            files += inside
        else:
            files.append(place)
    for file in files:
        if file.stat().st_size == 0:
            raise ValueError(f"{file} is empty.")
    return files


def read_foreign(files: list[Path], options: dict[str, Any]) -> Dataset:
    """Open files of others' making by what is inside the first of them."""
    first = files[0]
    kinds = {_named_kind(file, len(files)) for file in files}
    if len(kinds) > 1:
        raise ValueError(f"its files are of different kinds ({', '.join(sorted(kinds))}).")
    (kind,) = kinds
    readers: dict[str, Callable[[], Dataset]] = {
        "fino": lambda: read_native(first, **options),
        "netcdf": lambda: read_climate(files, **options),
        "well": lambda: read_well(_with_parts(files), **options),
        "pdebench": lambda: read_pdebench(first, **options),
    }
    if kind in ("fino", "pdebench") and len(files) > 1:
        raise ValueError(f"{kind} files are opened one at a time.")
    return readers[kind]()


def _named_kind(path: Path, files: int) -> str:
    try:
        return _kind(path)
    except Exception as error:
        if files == 1:
            raise
        raise ValueError(f"{path.name}: {one_line(error)}") from error


def _kind(path: Path) -> str:
    if is_netcdf3(path):
        return "netcdf"
    if not h5py.is_hdf5(path):
        hint = ""
        if path.suffix in (".npy", ".npz"):
            hint = " Load it with numpy and use fino.from_array."
        if path.suffix == ".nc":
            hint = " It is not NetCDF, although its name says so: was the download cut short?"
        raise ValueError(f"it is none of the formats we know ({_KNOWN}).{hint}")
    with h5py.File(path, "r") as file:
        if "card" in file.attrs and "fino" in file:
            return "fino"  # ours, with its first words damaged: its checksums will tell
        if is_well(file):
            return "well"
        if is_netcdf4(file):
            return "netcdf"
        if is_pdebench(file):
            return "pdebench"
        inside = ", ".join(list(file)[:5]) or "nothing"
    raise ValueError(f"it is HDF5, but none of the layouts we know ({_KNOWN}): it holds {inside}.")


def _with_parts(files: list[Path]) -> dict[Path, str]:
    named = {"train": "train", "valid": "validation", "test": "test"}
    return {file: named.get(file.parent.name, "") for file in files}
