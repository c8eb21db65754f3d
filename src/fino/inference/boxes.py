"""Boxes of cells: tiles and windows of a domain, and the blocks that processes own.

A box is a (start, stop) pair on every axis.  On a periodic axis it may begin before cell 0 or
end after the last one: it then wraps.  At a wall a window stops, so that the network's own
padding meets the true wall; elsewhere the padding falls into the halo, which is thrown away.

    tile      the cells that are wanted        start and stop on whole strides
    window    the tile and its halo            what is read
    block     the cells that a process owns    one for each rank of a mesh
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, product

import numpy as np
from torch import Tensor

__all__ = [
    "HIGH",
    "LOW",
    "Box",
    "Domain",
    "Mesh",
    "Region",
    "Slices",
    "as_box",
    "cells",
    "choose_mesh",
    "crop",
    "intersect",
    "shape",
    "times",
    "unwrap",
]

Box = tuple[tuple[int, int], ...]
Slices = tuple[slice, ...]
#: A (start, stop) pair for each axis, as a user writes it.
Region = Sequence[Sequence[int]]
#: The two ends of an axis.
LOW, HIGH = 0, 1


@dataclass(frozen=True)
class Domain:
    """A grid of `points`, where it wraps, and the strides that boxes have to keep to."""

    points: tuple[int, ...]
    periodic: tuple[bool, ...]
    stride: tuple[int, ...]

    def __post_init__(self) -> None:
        if not len(self.points) == len(self.periodic) == len(self.stride):
            raise ValueError(
                f"a grid of {self.points} points has {len(self.points)} axes, but the model works "
                f"on {len(self.stride)}."
            )
        if any(n % s for n, s in zip(self.points, self.stride, strict=True)):
            raise ValueError(
                f"grid {self.points} should be a multiple of the model's stride {self.stride} on "
                f"every axis. Use fewer levels, or another grid."
            )

    @property
    def dims(self) -> int:
        return len(self.points)

    @property
    def whole(self) -> Box:
        return tuple((0, n) for n in self.points)

    def grow(self, box: Box, halo: Sequence[int]) -> Box:
        """The box and `halo` cells on every side, as far as there are cells."""
        return tuple(
            _grow(span, h, n, wraps, s)
            for span, h, n, wraps, s in zip(
                box, halo, self.points, self.periodic, self.stride, strict=True
            )
        )

    def align(self, box: Box) -> Box:
        """The smallest box around this one that begins and ends on whole strides."""
        spans = []
        for (start, stop), n, s in zip(box, self.points, self.stride, strict=True):
            first = start // s * s
            spans.append((first, min(-(-stop // s) * s, first + n)))
        return tuple(spans)

    def cut(self, box: Box, tile: Sequence[int], halo: Sequence[int]) -> tuple[Box, ...]:
        """Cut an aligned box into tiles of at most `tile` cells, as even as strides allow.

        An axis whose every window would read the whole of it is left in one piece.
        """
        axes = [
            self._cut_axis(axis, span, size, h)
            for axis, (span, size, h) in enumerate(zip(box, tile, halo, strict=True))
        ]
        return tuple(product(*axes))

    def _cut_axis(self, axis: int, span: tuple[int, int], tile: int, halo: int) -> Box:
        n, s = self.points[axis], self.stride[axis]
        units = (span[1] - span[0]) // s
        parts = _split(span[0], units, s, -(-units // max(1, tile // s)))
        windows = [_grow(part, halo, n, self.periodic[axis], s) for part in (span, *parts)]
        lengths = {stop - start for start, stop in windows}
        return (span,) if len(lengths) == 1 else parts


def _grow(
    span: tuple[int, int], halo: int, points: int, wraps: bool, stride: int
) -> tuple[int, int]:
    start, stop = span
    if not wraps:
        return max(0, start - halo), min(points, stop + halo)
    spare = points - (stop - start)
    if 2 * halo < spare:
        return start - halo, stop + halo
    # The whole axis once, turned by whole strides so that the span stays in the middle: the
    # network's own wrapping is then exact, and smaller windows lie inside larger ones.
    first = start - spare // (2 * stride) * stride
    return first, first + points


@lru_cache(maxsize=1024)
def _split(start: int, units: int, stride: int, count: int) -> Box:
    """`count` spans of whole strides, as even as possible."""
    return tuple(pairwise(start + stride * (units * i // count) for i in range(count + 1)))


def cells(box: Box) -> int:
    """How many cells the box has."""
    return math.prod(stop - start for start, stop in box)


def shape(box: Box) -> tuple[int, ...]:
    return tuple(stop - start for start, stop in box)


def crop(u: Tensor, box: Box, window: Box) -> Tensor:
    """The part of a window's values that lies in the box: (…, *window) → (…, *box)."""
    for axis, ((start, stop), (first, _)) in enumerate(zip(box, window, strict=True)):
        u = u.narrow(u.dim() - len(box) + axis, start - first, stop - start)
    return u


