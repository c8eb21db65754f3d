"""Does it see far enough?  How far the data move in a step against how far the model looks.

A local model whose reach is shorter than the light cone of its data has to guess what enters
from beyond.  What would help is tried out on thin copies of the network, not assumed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from fino.data.dataset import Dataset
from fino.data.lightcone import light_cone
from fino.grid import Grid
from fino.locality import Locality
from fino.model.emulator import Emulator

__all__ = ["Reach", "reach"]


@dataclass(frozen=True)
class Reach:
    """The two distances on each axis, in cells and as a length, and what follows.

    `needed` is None where no data were given; `enough` is then None too.  `source` says how it
    is known: "card", "estimated", "steady" (no finite reach is enough) or "none".  `levels` are
    the fewest that would see far enough, `points` the cells of the grid, `stride_time` the
    stride of the data.
    """

    radius: tuple[float, ...]
    length: tuple[float, ...]
    needed: tuple[float, ...] | None = None
    needed_length: float | None = None
    source: str = "none"
    enough: bool | None = None
    levels: int | None = None
    points: tuple[int, ...] = ()
    stride_time: int = 1


def reach(model: Emulator, data: Dataset | None = None) -> Reach:
    """Compare a model with its data."""
    grid, radius = data.grid if data is not None else model.grid, model.locality.radius
    length = tuple(r * h for r, h in zip(radius, grid.spacing, strict=True))
    if data is None:
        return Reach(radius, length, points=grid.points)
    cone, levels = light_cone(data), None
    enough = all(r >= c for r, c in zip(radius, cone.cells, strict=True))
    if not enough and cone.source != "steady":
        levels = _levels_that_see(model.network, grid, cone.cells)
    stride = data.card.stride_time
    return Reach(
        radius, length, cone.cells, cone.length, cone.source, enough, levels, grid.points, stride
    )


def _levels_that_see(network: Any, grid: Grid, cells: tuple[float, ...]) -> int | None:
    """The fewest levels, more than now, whose reach covers `cells`; None if no number does."""
    settings = network.settings
    if "levels" not in type(settings).model_fields:
        return None
    values = settings.model_dump()
    for levels in range(settings.levels + 1, settings.levels + 9):
        if any(n % 2**levels for n in grid.points):
            return None
        thin: dict[str, Any] = {**values, "levels": levels, "width": 1}
        if isinstance(values.get("blocks"), tuple | list):
            more = [values["blocks"][-1]] * (levels - settings.levels)
            thin["blocks"] = (*values["blocks"], *more)
        with torch.random.fork_rng(devices=[]):
            seen: Locality = type(network)(**thin).eval().locality
        if all(r >= c for r, c in zip(seen.radius, cells, strict=True)):
            return levels
    return None
