"""Exact inference in tiles: a field of any size in the memory of one tile, the same answer.

    for each block of k steps:   for each tile:   read tile + halo, step k times, write k frames

Nothing is blended.  A strictly local network gives every cell of a tile the value that it has
in the undivided run, to rounding: the library may add the same numbers in another order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fino.grid import per_axis
from fino.inference.boxes import Box, cells, crop, intersect
from fino.inference.local import LocalStep, Past, local_network
from fino.inference.store import MemoryStore, TrajectoryStore, found_in, mark, read_frames
from fino.shapes import Field, expect
from fino.trust.guards import Diverged

__all__ = [
    "BATCH_CELLS",
    "LARGER_WINDOW",
    "BoxAt",
    "Plan",
    "Progress",
    "Timeline",
    "Work",
    "apply",
    "choose_plan",
    "choose_steps_per_halo",
    "compute",
    "march",
    "until_divergence",
]

#: A halo of several steps may make the largest window so many times that of one step.
LARGER_WINDOW = 1.125
#: The most steps that a halo carries.
_MOST_STEPS = 16
#: Tiles are computed together up to this many cells.
BATCH_CELLS = 2**16

#: The box to compute in the frame at a time.
BoxAt = Callable[[int], Box]
#: Takes the tile of a sample at a time: (sample, time, box, (c, *box)).
Write = Callable[[int, int, Box, Tensor], None]
#: Looks at the tiles (n, c, *box) of a time before they are written: (frames, time, places).
Look = Callable[[Tensor, int, Sequence[tuple[int, Box]]], None]
Progress = Callable[[float], None]


@dataclass(frozen=True)
class Plan:
    """How to march in tiles.

    `tile` cells along each axis, as many as memory allows; `steps_per_halo` steps between two
    readings of a tile, and `batch` tiles at once, as `choose_plan` chooses them.
    """

    tile: tuple[int, ...]
    steps_per_halo: int = 1
    batch: int = 1


def choose_plan(
    step: LocalStep, tile: int | Sequence[int] | Plan, steps: int, samples: int = 1
) -> Plan:
    """Steps a halo and tiles at once for tiles of a given size; a plan stays as it is.

    `choose_steps_per_halo` says how many steps a halo carries.  Tiles are computed together up to
    `BATCH_CELLS` cells of their windows: small tiles share the fixed cost of a call, and large
    ones, which gain nothing from it, take no more memory.
    """
    if isinstance(tile, Plan):
        return tile
    size = per_axis(tile, step.domain.dims)

    def cut(count: int) -> Sequence[Box]:
        return step.domain.cut(step.domain.whole, size, step.locality.halo(count))

    count = choose_steps_per_halo(step, cut, steps)
    largest = _largest_window(step, cut(count), count)
    return Plan(size, count, max(1, min(BATCH_CELLS // largest, samples * len(cut(count)))))


def choose_steps_per_halo(step: LocalStep, cut: Callable[[int], Sequence[Box]], steps: int) -> int:
    """How many steps a halo carries, for tiles and for the blocks of processes alike.

    As many as make windows at most `LARGER_WINDOW` times as large as one step does, up to 16.
    One step a halo computes the fewest cells, and a network spends nearly all of its time on
    them.  A wider halo is read, or sent, less often, which pays for fields on disk and slow
    messages.  So it is widened as far as that costs little: windows shrink from step to step, and
    a last one that is an eighth larger means about a twentieth more cells.

    `cut(k)` gives the boxes for k steps a halo, none where it cannot carry so many.
    """
    most = max(1, min(_MOST_STEPS, steps))
    room = LARGER_WINDOW * _largest_window(step, cut(1), 1)
    for count in range(2, most + 1):
        boxes = cut(count)
        if not boxes or _largest_window(step, boxes, count) > room:
            return count - 1
    return most


def _largest_window(step: LocalStep, boxes: Iterable[Box], steps: int) -> int:
    return max(cells(step.domain.grow(box, step.locality.halo(steps))) for box in boxes)


def count_computed(step: LocalStep, boxes: Iterable[Box], steps: int) -> int:
    """Cells that are stepped for so many steps of these boxes, halos included."""
    return sum(cells(window) for box in boxes for window in step.windows(box, steps)[:-1])


@dataclass(frozen=True, eq=False)
class Timeline:
    """Frames by time: `history` before 0, `recent` as a ring, `result` as asked for.

    Time 0 is the first predicted frame.  `result` holds every `every`-th frame of the box
    `region`.  Without it, `recent` is the result: a rollout that keeps every frame of the whole
    domain reads its past from there.
    """

    history: TrajectoryStore
    recent: TrajectoryStore
    result: TrajectoryStore | None = None
    region: Box = ()
    every: int = 1

    def past(self, sample: int, time: int, count: int, window: Box) -> Tensor:
        """The `count` frames before `time`: (count, c, *window)."""
        known, slots = self.history.shape[1], self.recent.shape[1]
        places = [
            (self.history, known + t) if t < 0 else (self.recent, t % slots)
            for t in range(time - count, time)
        ]
        return torch.stack([store.read(sample, at, window) for store, at in places])

    def write(self, sample: int, time: int, box: Box, values: Tensor, needed: bool) -> None:
        """Keep a tile of a frame; `needed` says whether a later step reads it."""
        if needed or self.result is None:
            self.recent.write(sample, time % self.recent.shape[1], box, values)
        if self.result is not None and (time + 1) % self.every == 0:
            for part, place in intersect(box, self.region, self.recent.shape[3:]):
                kept = crop(values, part, ((0, 0),) * len(box))
                self.result.write(sample, (time + 1) // self.every - 1, place, kept)

    @property
    def done(self) -> int:
        """The steps that an interrupted rollout left in the files."""
        return found_in(self._kept)[0]

    def mark(self, done: int) -> None:
        """Say that so many steps are in the files."""
        mark(self._kept, done)

    @property
    def _kept(self) -> TrajectoryStore:
        return self.recent if self.result is None else self.result


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
    progress: Progress | None = None,
    look: Look | None = None,
) -> Work:
    """Compute the frames 0 … steps − 1 into the timeline.

    That is the whole domain at every time, or a box that changes with time: the light cone of a
    region narrows towards it, that of an edit widens.  If `look` finds that the rollout diverged,
    every frame before that is complete.
    """
    domain, count = step.domain, plan.steps_per_halo
    samples = range(timeline.history.shape[0])
    begun = timeline.done
    blocks = [range(start, min(start + count, steps)) for start in range(begun, steps, count)]

    def tiles(times: range) -> tuple[Box, ...]:
        box = box_at(times[-1]) if box_at else domain.whole
        return domain.cut(box, plan.tile, step.locality.halo(len(times)))

    def march_block(times: range) -> Iterator[int]:
        def past(sample: int, window: Box) -> Tensor:
            return timeline.past(sample, times.start, step.history, window)

        def write(sample: int, time: int, box: Box, values: Tensor) -> None:
            needed = times.stop < steps and time >= times.stop - step.history
            timeline.write(sample, time, box, values, needed)

        return compute(step, tiles(times), samples, times, past, write, plan.batch, look)

    total = sum(count_computed(step, tiles(times), len(times)) for times in blocks)
    done = 0
    for times in blocks:
        for computed in until_divergence(march_block, times):
            done += computed
            if progress:
                progress((begun + (steps - begun) * done / (total * len(samples))) / steps)
        timeline.mark(times.stop)
    return Work(total, steps * cells(domain.whole))


def until_divergence(march_block: Callable[[range], Iterator[int]], times: range) -> Iterator[int]:
    """Compute a block of steps; if it diverges, all tiles up to the step before, then stop.

    The tiles of a block are computed one after another, so that the first that is found to
    diverge need not be the first in time, and others are not there yet.
    """
    try:
        yield from march_block(times)
    except Diverged as found:
        before = range(times.start, found.step - 1)
        for _ in until_divergence(march_block, before) if before else ():
            pass
        raise


@torch.no_grad()
def compute(
    step: LocalStep,
    tiles: Iterable[Box],
    samples: Sequence[int],
    times: range,
    past: Past,
    write: Write,
    batch: int = 1,
    look: Look | None = None,
) -> Iterator[int]:
    """Read the windows of tiles, take some steps, write the tiles of every frame.

    Yields how many cells were computed, after every batch of tiles that are alike.
    """
    steps = len(times)
    alike: dict[tuple[object, ...], list[tuple[int, Box]]] = defaultdict(list)
    for tile in tiles:
        alike[step.key(tile, steps)] += [(sample, tile) for sample in samples]
    for pairs in alike.values():
        for first in range(0, len(pairs), batch):
            group = pairs[first : first + batch]
            given = step.given(group, steps, past, times.start)
            for time, frames in zip(times, step.frames(given, group[0][1], steps), strict=True):
                if look:
                    look(frames, time, group)
                for (sample, box), values in zip(group, frames, strict=True):
                    write(sample, time, box, values)
            yield count_computed(step, [box for _, box in group], steps)


def apply(
    network: Any,
    x: Field,
    tile: int | Sequence[int] = 512,
    *,
    boundary: str | Sequence[str] | None = None,
    batch: int = 1,
    progress: Progress | None = None,
) -> Field:
    """One application of a local network in tiles: (b, inputs, *space) → (b, outputs, *space).

    `boundary` is the network's own unless it does not say.  `batch` tiles are computed at once.
    """
    expect(x, "b inputs *space", name="input")
    step = local_network(network, x.shape[2:], boundary)
    store = MemoryStore(x.unsqueeze(1))
    result: list[MemoryStore] = []

    def write(sample: int, time: int, box: Box, values: Tensor) -> None:
        if not result:
            size = (x.shape[0], 1, values.shape[0], *x.shape[2:])
            result.append(MemoryStore(values.new_empty(size)))
        result[0].write(sample, time, box, values)

    def past(sample: int, window: Box) -> Tensor:
        return read_frames(store, sample, [0], window)

    size = per_axis(tile, step.domain.dims)
    tiles = step.domain.cut(step.domain.whole, size, step.locality.halo())
    total, done = x.shape[0] * count_computed(step, tiles, 1), 0
    for computed in compute(step, tiles, range(x.shape[0]), range(1), past, write, batch):
        done += computed
        if progress:
            progress(done / total)
    return result[0].frames[:, 0]
