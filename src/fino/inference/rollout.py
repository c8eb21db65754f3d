"""`fino.rollout`: one verb for a field in memory, a field on disk, a region, many tiles.

    fino.rollout(model, history, steps=91)                          as it comes
    fino.rollout(model, history, steps=91, tile=512)                in the memory of a tile
    fino.rollout(model, "start.npy", steps=500, tile=512, out="end.npy", every=100)
    fino.rollout(model, history, steps=20, region=((40, 60), (0, 32)))   its light cone only

Every one of them gives the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fino.inference.costs import assumed
from fino.inference.disk import as_array, is_on_disk, new_film, open_film, scratch_film
from fino.inference.films import Film, TensorFilm
from fino.inference.local import LocalStep, check_history, local_stepper
from fino.inference.march import march
from fino.inference.plan import Plan, make_plan
from fino.inference.region import Region, as_box, cone
from fino.inference.tiles import per_axis, shape
from fino.inference.timeline import Timeline
from fino.model.rollout import frames
from fino.model.rollout import rollout as plain_rollout
from fino.shapes import Trajectory

__all__ = ["plan_rollout", "rollout"]

Tile = int | Sequence[int] | Plan


def rollout(
    stepper: Any,
    history: Any,
    steps: int,
    *,
    tile: Tile | None = None,
    region: Region | None = None,
    out: str | Path | None = None,
    every: int = 1,
    progress: Callable[[float], None] | None = None,
) -> Trajectory | np.memmap:
    """Predict `steps` frames: (b, K, c, *space) → (b, steps, c, *space).

    A history without a batch, (K, c, *space), gives a trajectory without one.  It may be a tensor,
    an array, or the name of a .npy or .h5 file.  With `out` the frames go to such a file, and an
    array that reads from it is returned.

    `tile` cells along each axis are computed at a time, with a halo; or a `Plan`.  `region` is a
    (start, stop) pair for each axis; on a periodic axis it may wrap.  `every` keeps every n-th
    frame.
    """
    if steps < 0:
        raise ValueError(f"steps should be 0 or more, got {steps}.")
    if every < 1 or every > max(1, steps):
        raise ValueError(f"every should be between 1 and the {steps} steps, got {every}.")
    if tile is None and region is None:
        if out is None and every == 1 and progress is None and isinstance(history, torch.Tensor):
            return plain_rollout(stepper, history, steps)
        return _streamed(stepper, history, steps, out, every, progress)
    film, alone = open_film(history, _dims(stepper, history))
    step = local_stepper(stepper, film.shape[3:])
    check_history(step, film, stepper)
    if tile is None:
        plan = Plan(tile=step.domain.points, steps_per_halo=max(1, steps))
    else:
        on_disk = out is not None or is_on_disk(history)
        plan = plan_rollout(step, tile, steps, film.shape[2], film.shape[0], on_disk=on_disk)
    box = step.domain.whole if region is None else as_box(region, step.domain)
    box_at = None if region is None else cone(step, box, steps)
    samples, _, channels, *points = film.shape
    with ExitStack() as stack:
        kept = (samples, steps // every, channels, *shape(box))
        result = stack.enter_context(new_film(out, kept, film.dtype, alone=alone))
        if region is None and every == 1:
            timeline = Timeline(film, result)
        else:
            ring = (samples, step.history + plan.steps_per_halo, channels, *points)
            recent = stack.enter_context(scratch_film(out, ring, film.dtype))
            timeline = Timeline(film, recent, result, box, every)
        march(step, timeline, steps, plan, box_at, progress)
    return _handed_over(result, out, alone)


def plan_rollout(
    step: LocalStep,
    tile: Tile,
    steps: int,
    channels: int,
    samples: int = 1,
    *,
    on_disk: bool = False,
) -> Plan:
    """The plan for a tile size, with the costs that the network's arithmetic suggests."""
    if isinstance(tile, Plan):
        return tile
    return make_plan(
        step,
        per_axis(tile, step.domain.dims),
        assumed(step, on_disk=on_disk),
        steps=steps,
        channels=channels,
        samples=samples,
    )


def _streamed(
    stepper: Any,
    history: Any,
    steps: int,
    out: str | Path | None,
    every: int,
    progress: Callable[[float], None] | None,
) -> Trajectory | np.memmap:
    """Whole frames one after another, for any stepper; memory for the history and one frame."""
    film, alone = open_film(history, _dims(stepper, history))
    samples, known, _, *points = film.shape
    whole = tuple((0, n) for n in points)
    given = torch.stack(
        [
            torch.stack([film.read(sample, time, whole) for time in range(known)])
            for sample in range(samples)
        ]
    )
    given = _brought(stepper, given)
    kept = (samples, steps // every, *film.shape[2:])
    with new_film(out, kept, film.dtype, alone=alone) as result, torch.no_grad():
        for time, frame in enumerate(frames(stepper, given, steps), start=1):
            if time % every == 0:
                for sample in range(samples):
                    result.write(sample, time // every - 1, whole, frame[sample])
            if progress:
                progress(time / steps)
    return _handed_over(result, out, alone)


def _brought(stepper: Any, history: Trajectory) -> Trajectory:
    """The history in the type and on the device of the stepper's weights, if it has any."""
    weight = next(stepper.parameters(), None) if isinstance(stepper, torch.nn.Module) else None
    return history if weight is None else history.to(weight)


def _handed_over(result: Film, out: str | Path | None, alone: bool) -> Trajectory | np.memmap:
    if out is not None:
        return as_array(out)
    assert isinstance(result, TensorFilm)
    return result.frames[0] if alone else result.frames


def _dims(stepper: Any, history: Any) -> int:
    grid = getattr(stepper, "grid", None)
    return grid.dims if grid is not None else len(getattr(history, "shape", (0,) * 4)) - 3
