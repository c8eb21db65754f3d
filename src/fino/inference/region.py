"""Regions of interest: a prediction for a few cells needs their light cone and nothing else.

A cell at the last step depends on cells within radius of it one step before, and on those within
radius of these before that: the cone is widest at the start.

    box at time t  =  region + halo(steps left after t)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fino.inference.local import LocalStep, local_stepper
from fino.inference.march import BoxAt, Work
from fino.inference.tiles import Box, Domain, cells

__all__ = ["as_box", "cone", "cone_work"]

#: A (start, stop) pair for each axis.
Region = Sequence[Sequence[int]]


def as_box(region: Region, domain: Domain, name: str = "region") -> Box:
    """A region in the user's words as a box, or one line that says what is wrong with it."""
    try:
        box = tuple((int(start), int(stop)) for start, stop in region)
    except (TypeError, ValueError):
        box = ()
    if len(box) != domain.dims:
        raise ValueError(
            f"{name} should be a (start, stop) pair for each of {domain.dims} axes, got {region}."
        )
    for axis, ((start, stop), n) in enumerate(zip(box, domain.points, strict=True)):
        if not 0 < stop - start <= n:
            raise ValueError(
                f"{name} should cover 1 to {n} cells on axis {axis}, got {start} to {stop}."
            )
        if not domain.periodic[axis] and not 0 <= start < stop <= n:
            raise ValueError(
                f"{name} should lie within 0 to {n} on axis {axis}, which does not wrap, "
                f"got {start} to {stop}."
            )
    return box


def cone(step: LocalStep, region: Box, steps: int) -> BoxAt:
    """The box that has to be right at each time so that the region is right at every time."""
    core = step.domain.aligned(region)

    def box_at(time: int) -> Box:
        return step.domain.grown(core, step.locality.halo(steps - 1 - time))

    return box_at


def cone_work(model: Any, region: Region, steps: int, points: Sequence[int] | None = None) -> Work:
    """How much of a full run the light cone of a region is, before computing it."""
    step = local_stepper(model, points or model.grid.points)
    box_at = cone(step, as_box(region, step.domain), steps)
    halo = step.locality.halo()
    computed = sum(cells(step.domain.grown(box_at(time), halo)) for time in range(steps))
    return Work(computed, steps * cells(step.domain.whole))
