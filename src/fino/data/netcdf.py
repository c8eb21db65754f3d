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

__all__ = ["Maps", "is_leap_day", "is_netcdf3", "is_netcdf4", "month", "read_maps"]

_LATITUDE = ("lat", "latitude")
_LONGITUDE = ("lon", "longitude")

#: Numbers in one variable that we are willing to decode at once.
_MOST = 2**30


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
    def shape_words(self) -> str:
        return f"{len(self.latitude)} × {len(self.longitude)}"

    @property
    def is_daily(self) -> bool:
        """Whether neighbouring maps are days rather than months apart."""
        if len(self.dates) < 2:
            return False
        days = np.diff(self.dates).astype("timedelta64[h]").astype(float) / 24
        return bool(np.median(days) < 20)

    def same_grid(self, other: Maps) -> bool:
        return all(
            a.shape == b.shape and np.allclose(a, b, atol=1e-4)
            for a, b in (
                (self.latitude, other.latitude),
                (self.longitude, other.longitude),
            )
        )

    def chosen(self, keep: np.ndarray) -> Maps:
        return replace(self, values=self.values[keep], dates=self.dates[keep])

    def without_leap_days(self) -> Maps:
        """Every 29th of February left out, as the paper's data have it (daily maps only)."""
        if not self.is_daily:
            return self
        return self.chosen(~is_leap_day(self.dates))

    def rounded(self, unit: str) -> Maps:
        """Dates as whole days or months; two maps of one date are refused."""
        dates = self.dates.astype(f"datetime64[{unit}]")
        if len(np.unique(dates)) < len(dates):
            twice = dates[1:][np.diff(dates).astype(int) == 0]
            raise ValueError(f"{self.name} has two maps of {twice[0]}.")
        return replace(self, dates=dates)

    def within(self, periods: dict[str, tuple[str, str]]) -> Maps:
        months = self.dates.astype("datetime64[M]")
        keep = np.zeros(len(months), dtype=bool)
        for first, last in periods.values():
            keep |= (months >= month(first)) & (months <= month(last))
        return self.chosen(keep)

    @classmethod
    def joined(cls, parts: Sequence[Maps]) -> Maps:
        """Several files of one quantity in order of time."""
        dates = np.concatenate([part.dates for part in parts])
        order = np.argsort(dates, kind="stable")
        values = np.concatenate([part.values for part in parts])[order]
        return replace(parts[0], values=values, dates=dates[order])


def is_leap_day(dates: np.ndarray) -> np.ndarray:
    """Which dates are a 29th of February."""
    return np.array([str(day)[5:10] == "02-29" for day in dates.astype("datetime64[D]")])


def month(words: str) -> np.datetime64:
    """'2000-01' as a date."""
    try:
        return np.datetime64(words, "M")
    except ValueError:
        raise ValueError(f"a month should be such as '2000-01', got '{words}'.") from None


def is_netcdf3(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) in (b"CDF\x01", b"CDF\x02")


def is_netcdf4(file: h5py.File) -> bool:
    """Whether an open HDF5 file has maps on latitudes and longitudes."""
    names = {key.lower() for key in file}
    return bool(names & set(_LATITUDE)) and bool(names & set(_LONGITUDE)) and "time" in names


@dataclass(frozen=True)
class _Variable:
    """A variable as it lies in the file: dimension names, packed numbers, attributes."""

    dimensions: tuple[str, ...]
    data: Any
    attributes: dict[str, Any]


def read_maps(path: Path, names: tuple[str, ...]) -> Iterator[Maps]:
    """The maps of every variable in the file that goes by one of the names."""
    variables = _old(path) if is_netcdf3(path) else _new(path)
    lower = {name.lower(): name for name in variables}
    for name in names:
        if name in lower:
            yield _maps(path, name, variables[lower[name]], variables)


