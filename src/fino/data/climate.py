"""Weather maps from NOAA and ECMWF files: near-surface temperature → surface pressure.

    air.sig995.2000.nc … air.sig995.2009.nc, pres.sfc.2000.nc … pres.sfc.2009.nc     (NOAA, daily)
    air.mon.mean.nc, slp.mon.mean.nc                                                 (NOAA, monthly)
    ERA files with t2m and sp                                                        (ECMWF)

The paper's task: 72 × 72 points (latitudes 90 … −87.5 by 2.5°, longitudes 0 … 355 by 5°), the
years 2000–2004 to train on and 2005–2009 to test on, leap days dropped, pressure in kPa.
A sample is one day or month: the temperature map is its input frame, the pressure map its output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from fino.data.card import Card
from fino.data.dataset import Dataset
from fino.data.frames import ArrayFrames, explain
from fino.data.netcdf import Maps, has_maps, join_maps, read_maps
from fino.data.readers import Variable
from fino.data.split import Split, split_by_rule
from fino.grid import Grid

__all__ = ["is_climate", "read_climate"]

#: Names that the two quantities go by, the better one first.
_TEMPERATURE = ("air", "t2m", "tas", "temp")
_PRESSURE = ("pres", "sp", "ps", "slp", "msl", "psl")

#: First and last month of each part, for daily and for monthly maps.
_YEARS = {
    "daily": {"train": ("2000-01", "2004-12"), "test": ("2005-01", "2009-12")},
    "monthly": {"train": ("0001-01", "1999-12"), "test": ("2000-01", "2009-12")},
}

Period = tuple[str, str]


def is_climate(variables: Mapping[str, Variable]) -> bool:
    """Whether a file has maps of one of the two quantities."""
    return has_maps(variables, (*_TEMPERATURE, *_PRESSURE))


def read_climate(
    paths: Sequence[Path],
    *,
    train: Period | None = None,
    test: Period | None = None,
    points: str = "auto",
) -> Dataset:
    """Pair the temperature and pressure maps of some NetCDF files; `fino.open` has the options.

    The files' own grid is kept without the row of the south pole.
    """
    warm = _series(paths, _TEMPERATURE, "temperature")
    heavy = _series(paths, _PRESSURE, "pressure")
    if warm.latitude.shape != heavy.latitude.shape or warm.longitude.shape != heavy.longitude.shape:
        raise ValueError(
            f"temperature is on a {warm.size} grid and pressure on {heavy.size}: "
            "take both from the same source."
        )
    daily = warm.is_daily
    periods = _periods(warm, daily, train, test)
    warm, heavy = _pair(warm, heavy, daily, periods)
    rows, columns, grid = _points(warm, points)
    pick = np.ix_(np.arange(len(warm.dates)), rows, columns)
    celsius = warm.units.lower().startswith(("degc", "c", "deg c", "°c"))
    kelvin = warm.values + (273.15 if celsius else 0.0)
    numbers = np.stack([kelvin[pick], _kilopascal(heavy)[pick]], axis=1)[:, :, None]
    labels = tuple(str(date)[: 10 if daily else 7] for date in warm.dates)
    card = _card(warm, heavy, grid, labels, _split(warm.dates, periods))
    return Dataset(card, ArrayFrames(numbers.astype(np.float32)), path=paths[0], labels=labels)


def _card(warm: Maps, heavy: Maps, grid: Grid, labels: tuple[str, ...], split: Split) -> Card:
    kind = "daily" if len(labels[0]) > 7 else "monthly"
    return Card(
        name=f"climate-{kind}",
        title=f"Near-surface temperature to surface pressure, {kind} maps",
        equation="pressure(x) = F[temperature](x)",
        description=f"{heavy.long_name or heavy.name} from {warm.long_name or warm.name}.",
        fields=("pressure",),
        units=("kPa",),
        inputs=("temperature",),
        **vars(grid),
        frames=2,
        samples=len(labels),
        steady=True,
        parameters={"first": labels[0], "last": labels[-1], "variable": heavy.name},
        area_weighted=True,
        flaws=(
            "The mean map of the training years predicts almost as well as the paper's best "
            "models: always compare with it.",
        ),
        split=split,
    )


def _series(paths: Sequence[Path], names: tuple[str, ...], quantity: str) -> Maps:
    """All maps of one quantity in order of time, decoded, on one grid."""
    found = []
    for path in paths:
        try:
            found += list(read_maps(path, names))
        except Exception as error:
            raise ValueError(f"{path.name}: {explain(error)}") from error
    if not found:
        raise ValueError(
            f"none of the {len(paths)} files has {quantity} (one of {', '.join(names)}). Pass the "
            "temperature and the pressure files together."
        )
    chosen = min((maps.name for maps in found), key=names.index)
    return join_maps([maps for maps in found if maps.name == chosen])


def _month(words: str) -> np.datetime64:
    """'2000-01' as a date."""
    try:
        return np.datetime64(words, "M")
    except ValueError:
        raise ValueError(f"a month should be such as '2000-01', got '{words}'.") from None


def _within(dates: np.ndarray, period: Period) -> np.ndarray:
    """Which dates lie between the first and the last month of a period."""
    months = dates.astype("datetime64[M]")
    return (months >= _month(period[0])) & (months <= _month(period[1]))


def _is_leap_day(dates: np.ndarray) -> np.ndarray:
    return np.array([str(day)[5:10] == "02-29" for day in dates.astype("datetime64[D]")])


def _periods(
    maps: Maps, daily: bool, train: Period | None, test: Period | None
) -> dict[str, Period]:
    """The months of each part; none if the maps have nothing to do with the usual ones."""
    if train is not None and test is not None:
        for name, period in (("train", train), ("test", test)):
            if len(period) != 2 or _month(period[0]) > _month(period[1]):
                raise ValueError(f"{name} should be (first, last) month, got {period}.")
        return {"train": train, "test": test}
    if train is not None or test is not None:
        raise ValueError("train and test should be given together, each as (first, last) month.")
    usual = _YEARS["daily" if daily else "monthly"]
    if not daily:
        first, last = maps.dates[0].astype("datetime64[M]"), usual["train"][1]
        if first > _month(last):
            return {}
        usual = {**usual, "train": (str(first), last)}
    return usual if _within(maps.dates, (usual["train"][0], usual["test"][1])).any() else {}


def _pair(warm: Maps, heavy: Maps, daily: bool, periods: dict[str, Period]) -> tuple[Maps, Maps]:
    """The maps of both quantities at the same dates, none missing within the periods.

    Every 29th of February is left out, as the paper's data have it.
    """
    both = []
    for maps in (warm, heavy):
        maps = maps.choose(~_is_leap_day(maps.dates)) if maps.is_daily else maps
        maps = maps.round_dates("D" if daily else "M")
        if periods:
            inside = [_within(maps.dates, period) for period in periods.values()]
            maps = maps.choose(np.any(inside, axis=0))
        both.append(maps)
    warm, heavy = both
    for maps, quantity in ((warm, "temperature"), (heavy, "pressure")):
        for period in periods.values():
            _refuse_gaps(maps.dates, quantity, daily, *period)
    if not np.array_equal(warm.dates, heavy.dates):
        lone = np.setxor1d(warm.dates, heavy.dates)[0]
        which = "pressure" if lone in warm.dates else "temperature"
        raise ValueError(f"{which} has no map of {lone}, the other quantity has. Fetch that file.")
    return warm, heavy


def _refuse_gaps(dates: np.ndarray, quantity: str, daily: bool, first: str, last: str) -> None:
    """Say which year or month is missing, and what to do."""
    wanted = np.arange(_month(first), _month(last) + 1)
    if daily:
        wanted = np.arange(wanted[0], wanted[-1] + 1, dtype="datetime64[D]")
        wanted = wanted[~_is_leap_day(wanted)]
    gaps = np.setdiff1d(wanted, dates)
    if len(gaps):
        year = gaps[0].astype("datetime64[Y]")
        what = f"{gaps[0]}" if year in dates.astype("datetime64[Y]") else f"the year {year}"
        raise ValueError(
            f"{quantity} lacks {what}; {first} to {last} are needed. Fetch the missing NOAA file, "
            "or choose other periods with train=(first, last) and test=(first, last)."
        )


def _split(dates: np.ndarray, periods: dict[str, Period]) -> Split:
    """By period; the last tenth of the training time is kept for validation."""
    if not periods:
        return split_by_rule(len(dates))
    learn, test = (np.flatnonzero(_within(dates, periods[part])) for part in ("train", "test"))
    kept = len(learn) // 10
    words = ", ".join(f"{part} {first} to {last}" for part, (first, last) in periods.items())
    return Split.of(
        f"{words}, validation = last 10 % of the training time",
        train=learn[: len(learn) - kept],
        validation=learn[len(learn) - kept :],
        test=test,
    )


def _points(maps: Maps, points: str) -> tuple[np.ndarray, np.ndarray, Grid]:
    """Rows, columns and grid: the paper's 72 × 72 points, or the files' own."""
    if points not in ("auto", "paper", "own"):
        raise ValueError(f"points should be 'auto', 'paper' or 'own', got '{points}'.")
    wanted = np.arange(90, -90, -2.5), np.arange(0, 360, 5.0)
    rows = _where(maps.latitude, wanted[0])
    columns = _where(maps.longitude % 360, wanted[1])
    if points != "own" and rows is not None and columns is not None:
        return rows, columns, _globe(wanted[0], wanted[1])
    if points == "paper":
        raise ValueError(
            f"{maps.path.name} is on a {maps.size} grid, which lacks some of the paper's "
            "72 × 72 points (2.5° × 5°). Use points='own' to keep its own grid."
        )
    order = np.argsort(-maps.latitude)
    order = order[maps.latitude[order] > -90 + 1e-6]
    return order, np.arange(len(maps.longitude)), _globe(maps.latitude[order], maps.longitude)


def _where(line: np.ndarray, wanted: np.ndarray) -> np.ndarray | None:
    """Where the wanted coordinates are, or None if one is missing."""
    nearest = np.abs(line[None, :] - wanted[:, None]).argmin(axis=1)
    return nearest if np.allclose(line[nearest], wanted, atol=1e-3) else None


def _globe(latitude: np.ndarray, longitude: np.ndarray) -> Grid:
    """A grid that is periodic in longitude and ends at the poles."""
    extents = []
    for name, line in (("latitudes", latitude), ("longitudes", longitude)):
        steps = np.diff(line)
        if len(line) < 4 or not np.allclose(steps, steps.mean(), atol=1e-3):
            raise ValueError(f"its {name} should be evenly spaced.")
        step = float(np.round(steps.mean(), 6))
        low = float(np.round(line[0], 6)) - step / 2
        extents.append((low, low + step * len(line)))
    if not np.isclose(abs(extents[1][1] - extents[1][0]), 360, atol=1e-2):
        raise ValueError("its longitudes should go around the globe.")
    return Grid((len(latitude), len(longitude)), tuple(extents), ("neumann", "periodic"))


def _kilopascal(maps: Maps) -> np.ndarray:
    scale = {"pa": 1e-3, "pascals": 1e-3, "hpa": 0.1, "millibars": 0.1, "mb": 0.1, "mbar": 0.1}
    units = maps.units.lower()
    if units not in (*scale, "kpa"):
        raise ValueError(f"pressure should be in Pa, hPa, millibars or kPa, got '{maps.units}'.")
    return maps.values * scale.get(units, 1.0)
