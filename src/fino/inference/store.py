"""Trajectory stores: frames over a domain, read and written box by box, in memory or on disk.

    store, alone = open_store("state.npy", grid)         (t, c, *space) or (b, t, c, *space)
    with create_store("out.h5", shape, dtype) as store:  (b, t, c, *space)
        store.write(sample, time, box, values)           values (c, *box)

Files are .npy, or HDF5: `file.h5`, or `file.h5:name` where it holds several arrays.  They are
read and written row by row and never through a memory map, whose pages count as memory of the
process: frames on disk cost the memory of the box in use.  A new file gets its name when it is
complete.  HDF5 is laid out in one piece, so that many processes can write to it at once.
"""

from __future__ import annotations

import math
import mmap
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Protocol
from zipfile import BadZipFile

import numpy as np
import torch
from torch import Tensor

from fino.data.dataset import Sample
from fino.data.frames import open_array
from fino.durable import check_no_link, hold_alone, named, replace, whole_file
from fino.grid import Grid
from fino.inference.boxes import Box, Slices, shape, unwrap
from fino.shapes import Trajectory
from fino.trust.guards import Diverged

__all__ = [
    "MemoryStore",
    "TrajectoryStore",
    "as_array",
    "create_ring",
    "create_store",
    "finish",
    "found_in",
    "mark",
    "open_store",
    "read_frames",
]

#: Seconds between two notes of how far a file is.
_MARK_SECONDS = 1.0
#: The name of the array in the HDF5 files that are written here.
NAME = "u"
_HDF5 = (".h5", ".hdf5")


