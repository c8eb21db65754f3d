"""After an edit, recompute only what can have changed.

    after = fino.update(model, edited_history, trajectory, patch=((40, 48), (40, 48)))
    after.trajectory        as if everything had been computed again
    print(after)            1.9% of the cells of a full run were computed.

An edit of some cells is felt within radius of them one step later, within twice the radius two
steps later: outside that cone the old frames stay true and are only read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fino.inference.disk import as_array, new_film, open_film
from fino.inference.films import Film, TensorFilm
from fino.inference.local import LocalStep, local_stepper
from fino.inference.march import BoxAt, Work, march
from fino.inference.plan import Plan
from fino.inference.region import Region, as_box
from fino.inference.tiles import Box, per_axis
from fino.inference.timeline import Timeline
from fino.shapes import Trajectory

__all__ = ["Update", "changed", "update"]


@dataclass(frozen=True, eq=False)
class Update:
    """The new trajectory, and how much work it was."""

    trajectory: Trajectory | np.memmap
    work: Work

    @property
    def share(self) -> float:
        """Cells computed over cells of a full run."""
        return self.work.share

    def __str__(self) -> str:
        return str(self.work)


def update(
    model: Any,
    history: Any,
    trajectory: Any,
    patch: Region,
    *,
    tile: int | Sequence[int] | None = None,
    out: str | Path | None = None,
    progress: Callable[[float], None] | None = None,
) -> Update:
    """The trajectory that follows from an edited history, given the one from before the edit.

    `history` is the edited one, (K, c, *space) or with a batch; `trajectory` every frame that
    followed the old one; `patch` a (start, stop) pair for each axis around all edited cells
    (`changed` finds it).  Neither is altered.
    """
    dims = model.grid.dims
    film, alone = open_film(history, dims)
    old, _ = open_film(trajectory, dims, "trajectory")
    if (film.shape[0], *film.shape[2:]) != (old.shape[0], *old.shape[2:]):
        raise ValueError(
            f"trajectory should continue the history {film.shape}, got {old.shape}: batch, "
            f"channels and space should agree."
        )
    step = local_stepper(model, film.shape[3:])
    steps = old.shape[1]
    box_at = influence(step, as_box(patch, step.domain, "patch"))
    size = step.domain.points if tile is None else per_axis(tile, step.domain.dims)
    with new_film(out, old.shape, old.dtype, alone=alone) as result:
        _copy(old, result, step.domain.tiles(step.domain.whole, size, (0,) * dims))
        work = march(step, Timeline(film, result), steps, Plan(size), box_at, progress)
    if out is not None:
        return Update(as_array(out), work)
    assert isinstance(result, TensorFilm)
    return Update(result.frames[0] if alone else result.frames, work)


def influence(step: LocalStep, patch: Box) -> BoxAt:
    """The box outside which a frame cannot have changed: the patch and its radius a step."""

    def box_at(time: int) -> Box:
        reach = [int((time + 1) * r) for r in step.locality.radius]
        return step.domain.aligned(step.domain.grown(patch, reach))

    return box_at


def changed(before: Tensor, after: Tensor, periodic: Sequence[bool]) -> Box | None:
    """The smallest box around all cells that differ: (…, *space) ×2; None if none does.

    On a periodic axis it may wrap.
    """
    dims = len(periodic)
    differs = (before != after).flatten(0, -dims - 1).any(dim=0)
    if not differs.any():
        return None
    spans = []
    for axis, wraps in enumerate(periodic):
        others = [a for a in range(dims) if a != axis]
        cells = (differs.amax(dim=others) if others else differs).nonzero().flatten().tolist()
        n = differs.shape[axis]
        start, stop = cells[0], cells[-1] + 1
        gaps = [(b - a, i) for i, (a, b) in enumerate(pairwise(cells))]
        if wraps and gaps and max(gaps)[0] - 1 > n - (stop - start):
            widest = max(gaps)[1]
            start, stop = cells[widest + 1] - n, cells[widest] + 1
        spans.append((start, stop))
    return tuple(spans)


def _copy(source: Film, target: Film, tiles: Sequence[Box]) -> None:
    with torch.no_grad():
        for sample in range(source.shape[0]):
            for time in range(source.shape[1]):
                for tile in tiles:
                    target.write(sample, time, tile, source.read(sample, time, tile))
