"""What stepping costs: a call, a cell, a byte moved, a message.

    time of a call  =  call + cell · cells          (an affine law fits a network on a CPU well)

The default figures are assumed from the number of weights, so that the same question always gets
the same answer; `measured` asks the machine instead.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch

from fino.inference.local import LocalStep
from fino.inference.tiles import Box, cells, shape

__all__ = ["Costs", "assumed", "measured"]

#: One core of an ordinary machine: arithmetic a second, seconds to touch a cell, to make a call.
_FLOPS = 8e10
_CELL = 1e-7
_CALL = 1e-3
#: Bytes a second and seconds a message: within memory, to a disk, between processes.
_MEMORY = 4e9
_DISK = 8e8
_WIRE = 1e9
_LATENCY = 1e-4


@dataclass(frozen=True)
class Costs:
    """Seconds for each thing that a plan can trade against another."""

    call: float
    cell: float
    byte: float
    message: float = _LATENCY
    wire_byte: float = 1 / _WIRE

    def compute(self, counts: list[int], batch: int = 1) -> float:
        """Seconds for windows of so many cells, `batch` of them in a call."""
        return sum(self.call / batch + self.cell * count for count in counts)


def assumed(step: LocalStep, *, on_disk: bool = False) -> Costs:
    """Costs from the weights alone: each multiplies and adds once in a cell.

    That is an upper bound where the network pools, and near enough to weigh a halo.
    """
    flops = 2.0 * step.weights
    cell = (flops / _FLOPS + _CELL) / max(1, torch.get_num_threads())
    return Costs(_CALL, cell, 1 / (_DISK if on_disk else _MEMORY))


def measured(
    step: LocalStep,
    channels: int,
    tile: tuple[int, ...] | None = None,
    *,
    on_disk: bool = False,
    repeats: int = 3,
) -> Costs:
    """Costs from timing a small window and that of a `tile` on this machine.

    Cells of a window that leaves the cache cost more: ask with the tile that will be used.
    """
    dims = step.domain.dims
    known = assumed(step, on_disk=on_disk)
    small, large = _window(step, (1,) * dims), _window(step, tile or (128,) * dims)
    a, b = (_seconds(step, channels, window, repeats) for window in (small, large))
    if cells(large) == cells(small) or b <= a:
        return Costs(0.0, b / cells(large), known.byte)
    cell = (b - a) / (cells(large) - cells(small))
    return Costs(max(0.0, a - cell * cells(small)), cell, known.byte)


def _window(step: LocalStep, tile: tuple[int, ...]) -> Box:
    """The window of a tile of about so many cells along each axis."""
    domain = step.domain
    box = tuple(
        (0, min(n, -(-size // s) * s))
        for n, size, s in zip(domain.points, tile, domain.stride, strict=True)
    )
    return step.windows(box, 1)[0]


def _blank(step: LocalStep, channels: int, window: Box) -> torch.Tensor:
    return step.brought(torch.zeros(1, step.history, channels, *shape(window)))


@torch.no_grad()
def _seconds(step: LocalStep, channels: int, window: Box, repeats: int) -> float:
    history = _blank(step, channels, window)
    step(history, window)
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        step(history, window)
        times.append(time.perf_counter() - start)
    return min(times)
