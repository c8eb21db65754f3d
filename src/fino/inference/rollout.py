"""`fino.rollout`: one verb for a field in memory, a field on disk, a region, many tiles.

    fino.rollout(run, data.test[0], steps=91)                       as it comes
    fino.rollout(run, history, steps=91, tile=512)                  in the memory of a tile
    fino.rollout(run, "start.npy", steps=500, tile=512, out="end.npy", every=100)
    fino.rollout(run, history, steps=20, region=((40, 60), (0, 32)))     its light cone only

Every one of them gives the same numbers.  After an edit, `fino.update` computes only what can
have changed:

    after = fino.update(run, edited_history, trajectory, patch=((40, 48), (40, 48)))
    after.trajectory        as if everything had been computed again
    print(after)            1.9% of the cells of a full run were computed.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fino.data.dataset import Sample, card_of
from fino.export.engine import choose_engine
from fino.given import Given
from fino.grid import per_axis
from fino.inference.band import add_band, check_start
from fino.inference.boxes import Box, Region, as_box, cells, shape
from fino.inference.local import (
    LocalStep,
    find_model,
    like_weights,
    local_step,
    open_history,
    type_of_frames,
)
from fino.inference.store import (
    TrajectoryStore,
    create_ring,
    create_store,
    finish,
    found_in,
    mark,
    open_store,
    read_frames,
)
from fino.inference.tiles import BoxAt, Plan, Progress, Timeline, Work, choose_plan, march
from fino.model.emulator import Emulator
from fino.model.rollout import frames
from fino.shapes import Trajectory
from fino.trust.bands import REACH, Bands
from fino.trust.guards import Watch

__all__ = ["Update", "changed", "light_cone", "rollout", "update"]


def rollout(
    run: Any,
    history: Any,
    steps: int,
    *,
    tile: int | Sequence[int] | Plan | None = None,
    region: Region | None = None,
    parameters: Mapping[str, Any] | None = None,
    known: Mapping[str, Any] | None = None,
    forcing: Mapping[str, Any] | None = None,
    mask: Any = None,
    out: str | Path | None = None,
    every: int = 1,
    engine: str | None = None,
    interval: float | None = None,
    strict: bool = False,
    gradient: bool = False,
    progress: Progress | None = None,
) -> Any:
    """Predict `steps` frames: (b, K, c, *space) → (b, steps, c, *space).

    run         a run, or anything that steps: a model, a solver, a function of a history
    history     where to start: a sample, a tensor, an array, a `Given`, or the name of a .npy or
                .h5 file; without a batch, (K, c, *space), the trajectory has none either
    tile        cells along each axis that are computed at a time, with a halo, to bound the
                memory; 128 to 512 in two dimensions; or a `Plan`
    region      a (start, stop) pair of cells for each axis, to predict only these; on a periodic
                axis it may wrap
    parameters  scalars θ by name, {"nu": 0.03}: one for all or one for each trajectory; they
                replace those of a sample.  Values that the training never saw are warned of.
    known       fields that are constant in time, by name: (*space)
    forcing     what is known in advance, by name: (steps + 1, …) from the newest frame on, or a
                function of the time since then
    mask        cells that are not part of the domain: True there, (*space)
    out         a .npy or .h5 file for the frames; an array that reads from it is returned
    every       keep every n-th frame; a model that was trained on several strides goes from one
                to the next in as few steps as it can
    engine      what computes: "torch", or "c", compiled code that is kept in the user's cache and
                agrees with torch to 1e-5; if not given, the faster of the two for a model that is
                compiled already, and for long rollouts
    interval    a share such as 0.9: a `Prediction` is returned, whose lower and upper fields hold
                so many of all cells of trajectories like the validation ones.  With `out`, they go
                to files beside it
    strict      refuse a start, parameters or values that are unlike the training data, of which
                one line is warned otherwise
    gradient    keep what autograd needs to differentiate the frames by the history, parameters,
                known fields or forcing, given as tensors with requires_grad, or by the weights;
                the memory grows with the steps
    progress    is called with the share that is done, 0 to 1
    """
    model = find_model(run)
    bands = None if interval is None else Bands.of(model, interval)
    if isinstance(model, Emulator):
        conditions = (parameters, known, forcing, mask)
        history = _with_conditions(model, history, steps, conditions, strict)
    elif parameters or known or forcing or mask is not None:
        raise ValueError(
            "parameters, known fields, forcing and masks are for a trained model; this stepper "
            "takes the history alone. Build them into the stepper."
        )
    if steps < 0:
        raise ValueError(f"steps should be 0 or more, got {steps}.")
    if every < 1 or every > max(1, steps):
        raise ValueError(f"every should be between 1 and the {steps} steps, got {every}.")
    if not gradient:  # a start that is sought passes through unlikely ones
        check_start(model, history, strict)
    apart = every
    jumps = every > 1 and isinstance(model, Emulator) and len(model.strides) > 1
    if jumps and "dt" not in (parameters or {}):
        history, steps, every = _with_pace(model, history, every), steps // every, 1
    if gradient:
        unfit = {"tile": tile, "region": region, "out": out, "interval": interval, "engine": engine}
        return _differentiable(model, history, steps, every, progress, unfit)
    ways: Any = {"every": every, "progress": progress, "strict": strict, "engine": engine}
    if bands is None or region is None:
        done = _rollout(model, history, steps, tile, region, out, **ways)
        area = None
    else:
        domain = open_history(model, history)[0].domain
        area = as_box(region, domain)
        around = domain.grow(area, (REACH,) * domain.dims)
        done = _rollout(model, history, steps, tile, around, None, **ways)
    if bands is None or interval is None:
        return done
    return add_band(model, bands, interval, done, history, region=area, out=out, every=apart)


def _rollout(
    model: Any,
    history: Any,
    steps: int,
    tile: int | Sequence[int] | Plan | None,
    region: Region | None,
    out: str | Path | None,
    *,
    every: int,
    engine: str | None,
    progress: Progress | None,
    strict: bool,
) -> Trajectory | np.memmap:
    """The frames alone, whole one after another or in tiles."""
    if tile is None and region is None:
        return _rollout_whole(model, history, steps, out, every, engine, progress, strict)
    step, store, alone = open_history(model, history)
    samples, _, channels, *points = store.shape
    if tile is None:
        plan = Plan(tile=step.domain.points, steps_per_halo=max(1, steps))
    else:
        plan = choose_plan(step, tile, steps, samples)
    box = step.domain.whole if region is None else as_box(region, step.domain)
    box_at = None if region is None else _cone(step, box, steps)
    dtype = type_of_frames(model, store.dtype)
    with ExitStack() as stack:
        kept = (samples, steps // every, channels, *shape(box))
        key = None if out is None else _key(model, history, steps, every, plan, region, engine)
        room = create_store(out, kept, dtype, alone=alone, every=every, key=key)
        result = stack.enter_context(room)
        step = replace(step, step=_choose(model, engine, result, samples, points, steps))
        if region is None and every == 1:
            timeline = Timeline(store, result)
        else:
            ring = (samples, step.history + plan.steps_per_halo, channels, *points)
            recent = stack.enter_context(create_ring(out, ring, dtype, result))
            timeline = Timeline(store, recent, result, box, every)
        watch = Watch(model, steps, points, strict=strict)
        march(step, timeline, steps, plan, box_at, progress, watch)
    return finish(result, out, alone)


def _key(model: Any, history: Any, *facts: Any) -> str | None:
    """All that the frames depend on, as a hash; None where it cannot be known, as for a function.

    A file is known by its place, size and time, what is in memory by its numbers.
    """
    if not isinstance(model, Emulator):
        return None
    digest = hashlib.sha256(model.settings.model_dump_json().encode())
    tensors = list(model.state_dict().values())
    if isinstance(history, str | Path):
        path = Path(str(history).split(":")[0])
        facts = (*facts, str(history), path.resolve(), path.stat().st_size, path.stat().st_mtime_ns)
    else:
        given = Given.of(history)
        tensors += [given.history, *given.beside.values()]
        facts = (*facts, given.pace)
    for tensor in tensors:
        array = tensor.detach().cpu().numpy() if isinstance(tensor, Tensor) else np.asarray(tensor)
        digest.update(f"{array.shape} {array.dtype}".encode() + array.tobytes())
    digest.update("\n".join(map(str, facts)).encode())
    return digest.hexdigest()


def _choose(
    model: Any,
    engine: str | None,
    result: TrajectoryStore,
    samples: int,
    points: Sequence[int],
    steps: int,
) -> Any:
    """What computes: the engine that began an interrupted rollout, or what `choose_engine` says."""
    unfinished = getattr(result, "unfinished", None)
    begun = unfinished.engine if unfinished is not None else None
    chosen = choose_engine(model, begun or engine, samples, points, steps)
    if unfinished is not None:
        unfinished.engine = "torch" if chosen is model else "c"
    return chosen


def _with_pace(model: Emulator, history: Any, pace: int) -> Given | Sample:
    """The start for a model whose every step passes so many frames."""
    if isinstance(history, str | Path):
        raise ValueError(
            "a model of several strides starts from a history in memory: read the file first."
        )
    given = getattr(history, "given", history)
    alone = isinstance(history, Sample)
    if not isinstance(given, Given):
        frames = torch.as_tensor(given)
        alone = frames.dim() == model.grid.dims + 2
        given = Given(frames.unsqueeze(0) if alone else frames)
    given = replace(model.conditioning.with_dt(given.last(1)), pace=pace)
    return Sample(given, given.history[0, :0], 0, card_of(history)) if alone else given


def _with_conditions(
    model: Emulator,
    history: Any,
    steps: int,
    conditions: tuple[Any, Any, Any, Any],
    strict: bool,
) -> Any:
    """The start with what was given beside it by name; as it is where nothing was."""
    parameters, known, forcing, mask = conditions
    if not (parameters or known or forcing) and mask is None:
        given = getattr(history, "given", history)
        if isinstance(given, Given):
            model.conditioning.warn_outside(given, strict)
        return history
    if isinstance(history, str | Path):
        raise ValueError(
            "parameters, known fields, forcing and masks go with a history in memory: read the "
            "file first, or start from a sample."
        )
    given = Given.of(history if hasattr(history, "history") else torch.as_tensor(history))
    alone = isinstance(history, Sample)
    if given.history.dim() == model.grid.dims + 2:
        given, alone = replace(given, history=given.history.unsqueeze(0)), True
    given = model.conditioning.with_dt(given)
    given = model.conditioning.give(given, steps, model.settings.dt, *conditions)
    model.conditioning.warn_outside(given, strict)
    return Sample(given, given.history[0, :0], 0, card_of(history)) if alone else given


def light_cone(model: Any, region: Region, steps: int, points: Sequence[int] | None = None) -> Work:
    """How much of a full run the light cone of a region is, before computing it."""
    step = local_step(model, points or model.grid.points)
    box_at = _cone(step, as_box(region, step.domain), steps)
    halo = step.locality.halo()
    computed = sum(cells(step.domain.grow(box_at(time), halo)) for time in range(steps))
    return Work(computed, steps * cells(step.domain.whole))


def _cone(step: LocalStep, region: Box, steps: int) -> BoxAt:
    """The box that has to be right at each time so that the region is right at every time.

    A cell at the last step depends on cells within radius of it one step before, and on those
    within radius of these before that: the cone is widest at the start.
    """
    core = step.domain.align(region)

    def box_at(time: int) -> Box:
        return step.domain.grow(core, step.locality.halo(steps - 1 - time))

    return box_at


def _rollout_whole(
    model: Any,
    history: Any,
    steps: int,
    out: str | Path | None,
    every: int,
    engine: str | None,
    progress: Progress | None,
    strict: bool,
) -> Trajectory | np.memmap:
    """Whole frames one after another, for any stepper; memory for the history and one frame."""
    store, alone = open_store(history, getattr(model, "grid", None))
    samples, known, *_ = store.shape
    dtype, trained = type_of_frames(model, store.dtype), model
    whole = tuple((0, n) for n in store.shape[3:])
    recent = torch.stack([read_frames(store, i, range(known), whole) for i in range(samples)])
    given = getattr(history, "given", history)
    given = replace(given, history=recent) if isinstance(given, Given) else Given(recent)
    given = like_weights(given, model)
    kept = (samples, steps // every, *store.shape[2:])
    watch = Watch(model, steps, store.shape[3:], strict=strict)
    places = [(i, whole) for i in range(samples)]
    key = None if out is None else _key(trained, history, steps, every, engine)
    room = create_store(out, kept, dtype, alone=alone, every=every, key=key)
    with room as result, torch.no_grad():
        model = _choose(trained, engine, result, samples, store.shape[3:], steps)
        begun, last_frames = found_in(result)
        if last_frames is not None:
            given = like_weights(replace(given.at(begun), history=last_frames), trained)
        last = deque(given.history.unbind(dim=1), maxlen=given.history.shape[1])
        for time, frame in enumerate(frames(model, given, steps - begun), start=begun + 1):
            watch(frame, time - 1, places)
            if time % every == 0:
                for sample in range(samples):
                    result.write(sample, time // every - 1, whole, frame[sample])
            last.append(frame)
            mark(result, time, lambda: torch.stack([*last], dim=1))
            if progress:
                progress(time / steps)
    done = finish(result, out, alone)
    if isinstance(done, Tensor) and isinstance(history, Tensor):
        return done.to(history.device)
    return done


def _differentiable(
    model: Any,
    history: Any,
    steps: int,
    every: int,
    progress: Progress | None,
    unfit: dict[str, Any],
) -> Trajectory:
    """Every frame as a function of what was given, whose gradient autograd knows."""
    for name, value in unfit.items():
        if value not in (None, "torch"):
            raise ValueError(f"gradient=True keeps whole frames in memory: leave out {name}.")
    if isinstance(history, str | Path):
        raise ValueError("gradient=True starts from a tensor or a sample: read the file first.")
    dims = getattr(getattr(model, "grid", None), "dims", None)
    given = Given.of(history if hasattr(history, "history") else torch.as_tensor(history))
    # A sample or a history without a batch gives a trajectory without one.
    bare = dims is not None and given.history.dim() == dims + 2
    alone = bare or isinstance(history, Sample)
    given = replace(given, history=given.history.unsqueeze(0)) if bare else given
    given, kept = like_weights(given, model), []
    with torch.enable_grad():
        for time, frame in enumerate(frames(model, given, steps), start=1):
            kept += [frame] if time % every == 0 else []
            if progress:
                progress(time / steps)
    result = torch.stack(kept, dim=1) if kept else given.history[:, :0]
    return result[0] if alone else result


@dataclass(frozen=True, eq=False)
class Update(Work):
    """The new trajectory, and how much work it was."""

    trajectory: Trajectory | np.memmap


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
        watch = Watch(model, old.shape[1], points)
        work = march(step, timeline, old.shape[1], Plan(size), box_at, progress, watch)
    return Update(work.computed, work.undivided, finish(result, out, alone))


def _influence(step: LocalStep, patch: Box) -> BoxAt:
    """The box outside which a frame cannot have changed: the patch and its radius a step.

    An edit of some cells is felt within radius of them one step later, within twice the radius
    two steps later: outside that cone the old frames stay true and are only read.
    """

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
        hit = (differs.amax(dim=others) if others else differs).nonzero().flatten().tolist()
        n = differs.shape[axis]
        start, stop = hit[0], hit[-1] + 1
        gaps = [(b - a, i) for i, (a, b) in enumerate(pairwise(hit))]
        if wraps and gaps and max(gaps)[0] - 1 > n - (stop - start):
            widest = max(gaps)[1]
            start, stop = hit[widest + 1] - n, hit[widest] + 1
        spans.append((start, stop))
    return tuple(spans)


def _copy(source: TrajectoryStore, target: TrajectoryStore, tiles: Sequence[Box]) -> None:
    with torch.no_grad():
        for sample in range(source.shape[0]):
            for time in range(source.shape[1]):
                for tile in tiles:
                    target.write(sample, time, tile, source.read(sample, time, tile))
