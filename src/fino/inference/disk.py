"""Films in files: .npy, and HDF5 (`file.h5`, or `file.h5:name` where it holds several arrays).

    open_film("state.npy", dims=2)                  (t, c, *space) or (b, t, c, *space)
    with new_film("out.h5", shape, dtype) as film:  (b, t, c, *space)

A new file is made under a temporary name and gets its own when it is complete.  HDF5 is laid out
in one piece, so that many processes can write their parts of it at once, as of a .npy.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fino.durable import replace
from fino.inference.films import ArrayFilm, FileFilm, Film, TensorFilm

__all__ = [
    "as_array",
    "is_on_disk",
    "lay_out",
    "new_film",
    "open_film",
    "opened",
    "part_of",
    "scratch_film",
]

#: The name of the array in the HDF5 files that are written here.
NAME = "u"
_HDF5 = (".h5", ".hdf5")


def is_on_disk(source: Any) -> bool:
    """Whether the frames are in a file rather than in memory."""
    return isinstance(source, (str, Path, np.memmap, FileFilm, ArrayFilm))


def open_film(source: Any, dims: int, name: str = "history") -> tuple[Film, bool]:
    """Frames to read, from memory or a file, and whether they came without a batch."""
    if isinstance(source, (TensorFilm, FileFilm, ArrayFilm)):
        return source, False
    if isinstance(source, (str, Path)):
        return _open_file(source, dims, name)
    if not hasattr(source, "shape"):
        raise ValueError(f"{name} should be a tensor, an array or a file, got {type(source)}.")
    shape, alone = _with_batch(source.shape, dims, name)
    if isinstance(source, torch.Tensor):
        return TensorFilm(source.view(shape)), alone
    if isinstance(source, np.memmap) and isinstance(source.base, mmap.mmap):
        in_order, file = source.flags.c_contiguous, source.filename
        if in_order and file is not None:
            return FileFilm(Path(file), source.offset, shape, source.dtype), alone
    if isinstance(source, np.ndarray) and not isinstance(source, np.memmap):
        return TensorFilm(torch.from_numpy(source).view(shape)), alone
    return ArrayFilm(source, shape), alone


def _open_file(
    source: str | Path, dims: int, name: str, writable: bool = False
) -> tuple[Film, bool]:
    path, array = _split_name(source)
    if not path.is_file():
        raise ValueError(f"There is no file {path}. Expected the {name} as .npy or .h5.")
    if path.suffix == ".npy":
        size, dtype, offset = _npy_header(path)
    elif path.suffix in _HDF5:
        import h5py

        file = h5py.File(path, "r")
        data = _hdf5_array(file, path, array)
        size, dtype, offset = data.shape, data.dtype, data.id.get_offset()
        if offset is None:
            shape, alone = _with_batch(size, dims, f"{name} in {path}")
            return ArrayFilm(data, shape), alone
        file.close()
    else:
        raise ValueError(f"{path} should end in .npy or .h5.")
    shape, alone = _with_batch(size, dims, f"{name} in {path}")
    return FileFilm(path, offset, shape, dtype, writable), alone


@contextmanager
def new_film(
    target: str | Path | None, shape: Sequence[int], dtype: torch.dtype, *, alone: bool = False
) -> Iterator[Film]:
    """Room for frames (b, t, c, *space), in memory or in a file named `target`.

    The file gets its name when nothing went wrong; `alone` leaves out the batch in it.
    """
    if target is None:
        yield TensorFilm(torch.empty(tuple(shape), dtype=dtype))
        return
    part = part_of(target)
    try:
        lay_out(part, shape[1:] if alone else shape, dtype)
        with opened(part, len(shape) - 3) as film:
            yield film
        replace(part, Path(target))
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def scratch_film(
    beside: str | Path | None, shape: Sequence[int], dtype: torch.dtype
) -> Iterator[Film]:
    """Room that is needed for a while: in memory, or in a file beside the one named."""
    if beside is None:
        yield TensorFilm(torch.empty(tuple(shape), dtype=dtype))
        return
    part = part_of(Path(beside).with_name(f"ring.{Path(beside).stem}.npy"))
    try:
        lay_out(part, shape, dtype)
        with opened(part, len(shape) - 3) as film:
            yield film
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def opened(path: Path, dims: int) -> Iterator[FileFilm]:
    """A file that was laid out here, to write to."""
    film, _ = _open_file(path, dims, "result", writable=True)
    assert isinstance(film, FileFilm)
    try:
        yield film
    finally:
        film.close()


def part_of(target: str | Path) -> Path:
    """The name of a file while it is being written, the same for every process."""
    target = Path(target)
    if target.suffix not in (".npy", *_HDF5):
        raise ValueError(f"out should end in .npy or .h5, got '{target.name}'.")
    return target.with_name(f".part.{target.name}")


def lay_out(path: Path, shape: Sequence[int], dtype: torch.dtype) -> None:
    """Make a file of the right size; what nobody writes takes no room on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    array_type = torch.empty(0, dtype=dtype).numpy().dtype
    if path.suffix == ".npy":
        np.lib.format.open_memmap(path, mode="w+", dtype=array_type, shape=tuple(shape))
        return
    import h5py

    settings = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    settings.set_layout(h5py.h5d.CONTIGUOUS)
    settings.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    settings.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    with h5py.File(path, "w") as file:
        space = h5py.h5s.create_simple(tuple(shape))
        kind = h5py.h5t.py_create(array_type)
        h5py.h5d.create(file.id, NAME.encode(), kind, space, settings)


