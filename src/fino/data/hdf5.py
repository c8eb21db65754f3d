"""Arrays in HDF5 files of others' making, handed out lazily and within bounds.

A contiguous array of floats is mapped into memory; a chunked or compressed one is read through
the library, only the frames that are asked for.  Sizes are compared with the file before
anything is allocated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from fino.data.frames import Frames

__all__ = ["GuardedFrames", "Lazy", "array", "number", "numbers", "text", "texts"]

#: More samples than this in one file are taken for damage.
MOST_SAMPLES = 2**22

#: No filter packs numbers tighter than this.
_TIGHTEST = 2048


def array(dataset: Any, path: Path, kinds: str = "f") -> Any:
    """A mapped or lazy array of real numbers with the data set's shape."""
    if not isinstance(dataset, h5py.Dataset) or dataset.dtype.kind not in kinds:
        raise ValueError("its arrays should hold real numbers.")
    shape = dataset.shape
    if not shape or 0 in shape or shape[0] > MOST_SAMPLES:
        raise ValueError(f"an array of shape {shape} is not a set of trajectories.")
    size = int(np.prod(shape, dtype=object)) * dataset.dtype.itemsize
    end = path.stat().st_size
    place = dataset.id.get_offset()
    if place is not None:
        if place + size > end:
            raise ValueError("an array lies beyond the end of the file.")
        whole = np.memmap(path, dtype=dataset.dtype, mode="r", offset=place, shape=shape)
        return np.asarray(whole)
    if dataset.id.get_storage_size() * _TIGHTEST < size or dataset.chunks is None:
        raise ValueError(f"an array of shape {shape} does not fit in a file of {end} bytes.")
    lazy = Lazy(dataset)
    if not lazy.chunks_lie_within(end):
        raise ValueError("a piece of an array lies beyond the end of the file.")
    return lazy


@dataclass(frozen=True, eq=False)
class Lazy:
    """A chunked array read on demand; whole stretches first, strides afterwards.

    The library is slow at reading with a stride, so the stretch is read and then thinned.
    """

    dataset: Any

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.dataset.shape)

    def __getitem__(self, index: tuple[Any, ...]) -> np.ndarray:
        whole: list[Any] = []
        thin: list[Any] = []
        for part in index:
            if isinstance(part, slice):
                whole.append(slice(part.start, part.stop))
                thin.append(slice(None, None, part.step))
            else:
                whole.append(part)
        return np.asarray(self.dataset[tuple(whole)])[tuple(thin)]

    def chunks_lie_within(self, end: int) -> bool:
        """Whether every chunk that the index names is inside the file."""
        places: list[int] = []
        self.dataset.id.chunk_iter(lambda chunk: places.append(chunk.byte_offset + chunk.size))
        return max(places, default=0) <= end


@dataclass(frozen=True, eq=False)
class GuardedFrames:
    """Frames whose every trouble is one line that names the file."""

    frames: Frames
    path: Path

    @property
    def shape(self) -> tuple[int, ...]:
        return self.frames.shape

    def read(self, samples: Sequence[int], times: slice, space: tuple[slice, ...]) -> np.ndarray:
        try:
            numbers = self.frames.read(samples, times, space)
        except (OSError, RuntimeError, KeyError, ValueError, TypeError, MemoryError) as error:
            reason = " ".join(str(error).split())
            raise ValueError(f"{self.path} is damaged: {reason}") from error
        if not np.isfinite(numbers).all():
            good = np.isfinite(numbers).reshape(len(numbers), -1).all(axis=1)
            bad = samples[int(np.argmin(good))]
            raise ValueError(
                f"{self.path}: sample {bad} has NaN or infinite values. Leave it out with "
                "data.select(…)."
            )
        return numbers


def numbers(owner: Any, name: str, most: int = 2**20) -> np.ndarray | None:
    """A short list of numbers, such as coordinates, as float64; None if it is not there."""
    dataset = owner.get(name)
    if dataset is None:
        return None
    if not isinstance(dataset, h5py.Dataset) or dataset.dtype.kind not in "fiu":
        raise ValueError(f"'{name}' should hold numbers.")
    if dataset.ndim != 1 or dataset.shape[0] > most:
        raise ValueError(f"'{name}' should be a list of numbers, got shape {dataset.shape}.")
    values = np.asarray(dataset, dtype=np.float64)
    if not np.isfinite(values).all():
        raise ValueError(f"'{name}' should hold finite numbers.")
    return values


def number(attributes: Any, *names: str) -> float | None:
    """The first attribute of these names, whatever its case, that is a finite number."""
    for key in attributes:
        if key.lower() in {name.lower() for name in names}:
            value = np.asarray(attributes[key])
            if value.size == 1 and value.dtype.kind in "fiu" and np.isfinite(value).all():
                return float(value.reshape(()))
    return None


def text(value: Any) -> str:
    """An attribute as a string, whichever way it was stored."""
    if isinstance(value, np.ndarray):
        value = value.reshape(-1)[0] if value.size else ""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def texts(value: Any) -> tuple[str, ...]:
    """An attribute as a list of strings."""
    return tuple(text(word) for word in np.atleast_1d(np.asarray(value, dtype=object)))
