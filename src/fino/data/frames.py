"""Where the numbers of a data set come from: arrays in memory, or in HDF5 files, read on demand.

    frames.read(samples, times, space)  →  (b, t, c, *space) in float32

Times and space are slices, so a stride is applied while reading and never later.  An array of a
file is compared with the file's size before anything is allocated: a contiguous one is mapped into
memory, of a chunked or compressed one only what is asked for is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import h5py
import numpy as np

__all__ = [
    "ArrayFrames",
    "FieldFrames",
    "Frames",
    "GuardedFrames",
    "PairFrames",
    "Picked",
    "as_text",
    "as_texts",
    "explain",
    "find_number",
    "open_array",
    "read_line",
]

#: More samples than this in one file are taken for damage.
_MOST_SAMPLES = 2**22

#: No filter packs numbers tighter than this.
_TIGHTEST = 2048


class Frames(Protocol):
    """Anything that can hand out frames of numbered samples."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(sample, time, channel, *space)"""

    def read(self, samples: Sequence[int], times: slice, space: tuple[slice, ...]) -> np.ndarray:
        """(b, t, c, *space) in float32"""


@dataclass(frozen=True, eq=False)
class ArrayFrames:
    """One array (sample, time, channel, *space) in memory."""

    array: Any

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    def read(self, samples: Sequence[int], times: slice, space: tuple[slice, ...]) -> np.ndarray:
        return _stack([self.array[(i, times, slice(None), *space)] for i in samples])


@dataclass(frozen=True, eq=False)
class FieldFrames:
    """One array (sample, time, *space) for each channel, such as the data sets of a file."""

    fields: tuple[Any, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        samples, times, *space = self.fields[0].shape
        return (samples, times, len(self.fields), *space)

    def read(self, samples: Sequence[int], times: slice, space: tuple[slice, ...]) -> np.ndarray:
        channels = [_stack([field[(i, times, *space)] for i in samples]) for field in self.fields]
        return np.stack(channels, axis=2)


@dataclass(frozen=True, eq=False)
class PairFrames:
    """Steady data: inputs and outputs (sample, *space) for each channel, as two frames."""

    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        samples, *space = self.outputs[0].shape
        return (samples, 2, len(self.outputs), *space)

    def read(self, samples: Sequence[int], times: slice, space: tuple[slice, ...]) -> np.ndarray:
        sides = [
            [_stack([field[(i, *space)] for i in samples]) for field in side]
            for side in [self.inputs, self.outputs][times]
        ]
        return np.stack([np.stack(side, axis=1) for side in sides], axis=1)


@dataclass(frozen=True, eq=False)
class GuardedFrames:
    """Frames of a foreign file; whatever goes wrong is one line that names the file."""

    frames: Frames
    path: Path

    @property
    def shape(self) -> tuple[int, ...]:
        return self.frames.shape

    def read(self, samples: Sequence[int], times: slice, space: tuple[slice, ...]) -> np.ndarray:
        try:
            numbers = self.frames.read(samples, times, space)
        except (OSError, RuntimeError, KeyError, ValueError, TypeError, MemoryError) as error:
            raise ValueError(f"{self.path} is damaged: {' '.join(str(error).split())}") from error
        good = np.isfinite(numbers).reshape(len(numbers), -1).all(axis=1)
        if not good.all():
            raise ValueError(
                f"{self.path}: sample {samples[int(np.argmin(good))]} has NaN or infinite values. "
                "Leave it out with data.select(…)."
            )
        return numbers


@dataclass(frozen=True, eq=False)
class Picked:
    """An array with some axes fixed, `before` right after the sample's and `after` at the end.

    Picked(u, (0,)) is the first frame of u, Picked(v, (), (1,)) the second component of a vector.
    """

    inner: Any
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        samples, *rest = self.inner.shape
        return (samples, *rest[len(self.before) : len(rest) - len(self.after)])

    def __getitem__(self, index: tuple[Any, ...]) -> np.ndarray:
        sample, *rest = index
        return np.asarray(self.inner[(sample, *self.before, *rest, *self.after)])


@dataclass(frozen=True, eq=False)
class _Chunked:
    """A chunked array that is read on demand: whole stretches first, strides afterwards.

    The library is slow at reading with a stride.
    """

    dataset: Any

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.dataset.shape)

    def __getitem__(self, index: tuple[Any, ...]) -> np.ndarray:
        stretch = tuple(slice(p.start, p.stop) if isinstance(p, slice) else p for p in index)
        strides = tuple(slice(None, None, p.step) for p in index if isinstance(p, slice))
        return np.asarray(self.dataset[stretch])[strides]


