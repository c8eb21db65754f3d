"""A mesh of processes: each owns a block of the domain and knows its neighbours.

    ranks 0 … 5 on a 2 × 3 mesh          0 1 2
                                         3 4 5

Blocks begin on whole strides and are as even as these allow.  On a periodic axis the last rank
neighbours the first; at a wall there is nobody.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, product

from fino.inference.tiles import Box, Domain, cells

__all__ = ["HIGH", "LOW", "Mesh", "best_mesh"]

LOW, HIGH = 0, 1


@dataclass(frozen=True)
class Mesh:
    """`shape[a]` processes along axis a of the domain; the last axis counts fastest."""

    domain: Domain
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.shape) != self.domain.dims or min(self.shape) < 1:
            raise ValueError(
                f"mesh should have a positive number of processes for each of "
                f"{self.domain.dims} axes, got {self.shape}."
            )
        units = [n // s for n, s in zip(self.domain.points, self.domain.stride, strict=True)]
        if any(p > u for p, u in zip(self.shape, units, strict=True)):
            raise ValueError(
                f"a mesh of {_times(self.shape)} processes has more of them on an axis than the "
                f"{_times(self.domain.points)} grid has strides of {self.domain.stride}. "
                f"Use fewer processes."
            )

    @property
    def ranks(self) -> int:
        return math.prod(self.shape)

    def place(self, rank: int) -> tuple[int, ...]:
        """Where a rank stands in the mesh."""
        place = []
        for count in reversed(self.shape):
            rank, at = divmod(rank, count)
            place.append(at)
        return tuple(reversed(place))

    def block(self, rank: int) -> Box:
        """The cells that a rank owns."""
        return tuple(
            _cut(n, s, count)[at]
            for n, s, count, at in zip(
                self.domain.points, self.domain.stride, self.shape, self.place(rank), strict=True
            )
        )

    def neighbour(self, rank: int, axis: int, side: int) -> int | None:
        """Who owns the cells beyond the low or the high end of a rank's block."""
        place, count = list(self.place(rank)), self.shape[axis]
        place[axis] += 1 if side == HIGH else -1
        if count == 1 or (not 0 <= place[axis] < count and not self.domain.periodic[axis]):
            return None
        place[axis] %= count
        number = 0
        for at, size in zip(place, self.shape, strict=True):
            number = number * size + at
        return number

    def ghosts(self, rank: int, halo: tuple[int, ...], axis: int, side: int) -> int:
        """How many cells of a halo lie beyond one end of a rank's block."""
        block = self.block(rank)
        window = self.domain.grown(block, halo)
        if side == LOW:
            return block[axis][0] - window[axis][0]
        return window[axis][1] - block[axis][1]

    def carries(self, halo: tuple[int, ...]) -> bool:
        """Whether every halo lies within the blocks next door."""
        for axis, count in enumerate(self.shape):
            step = math.prod(self.shape[axis + 1 :])
            for rank, side in product(range(0, count * step, step), (LOW, HIGH)):
                neighbour = self.neighbour(rank, axis, side)
                if neighbour is not None:
                    start, stop = self.block(neighbour)[axis]
                    if self.ghosts(rank, halo, axis, side) > stop - start:
                        return False
        return True

    def check(self, halo: tuple[int, ...]) -> None:
        """Refuse a halo wider than the blocks next door, in words."""
        if not self.carries(halo):
            raise ValueError(
                f"a mesh of {_times(self.shape)} processes leaves blocks of the "
                f"{_times(self.domain.points)} grid that are smaller than the halo of "
                f"{_times(halo)} cells. Use fewer processes, or fewer steps a halo."
            )


def best_mesh(domain: Domain, ranks: int, halo: tuple[int, ...]) -> Mesh:
    """The mesh with the least halo for the largest block; ties split the first axes."""
    possible = []
    for shape in _factors(ranks, domain.dims):
        units = [n // s for n, s in zip(domain.points, domain.stride, strict=True)]
        if any(p > u for p, u in zip(shape, units, strict=True)):
            continue
        mesh = Mesh(domain, shape)
        if mesh.carries(halo):
            possible.append((_largest_window(mesh, halo), tuple(-p for p in shape), mesh))
    if not possible:
        raise ValueError(
            f"{ranks} processes leave blocks of the {_times(domain.points)} grid that are smaller "
            f"than the halo of {_times(halo)} cells. Use fewer processes, or a larger grid."
        )
    return min(possible, key=lambda entry: entry[:2])[2]


def _largest_window(mesh: Mesh, halo: tuple[int, ...]) -> int:
    """The windows of an axis do not depend on the others: the largest is a product."""
    sizes = []
    for axis, count in enumerate(mesh.shape):
        n, s = mesh.domain.points[axis], mesh.domain.stride[axis]
        line = Domain((n,), (mesh.domain.periodic[axis],), (s,))
        sizes.append(
            max(cells(line.grown((span,), halo[axis : axis + 1])) for span in _cut(n, s, count))
        )
    return math.prod(sizes)


@lru_cache(maxsize=1024)
def _cut(points: int, stride: int, count: int) -> tuple[tuple[int, int], ...]:
    units = points // stride
    return tuple(pairwise(stride * (units * i // count) for i in range(count + 1)))


def _factors(number: int, parts: int) -> Iterator[tuple[int, ...]]:
    if parts == 1:
        yield (number,)
        return
    for first in range(1, number + 1):
        if number % first == 0:
            for rest in _factors(number // first, parts - 1):
                yield (first, *rest)


def _times(sizes: tuple[int, ...]) -> str:
    return " × ".join(map(str, sizes))
