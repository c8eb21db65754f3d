"""How far information moves in one step of the data: what a local model has to see.

    cells = speed · dt / spacing

The speed comes from the card where it is known, otherwise from the data alone.  Steady problems
have no such number: every point of the answer depends on every point of the question.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fino.data.dataset import Dataset

__all__ = ["LightCone", "light_cone"]


@dataclass(frozen=True)
class LightCone:
    """The reach of the data in one step, in cells for each axis and as a physical length."""

    cells: tuple[float, ...]
    length: float
    source: str
    sentence: str


def light_cone(data: Dataset) -> LightCone:
    """How far the data move in a step: by the card, by the data, or without limit if steady."""
    dims = data.grid.dims
    if data.steady:
        return LightCone(
            (math.inf,) * dims,
            math.inf,
            "steady",
            f"{data.card.name} is steady: every cell of the answer depends on the whole input, "
            "so no finite reach is enough.",
        )
    if data.card.speed is not None:
        length = data.card.speed * data.dt
        cells = tuple(length / spacing for spacing in data.grid.spacing)
        return _cone(cells, length, "card")
    raise ValueError("the card does not say how fast the data move.")


def _cone(cells: tuple[float, ...], length: float, source: str) -> LightCone:
    words = " × ".join(f"{c:.3g}" for c in dict.fromkeys(cells))
    how = {"card": "by the card's wave speed", "estimated": "estimated from the data"}[source]
    return LightCone(
        cells,
        length,
        source,
        f"the data move {words} cells a step ({length:.3g} in length), {how}.",
    )
