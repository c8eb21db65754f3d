"""Boxes of cells: tiles that together make a domain, and the windows they are computed from.

A box is a (start, stop) pair on every axis.  On a periodic axis it may begin before cell 0 or
end after the last one: it then wraps.  At a wall a window stops, so that the network's own
padding meets the true wall; elsewhere the padding falls into the halo, which is thrown away.

    tile      the cells that are wanted        start and stop on whole strides
    window    the tile and its halo            what is read
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

__all__ = ["Box", "Domain", "cells", "overlaps", "per_axis", "pieces", "shape"]

Box = tuple[tuple[int, int], ...]


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

    def grown(self, box: Box, halo: Sequence[int]) -> Box:
        """The box and `halo` cells on every side, as far as there are cells."""
        return tuple(
            _grown(span, h, n, wraps, s)
            for span, h, n, wraps, s in zip(
                box, halo, self.points, self.periodic, self.stride, strict=True
            )
        )

    def aligned(self, box: Box) -> Box:
        """The smallest box around this one that begins and ends on whole strides."""
        spans = []
        for (start, stop), n, s in zip(box, self.points, self.stride, strict=True):
            first = start // s * s
            spans.append((first, min(-(-stop // s) * s, first + n)))
        return tuple(spans)

    def tiles(self, box: Box, tile: Sequence[int], halo: Sequence[int]) -> tuple[Box, ...]:
        """Cut an aligned box into tiles of at most `tile` cells, as even as strides allow.

        An axis whose every window would read the whole of it is left in one piece.
        """
        axes = [
            self._cuts(axis, span, size, h)
            for axis, (span, size, h) in enumerate(zip(box, tile, halo, strict=True))
        ]
        return tuple(product(*axes))

    def _cuts(self, axis: int, span: tuple[int, int], tile: int, halo: int) -> Box:
        n, s = self.points[axis], self.stride[axis]
        units = (span[1] - span[0]) // s
        count = -(-units // max(1, tile // s))
        marks = [span[0] + s * (units * i // count) for i in range(count + 1)]
        cut = tuple(pairwise(marks))
        windows = [_grown(part, halo, n, self.periodic[axis], s) for part in (span, *cut)]
        lengths = {stop - start for start, stop in windows}
        return (span,) if len(lengths) == 1 else cut


def _grown(
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


def cells(box: Box) -> int:
    """How many cells the box has."""
    return math.prod(stop - start for start, stop in box)


def shape(box: Box) -> tuple[int, ...]:
    return tuple(stop - start for start, stop in box)


def overlaps(box: Box, region: Box, points: Sequence[int]) -> Iterator[tuple[Box, Box]]:
    """The parts of a box that lie in a region, each counted from the start of either.

    On an axis that wraps, cell i is also cell i + points.
    """
    axes = []
    for (a, b), (c, d), n in zip(box, region, points, strict=True):
        spans = []
        for turn in (-n, 0, n):
            start, stop = max(a, c + turn), min(b, d + turn)
            if start < stop:
                spans.append(((start - a, stop - a), (start - c - turn, stop - c - turn)))
        axes.append(spans)
    for combination in product(*axes):
        yield tuple(x for x, _ in combination), tuple(y for _, y in combination)


def pieces(
    box: Box, points: Sequence[int]
) -> Iterator[tuple[tuple[slice, ...], tuple[slice, ...]]]:
    """The box as blocks that do not wrap: (where in the domain, where in the box)."""
    axes = []
    for (start, stop), n in zip(box, points, strict=True):
        blocks, at = [], start
        while at < stop:
            first = at % n
            length = min(stop - at, n - first)
            blocks.append((slice(first, first + length), slice(at - start, at - start + length)))
            at += length
        axes.append(blocks)
    for combination in product(*axes):
        yield tuple(a for a, _ in combination), tuple(b for _, b in combination)


def per_axis(size: int | Sequence[int], dims: int, name: str = "tile") -> tuple[int, ...]:
    """One size for each axis: 512 → (512, 512)."""
    sizes = (size,) * dims if isinstance(size, int) else tuple(int(n) for n in size)
    if len(sizes) != dims or min(sizes) < 1:
        raise ValueError(
            f"{name} should be one positive whole number or one for each of {dims} axes, "
            f"got {size}."
        )
    return sizes