def _maps(path: Path, name: str, variable: _Variable, others: dict[str, _Variable]) -> Maps:
    kinds = [_kind(dimension) for dimension in variable.dimensions]
    shape = np.shape(variable.data)
    extra = [n for n, kind in zip(shape, kinds, strict=True) if kind not in ("time", "lat", "lon")]
    plain = [kind for kind in kinds if kind in ("time", "lat", "lon")]
    if plain != ["time", "lat", "lon"] or any(n != 1 for n in extra):
        raise ValueError(
            f"'{name}' should be (time, latitude, longitude), got "
            f"({', '.join(variable.dimensions)}) of shape {shape}."
        )
    lines = {}
    for dimension in variable.dimensions:
        if _kind(dimension) in ("time", "lat", "lon"):
            if dimension not in others:
                raise ValueError(f"the coordinates '{dimension}' are missing.")
            lines[_kind(dimension)] = others[dimension]
    values = _unpacked(name, variable).reshape([len(lines[k].data) for k in ("time", "lat", "lon")])
    dates = _dates(lines["time"])
    bad = ~np.isfinite(values).reshape(len(values), -1).all(axis=1)
    if bad.any():
        day = dates[int(np.argmax(bad))].astype("datetime64[D]")
        raise ValueError(f"'{name}' has missing values on {day}.")
    return Maps(
        name,
        path,
        values,
        dates,
        np.asarray(lines["lat"].data, dtype=np.float64),
        np.asarray(lines["lon"].data, dtype=np.float64),
        as_text(variable.attributes.get("units", "")).strip(),
        as_text(variable.attributes.get("long_name", "")).strip(),
    )


def _kind(dimension: str) -> str:
    word = dimension.lower()
    if word in _LATITUDE:
        return "lat"
    return "lon" if word in _LONGITUDE else word


def _unpacked(name: str, variable: _Variable) -> np.ndarray:
    """Packed whole numbers → float64, missing ones → NaN."""
    packed = np.asarray(variable.data)
    if packed.dtype.kind not in "iuf":
        raise ValueError(f"'{name}' should hold numbers, got {packed.dtype}.")
    values = packed.astype(np.float64)
    for key in ("_FillValue", "missing_value"):
        if key in variable.attributes:
            fill = np.asarray(variable.attributes[key]).reshape(-1)
            if fill.size and fill.dtype.kind in "iuf":
                values[packed == fill[0]] = np.nan
    scale, offset = (_scalar(variable.attributes, k, d) for k, d in _PACKING)
    return values * scale + offset


_PACKING = (("scale_factor", 1.0), ("add_offset", 0.0))


def _scalar(attributes: dict[str, Any], name: str, default: float) -> float:
    value = np.asarray(attributes.get(name, default)).reshape(-1)
    return float(value[0]) if value.size else default


_SINCE = re.compile(
    r"^(second|minute|hour|day)s?\s+since\s+(\d{1,4})-(\d{1,2})-(\d{1,2})"
    r"(?:[ T](\d{1,2}):(\d{1,2}))?",
    re.IGNORECASE,
)


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


def _new(path: Path) -> dict[str, _Variable]:
    found = {}
    with h5py.File(path, "r") as file:
        for name, dataset in file.items():
            if isinstance(dataset, h5py.Dataset) and dataset.dtype.kind in "iuf":
                _check_size(name, dataset.shape)
                found[name] = _Variable(_dimensions(file, dataset), dataset, dict(dataset.attrs))
        return {
            name: replace(variable, data=np.asarray(variable.data))
            for name, variable in found.items()
            if variable.data.ndim in (1, 3, 4)
        }


def _check_size(name: str, shape: tuple[int, ...]) -> None:
    if int(np.prod(shape, dtype=object)) > _MOST:
        raise ValueError(f"'{name}' of shape {shape} is larger than a map series can be.")


def _dimensions(file: h5py.File, dataset: Any) -> tuple[str, ...]:
    """The names of the axes, from the scales attached to them, else from their lengths."""
    if dataset.ndim == 1:
        return (dataset.name.lstrip("/"),)
    lengths = {
        name: scale.shape[0]
        for name, scale in file.items()
        if isinstance(scale, h5py.Dataset) and scale.ndim == 1
    }
    order = [n for n in lengths if n.lower() in ("time", "level", *_LATITUDE, *_LONGITUDE)]
    by_kind = {_kind(n): n for n in order}
    wanted = ["time", *(["level"] if dataset.ndim == 4 else []), "lat", "lon"]
    names = tuple(by_kind.get(kind, kind) for kind in wanted)
    if len(names) != dataset.ndim or any(
        lengths.get(name, size) != size for name, size in zip(names, dataset.shape, strict=True)
    ):
        return tuple(f"axis{i}" for i in range(dataset.ndim))
    return names


def _old(path: Path) -> dict[str, _Variable]:
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
