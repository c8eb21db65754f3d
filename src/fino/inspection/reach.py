"""Does it see far enough?  How far the data move in a step against how far the model looks.

A local model whose reach is shorter than the light cone of its data has to guess what enters
from beyond.  What would help is tried out on thin copies of the network, not assumed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from fino.data.dataset import Dataset
from fino.data.lightcone import light_cone
from fino.grid import Grid
from fino.locality import Locality

__all__ = ["Reach", "levels_that_see", "reach"]


@dataclass(frozen=True)
class Reach:
    """The two distances on each axis, in cells and as a length, and what follows.

    `needed` is None where no data were given; `enough` is then None too.
    """

    radius: tuple[float, ...]
    length: tuple[float, ...]
    needed: tuple[float, ...] | None
    needed_length: float | None
    source: str
    enough: bool | None
    levels: int | None
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def reach(model: Any, data: Dataset | None = None) -> Reach:
    """Compare an emulator, or anything with `locality` and `grid`, with its data."""
    locality: Locality = model.locality
    grid: Grid = data.grid if data is not None else model.grid
    radius = locality.radius
    length = tuple(r * h for r, h in zip(radius, grid.spacing, strict=True))
    if data is None:
        words = f"this model sees {_cells(radius)} cells a step{_as_length(length)}."
        if not locality.is_local:
            words = "this model sees the whole field."
        return Reach(radius, length, None, None, "none", None, None, words)
    cone = light_cone(data)
    if cone.source == "steady":
        words = f"{data.card.name} is steady: its answer depends on the whole input everywhere, so "
        words += (
            f"no reach is enough; this model sees {_cells(radius)} cells of {_cells(grid.points)}."
            if locality.is_local
            else "only a model that sees the whole field can be exact; this one does."
        )
        enough: bool | None = not locality.is_local
        return Reach(radius, length, cone.cells, cone.length, "steady", enough, None, words)
    enough = all(r >= c for r, c in zip(radius, cone.cells, strict=True))
    levels = None if enough else levels_that_see(getattr(model, "network", model), grid, cone.cells)
    words = _sentence(locality, cone.cells, enough, levels, data, cone.source)
    if not enough and getattr(getattr(model, "settings", None), "predict", "") == "linear":
        words += (
            " What it adds to, past frames combined, brings the motion along;"
            " that holds for motion that repeats as in its data, and for no other."
        )
    return Reach(radius, length, cone.cells, cone.length, cone.source, enough, levels, words)


def levels_that_see(network: Any, grid: Grid, cells: tuple[float, ...]) -> int | None:
    """The fewest levels, more than now, whose reach covers `cells`; None if no number does."""
    settings = getattr(network, "settings", None)
    if settings is None or "levels" not in type(settings).model_fields:
        return None
    values = settings.model_dump()
    for levels in range(settings.levels + 1, settings.levels + 9):
        if any(n % 2**levels for n in grid.points):
            return None
        thin: dict[str, Any] = {**values, "levels": levels, "width": 1}
        if isinstance(values.get("blocks"), tuple | list):
            thin["blocks"] = (
                *values["blocks"],
                *[values["blocks"][-1]] * (levels - settings.levels),
            )
        with torch.random.fork_rng(devices=[]):
            seen: Locality = type(network)(**thin).eval().locality
        if all(r >= c for r, c in zip(seen.radius, cells, strict=True)):
            return levels
    return None


def _sentence(
    locality: Locality,
    cells: tuple[float, ...],
    enough: bool,
    levels: int | None,
    data: Dataset,
    source: str,
) -> str:
    moved = f"the data move {_cells(cells)} cells a step"
    if source == "estimated":
        moved += " (estimated from the data)"
    if not locality.is_local:
        return f"{moved}, this model sees the whole field: far enough."
    seen = f"this model sees {_cells(locality.radius)}"
    if enough:
        return f"{moved}, {seen}: far enough."
    short = max(c / r for r, c in zip(locality.radius, cells, strict=True))
    stride = data.card.stride_time
    if stride > 1:
        finer = (
            f"a smaller time stride (at most {max(1, math.floor(stride / short))}, now {stride})"
        )
    else:
        finer = f"data saved {math.ceil(short)} times as often"
    return f"{moved}, {seen}: use {f'levels = {levels} or ' if levels else ''}{finer}."


def _cells(numbers: tuple[float, ...]) -> str:
    """25.6, or 25.6 × 12 where the axes differ."""
    different = numbers if len(set(numbers)) > 1 else numbers[:1]
    return " × ".join("all" if math.isinf(n) else f"{n:.3g}" for n in different)


def _as_length(length: tuple[float, ...]) -> str:
    return f" ({_cells(length)} in length)"
