"""Rain from images of weather radars: a folder of HDF5 files, one image each, as one trajectory.

    RAD_NL25_RAP_5min_201008260000.h5, …     KNMI's own layout: image1/image_data
    …                                        ODIM_H5, which most services of Europe write:
                                             dataset1/data1/data

    u = log(1 + R),    R in mm/h

Accumulations are divided by the time over which they were taken; reflectivity becomes rain by
Z = 200 R^1.6 (Marshall and Palmer 1948).  Cells outside of the radars' range, and cells that any
image lacks, are outside of the mask.  The image is cut to what lies inside, with sides that can be
halved four times.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from fino.data.card import Card
from fino.data.conditions import Conditions
from fino.data.dataset import Dataset
from fino.data.frames import ArrayFrames, as_text, explain, open_array

__all__ = ["is_radar", "read_radar"]

_KNMI, _ODIM = "image1/image_data", "dataset1/data1/data"

#: Sides are multiples of this, so that encoder–decoders can halve them four times.
_MULTIPLE = 16


@dataclass(frozen=True, eq=False)
class _Image:
    """One image: rain (rows, columns) in mm/h, NaN where the radar does not see."""

    rain: np.ndarray
    at: datetime
    cell: tuple[float, float]
    source: str


def is_radar(file: h5py.File) -> bool:
    """Whether an HDF5 file is an image of KNMI's or of ODIM's layout."""
    knmi = _KNMI in file and "image1/calibration" in file and "overview" in file
    return knmi or (_ODIM in file and as_text(file.attrs.get("Conventions", ""))[:4] == "ODIM")


def read_radar(paths: Sequence[Path]) -> Dataset:
    """The images of some files in order of time, as one trajectory of log(1 + mm/h)."""
    images = sorted((_read(path) for path in paths), key=lambda image: image.at)
    minutes = _even_minutes([image.at for image in images])
    first = images[0]
    for image in images:
        if image.rain.shape != first.rain.shape or image.cell != first.cell:
            raise ValueError(
                f"the image of {image.at:%Y-%m-%d %H:%M} has {image.rain.shape} cells of "
                f"{image.cell} km, the first {first.rain.shape} of {first.cell}: not one series."
            )
    inside = np.all([np.isfinite(image.rain) for image in images], axis=0)
    if not inside.any():
        raise ValueError("no cell was seen by the radar in every image.")
    rows, columns = (_span(inside.any(axis=1 - axis)) for axis in (0, 1))
    box = (slice(*rows), slice(*columns))
    mask = _cut(inside, box, False)
    rain = np.stack([_cut(image.rain, box, 0.0) for image in images])
    u = np.log1p(np.where(mask, np.maximum(rain, 0.0), 0.0)).astype(np.float32)
    card = Card(
        name="radar",
        title="Rain seen by weather radar",
        equation="u = log(1 + R)",
        description=f"{first.source}. R is the rain rate in mm/h.",
        fields=("rain",),
        units=("log(1 + mm/h)",),
        points=mask.shape,
        extent=tuple((0.0, n * c) for n, c in zip(mask.shape, first.cell, strict=True)),
        boundary=("neumann", "neumann"),
        frames=len(u),
        samples=1,
        dt=minutes,
        walls="dirichlet",
        history=4 if len(u) > 4 else None,
        parameters={
            "first": f"{first.at:%Y-%m-%d %H:%M}",
            "last": f"{images[-1].at:%Y-%m-%d %H:%M}",
        },
        flaws=("What comes in from beyond the radar's range cannot be known.",),
    )
    return Dataset(card, ArrayFrames(u[None, :, None]), conditions=Conditions(mask=mask[None]))


def _read(path: Path) -> _Image:
    try:
        with h5py.File(path, "r") as file:
            return _knmi(file, path) if _KNMI in file else _odim(file, path)
    except Exception as error:
        raise ValueError(f"{path.name}: {explain(error)}") from error


def _knmi(file: h5py.File, path: Path) -> _Image:
    image, overview = file["image1"], file["overview"].attrs
    words = image["calibration"].attrs
    formula = re.fullmatch(
        r"GEO=([-+\d.eE]+)\*PV([-+][\d.eE+-]+)", as_text(words["calibration_formulas"])
    )
    if formula is None:
        raise ValueError(f"its calibration '{as_text(words['calibration_formulas'])}' is unknown.")
    packed = np.asarray(open_array(file[_KNMI], path)[:, :])
    values = packed * float(formula[1]) + float(formula[2])
    for key in ("calibration_missing_data", "calibration_out_of_image"):
        if key in words:
            values[packed == np.ravel(words[key])[0]] = np.nan
    begin, end = (
        _time(overview[f"product_datetime_{k}"], "%d-%b-%Y;%H:%M:%S") for k in ("start", "end")
    )
    kind = as_text(image.attrs["image_geo_parameter"]).upper()
    kinds = {"ACCUM": "ACRR", "RAIN": "RATE", "PRECIP": "RATE", "REFLEC": "DBZH"}
    quantity = next((q for start, q in kinds.items() if kind.startswith(start)), kind)
    where = file["geographic"].attrs
    cell = tuple(abs(_number(where, f"geo_pixel_size_{a}")) for a in "yx")
    return _Image(_as_rate(values, quantity, end - begin), end, cell, "Radar images of KNMI")  # type: ignore[arg-type]


def _odim(file: h5py.File, path: Path) -> _Image:
    data = file["dataset1/data1"]
    found = [group["what"].attrs for group in (file, file["dataset1"], data) if "what" in group]
    words: dict[str, Any] = {key: group[key] for group in found for key in group}
    packed = np.asarray(open_array(file[_ODIM], path)[:, :])
    values = packed * _number(words, "gain") + _number(words, "offset")
    quantity = as_text(words["quantity"])
    values[packed == _number(words, "undetect")] = -99.0 if quantity.startswith("DBZ") else 0.0
    values[packed == _number(words, "nodata")] = np.nan
    begin, end = (
        _time(as_text(words[f"{k}date"]) + as_text(words[f"{k}time"]), "%Y%m%d%H%M%S")
        for k in ("start", "end")
    )
    where = file["where"].attrs
    cell = (_number(where, "yscale") / 1000, _number(where, "xscale") / 1000)
    source = as_text(words.get("source", "")) or "unknown source"
    return _Image(_as_rate(values, quantity, end - begin), end, cell, f"Radar images, {source}")


def _as_rate(values: np.ndarray, quantity: str, over: Any) -> np.ndarray:
    """Rain in mm/h from a rate, an accumulation or a reflectivity in dBZ."""
    if quantity == "RATE":
        return values
    if quantity == "ACRR":
        hours = over.total_seconds() / 3600
        if hours <= 0:
            raise ValueError("it does not say over which time its rain was accumulated.")
        return values / hours
    if quantity in ("DBZH", "TH", "DBZ"):
        return (10 ** (values / 10) / 200) ** (1 / 1.6)
    raise ValueError(f"it holds '{quantity}', not a rain rate, an accumulation or a reflectivity.")


def _number(words: Mapping[str, Any], key: str) -> float:
    if key not in words:
        raise ValueError(f"it does not say '{key}'.")
    return float(np.ravel(words[key])[0])


def _time(value: Any, form: str) -> datetime:
    words = as_text(np.ravel(value)[0]).split(".")[0]
    return datetime.strptime(words, form).replace(tzinfo=UTC)


def _even_minutes(times: Sequence[datetime]) -> float:
    """The minutes between two images, the same for all."""
    if len(times) < 2:
        raise ValueError("a single image has no next one: give a folder of images.")
    steps = np.array([(b - a).total_seconds() / 60 for a, b in pairwise(times)])
    step = float(np.median(steps))
    if (steps != step).any():
        i = int(np.flatnonzero(steps != step)[0])
        raise ValueError(
            f"the image after {times[i]:%Y-%m-%d %H:%M} is {steps[i]:g} minutes later, others "
            f"{step:g}: fetch the missing one, or open the images before and after it apart."
        )
    return step


def _span(seen: np.ndarray) -> tuple[int, int]:
    """First and last place that is seen, widened to a multiple of cells; it may leave the image."""
    low, high = int(np.flatnonzero(seen)[0]), int(np.flatnonzero(seen)[-1]) + 1
    missing = -(high - low) % _MULTIPLE
    return low - missing // 2, high + missing - missing // 2


def _cut(image: np.ndarray, box: tuple[slice, slice], beyond: Any) -> np.ndarray:
    """A box of an image, filled where it leaves it."""
    out = np.full(tuple(b.stop - b.start for b in box), beyond, dtype=image.dtype)
    kept = [slice(max(0, b.start), min(n, b.stop)) for b, n in zip(box, image.shape, strict=True)]
    place = tuple(
        slice(k.start - b.start, k.stop - b.start) for k, b in zip(kept, box, strict=True)
    )
    out[place] = image[tuple(kept)]
    return out
