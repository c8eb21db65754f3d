"""Maps over time from NetCDF files, on latitudes and longitudes, dated.

date = start + time
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fino.data.frames import as_text
from fino.data.readers import Variable, find_variables

__all__ = ["Maps", "has_maps", "join_maps", "read_maps"]

#: What axes are called, and what we call them.
_AXES = {"time": "time", "lat": "lat", "latitude": "lat", "lon": "lon", "longitude": "lon"}

#: Numbers in one variable that we are willing to decode at once.
_MOST = 2**27

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


def has_maps(variables: Mapping[str, Variable], names: Sequence[str]) -> bool:
    """Whether one of these names is there on times, latitudes and longitudes."""
    there = {_axis(key) for key in variables}
    return {"time", "lat", "lon"} <= there and any(name.lower() in names for name in variables)


def read_maps(path: Path, names: tuple[str, ...]) -> Iterator[Maps]:
    """The maps of every variable in the file that goes by one of the names."""
    variables = find_variables(path)
    lower = {name.lower(): name for name in variables}
    for name in names:
        if name in lower:
            yield _maps(path, name, variables[lower[name]], variables)


def _maps(path: Path, name: str, variable: Variable, others: Mapping[str, Variable]) -> Maps:
    shape, dimensions = variable.shape, variable.dims or _guess_dimensions(variable, others)
    known = [d for d in dimensions if d.lower() in _AXES]
    extra = {n for d, n in zip(dimensions, shape, strict=True) if d not in known}
    if [_axis(d) for d in known] != ["time", "lat", "lon"] or extra - {1}:
        raise ValueError(
            f"'{name}' should be (time, latitude, longitude), got "
            f"({', '.join(dimensions)}) of shape {shape}."
        )
    for dimension in known:
        if dimension not in others:
            raise ValueError(f"the coordinates '{dimension}' are missing.")
    if int(np.prod(shape, dtype=object)) > _MOST:
        raise ValueError(f"'{name}' of shape {shape} is larger than a map series can be.")
    if not variable.is_number:
        raise ValueError(f"'{name}' should hold numbers.")
    latitude, longitude = (others[d].load().astype(np.float64) for d in known[1:])
    dates = _dates(others[known[0]])
    values = variable.load().astype(np.float64)
    values = values.reshape(len(dates), len(latitude), len(longitude))
    bad = ~np.isfinite(values).reshape(len(values), -1).all(axis=1)
    if bad.any():
        day = dates[int(np.argmax(bad))].astype("datetime64[D]")
        raise ValueError(f"'{name}' has missing values on {day}.")
    units, words = (as_text(variable.attributes.get(k, "")).strip() for k in ("units", "long_name"))
    return Maps(name, path, values, dates, latitude, longitude, units, words)


def _guess_dimensions(variable: Variable, others: Mapping[str, Variable]) -> tuple[str, ...]:
    """The names of axes that a file does not name, where the lengths of its coordinates agree."""
    usual = {3: ("time", "lat", "lon"), 4: ("time", "level", "lat", "lon")}
    lines = {_axis(n): (n, v.shape[0]) for n, v in others.items() if len(v.shape) == 1}
    axes = usual.get(len(variable.shape), ())
    found = [lines.get(axis, (axis, n)) for axis, n in zip(axes, variable.shape, strict=False)]
    if axes and all(n == size for (_, n), size in zip(found, variable.shape, strict=True)):
        return tuple(name for name, _ in found)
    return tuple(f"axis{i}" for i in range(len(variable.shape)))


def _axis(dimension: str) -> str:
    """time, lat or lon, or the name as it is."""
    return _AXES.get(dimension.lower(), dimension.lower())


def _dates(time: Variable) -> np.ndarray:
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
    counts = time.load().astype(np.float64) * minutes
    if counts.ndim != 1 or not (np.abs(counts) < 2e9).all():
        raise ValueError("its times should be a list of dates.")
    return np.asarray(start + np.round(counts).astype("timedelta64[m]"))