def open_array(dataset: Any, path: Path) -> Any:
    """A data set of floating-point numbers as an array: mapped, or read on demand if chunked."""
    if not isinstance(dataset, h5py.Dataset) or dataset.dtype.kind != "f":
        raise ValueError("its arrays should hold real numbers.")
    shape = dataset.shape
    if not shape or 0 in shape or shape[0] > _MOST_SAMPLES:
        raise ValueError(f"an array of shape {shape} is not a set of trajectories.")
    size = int(np.prod(shape, dtype=object)) * dataset.dtype.itemsize
    end = path.stat().st_size
    place = dataset.id.get_offset()
    if place is not None:
        if place + size > end:
            raise ValueError("an array lies beyond the end of the file.")
        return np.asarray(np.memmap(path, dataset.dtype, mode="r", offset=place, shape=shape))
    if dataset.id.get_storage_size() * _TIGHTEST < size or dataset.chunks is None:
        raise ValueError(f"an array of shape {shape} does not fit in a file of {end} bytes.")
    ends: list[int] = []
    dataset.id.chunk_iter(lambda chunk: ends.append(chunk.byte_offset + chunk.size))
    if max(ends, default=0) > end:
        raise ValueError("a piece of an array lies beyond the end of the file.")
    return _Chunked(dataset)


def read_line(owner: Any, name: str) -> np.ndarray | None:
    """A list of numbers, such as the coordinates of an axis, as float64; None if not there."""
    dataset = owner.get(name)
    if dataset is None:
        return None
    if not isinstance(dataset, h5py.Dataset) or dataset.dtype.kind not in "fiu":
        raise ValueError(f"'{name}' should hold numbers.")
    if dataset.ndim != 1 or dataset.shape[0] > 2**20:
        raise ValueError(f"'{name}' should be a list of numbers, got shape {dataset.shape}.")
    values = np.asarray(dataset, dtype=np.float64)
    if not np.isfinite(values).all():
        raise ValueError(f"'{name}' should hold finite numbers.")
    return values


def find_number(attributes: Any, name: str) -> float | None:
    """The attribute of that name, in upper or lower case, if it is a finite number."""
    for key in attributes:
        if key.lower() == name.lower():
            value = np.asarray(attributes[key])
            if value.size == 1 and value.dtype.kind in "fiu" and np.isfinite(value).all():
                return float(value.reshape(()))
    return None


def as_text(value: Any) -> str:
    """An attribute as a string, whichever way it was stored."""
    if isinstance(value, np.ndarray):
        value = value.reshape(-1)[0] if value.size else ""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def as_texts(value: Any) -> tuple[str, ...]:
    """An attribute as a list of strings."""
    return tuple(as_text(word) for word in np.atleast_1d(np.asarray(value, dtype=object)))


def explain(error: Exception) -> str:
    """Why a file cannot be read, in one line: our own messages as they are, others' in brackets."""
    words = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, ValueError):
        return words
    if isinstance(error, TypeError) and "unexpected keyword argument" in words:
        return f"it takes no option '{words.rsplit(chr(39), 2)[-2]}'."
    return f"it is damaged or cut short ({words[:200]})."


def _stack(parts: list[np.ndarray]) -> np.ndarray:
    """A fresh float32 array of the parts, never a view of the file."""
    return np.stack(parts, dtype=np.float32, casting="unsafe")
