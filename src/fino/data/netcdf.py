"""Maps over time from NetCDF files, the old format and the new, decoded and dated.

    value = packed · scale_factor + add_offset        date = start + time

NetCDF 4 files are HDF5; NetCDF 3 files are read with scipy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from fino.data.frames import as_text

__all__ = ["Maps", "is_netcdf3", "is_netcdf4", "join_maps", "read_maps"]

#: What axes are called, and what we call them.
_AXES = {"time": "time", "lat": "lat", "latitude": "lat", "lon": "lon", "longitude": "lon"}

#: Numbers in one variable that we are willing to decode at once.
_MOST = 2**30

_SINCE = re.compile(
    r"^(second|minute|hour|day)s?\s+since\s+(\d{1,4})-(\d{1,2})-(\d{1,2})"
    r"(?:[ T](\d{1,2}):(\d{1,2}))?",
    re.IGNORECASE,
)


@dataclass(frozen=True, eq=False)
class Maps:
    """One quantity on (latitude, longitude) at some dates: values (time, lat, lon)."""

    name: str
    path: Path
    values: np.ndarray
    dates: np.ndarray
    latitude: np.ndarray
    longitude: np.ndarray
    units: str
    long_name: str = ""

    @property
    def size(self) -> str:
        """The size of the grid in words, 73 × 144."""
        return f"{len(self.latitude)} × {len(self.longitude)}"

    @property
    def is_daily(self) -> bool:
        """Whether neighbouring maps are days rather than months apart."""
        if len(self.dates) < 2:
            return False
        days = np.diff(self.dates).astype("timedelta64[h]").astype(float) / 24
        return bool(np.median(days) < 20)

    def choose(self, keep: np.ndarray) -> Maps:
        """Only the maps of some dates."""
        return replace(self, values=self.values[keep], dates=self.dates[keep])

    def round_dates(self, unit: str) -> Maps:
        """Dates as whole days ("D") or months ("M"); two maps of one date are refused."""
        dates = self.dates.astype(f"datetime64[{unit}]")
        if len(np.unique(dates)) < len(dates):
            twice = dates[1:][np.diff(dates).astype(int) == 0]
            raise ValueError(f"{self.name} has two maps of {twice[0]}.")
        return replace(self, dates=dates)


def join_maps(parts: Sequence[Maps]) -> Maps:
    """Several files of one quantity on one grid, in order of time."""
    first = parts[0]
    for maps in parts[1:]:
        lines = ((maps.latitude, first.latitude), (maps.longitude, first.longitude))
        if not all(a.shape == b.shape and np.allclose(a, b, atol=1e-4) for a, b in lines):
            raise ValueError(
                f"{maps.path.name} is on another grid ({maps.size}) than "
                f"{first.path.name} ({first.size})."
            )
    dates = np.concatenate([part.dates for part in parts])
    order = np.argsort(dates, kind="stable")
    values = np.concatenate([part.values for part in parts])[order]
    return replace(first, values=values, dates=dates[order])


def is_netcdf3(path: Path) -> bool:
    """Whether a file is NetCDF in the old format."""
    with path.open("rb") as file:
        return file.read(4) in (b"CDF\x01", b"CDF\x02")


def is_netcdf4(file: h5py.File) -> bool:
    """Whether an open HDF5 file has maps on latitudes and longitudes."""
    return {"time", "lat", "lon"} <= {_axis(key) for key in file}


@dataclass(frozen=True)
class _Variable:
    """A variable as it lies in the file: dimension names, packed numbers, attributes."""

    dimensions: tuple[str, ...]
    data: Any
    attributes: dict[str, Any]


def read_maps(path: Path, names: tuple[str, ...]) -> Iterator[Maps]:
    """The maps of every variable in the file that goes by one of the names."""
    variables = _read_old(path) if is_netcdf3(path) else _read_new(path)
    lower = {name.lower(): name for name in variables}
    for name in names:
        if name in lower:
            yield _maps(path, name, variables[lower[name]], variables)


def _maps(path: Path, name: str, variable: _Variable, others: dict[str, _Variable]) -> Maps:
    shape = np.shape(variable.data)
    known = [d for d in variable.dimensions if d.lower() in _AXES]
    extra = {n for d, n in zip(variable.dimensions, shape, strict=True) if d not in known}
    if [_axis(d) for d in known] != ["time", "lat", "lon"] or extra - {1}:
        raise ValueError(
            f"'{name}' should be (time, latitude, longitude), got "
            f"({', '.join(variable.dimensions)}) of shape {shape}."
        )
    for dimension in known:
        if dimension not in others:
            raise ValueError(f"the coordinates '{dimension}' are missing.")
    latitude, longitude = (np.asarray(others[d].data, dtype=np.float64) for d in known[1:])
    dates = _dates(others[known[0]])
    values = _unpack(name, variable).reshape(len(dates), len(latitude), len(longitude))
    bad = ~np.isfinite(values).reshape(len(values), -1).all(axis=1)
    if bad.any():
        day = dates[int(np.argmax(bad))].astype("datetime64[D]")
        raise ValueError(f"'{name}' has missing values on {day}.")
    units, words = (as_text(variable.attributes.get(k, "")).strip() for k in ("units", "long_name"))
    return Maps(name, path, values, dates, latitude, longitude, units, words)


def _axis(dimension: str) -> str:
    """time, lat or lon, or the name as it is."""
    return _AXES.get(dimension.lower(), dimension.lower())


def _unpack(name: str, variable: _Variable) -> np.ndarray:
    """Packed whole numbers → float64, missing ones → NaN."""
    packed = np.asarray(variable.data)
    if packed.dtype.kind not in "iuf":
        raise ValueError(f"'{name}' should hold numbers, got {packed.dtype}.")
    values = packed.astype(np.float64)
    for key in ("_FillValue", "missing_value"):
        fill = np.asarray(variable.attributes.get(key, ())).reshape(-1)
        if fill.size and fill.dtype.kind in "iuf":
            values[packed == fill[0]] = np.nan

    def factor(key: str, default: float) -> float:
        found = np.asarray(variable.attributes.get(key, default)).reshape(-1)
        return float(found[0]) if found.size else default

    return values * factor("scale_factor", 1.0) + factor("add_offset", 0.0)


def _dates(time: _Variable) -> np.ndarray:
    """Hours since 1800-01-01, days since 1948-01-01, … → dates.

    Older NOAA files count hours since 1-1-1 in the calendar of that time, two days off ours.
    """
    words = as_text(time.attributes.get("units", ""))
    match = _SINCE.match(words.strip())
    if not match:
        raise ValueError(f"time should be such as 'hours since 1800-01-01', got '{words}'.")
    unit, year, month, day, hour, minute = match.groups()
    try:
        start = np.datetime64(f"{int(year):04d}-{int(month):02d}-{int(day):02d}", "m")
    except ValueError:
        raise ValueError(f"time counts from an impossible date, '{words}'.") from None
    start += np.timedelta64(60 * int(hour or 0) + int(minute or 0), "m")
    if int(year) == 1:
        start -= np.timedelta64(2, "D")
    minutes = {"second": 1 / 60, "minute": 1.0, "hour": 60.0, "day": 1440.0}[unit.lower()]
    counts = np.asarray(time.data, dtype=np.float64) * minutes
    if counts.ndim != 1 or not (np.abs(counts) < 2e9).all():
        raise ValueError("its times should be a list of dates.")
    return np.asarray(start + np.round(counts).astype("timedelta64[m]"))


def _read_new(path: Path) -> dict[str, _Variable]:
    """The variables of a NetCDF 4 file; the lengths of its coordinates tell the axes apart."""
    found = {}
    with h5py.File(path, "r") as file:
        arrays = {
            name: dataset
            for name, dataset in file.items()
            if isinstance(dataset, h5py.Dataset) and dataset.dtype.kind in "iuf"
        }
        lengths = {name: array.shape[0] for name, array in arrays.items() if array.ndim == 1}
        names = {_axis(name): name for name in lengths}
        for name, array in arrays.items():
            shape = array.shape
            if int(np.prod(shape, dtype=object)) > _MOST:
                raise ValueError(f"'{name}' of shape {shape} is larger than a map series can be.")
            axes = {3: ("time", "lat", "lon"), 4: ("time", "level", "lat", "lon")}.get(len(shape))
            dimensions = tuple(names.get(axis, axis) for axis in axes or (name,))
            if any(lengths.get(d, n) != n for d, n in zip(dimensions, shape, strict=False)):
                dimensions = tuple(f"axis{i}" for i in range(len(shape)))
            if axes or len(shape) == 1:
                found[name] = _Variable(dimensions, np.asarray(array), dict(array.attrs))
    return found


def _read_old(path: Path) -> dict[str, _Variable]:
    """The variables of a NetCDF 3 file."""
    from scipy.io import netcdf_file

    try:
        with netcdf_file(str(path), "r", mmap=False) as file:
            return {
                name: _Variable(
                    tuple(variable.dimensions),
                    np.array(variable.data),
                    dict(variable._attributes),  # type: ignore[attr-defined]
                )
                for name, variable in file.variables.items()
            }
    except Exception as error:  # scipy trusts the file and fails in many ways
        raise OSError(" ".join(str(error).split())) from error
