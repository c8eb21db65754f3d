"""Where the numbers of a data set come from: arrays in memory, or in files, read on demand.

    frames.read(samples, times, space)  →  (b, t, c, *space) in float32

Times and space are slices, so a stride is applied while reading and never later.  An array of a
file is compared with the file's size before anything is allocated: a contiguous one is mapped into
memory, of a chunked or compressed one only what is asked for is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import ceil, log10, prod
from pathlib import Path
from typing import Any, Protocol

import h5py
import numpy as np

__all__ = [
    "MOST_SAMPLES",
    "TIGHTEST",
    "ArrayFrames",
    "BrokenSample",
    "FieldFrames",
    "Frames",
    "GuardedFrames",
    "JoinedFrames",
    "Rows",
    "View",
    "WindowFrames",
    "as_text",
    "as_texts",
    "check_whole",
    "explain",
    "find_axis",
    "find_broken",
    "find_clock",
    "find_number",
    "open_array",
    "read_line",
]

#: Bytes of one piece of a chunked array, all of which are read for any number in it.
_LARGEST_CHUNK = 2**30

#: More samples than this in one file are taken for damage.
MOST_SAMPLES = 2**22

#: No file packs numbers tighter than this.
TIGHTEST = 2048


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
class View:
    """An array whose axes come in any order, one letter each: s, t, c, x, y, z.

    A number instead of a letter fixes an axis at that place: View(v, (*"stxy", 1)) is the second
    component of a vector.  Time and channel may be missing.
    """

    array: Any
    axes: Sequence[str | int]

    def size(self, axis: str) -> int:
        """The length of an axis, one where there is none."""
        return int(self.array.shape[list(self.axes).index(axis)]) if axis in self.axes else 1

    @property
    def shape(self) -> tuple[int, ...]:
        """(sample, time, channel, *space)"""
        return tuple(self.size(axis) for axis in "stcxyz" if axis in "stc" or axis in self.axes)

    def read(self, sample: int, times: slice, space: tuple[slice, ...]) -> np.ndarray:
        """(t, c, *space) of one sample."""
        place = dict(zip("stcxyz", (sample, times, slice(None), *space), strict=False))
        block = self.array[tuple(a if isinstance(a, int) else place[a] for a in self.axes)]
        kept = [axis for axis in self.axes if isinstance(axis, str) and axis != "s"]
        block = np.asarray(block).transpose([kept.index(a) for a in "tcxyz" if a in kept])
        block = block if "t" in kept else block[None]
        return block if "c" in kept else np.expand_dims(block, 1)


@dataclass(frozen=True, eq=False)
class FieldFrames:
    """Channels from several arrays; steady data have those of the input beside the output's.

    An input with fewer channels than the output is filled up with zeros.
    """

    fields: tuple[View, ...]
    inputs: tuple[View, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        samples, times, _, *space = self.fields[0].shape
        channels = sum(field.size("c") for field in self.fields)
        return (samples, 2 if self.inputs else times, channels, *space)

    def read(self, samples: Sequence[int], times: slice, space: tuple[slice, ...]) -> np.ndarray:
        return _stack([self.read_one(i, times, space) for i in samples])

    def read_one(self, sample: int, times: slice, space: tuple[slice, ...]) -> np.ndarray:
        """(t, c, *space) of one sample, in the precision of its arrays."""
        if not self.inputs:
            return _side(self.fields, sample, times, space)
        sides = [self.inputs, self.fields][times]
        found = [_side(side, sample, slice(None), space) for side in sides]
        channels = self.shape[2]
        return np.concatenate([_filled(side, channels) for side in found])


def _side(views: tuple[View, ...], sample: int, times: slice, space: Any) -> np.ndarray:
    """The channels of several arrays, one after another: (t, c, *space)."""
    return np.concatenate([view.read(sample, times, space) for view in views], axis=1)


def _filled(side: np.ndarray, channels: int) -> np.ndarray:
    """The input of a steady problem that has fewer channels than the output, filled with zeros."""
    missing = [(0, 0), (0, channels - side.shape[1]), *[(0, 0)] * (side.ndim - 2)]
    return np.pad(side, missing) if side.shape[1] < channels else side


@dataclass(frozen=True, eq=False)
class JoinedFrames:
    """The samples of several sources, one after another."""

    parts: tuple[Frames, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return (sum(part.shape[0] for part in self.parts), *self.parts[0].shape[1:])

    def read(self, samples: Sequence[int], times: slice, space: tuple[slice, ...]) -> np.ndarray:
        begins = list(accumulate((part.shape[0] for part in self.parts), initial=0))
        blocks = []
        for i in samples:
            part = int(np.searchsorted(begins, i, side="right")) - 1
            blocks.append(self.parts[part].read([i - begins[part]], times, space))
        return np.concatenate(blocks)


@dataclass(frozen=True, eq=False)
class WindowFrames:
    """Stretches of `frames` frames of longer trajectories; they may overlap and are not copied.

    `places` are the (sample, first frame) of each stretch in `inner`.
    """

    inner: Frames
    places: tuple[tuple[int, int], ...]
    frames: int

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.places), self.frames, *self.inner.shape[2:])

    def read(self, samples: Sequence[int], times: slice, space: tuple[slice, ...]) -> np.ndarray:
        within = range(self.frames)[times]
        found = []
        for sample, first in (self.places[i] for i in samples):
            own = slice(first + within.start, first + within.stop, within.step)
            found.append(self.inner.read([sample], own, space))
        return np.concatenate(found)


def check_whole(path: Path, size: int) -> None:
    """Refuse a file that was cut short after it was opened: to read on would end the process."""
    if path.is_file() and path.stat().st_size < size:
        raise ValueError(f"{path} was cut short while it was in use. Make or fetch the file again.")


@dataclass(frozen=True, eq=False)
class GuardedFrames:
    """Frames of a foreign file; whatever goes wrong is one line that names the file."""

    frames: Frames
    path: Path
    size: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", self.path.stat().st_size if self.path.is_file() else 0)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.frames.shape

    def read(self, samples: Sequence[int], times: slice, space: tuple[slice, ...]) -> np.ndarray:
        check_whole(self.path, self.size)
        try:
            numbers = self.frames.read(samples, times, space)
        except (OSError, RuntimeError, KeyError, ValueError, TypeError, MemoryError) as error:
            raise ValueError(f"{self.path} is damaged: {' '.join(str(error).split())}") from error
        broken = find_broken(numbers)
        if broken:
            number = samples[broken[0]]
            if self.shape[0] == 1:
                frame = range(self.shape[1])[times][broken[1]]
                raise BrokenSample(
                    f"{self.path} has NaN or infinite values, first in frame {frame}. Fill "
                    "gaps in time, for example with xarray's interpolate_na, mask cells without "
                    "numbers (--mask), or, of several files, leave this out (--leave-out)."
                )
            raise BrokenSample(
                f"{self.path}: sample {number} has NaN or infinite values. Leave it out: "
                f"fino.open(…, leave_out=[{number}]), or --leave-out {number}."
            )
        return numbers


class BrokenSample(ValueError):
    """A sample with values that are not finite, in a file that is otherwise whole."""


def find_broken(numbers: np.ndarray) -> tuple[int, int] | None:
    """The first row and frame of (b, t, …) with a value that is not finite; None if all are."""
    good = np.isfinite(numbers).reshape(*numbers.shape[:2], -1).all(axis=2)
    return None if good.all() else tuple(int(i) for i in np.argwhere(~good)[0])  # type: ignore[return-value]


@dataclass(frozen=True, eq=False)
class Rows:
    """Arrays of one shape as one array, a row each."""

    arrays: tuple[Any, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.arrays), *self.arrays[0].shape)

    def __getitem__(self, index: tuple[Any, ...]) -> Any:
        return self.arrays[index[0]][index[1:]]


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
    """A data set of real numbers as an array: mapped, or read on demand if chunked."""
    if not isinstance(dataset, h5py.Dataset) or dataset.dtype.kind not in "fiub":
        raise ValueError("its arrays should hold real numbers.")
    own = Path(dataset.file.filename).samefile(path)
    if not own or dataset.external or dataset.is_virtual:
        raise ValueError(f"the array {dataset.name} lies in another file. Copy it into this one.")
    shape = dataset.shape
    if not shape or 0 in shape or shape[0] > MOST_SAMPLES:
        raise ValueError(f"an array of shape {shape} is not a set of trajectories.")
    size = int(np.prod(shape, dtype=object)) * dataset.dtype.itemsize
    end = path.stat().st_size
    place = dataset.id.get_offset()
    if place is not None:
        if place + size > end:
            raise ValueError("an array lies beyond the end of the file.")
        return np.asarray(np.memmap(path, dataset.dtype, mode="r", offset=place, shape=shape))
    if dataset.chunks and prod(dataset.chunks) * dataset.dtype.itemsize > _LARGEST_CHUNK:
        raise ValueError(f"an array has pieces of {dataset.chunks}, too large to be read at once.")
    packed = dataset.id.get_storage_size()
    if dataset.chunks is None and packed >= size:
        return np.asarray(dataset)  # a few numbers within the header
    if packed * TIGHTEST < size or dataset.chunks is None:
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


def find_axis(line: np.ndarray | None, points: int) -> tuple[tuple[float, float], float, bool]:
    """The edges of an axis, where points lie in its cells, and whether they are evenly spaced.

    Coordinates that begin at zero are the low edges of cells, others are centres.  The edges are
    rounded to what single precision can say.
    """
    if line is None:
        return (0.0, 1.0), 0.5, True
    if len(line) != points or points < 2:
        raise ValueError(f"its coordinates are {len(line)} for {points} cells.")
    spacing = float(line[-1] - line[0]) / (points - 1)
    if spacing == 0:
        raise ValueError("its coordinates should be distinct.")
    offset = 0.0 if line[0] == 0.0 else 0.5
    low = float(line[0]) - offset * spacing
    digits = 6 + ceil(-log10(abs(spacing) * points))
    # 0.0 is added because an edge that is rounded to −0.0 would be shown as -0.
    extent = (round(low, digits) + 0.0, round(low + spacing * points, digits) + 0.0)
    return extent, offset, bool(np.allclose(np.diff(line), spacing, rtol=1e-2))


def find_clock(times: np.ndarray | None, count: int) -> tuple[float, float]:
    """The first time and the step of frames, to the six digits that single precision keeps.

    PDEBench's files list one time more than they have frames.
    """
    if times is None or len(times) < 2:
        return (0.0, 1.0)
    if len(times) not in (count, count + 1):
        raise ValueError(f"it lists {len(times)} times for {count} frames.")
    step = float(times[-1] - times[0]) / (len(times) - 1)
    if not step > 0:
        raise ValueError("its times should increase.")
    return float(times[0]), float(f"{step:.6g}")


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