def as_array(path: str | Path) -> np.memmap:
    """A finished file as an array that is read as it is used."""
    path, name = _split_name(path)
    if path.suffix == ".npy":
        size, dtype, offset = _npy_header(path)
    else:
        import h5py

        with h5py.File(path, "r") as file:
            data = _hdf5_array(file, path, name)
            size, dtype, offset = data.shape, data.dtype, data.id.get_offset()
    return np.memmap(path, dtype=dtype, mode="r", offset=offset, shape=size)


def _split_name(source: str | Path) -> tuple[Path, str | None]:
    for suffix in _HDF5:
        file, colon, name = str(source).rpartition(f"{suffix}:")
        if colon:
            return Path(file + suffix), name
    return Path(source), None


def _hdf5_array(file: Any, path: Path, name: str | None) -> Any:
    import h5py

    found: list[str] = []
    file.visititems(lambda key, item: found.append(key) if isinstance(item, h5py.Dataset) else None)
    if name is None and len(found) == 1:
        name = found[0]
    if name is None or name.strip("/") not in found:
        raise ValueError(f"{path} holds {', '.join(found)}. Name one of them as {path}:NAME.")
    return file[name]


def _npy_header(path: Path) -> tuple[tuple[int, ...], np.dtype, int]:
    with path.open("rb") as file:
        try:
            version = np.lib.format.read_magic(file)
            reader = {
                (1, 0): np.lib.format.read_array_header_1_0,
                (2, 0): np.lib.format.read_array_header_2_0,
            }[version]
            shape, fortran, dtype = reader(file)
        except (ValueError, KeyError):
            raise ValueError(f"{path} is not a .npy file that can be read here.") from None
        if fortran:
            raise ValueError(
                f"{path} is in Fortran order. Save it with np.save(path, np.ascontiguousarray(u))."
            )
        if dtype.kind != "f":
            raise ValueError(f"{path} should hold real numbers, got {dtype}.")
        return shape, dtype, file.tell()


def _with_batch(size: Sequence[int], dims: int, name: str) -> tuple[tuple[int, ...], bool]:
    shape = tuple(int(n) for n in size)
    if len(shape) not in (dims + 2, dims + 3):
        raise ValueError(
            f"{name} should be (t, c, *space) or (b, t, c, *space) with {dims} axes of space, "
            f"got {shape}."
        )
    alone = len(shape) == dims + 2
    return ((1, *shape) if alone else shape), alone
