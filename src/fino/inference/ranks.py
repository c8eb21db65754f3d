"""A rollout over many processes: each marches its block, and a wide halo travels every k steps.

    read own block → exchange K frames → ( step k times → keep own block → exchange k frames )*

Axis by axis, each rank sends its faces to the two neighbours on that axis and receives theirs.
The second axis also sends what arrived along the first: corners travel in two hops and
cost no message of their own.  Frames whose halo came with an earlier exchange are not sent again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from fino.export.engine import choose_engine
from fino.given import Given
from fino.grid import per_axis
from fino.inference.band import add_band, check_start
from fino.inference.boxes import HIGH, LOW, Box, Mesh, Region, choose_mesh, crop, shape
from fino.inference.local import (
    LocalStep,
    find_model,
    like_weights,
    open_history,
    type_of_frames,
)
from fino.inference.process_group import ProcessGroup, is_launched, join_group
from fino.inference.rollout import rollout
from fino.inference.store import (
    MemoryStore,
    TrajectoryStore,
    as_array,
    create_store,
    finish,
    read_frames,
)
from fino.inference.tiles import Progress, choose_steps_per_halo, compute, until_divergence
from fino.trust.bands import Bands
from fino.trust.guards import Diverged, Watch

__all__ = ["Decomposition", "Share", "decompose", "rollout_launched", "rollout_ranks"]


#: Later than any step.
_NEVER = 2**62


@dataclass(frozen=True)
class Decomposition:
    """How processes share a domain: their mesh, and the steps that a halo carries.

    With `overlap`, the cells that need nothing from others are computed while the halo travels.
    That hides slow messages, and computes the cells twice that inner part and shell both read.
    Good to start with: what `decompose` chooses; overlap where waiting for halos takes a tenth
    of the time or more.
    """

    mesh: Mesh
    steps_per_halo: int = 1
    overlap: bool = False


def decompose(
    step: LocalStep,
    ranks: int,
    steps: int,
    *,
    mesh: tuple[int, ...] | None = None,
    steps_per_halo: int | None = None,
    overlap: bool = False,
) -> Decomposition:
    """Cut the domain for so many processes; the same on every rank.

    The mesh is the one with the least halo for the largest block, unless one is given.  A halo
    carries as many steps as `choose_steps_per_halo` finds, as for tiles.
    """
    least = step.locality.halo(steps_per_halo or 1)
    cut = choose_mesh(step.domain, ranks, least) if mesh is None else Mesh(step.domain, mesh)
    if cut.ranks != ranks:
        raise ValueError(f"a mesh of {mesh} needs {cut.ranks} processes, but there are {ranks}.")
    cut.check(least)
    blocks = [cut.block(rank) for rank in range(ranks)]

    def carried(count: int) -> Sequence[Box]:
        return blocks if cut.carries(step.locality.halo(count)) else ()

    count = steps_per_halo or choose_steps_per_halo(step, carried, steps)
    return Decomposition(cut, count, overlap)


@dataclass(frozen=True, eq=False)
class Share:
    """What one rank has when the rollout is over.

    `frames` (b, t, c, *block) unless they went to a file; seconds of the whole and of waiting
    for halos.
    """

    frames: Any
    block: Box
    seconds: float
    halo_seconds: float = 0.0

    @property
    def halo_share(self) -> float:
        return self.halo_seconds / self.seconds if self.seconds else 0.0


def rollout_launched(
    run: Any,
    history: Any,
    steps: int,
    *,
    mesh: tuple[int, ...] | None = None,
    region: Region | None = None,
    out: str | Path | None = None,
    interval: float | None = None,
    **settings: Any,
) -> Share | None:
    """`rollout` by this process, or by all that torchrun started; None on all but the first.

    `mesh` is for several processes, `region` for one.  The first process has its own block of
    the frames, or all of them if they went to the file `out`.
    """
    model = find_model(run)
    if not is_launched():
        begin = perf_counter()
        settings |= {"region": region, "out": out, "interval": interval}
        frames = rollout(model, history, steps, **settings)
        return Share(frames, (), perf_counter() - begin)
    weight = next(model.parameters(), None)
    on_device = weight is not None and weight.device.type != "cpu"
    with join_group("nccl" if on_device else "gloo") as group:
        step, _, _ = open_history(model, history)
        cut = decompose(step, group.size, steps, mesh=mesh)
        share = rollout_ranks(group, model, history, steps, cut, out=out, **settings)
    if group.rank > 0:
        return None
    if out is None:
        return share
    whole: Any = as_array(out)
    if interval is not None:
        bands, every = Bands.of(model, interval), settings.get("every", 1)
        assert bands is not None
        whole = add_band(model, bands, interval, whole, history, out=out, every=every)
    return replace(share, frames=whole)


def rollout_ranks(
    group: ProcessGroup,
    model: Any,
    history: Any,
    steps: int,
    decomposition: Decomposition | None = None,
    *,
    tile: int | Sequence[int] | None = None,
    out: str | Path | None = None,
    every: int = 1,
    engine: str | None = None,
    strict: bool = False,
    progress: Progress | None = None,
) -> Share:
    """This rank's part of a rollout that all ranks call with the same arguments.

    `history` is as `rollout` takes it, of the whole domain; each rank reads its block.  With
    `out`, each rank writes its block into one file.  A `tile` bounds the memory of a rank.  The
    `engine` is torch unless it is named, so that all ranks compute alike.
    """
    step, store, alone = open_history(model, history)
    if engine is not None:
        chosen = choose_engine(model, engine, store.shape[0], store.shape[3:], steps)
        step = replace(step, step=chosen)
    cut = decomposition or decompose(step, group.size, steps)
    if group.rank == 0:
        check_start(find_model(model), history, strict)
    rank = _Rank(group, step, cut, store, Watch(model, steps, store.shape[3:], strict=strict), tile)
    block = rank.halo.block
    space = shape(block) if out is None else store.shape[3:]
    size = (store.shape[0], steps // every, store.shape[2], *space)
    ways: Any = {"alone": alone, "every": every, "rank": group.rank, "wait": dist.barrier}
    dtype = type_of_frames(model, store.dtype)
    with create_store(out, size, dtype, **ways) as result:
        own = replace(result, origin=_origin(block)) if isinstance(result, MemoryStore) else result
        timing = rank.march(steps, own, every, progress)
    return Share(finish(result, None, alone) if out is None else None, block, *timing)


def _origin(box: Box) -> tuple[int, ...]:
    return tuple(start for start, _ in box)


class _Rank:
    """One process at work: its window of the recent frames, and the exchange that renews it."""

    def __init__(
        self,
        group: ProcessGroup,
        step: LocalStep,
        cut: Decomposition,
        store: TrajectoryStore,
        watch: Watch,
        tile: int | Sequence[int] | None = None,
    ) -> None:
        self.group, self.step, self.cut = group, step, cut
        self.tile = step.domain.points if tile is None else per_axis(tile, step.domain.dims)
        width = step.locality.halo(cut.steps_per_halo)
        self.halo = Halo(cut.mesh, group.rank, width, group.lost)
        self.samples = range(store.shape[0])
        last = range(store.shape[1] - step.history, store.shape[1])
        known = [read_frames(store, sample, last, self.halo.block) for sample in self.samples]
        self.recent = self.halo.room(like_weights(Given(torch.stack(known)), step.step).history)
        self.waited, self.watch = 0.0, watch

    def march(
        self, steps: int, result: TrajectoryStore, every: int, progress: Progress | None
    ) -> tuple[float, float]:
        """All steps; (seconds, of which waiting for halos)."""
        begin = perf_counter()
        with ThreadPoolExecutor(max_workers=1) as messenger:
            renewed = self._renew(self.recent, messenger)
            for start in range(0, steps, self.cut.steps_per_halo):
                times = range(start, min(start + self.cut.steps_per_halo, steps))
                frames, found = self._step(times, renewed)
                if stop := self._agree(found):
                    self._keep(frames[:, : stop.step - 1 - start], start, result, every)
                    raise stop
                if times.stop < steps:
                    renewed = self._renew(self._shift(frames), messenger)
                self._keep(frames, start, result, every)
                if progress:
                    progress(times.stop / steps)
            self._wait(renewed)
        return perf_counter() - begin, self.waited

    def _step(self, times: range, renewed: Future[None] | None) -> tuple[Tensor, Diverged | None]:
        """Some steps of the own block, (b, times, c, *block), and where it diverges if it does."""
        block = self.halo.block
        size = (len(self.samples), len(times), self.recent.shape[2], *shape(block))
        frames = self.recent.new_empty(size)
        inner: list[Box] = []
        shell: list[Box] = [block]
        if self.cut.overlap:
            width = self.step.locality.halo(len(times))
            inner, shell = self.cut.mesh.inner_and_shell(self.halo.rank, width)
        found = self._compute(inner, times, frames)
        self._wait(renewed)
        times = range(times.start, found.step - 1) if found else times
        return frames, self._compute(shell, times, frames) or found

    def _compute(self, boxes: Sequence[Box], times: range, frames: Tensor) -> Diverged | None:
        try:
            for _ in until_divergence(partial(self._march, boxes, frames), times):
                pass
        except Diverged as found:
            return found
        return None

    def _march(self, boxes: Sequence[Box], frames: Tensor, times: range) -> Iterator[int]:
        window = MemoryStore(self.recent, _origin(self.halo.window))
        target = MemoryStore(frames, _origin(self.halo.block))

        def past(sample: int, box: Box) -> Tensor:
            return read_frames(window, sample, range(self.step.history), box)

        def write(sample: int, time: int, box: Box, values: Tensor) -> None:
            target.write(sample, time - times.start, box, values)

        width = self.step.locality.halo(len(times))
        tiles = [tile for box in boxes for tile in self.step.domain.cut(box, self.tile, width)]
        many = len(self.samples)
        return compute(self.step, tiles, self.samples, times, past, write, many, self.watch)

    def _agree(self, found: Diverged | None) -> Diverged | None:
        """Where the rollout diverges first on any rank; the same answer on all of them."""
        group, first = self.group, torch.tensor([found.step if found else _NEVER])
        try:
            first = first.to(self.recent.device)
            dist.all_reduce(first, dist.ReduceOp.MIN)
        except RuntimeError as error:
            raise group.lost((group.rank + 1) % group.size, error) from None
        if int(first) == _NEVER:
            return None
        told: list[Any] = [None] * group.size
        dist.all_gather_object(told, found)
        return next(one for one in told if one is not None and one.step == int(first))

    def _shift(self, frames: Tensor) -> Tensor:
        """Move on in time; returns the frames whose halo is still missing."""
        fresh = frames[:, -self.step.history :]
        kept = self.recent[:, fresh.shape[1] :]
        self.recent = torch.cat([kept, self.halo.room(fresh)], dim=1)
        return self.recent[:, kept.shape[1] :]

    def _keep(self, frames: Tensor, start: int, result: TrajectoryStore, every: int) -> None:
        for time in range(start, start + frames.shape[1]):
            if (time + 1) % every == 0:
                for sample in self.samples:
                    values = frames[sample, time - start]
                    result.write(sample, (time + 1) // every - 1, self.halo.block, values)

    def _renew(self, window: Tensor, messenger: ThreadPoolExecutor) -> Future[None] | None:
        """Exchange halos: at once, or by the messenger while this thread goes on."""
        if self.cut.overlap:
            return messenger.submit(self.halo.exchange, window)
        begin = perf_counter()
        self.halo.exchange(window)
        self.waited += perf_counter() - begin
        return None

    def _wait(self, renewed: Future[None] | None) -> None:
        if renewed is not None:
            begin = perf_counter()
            renewed.result()
            self.waited += perf_counter() - begin


class Halo:
    """How one rank of a mesh fills the cells around its block.

    (b, f, c, *window), right in the block  →  right in the whole window
    """

    def __init__(
        self,
        mesh: Mesh,
        rank: int,
        width: tuple[int, ...],
        lost: Callable[[int, Exception], Exception] | None = None,
    ) -> None:
        mesh.check(width)
        self.mesh, self.rank, self.width = mesh, rank, width
        self.block: Box = mesh.block(rank)
        self.window: Box = mesh.domain.grow(self.block, width)
        self._lost = lost or (lambda neighbour, error: error)

    def room(self, block: Tensor) -> Tensor:
        """A window's tensor with the block's values in its middle; its halo is not filled."""
        sizes = shape(self.window)
        window = block.new_empty((*block.shape[: -len(sizes)], *sizes))
        crop(window, self.block, self.window).copy_(block)
        return window

    def exchange(self, window: Tensor) -> None:
        """Fill the halo of a window in place; every rank of the mesh has to call it."""
        for axis in range(self.mesh.domain.dims):
            self._exchange_axis(window, axis)

    def _exchange_axis(self, window: Tensor, axis: int) -> None:
        (start, stop), (first, last) = self.block[axis], self.window[axis]
        operations: list[dist.P2POp] = []
        arriving: list[tuple[Tensor, Tensor]] = []
        for side, other in ((LOW, HIGH), (HIGH, LOW)):
            # My low face is the high halo of my low neighbour, and so on.  This order also pairs
            # the messages where both neighbours are one rank and a library ignores tags.
            tag = 2 * axis + side
            to = self.mesh.neighbour(self.rank, axis, side)
            if to is not None and (count := self.mesh.ghosts(to, self.width, axis, other)):
                span = (start, start + count) if side == LOW else (stop - count, stop)
                face = self._slab(window, axis, span).contiguous()
                operations.append(dist.P2POp(dist.isend, face, to, tag=tag))
            come = self.mesh.neighbour(self.rank, axis, other)
            ghosts = self._slab(window, axis, (first, start) if other == LOW else (stop, last))
            if come is not None and ghosts.numel():
                buffer = torch.empty_like(ghosts, memory_format=torch.contiguous_format)
                operations.append(dist.P2POp(dist.irecv, buffer, come, tag=tag))
                arriving.append((ghosts, buffer))
        self._carry_out(operations)
        for ghosts, buffer in arriving:
            ghosts.copy_(buffer)

    def _carry_out(self, operations: list[dist.P2POp]) -> None:
        if not operations:
            return
        peer = operations[0].peer
        try:
            for operation, work in zip(operations, dist.batch_isend_irecv(operations), strict=True):
                peer = operation.peer
                work.wait()
        except RuntimeError as error:
            raise self._lost(peer, error) from None

    def _slab(self, window: Tensor, axis: int, span: tuple[int, int]) -> Tensor:
        """A span of an axis, with the halos of the axes before it, which have arrived."""
        slab = (*self.window[:axis], span, *self.block[axis + 1 :])
        return crop(window, slab, self.window)
