"""Exact inference in tiles: a field of any size in the memory of one tile, the same answer.

    for each tile:  read tile + halo  →  step  →  keep the tile

Nothing is blended.  A strictly local network gives every cell of a tile the value that it has
in the undivided run, to rounding: the library may add the same numbers in another order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from fino.inference.films import TensorFilm
from fino.inference.local import LocalStep, local_network
from fino.inference.tiles import Box, per_axis
from fino.shapes import Field, expect

__all__ = ["apply", "compute", "groups"]

Read = Callable[[int, Box], Tensor]
Write = Callable[[int, int, Box, Tensor], None]


def apply(
    network: Any,
    x: Field,
    tile: int | Sequence[int] = 512,
    *,
    boundary: str | Sequence[str] | None = None,
    batch: int = 1,
    progress: Callable[[float], None] | None = None,
) -> Field:
    """One application of a local network in tiles: (b, inputs, *space) → (b, outputs, *space).

    `boundary` is the network's own unless it does not say.  `batch` tiles are computed at once.
    """
    expect(x, "b inputs *space", name="input")
    step = local_network(network, x.shape[2:], boundary)
    film = TensorFilm(x.unsqueeze(1))
    result: list[TensorFilm] = []

    def write(sample: int, time: int, box: Box, values: Tensor) -> None:
        if not result:
            whole = values.new_empty(x.shape[0], 1, values.shape[0], *x.shape[2:])
            result.append(TensorFilm(whole))
        result[0].write(sample, time, box, values)

    def read(sample: int, window: Box) -> Tensor:
        return film.read(sample, 0, window).unsqueeze(0)

    tiles = step.domain.tiles(
        step.domain.whole, per_axis(tile, step.domain.dims), step.locality.halo()
    )
    work = groups(step, tiles, range(x.shape[0]), 1, batch)
    for done, group in enumerate(work, start=1):
        compute(step, group, 1, read, write)
        if progress:
            progress(done / len(work))
    return result[0].frames[:, 0]


def groups(
    step: LocalStep, tiles: Sequence[Box], samples: Sequence[int], steps: int, batch: int
) -> list[list[tuple[int, Box]]]:
    """Pairs of a sample and a tile, together where one batch can hold them."""
    alike: dict[tuple[object, ...], list[tuple[int, Box]]] = defaultdict(list)
    for tile in tiles:
        alike[step.key(tile, steps)] += [(sample, tile) for sample in samples]
    return [pairs[i : i + batch] for pairs in alike.values() for i in range(0, len(pairs), batch)]


@torch.no_grad()
def compute(
    step: LocalStep, group: Sequence[tuple[int, Box]], steps: int, read: Read, write: Write
) -> None:
    """Read the windows of a batch of tiles, take some steps, write the tiles of every frame."""
    first = group[0][1]
    windows = [step.windows(tile, steps)[0] for _, tile in group]
    history = torch.stack(
        [read(sample, window) for (sample, _), window in zip(group, windows, strict=True)]
    )
    for time, frames in enumerate(step.frames(step.brought(history), first, steps)):
        for (sample, tile), values in zip(group, frames, strict=True):
            write(sample, time, tile, values)