class TrajectoryStore(Protocol):
    """Frames (b, t, c, *space) that are read and written in boxes: (c, *box)."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> torch.dtype: ...

    def read(self, sample: int, time: int, box: Box) -> Tensor: ...

    def write(self, sample: int, time: int, box: Box, values: Tensor) -> None: ...


def read_frames(store: TrajectoryStore, sample: int, times: Iterable[int], box: Box) -> Tensor:
    """Some frames of a box: (t, c, *box)."""
    return torch.stack([store.read(sample, time, box) for time in times])


@dataclass(frozen=True, eq=False)
class MemoryStore:
    """Frames in memory, or in what is indexed like an array, as a compressed HDF5 data set is.

    `origin` is the cell that the array begins with.  One that holds less than the domain on an
    axis is not wrapped there.  A data set may come without a batch; it is only read.
    """

    frames: Any
    origin: tuple[int, ...] = ()
    lacks_batch: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        return (1,) * self.lacks_batch + tuple(self.frames.shape)

    @property
    def dtype(self) -> torch.dtype:
        found = self.frames.dtype
        return found if isinstance(found, torch.dtype) else _torch_type(found)

    def read(self, sample: int, time: int, box: Box) -> Tensor:
        blocks = [(self._part(sample, time, there), here) for there, here in self._blocks(box)]
        if len(blocks) == 1:
            return blocks[0][0]
        out = blocks[0][0].new_empty((self.shape[2], *shape(box)))
        for values, here in blocks:
            out[(slice(None), *here)] = values
        return out

    def write(self, sample: int, time: int, box: Box, values: Tensor) -> None:
        for there, here in self._blocks(box):
            self._part(sample, time, there).copy_(values[(slice(None), *here)])

    def _part(self, sample: int, time: int, there: Slices) -> Tensor:
        lead = (time,) if self.lacks_batch else (sample, time)
        part = self.frames[(*lead, slice(None), *there)]
        return part if isinstance(part, Tensor) else _as_tensor(np.array(part))

    def _blocks(self, box: Box) -> Iterator[tuple[Slices, Slices]]:
        first = self.origin or (0,) * len(box)
        local = tuple((a - o, b - o) for (a, b), o in zip(box, first, strict=True))
        return unwrap(local, self.shape[3:])


class FileStore:
    """Numbers that lie one after another in a file, from `offset` on."""

    def __init__(
        self, path: Path, offset: int, shape: Sequence[int], dtype: np.dtype, writable: bool = False
    ) -> None:
        self.path, self.offset, self.array_type = path, offset, np.dtype(dtype)
        self.shape = tuple(int(n) for n in shape)
        self._handle = os.open(path, os.O_RDWR if writable else os.O_RDONLY)
        self.unfinished: Unfinished | None = None

    def flush(self) -> None:
        os.fsync(self._handle)

    @property
    def dtype(self) -> torch.dtype:
        return _torch_type(self.array_type)

    def close(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)
        self._handle = -1

    def __del__(self) -> None:
        self.close()

    def read(self, sample: int, time: int, box: Box) -> Tensor:
        out = np.empty((self.shape[2], *shape(box)), dtype=self.array_type)
        for there, here in unwrap(box, self.shape[3:]):
            for row, place in self._rows(sample, time, out, there, here):
                if os.preadv(self._handle, [row], place) != row.nbytes:
                    raise ValueError(f"{self.path} ends too early: it is damaged or being written.")
        return _as_tensor(out)

    def write(self, sample: int, time: int, box: Box, values: Tensor) -> None:
        array = np.ascontiguousarray(values.detach().cpu().numpy(), dtype=self.array_type)
        for there, here in unwrap(box, self.shape[3:]):
            for row, place in self._rows(sample, time, array, there, here):
                if os.pwritev(self._handle, [row], place) != row.nbytes:
                    raise OSError(f"{self.path} could not be written: is the disk full?")

    def _rows(
        self, sample: int, time: int, array: np.ndarray, there: Slices, here: Slices
    ) -> Iterator[tuple[memoryview, int]]:
        """Runs of numbers that are contiguous in memory and in the file, and where they lie."""
        _, times, channels, *points = self.shape
        split = len(points) - 1
        # Rows follow one another where an axis is taken whole on both sides.
        while split and there[split] == slice(0, array.shape[split + 1]) == slice(0, points[split]):
            split -= 1
        corner = [np.arange(s.start, s.stop) for s in there[:split]]
        corner += [np.array([s.start]) for s in there[split:]]
        starts = np.ravel_multi_index(np.meshgrid(*corner, indexing="ij"), points).ravel()
        for channel in range(channels):
            block = array[channel][here]
            frame = ((sample * times + time) * channels + channel) * math.prod(points)
            for start, row in zip(starts.tolist(), np.ndindex(block.shape[:split]), strict=True):
                yield block[row].data, self.offset + (frame + start) * self.array_type.itemsize


def _torch_type(dtype: np.dtype) -> torch.dtype:
    return _as_tensor(np.empty(0, dtype=dtype)).dtype


def _as_tensor(array: np.ndarray) -> Tensor:
    return torch.from_numpy(array.astype(array.dtype.newbyteorder("="), copy=False))


def open_store(
    source: Any, grid: Grid | None, name: str = "history"
) -> tuple[TrajectoryStore, bool]:
    """Frames to read, and whether they came without a batch.

    `source` is a tensor, an array, a file name, or what has a `.history`: a sample, a `Given`.
    Where no grid tells the axes of space, all but samples have a batch.
    """
    dims = None if grid is None else grid.dims
    if isinstance(source, Sample):
        dims = source.history.dim() - 2
    source = getattr(source, "history", source)
    if isinstance(source, (MemoryStore, FileStore)):
        return source, False
    if isinstance(source, (str, Path)):
        return _open_file(source, dims, name)
    if not hasattr(source, "shape"):
        raise ValueError(f"{name} should be a tensor, an array or a file, got {type(source)}.")
    shape, alone = _with_batch(source.shape, dims, name)
    mapped = isinstance(source, np.memmap) and isinstance(source.base, mmap.mmap)
    if mapped and source.flags.c_contiguous and source.filename is not None:
        return FileStore(Path(source.filename), source.offset, shape, source.dtype), alone
    return MemoryStore(source, lacks_batch=alone), alone


def _open_file(
    source: str | Path, dims: int | None, name: str, writable: bool = False
) -> tuple[FileStore | MemoryStore, bool]:
    path, array = _split_name(source)
    if not path.is_file():
        raise ValueError(f"There is no file {path}. Expected the {name} as .npy or .h5.")
    if path.suffix not in (".npy", *_HDF5):
        raise ValueError(f"{path} should end in .npy or .h5.")
    size, dtype, offset = _locate(path, array)
    shape, alone = _with_batch(size, dims, f"{name} in {path}")
    if offset is not None:
        return FileStore(path, offset, shape, dtype, writable), alone
    import h5py

    found = _hdf5_array(h5py.File(path, "r"), path, array)
    return MemoryStore(found, lacks_batch=alone), alone


@contextmanager
def create_store(
    target: str | Path | None,
    shape: Sequence[int],
    dtype: torch.dtype,
    *,
    alone: bool = False,
    every: int = 1,
    key: str | None = None,
    rank: int = 0,
    wait: Callable[[], Any] = lambda: None,
) -> Iterator[TrajectoryStore]:
    """Room for frames (b, t, c, *space), in memory or in a file named `target`.

    The file gets its name when nothing went wrong; `alone` leaves out the batch in it.  Several
    processes fill one file if each says its `rank` and how to `wait` for the others.  Of a rollout
    that diverged, the frames before that are kept, every n-th as `every` says, in a file whose name
    says how many there are.

    What was interrupted goes on from the last `mark` of the store when it is created again with the
    same `key`, which says all that the numbers depend on.
    """
    if target is None:
        memory = MemoryStore(torch.empty(tuple(shape), dtype=dtype))
        try:
            yield memory
        except Diverged as stop:
            count = (stop.step - 1) // every
            stop.keep(memory.frames[0, :count] if alone else memory.frames[:, :count], count)
            raise
        return
    target = Path(target)
    if target.suffix not in (".npy", *_HDF5):
        raise ValueError(f"out should end in .npy or .h5, got '{target.name}'.")
    size = tuple(shape[1:] if alone else shape)
    unfinished = Unfinished(target, key if rank == 0 else None)
    with unfinished.held() if rank == 0 else nullcontext(), named(target):
        if rank == 0:
            unfinished.begin(size, dtype)
        wait()
        with _open_part(unfinished.part, len(shape) - 3, unfinished) as store:
            try:
                yield store
            except Diverged as stop:
                wait()
                count = (stop.step - 1) // every
                kept = target.with_name(f"{target.stem}-first-{count}{target.suffix}")
                if rank == 0:
                    _shorten(unfinished.part, kept, shape, count, alone)
                wait()
                stop.keep(as_array(kept), count, kept)
                raise
        wait()
        if rank == 0:
            replace(unfinished.part, target)


@contextmanager
def create_ring(
    target: str | Path | None, shape: Sequence[int], dtype: torch.dtype, result: TrajectoryStore
) -> Iterator[TrajectoryStore]:
    """Room for the frames that are still read, beside the file of the `result`."""
    if target is None:
        yield MemoryStore(torch.empty(tuple(shape), dtype=dtype))
        return
    assert isinstance(result, FileStore) and result.unfinished is not None
    ring = result.unfinished.ring
    if not (result.unfinished.done and ring.is_file()):
        _allocate(ring, shape, dtype)
    with _open_part(ring, len(shape) - 3, result.unfinished) as store:
        yield store


@contextmanager
def _open_part(part: Path, dims: int, unfinished: Unfinished) -> Iterator[FileStore]:
    store, _ = _open_file(part, dims, "result", writable=True)
    assert isinstance(store, FileStore)
    store.unfinished = unfinished
    unfinished.stores.append(store)
    with closing(store):
        yield store


def found_in(store: TrajectoryStore) -> tuple[int, Tensor | None]:
    """The steps that an interrupted rollout left in a store, and the frames to go on from."""
    unfinished = getattr(store, "unfinished", None)
    return (unfinished.done, unfinished.recent) if unfinished is not None else (0, None)


def mark(store: TrajectoryStore, done: int, recent: Callable[[], Tensor] | None = None) -> None:
    """Say that so many steps are in a store, and which frames the next one reads if not in it."""
    if isinstance(store, FileStore) and store.unfinished is not None:
        store.unfinished.mark(done, recent)


class Unfinished:
    """A file that is being written, and what is known for going on with it after a kill.

    .part.NAME          the file under a temporary name
    .part.NAME.ring.npy frames that are still read and not all kept
    .part.NAME.state    the key, the steps that are done, by which engine, the frames to go on from
    """

    def __init__(self, target: Path, key: str | None) -> None:
        self.target, self.key, self.done = target, key, 0
        self.recent: Tensor | None = None
        self.engine: str | None = None
        self.stores: list[FileStore] = []
        self.part = target.with_name(f".part.{target.name}")
        self.ring = target.with_name(f".part.{target.name}.ring.npy")
        self.state = target.with_name(f".part.{target.name}.state")
        self._marked = time.monotonic()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep others from the file; afterwards only what can be gone on with is left."""
        lock = self.target.with_name(f".{self.target.name}.lock")
        check_no_link(self.part, self.ring, self.state)
        with hold_alone(lock, f"Another process is writing {self.target}"):
            try:
                yield
            except KeyboardInterrupt as stop:
                if self.key is None or not self.state.exists():
                    self._clear()
                elif not stop.args:
                    stop.args = (
                        f"stopped at step {self.done} and kept; the same command goes on.",
                    )
                raise
            except BaseException:
                self._clear()
                raise
            self._clear()

    def begin(self, size: tuple[int, ...], dtype: torch.dtype) -> None:
        """Find what was interrupted, or make the file anew."""
        self._read_state()
        if not (self.done and self.part.is_file() and _locate(self.part, None)[0] == size):
            self.done, self.recent, self.engine = 0, None, None
            self._clear()
            _allocate(self.part, size, dtype)

    def mark(self, done: int, recent: Callable[[], Tensor] | None) -> None:
        """Note every few seconds that so many steps are on the disk."""
        if self.key is None or time.monotonic() - self._marked < _MARK_SECONDS:
            return
        for store in self.stores:
            store.flush()
        facts = {"key": self.key, "done": done, "engine": self.engine or ""}
        found: dict[str, Any] = {name: np.array(value) for name, value in facts.items()}
        if recent is not None:
            found["recent"] = recent().cpu().numpy()
        with whole_file(self.state) as temporary, temporary.open("wb") as file:
            np.savez(file, **found)
        self._marked, self.done = time.monotonic(), done

    def _read_state(self) -> None:
        with suppress(OSError, ValueError, KeyError, BadZipFile), np.load(self.state) as found:
            if self.key is not None and str(found["key"]) == self.key:
                self.recent = torch.from_numpy(found["recent"]) if "recent" in found else None
                self.engine = str(found["engine"]) or None
                self.done = int(found["done"])

    def _clear(self) -> None:
        for path in (self.part, self.ring, self.state):
            path.unlink(missing_ok=True)


