"""After an edit, recompute only what can have changed.

    after = fino.update(run, edited_history, trajectory, patch=((40, 48), (40, 48)))
    after.trajectory        as if everything had been computed again
    print(after)            1.9% of the cells of a full run were computed.

An edit of some cells is felt within radius of them one step later, within twice the radius two
steps later: outside that cone the old frames stay true and are only read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fino.inference.boxes import Box, Region, as_box, per_axis
from fino.inference.local import LocalStep, find_model, open_history
from fino.inference.store import TrajectoryStore, create_store, finish, open_store
from fino.inference.tiles import BoxAt, Plan, Progress, Timeline, Work, march
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
    run: Any,
    history: Any,
    trajectory: Any,
    patch: Region,
    *,
    tile: int | Sequence[int] | None = None,
    out: str | Path | None = None,
    progress: Progress | None = None,
) -> Update:
    """The trajectory that follows from an edited history, given the one from before the edit.

    run          a run, or a model that says how far it sees
    history      the edited one, as `fino.rollout` takes it; it is not altered
    trajectory   every frame that followed the old one: a tensor, an array or a file; it is not
                 altered either
    patch        a (start, stop) pair for each axis around all edited cells; `changed` finds it
    tile         cells along each axis that are computed at a time, to bound the memory
    out          a .npy or .h5 file for the new trajectory
    progress     is called with the share that is done, 0 to 1
    """
    model = find_model(run)
    step, store, alone = open_history(model, history)
    dims, points = step.domain.dims, step.domain.points
    old, _ = open_store(trajectory, model.grid, "trajectory")
    if (store.shape[0], *store.shape[2:]) != (old.shape[0], *old.shape[2:]):
        raise ValueError(
            f"trajectory should continue the history {store.shape}, got {old.shape}: batch, "
            f"channels and space should agree."
        )
    box_at = _influence(step, as_box(patch, step.domain, "patch"))
    size = points if tile is None else per_axis(tile, dims)
    with create_store(out, old.shape, old.dtype, alone=alone) as result:
        _copy(old, result, step.domain.cut(step.domain.whole, size, (0,) * dims))
        timeline = Timeline(store, result)
        work = march(step, timeline, old.shape[1], Plan(size), box_at, progress)
    return Update(finish(result, out, alone), work)


def _influence(step: LocalStep, patch: Box) -> BoxAt:
    """The box outside which a frame cannot have changed: the patch and its radius a step."""

    def box_at(time: int) -> Box:
        reach = [int((time + 1) * r) for r in step.locality.radius]
        return step.domain.align(step.domain.grow(patch, reach))

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


def _copy(source: TrajectoryStore, target: TrajectoryStore, tiles: Sequence[Box]) -> None:
    with torch.no_grad():
        for sample in range(source.shape[0]):
            for time in range(source.shape[1]):
                for tile in tiles:
                    target.write(sample, time, tile, source.read(sample, time, tile))