def intersect(box: Box, region: Box, points: Sequence[int]) -> Iterator[tuple[Box, Box]]:
    """The parts of a box that lie in a region, each counted from the start of either.

    On an axis that wraps, cell i is also cell i + points.
    """
    axes = []
    for (a, b), (c, d), n in zip(box, region, points, strict=True):
        spans = []
        for turn in range(((a - d) // n + 1) * n, b - c, n):
            start, stop = max(a, c + turn), min(b, d + turn)
            spans.append(((start - a, stop - a), (start - c - turn, stop - c - turn)))
        axes.append(spans)
    for parts in product(*axes):
        yield tuple(here for here, _ in parts), tuple(there for _, there in parts)


def unwrap(box: Box, points: Sequence[int]) -> Iterator[tuple[Slices, Slices]]:
    """The box as blocks that do not wrap: (where in the domain, where in the box)."""
    for here, there in intersect(box, tuple((0, n) for n in points), points):
        yield tuple(slice(*span) for span in there), tuple(slice(*span) for span in here)


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


@dataclass(frozen=True)
class Mesh:
    """`shape[a]` processes along axis a of the domain; the last axis counts fastest.

        ranks 0 … 5 on a 2 × 3 mesh          0 1 2
                                             3 4 5

    Blocks begin on whole strides and are as even as these allow.  On a periodic axis the last
    rank neighbours the first; at a wall there is nobody.
    """

    domain: Domain
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.shape) != self.domain.dims or min(self.shape) < 1:
            raise ValueError(
                f"mesh should have a positive number of processes for each of "
                f"{self.domain.dims} axes, got {self.shape}."
            )
        if not _fits(self.domain, self.shape):
            raise ValueError(
                f"a mesh of {times(self.shape)} processes has more of them on an axis than the "
                f"{times(self.domain.points)} grid has strides of {self.domain.stride}. "
                f"Use fewer processes."
            )

    @property
    def ranks(self) -> int:
        return math.prod(self.shape)

    def block(self, rank: int) -> Box:
        """The cells that a rank owns."""
        return tuple(spans[at] for spans, at in zip(self._spans(), self._place(rank), strict=True))

    def neighbour(self, rank: int, axis: int, side: int) -> int | None:
        """Who owns the cells beyond the low or the high end of a rank's block."""
        place, count = list(self._place(rank)), self.shape[axis]
        place[axis] += 1 if side == HIGH else -1
        if count == 1 or (not 0 <= place[axis] < count and not self.domain.periodic[axis]):
            return None
        place[axis] %= count
        return int(np.ravel_multi_index(place, self.shape))

    def ghosts(self, rank: int, halo: Sequence[int], axis: int, side: int) -> int:
        """How many cells of a halo lie beyond one end of a rank's block."""
        block = self.block(rank)
        window = self.domain.grow(block, halo)
        if side == LOW:
            return block[axis][0] - window[axis][0]
        return window[axis][1] - block[axis][1]

    def carries(self, halo: Sequence[int]) -> bool:
        """Whether every halo lies within the blocks next door."""
        for axis, count in enumerate(self.shape):
            step = math.prod(self.shape[axis + 1 :])
            for rank, side in product(range(0, count * step, step), (LOW, HIGH)):
                neighbour = self.neighbour(rank, axis, side)
                ghosts = self.ghosts(rank, halo, axis, side)
                if neighbour is not None and ghosts > shape(self.block(neighbour))[axis]:
                    return False
        return True

    def check(self, halo: Sequence[int]) -> None:
        """Refuse a halo wider than the blocks next door, in words."""
        if not self.carries(halo):
            raise ValueError(
                f"a mesh of {times(self.shape)} processes leaves blocks of the "
                f"{times(self.domain.points)} grid that are smaller than the halo of "
                f"{times(halo)} cells. Use fewer processes, or fewer steps a halo."
            )

    def inner_and_shell(self, rank: int, halo: Sequence[int]) -> tuple[list[Box], list[Box]]:
        """A block cut into cells that need no halo from others, and slabs that do."""
        inner = list(self.block(rank))
        shell: list[Box] = []
        for axis, width in enumerate(halo):
            for side in (LOW, HIGH):
                start, stop = inner[axis]
                if self.neighbour(rank, axis, side) is None or start == stop:
                    continue
                mark = min(start + width, stop) if side == LOW else max(stop - width, start)
                parts = (start, mark), (mark, stop)
                slab, rest = parts if side == LOW else parts[::-1]
                shell.append((*inner[:axis], slab, *inner[axis + 1 :]))
                inner[axis] = rest
        return [box for box in [tuple(inner)] if cells(box)], [box for box in shell if cells(box)]

    def _place(self, rank: int) -> tuple[int, ...]:
        """Where a rank stands in the mesh."""
        return tuple(int(at) for at in np.unravel_index(rank, self.shape))

    def _spans(self) -> list[Box]:
        d = self.domain
        return [
            _split(0, n // s, s, count)
            for n, s, count in zip(d.points, d.stride, self.shape, strict=True)
        ]


def choose_mesh(domain: Domain, ranks: int, halo: Sequence[int]) -> Mesh:
    """The mesh with the least halo for the largest block; ties split the first axes."""
    factors = [n for n in range(1, ranks + 1) if ranks % n == 0]
    shapes = [p for p in product(factors, repeat=domain.dims) if math.prod(p) == ranks]
    meshes = [Mesh(domain, p) for p in shapes if _fits(domain, p)]
    possible = [mesh for mesh in meshes if mesh.carries(halo)]
    if not possible:
        raise ValueError(
            f"{ranks} processes leave blocks of the {times(domain.points)} grid that are smaller "
            f"than the halo of {times(halo)} cells. Use fewer processes, or a larger grid."
        )

    def cost(mesh: Mesh) -> tuple[int, tuple[int, ...]]:
        blocks = (mesh.block(rank) for rank in range(ranks))
        return max(cells(domain.grow(box, halo)) for box in blocks), tuple(-p for p in mesh.shape)

    return min(possible, key=cost)


def _fits(domain: Domain, counts: Sequence[int]) -> bool:
    """Whether every process has at least one stride of every axis."""
    return all(p * s <= n for p, s, n in zip(counts, domain.stride, domain.points, strict=True))


def times(sizes: Sequence[int]) -> str:
    """(2, 3) → '2 × 3'."""
    return " × ".join(map(str, sizes))