def _shorten(part: Path, kept: Path, shape: Sequence[int], count: int, alone: bool) -> None:
    """Copy the first so many frames of each sample to a file of their own."""
    old, _ = _open_file(part, len(shape) - 3, "result")
    size = (shape[0], count, *shape[2:])
    with create_store(kept, size, old.dtype, alone=alone) as new:
        whole = tuple((0, n) for n in shape[3:])
        for sample, time in product(range(shape[0]), range(count)):
            new.write(sample, time, whole, old.read(sample, time, whole))


def _allocate(path: Path, shape: Sequence[int], dtype: torch.dtype) -> None:
    """Make a file of the right size; what nobody writes takes no room on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    array_type = torch.empty(0, dtype=dtype).numpy().dtype
    needed, free = math.prod(shape) * array_type.itemsize, shutil.disk_usage(path.parent).free
    if needed > free:
        raise ValueError(
            f"the frames need {needed / 1e9:.3g} GB, and {free / 1e9:.3g} GB are free on the disk. "
            "Keep fewer with --every, or choose another place."
        )
    if path.suffix == ".npy":
        np.lib.format.open_memmap(path, mode="w+", dtype=array_type, shape=tuple(shape))
        return
    import h5py

    settings = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    settings.set_layout(h5py.h5d.CONTIGUOUS)
    settings.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    settings.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    settings.set_obj_track_times(False)  # the same numbers are the same bytes
    with h5py.File(path, "w") as file:
        space = h5py.h5s.create_simple(tuple(shape))
        kind = h5py.h5t.py_create(array_type)
        h5py.h5d.create(file.id, NAME.encode(), kind, space, settings)


def finish(store: TrajectoryStore, out: str | Path | None, alone: bool) -> Trajectory | np.memmap:
    """What `create_store` was filled with: a tensor, or the file as an array."""
    if out is not None:
        return as_array(out)
    assert isinstance(store, MemoryStore)
    return store.frames[0] if alone else store.frames


def as_array(path: str | Path) -> np.memmap:
    """A finished file as an array that is read as it is used."""
    path, name = _split_name(path)
    size, dtype, offset = _locate(path, name)
    assert offset is not None
    return np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=size)


def _split_name(source: str | Path) -> tuple[Path, str | None]:
    for suffix in _HDF5:
        file, colon, name = str(source).rpartition(f"{suffix}:")
        if colon:
            return Path(file + suffix), name
    return Path(source), None


def _locate(path: Path, name: str | None) -> tuple[tuple[int, ...], np.dtype, int | None]:
    """Shape, type and first byte of the numbers; no first byte where they are in pieces."""
    if path.suffix == ".npy":
        return _npy_header(path)
    import h5py

    with h5py.File(path, "r") as file:
        data = _hdf5_array(file, path, name)
        return data.shape, data.dtype, data.id.get_offset()


def _hdf5_array(file: Any, path: Path, name: str | None) -> Any:
    import h5py

    found: list[str] = []
    file.visititems(lambda key, item: found.append(key) if isinstance(item, h5py.Dataset) else None)
    if name is None and len(found) == 1:
        name = found[0]
    if name is None or name.strip("/") not in found:
        raise ValueError(f"{path} holds {', '.join(found)}. Name one of them as {path}:NAME.")
    try:
        open_array(file[name], path)
    except ValueError as error:  # more cells than the file can hold, or those of another file
        raise ValueError(f"{path} cannot be read: {error}") from None
    return file[name]


def _npy_header(path: Path) -> tuple[tuple[int, ...], np.dtype, int]:
    try:
        array = np.lib.format.open_memmap(path, mode="r")
    except ValueError:
        raise ValueError(f"{path} is not a .npy file that can be read here.") from None
    if not array.flags.c_contiguous:
        raise ValueError(
            f"{path} is in Fortran order. Save it with np.save(path, np.ascontiguousarray(u))."
        )
    if array.dtype.kind != "f":
        raise ValueError(f"{path} should hold real numbers, got {array.dtype}.")
    return array.shape, array.dtype, array.offset


def _with_batch(size: Sequence[int], dims: int | None, name: str) -> tuple[tuple[int, ...], bool]:
    shape = tuple(int(n) for n in size)
    dims = len(shape) - 3 if dims is None else dims
    if len(shape) not in (dims + 2, dims + 3):
        raise ValueError(
            f"{name} should be (t, c, *space) or (b, t, c, *space) with {dims} axes of space, "
            f"got {shape}."
        )
    alone = len(shape) == dims + 2
    return ((1, *shape) if alone else shape), alone
