"""Marching a domain through time, tile by tile, k steps a halo.

    for each block of k steps:   for each tile:   read once, step k times, write k frames

What is computed may be the whole domain at every time, or a box that changes with time: the
light cone of a region narrows towards it, that of an edit widens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from fino.inference.local import LocalStep
from fino.inference.plan import Plan
from fino.inference.tiled import compute, groups
from fino.inference.tiles import Box, cells
from fino.inference.timeline import Timeline

__all__ = ["Work", "march"]

#: The box to compute in the frame at a time.
BoxAt = Callable[[int], Box]


@dataclass(frozen=True)
class Work:
    """How many cells were stepped, and how many a plain run over the domain would have."""

    computed: int
    undivided: int

    @property
    def share(self) -> float:
        return self.computed / self.undivided if self.undivided else 0.0

    def __str__(self) -> str:
        return f"{self.share:.1%} of the cells of a full run were computed."


def march(
    step: LocalStep,
    timeline: Timeline,
    steps: int,
    plan: Plan,
    box_at: BoxAt | None = None,
    progress: Callable[[float], None] | None = None,
) -> Work:
    """Compute the frames 0 … steps − 1 into the timeline."""
    samples = timeline.samples
    work = _blocks(step, steps, plan, box_at or (lambda time: step.domain.whole))
    total = sum(_cells(step, tiles, count) for _, count, tiles in work)
    done = 0
    for start, count, tiles in work:
        end = start + count

        def read(sample: int, window: Box, start: int = start) -> Tensor:
            return timeline.past(sample, start, step.history, window)

        def write(
            sample: int, time: int, box: Box, values: Tensor, start: int = start, end: int = end
        ) -> None:
            needed = end < steps and start + time >= end - step.history
            timeline.write(sample, start + time, box, values, needed)

        for group in groups(step, tiles, samples, count, plan.batch):
            compute(step, group, count, read, write)
            done += _cells(step, [box for _, box in group], count)
            if progress:
                progress(done / (total * len(samples)))
    return Work(total, steps * cells(step.domain.whole))


def _blocks(
    step: LocalStep, steps: int, plan: Plan, box_at: BoxAt
) -> list[tuple[int, int, tuple[Box, ...]]]:
    """(first time, number of steps, tiles) of each block; equal tiles are kept once."""
    known: dict[tuple[Box, int], tuple[Box, ...]] = {}
    blocks = []
    for start in range(0, steps, plan.steps_per_halo):
        count = min(plan.steps_per_halo, steps - start)
        box = box_at(start + count - 1)
        if (box, count) not in known:
            halo = step.locality.halo(count)
            known[box, count] = step.domain.tiles(box, plan.tile, halo)
        blocks.append((start, count, known[box, count]))
    return blocks


def _cells(step: LocalStep, tiles: list[Box] | tuple[Box, ...], steps: int) -> int:
    return sum(cells(window) for tile in tiles for window in step.windows(tile, steps)[:-1])
