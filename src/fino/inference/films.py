"""Films: frames over a domain that can be read and written box by box, in memory or on disk.

    film.shape                       (b, t, c, *space)
    film.read(sample, time, box)  →  (c, *box)
    film.write(sample, time, box, values)

A file is read and written at explicit places, row by row, and never through a memory map: the
pages of a map count as memory of the process, and touching one row of a wide field brings in
its neighbours.  So a film on disk costs the memory of the box that is in the hand.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from fino.inference.tiles import Box, pieces, shape

__all__ = ["ArrayFilm", "FileFilm", "Film", "TensorFilm"]

Slices = tuple[slice, ...]


class Film(Protocol):
    """Frames (b, t, c, *space) that are handed out and taken back in boxes."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> torch.dtype: ...

    def read(self, sample: int, time: int, box: Box) -> Tensor: ...

    def write(self, sample: int, time: int, box: Box, values: Tensor) -> None: ...


@dataclass(frozen=True, eq=False)
class TensorFilm:
    """A film in memory; `origin` is the cell that the tensor begins with.

    A tensor that holds less than the domain on an axis is not wrapped there.
    """

    frames: Tensor
    origin: tuple[int, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.frames.shape)

    @property
    def dtype(self) -> torch.dtype:
        return self.frames.dtype

    def read(self, sample: int, time: int, box: Box) -> Tensor:
        frame, box = self.frames[sample, time], self._local(box)
        blocks = list(pieces(box, self.shape[3:]))
        if len(blocks) == 1:
            return frame[(slice(None), *blocks[0][0])]
        out = frame.new_empty((frame.shape[0], *shape(box)))
        for there, here in blocks:
            out[(slice(None), *here)] = frame[(slice(None), *there)]
        return out

    def write(self, sample: int, time: int, box: Box, values: Tensor) -> None:
        frame, box = self.frames[sample, time], self._local(box)
        for there, here in pieces(box, self.shape[3:]):
            frame[(slice(None), *there)] = values[(slice(None), *here)]

    def _local(self, box: Box) -> Box:
        if not self.origin:
            return box
        return tuple((a - o, b - o) for (a, b), o in zip(box, self.origin, strict=True))


@dataclass(frozen=True, eq=False)
class ArrayFilm:
    """Anything that is indexed like an array, such as a compressed HDF5 data set: to read."""

    array: Any
    shape: tuple[int, ...]

    @property
    def dtype(self) -> torch.dtype:
        return torch_type(self.array.dtype)

    def read(self, sample: int, time: int, box: Box) -> Tensor:
        lead = (sample, time) if len(self.array.shape) == len(self.shape) else (time,)
        out = np.empty((self.shape[2], *shape(box)), dtype=np.dtype(self.array.dtype))
        for there, here in pieces(box, self.shape[3:]):
            out[(slice(None), *here)] = self.array[(*lead, slice(None), *there)]
        return torch.from_numpy(out.astype(out.dtype.newbyteorder("="), copy=False))

    def write(self, sample: int, time: int, box: Box, values: Tensor) -> None:
        raise ValueError(
            "This field can only be read: it is compressed or in pieces. Write to a new file."
        )


class FileFilm:
    """Numbers that lie one after another in a file, from `offset` on."""

    def __init__(
        self,
        path: Path,
        offset: int,
        shape: Sequence[int],
        dtype: np.dtype,
        writable: bool = False,
    ) -> None:
        self.path, self.offset, self.array_type = path, offset, np.dtype(dtype)
        self.shape = tuple(int(n) for n in shape)
        self._handle = os.open(path, os.O_RDWR if writable else os.O_RDONLY)

    @property
    def dtype(self) -> torch.dtype:
        return torch_type(self.array_type)

    def close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
        self._handle = -1

    def __del__(self) -> None:
        self.close()

    def read(self, sample: int, time: int, box: Box) -> Tensor:
        out = np.empty((self.shape[2], *shape(box)), dtype=self.array_type)
        for there, here in pieces(box, self.shape[3:]):
            for row, place in self._rows(sample, time, out, there, here):
                if os.preadv(self._handle, [row], place) != row.nbytes:
                    raise ValueError(f"{self.path} ends too early: it is damaged or being written.")
        return torch.from_numpy(out.astype(out.dtype.newbyteorder("="), copy=False))

    def write(self, sample: int, time: int, box: Box, values: Tensor) -> None:
        array = np.ascontiguousarray(values.detach().cpu().numpy(), dtype=self.array_type)
        for there, here in pieces(box, self.shape[3:]):
            for row, place in self._rows(sample, time, array, there, here):
                if os.pwritev(self._handle, [row], place) != row.nbytes:
                    raise OSError(f"{self.path} could not be written: is the disk full?")

    def _rows(
        self, sample: int, time: int, array: np.ndarray, there: Slices, here: Slices
    ) -> Iterator[tuple[memoryview, int]]:
        """Runs of numbers that are contiguous in memory and in the file, and where they lie."""
        _, times, channels, *points = self.shape
        split = len(points) - 1
        while split and covers(there[split], points[split], here[split], array.shape[split + 1]):
            split -= 1
        corner = [np.arange(s.start, s.stop) for s in there[:split]]
        corner += [np.array([s.start]) for s in there[split:]]
        starts = np.ravel_multi_index(np.meshgrid(*corner, indexing="ij"), points).ravel()
        for channel in range(channels):
            block = array[channel][here]
            frame = ((sample * times + time) * channels + channel) * math.prod(points)
            for start, row in zip(starts.tolist(), np.ndindex(block.shape[:split]), strict=True):
                yield block[row].data, self.offset + (frame + start) * self.array_type.itemsize


def covers(there: slice, size: int, here: slice, room: int) -> bool:
    """Whether an axis is taken whole on both sides, so that its rows follow one another."""
    return there.stop - there.start == size and here.stop - here.start == room


def torch_type(dtype: np.dtype) -> torch.dtype:
    return torch.from_numpy(np.empty(0, dtype=np.dtype(dtype).newbyteorder("="))).dtype
