"""Files of anybody as named arrays: what a file holds, before it is said what it means.

    find_variables(path)    →  {"u": Variable((100, 51, 64), …), "t": Variable((51,), …), …}

A file is known by its first bytes, not by its name.  Only the arrays that are wanted are opened;
what a file declares is compared with what it can hold before anything is allocated.
"""

from __future__ import annotations

import math
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from fino.data.frames import TIGHTEST, View, as_text, open_array

__all__ = ["READERS", "Variable", "find_kind", "find_variables", "from_xarray", "hold_variable"]

#: What our files, and everything that is HDF5, begin with is left to `h5py.is_hdf5`.
_FIRST_BYTES = {
    "numpy": (b"\x93NUMPY",),
    "zip": (b"PK\x03\x04", b"PK\x05\x06"),
    "matlab": (b"MATLAB 5.0",),
    "netcdf3": (b"CDF\x01", b"CDF\x02", b"CDF\x05"),
    "torch": (b"\x80\x02", b"\x80\x04"),
}
_TABLES = (".csv", ".tsv", ".txt", ".dat")

#: What an array is called in a file that holds one without a name.
_UNNAMED = "u"

_TIME = ("t", "time")
_SAMPLE = ("sample", "trajectory")


@dataclass(frozen=True, eq=False)
class Variable:
    """A named array of a file.

    shape         as its owner sees it
    kind          of its numbers, as numpy's dtype.kind has it: f, i, u, b, c (complex), S, O, …
    open          the array itself, to be indexed
    dims          what the file calls its axes; () if it does not
    attributes    what the file says beside the numbers
    backwards     whether the file has the axes in the opposite order, as MATLAB 7.3 does
    """

    shape: tuple[int, ...]
    kind: str
    open: Callable[[], Any]
    dims: tuple[str, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    backwards: bool = False

    @property
    def is_number(self) -> bool:
        return self.kind in "fiub"

    def view(self, axes: Sequence[str | int]) -> View:
        """The array as frames, its axes by letters in its owner's order."""
        return View(_unpacked(self), tuple(reversed(axes)) if self.backwards else tuple(axes))

    def load(self) -> np.ndarray:
        """All of it, decoded."""
        values = np.asarray(_unpacked(self)[(slice(None),) * len(self.shape)])
        return values.T if self.backwards else values


@dataclass(frozen=True, eq=False)
class _Packed:
    """Numbers that a NetCDF file keeps as value = packed · scale_factor + add_offset."""

    inner: Any
    scale: float
    shift: float
    missing: tuple[float, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.inner.shape)

    def __getitem__(self, index: Any) -> np.ndarray:
        packed = np.asarray(self.inner[index])
        values = packed.astype(np.float64)
        for fill in self.missing:
            values[packed == fill] = np.nan
        return values * self.scale + self.shift


def _unpacked(variable: Variable) -> Any:
    def number(key: str) -> float | None:
        found = np.asarray(variable.attributes.get(key, ())).reshape(-1)[:1]
        return float(found[0]) if found.size and found.dtype.kind in "fiu" else None

    scale, shift, *fills = map(
        number, ("scale_factor", "add_offset", "_FillValue", "missing_value")
    )
    missing = tuple(fill for fill in fills if fill is not None)
    if scale is shift is None and not missing:
        return variable.open()
    return _Packed(variable.open(), 1.0 if scale is None else scale, shift or 0.0, missing)


def find_kind(path: Path) -> str:
    """Which of `READERS` a file or folder is for; "" if none."""
    if path.is_dir():
        inside = (".zarray", ".zgroup", "zarr.json")
        return "zarr" if any((path / name).is_file() for name in inside) else ""
    with path.open("rb") as file:
        begin = file.read(16)
    for kind, words in _FIRST_BYTES.items():
        if begin.startswith(words):
            return kind
    if h5py.is_hdf5(path):
        return "hdf5"
    return "table" if path.suffix.lower() in _TABLES else ""


def find_variables(path: Path) -> dict[str, Variable]:
    """The named arrays of a file, by whichever reader knows it."""
    return READERS[find_kind(path)](path)


def hold_variable(
    values: Any, dims: tuple[str, ...] = (), attributes: Mapping[str, Any] | None = None
) -> Variable:
    """An array that is in memory already."""
    array = np.asarray(values)
    return Variable(array.shape, array.dtype.kind, lambda: array, dims, attributes or {})


def _read_numpy(path: Path) -> dict[str, Variable]:
    with path.open("rb") as file:
        shape, kind, size = _numpy_header(file)
        if kind != "O" and size > path.stat().st_size - file.tell():
            raise ValueError("it is cut short.")
    return {_UNNAMED: Variable(shape, kind, lambda: np.load(path, mmap_mode="r"))}


def _numpy_header(file: Any) -> tuple[tuple[int, ...], str, int]:
    """Shape, kind and bytes of a .npy array whose header comes next."""
    form = np.lib.format
    try:
        old = form.read_magic(file) == (1, 0)
        shape, _, dtype = (form.read_array_header_1_0 if old else form.read_array_header_2_0)(file)
    except ValueError as error:
        raise OSError(str(error)) from error
    return shape, dtype.kind, math.prod(shape) * dtype.itemsize


def _read_zip(path: Path) -> dict[str, Variable]:
    """A .npz file of numpy, or a .pt file of torch: both are zip files."""
    found = {}
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        if any(member.filename.endswith("data.pkl") for member in members):
            return _read_torch(path)
        for member in members:
            if not member.filename.endswith(".npy"):
                continue
            name = member.filename.removesuffix(".npy")
            with archive.open(member) as file:
                shape, kind, size = _numpy_header(file)
            if kind != "O" and not size <= member.file_size <= TIGHTEST * path.stat().st_size:
                raise ValueError(f"'{name}' of shape {shape} does not fit in the file.")
            found[name] = Variable(shape, kind, lambda n=name: np.load(path)[n])  # type: ignore[misc]
    if not found:
        raise ValueError("it is a zip file without arrays of numpy or torch in it: unpack it.")
    return found


def _read_torch(path: Path) -> dict[str, Variable]:
    import torch

    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        if "weights_only" not in str(error):
            raise OSError(" ".join(str(error).split())) from error
        raise ValueError(
            "it holds Python objects beside tensors, which could run code of somebody else. Save "
            "the tensors alone: torch.save({'u': u}, path)."
        ) from None
    found: dict[str, Variable] = {}

    def collect(name: str, thing: Any) -> None:
        if isinstance(thing, torch.Tensor):
            plain = thing.detach().to_dense() if thing.layout != torch.strided else thing.detach()
            found[name] = hold_variable(
                (plain.float() if plain.dtype == torch.bfloat16 else plain).numpy()
            )
        elif isinstance(thing, dict):
            for key, value in thing.items():
                collect(f"{name}.{key}" if name else str(key), value)
        elif isinstance(thing, list | tuple):
            for number, value in enumerate(thing):
                collect(f"{name}.{number}" if name else str(number), value)

    collect("" if isinstance(content, dict | list | tuple) else _UNNAMED, content)
    return found


def _read_matlab(path: Path) -> dict[str, Variable]:
    """MATLAB's files up to version 7; those of 7.3 are HDF5."""
    from scipy.io import loadmat, whosmat

    kinds = {"double": "f", "single": "f", "logical": "b", "char": "U"}
    found = {}
    try:
        for name, shape, kind in whosmat(str(path)):
            letter = kinds.get(kind, "i" if kind.startswith(("int", "uint")) else "O")
            if math.prod(shape) > TIGHTEST * path.stat().st_size:
                raise ValueError(f"'{name}' of shape {shape} does not fit in the file.")
            load = lambda n=name: loadmat(str(path), variable_names=[n])[n]  # noqa: E731
            found[name] = Variable(shape, letter, load)
    except ValueError:
        raise
    except Exception as error:  # scipy trusts the file and fails in many ways
        raise OSError(" ".join(str(error).split())) from error
    return found


def _read_netcdf3(path: Path) -> dict[str, Variable]:
    from scipy.io import netcdf_file

    try:
        with netcdf_file(str(path), "r", mmap=False) as file:
            return {
                name: hold_variable(
                    np.array(variable.data),
                    tuple(variable.dimensions),
                    dict(variable._attributes),  # type: ignore[attr-defined]
                )
                for name, variable in file.variables.items()
            }
    except Exception as error:  # scipy trusts the file and fails in many ways
        raise OSError(" ".join(str(error).split())) from error


def _read_hdf5(path: Path) -> dict[str, Variable]:
    """Plain HDF5, NetCDF 4, and MATLAB 7.3, which keeps its arrays with the axes reversed."""
    with path.open("rb") as begin:
        is_matlab = begin.read(10) == b"MATLAB 7.3"
    file = h5py.File(path, "r")
    found = {}

    def collect(name: str, dataset: Any) -> None:
        if not isinstance(dataset, h5py.Dataset) or name.startswith("#"):
            return
        words = {key: dataset.attrs[key] for key in dataset.attrs if key != "REFERENCE_LIST"}
        if as_text(words.get("NAME", "")).startswith("This is a netCDF dimension but not"):
            return
        text = is_matlab and as_text(words.get("MATLAB_class", "")) in ("char", "cell")
        kind = "O" if text else "c" if dataset.dtype.names else dataset.dtype.kind
        shape = tuple(reversed(dataset.shape)) if is_matlab else dataset.shape
        dims = _hdf5_dims(dataset, name)
        found[name] = Variable(shape, kind, _opener(dataset, path), dims, words, is_matlab)

    file.visititems(collect)
    return found


def _opener(dataset: Any, path: Path) -> Callable[[], Any]:
    return lambda: open_array(dataset, path) if dataset.shape else np.asarray(dataset)


def _hdf5_dims(dataset: Any, name: str) -> tuple[str, ...]:
    """The names of axes that NetCDF 4 keeps as scales, or that were given as labels."""
    if "DIMENSION_LIST" not in dataset.attrs:
        if as_text(dataset.attrs.get("CLASS", "")) == "DIMENSION_SCALE":
            return (name.rsplit("/")[-1],)
        labels = tuple(axis.label for axis in dataset.dims)
        return labels if all(labels) else ()
    scales = [list(axis.values()) for axis in dataset.dims]
    return tuple(s[0].name.rsplit("/")[-1] for s in scales) if all(scales) else ()


def _read_zarr(path: Path) -> dict[str, Variable]:
    zarr = _extra("zarr")
    top = zarr.open(str(path), mode="r")
    members = {_UNNAMED: top} if isinstance(top, zarr.Array) else dict(top.members(None))
    found = {}
    for name, array in members.items():
        if isinstance(array, zarr.Array):
            words = dict(array.attrs)
            dims = words.get("_ARRAY_DIMENSIONS") or getattr(
                array.metadata, "dimension_names", None
            )
            names = tuple(dims) if dims and all(dims) else ()
            opened = partial(_same, array)
            found[name] = Variable(array.shape, array.dtype.kind, opened, names, words)
    return found


def from_xarray(thing: Any) -> dict[str, Variable] | None:
    """The variables and coordinates of an xarray.Dataset or DataArray; None for anything else."""
    if type(thing).__module__.split(".")[0] != "xarray":
        return None
    if not hasattr(thing, "data_vars"):
        thing = thing.to_dataset(name=thing.name or "u")
    return {
        str(n): Variable(v.shape, v.dtype.kind, partial(_same, v), tuple(map(str, v.dims)), v.attrs)
        for n, v in thing.variables.items()
    }


def _same(thing: Any) -> Any:
    return thing


def _extra(name: str) -> Any:
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError:
        raise ValueError(f"it needs the package {name}: pip install 'fino[files]'.") from None


def _read_table(path: Path) -> dict[str, Variable]:
    """A table of numbers as text, with commas, semicolons, tabs or spaces between them.

    Rows are times and columns points, with the coordinates in the first column and row if they
    are there; or a column for each of sample, t, x and the fields, in any order of rows.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("it is not a table of numbers: it is not text.") from None
    lines = [(n, line) for n, line in enumerate(text.splitlines(), 1) if line.split("#")[0].strip()]
    if not lines:
        raise ValueError("it is an empty table.")
    between = next((mark for mark in ",;\t" if mark in lines[0][1]), None)
    rows = [(n, [word.strip(' "') for word in line.split(between)]) for n, line in lines]
    header = [] if all(map(_is_number, rows[0][1])) else rows.pop(0)[1]
    width = len(header or rows[0][1]) if rows else 0
    for number, words in rows:
        if len(words) != width:
            raise ValueError(f"line {number} has {len(words)} columns, the first {width}.")
        wrong = next((word for word in words if not _is_number(word)), None)
        if wrong is not None:
            raise ValueError(f"line {number} has '{wrong[:20]}' where a number should be.")
    if not rows:
        raise ValueError("it is a table without numbers.")
    numbers = np.array([[float(word) for word in words] for _, words in rows])
    return _name_columns(header, numbers)


def _is_number(word: str) -> bool:
    return bool(
        re.fullmatch(r"[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|nan|inf)", word, re.I)
    )


def _name_columns(header: list[str], numbers: np.ndarray) -> dict[str, Variable]:
    """The columns of a table as arrays with named axes."""
    lower = [word.lower() for word in header]
    known = (*_SAMPLE, *_TIME, "x", "y", "z")
    axes = sorted((w for w in lower if w in known), key=known.index)
    if "x" in axes and len(axes) < len(header) and len(axes) > 1:
        lines = {axis: np.unique(numbers[:, lower.index(axis)]) for axis in axes}
        shape = tuple(len(line) for line in lines.values())
        order = np.lexsort([numbers[:, lower.index(axis)] for axis in reversed(axes)])
        if math.prod(shape) != len(numbers):
            raise ValueError(
                f"its {len(numbers)} rows do not fill {' × '.join(axes)} = "
                f"{' × '.join(map(str, shape))}: each point is needed at each time."
            )
        found = {axis: hold_variable(line) for axis, line in lines.items()}
        for column, (name, word) in enumerate(zip(header, lower, strict=True)):
            if word not in axes:
                values = numbers[order, column].reshape(shape)
                found[name] = hold_variable(values, tuple(axes))
        return found
    if header and (lower[0] in _TIME or all(map(_is_number, header[1:]))):
        found = {"time": hold_variable(numbers[:, 0])}
        if all(map(_is_number, header[1:])):
            found["x"] = hold_variable([float(word) for word in header[1:]])
        return {_UNNAMED: hold_variable(numbers[:, 1:], ("time", "x")), **found}
    return {_UNNAMED: hold_variable(numbers)}


#: Who reads what; `find_kind` says which.
READERS: dict[str, Callable[[Path], dict[str, Variable]]] = {
    "numpy": _read_numpy,
    "zip": _read_zip,
    "torch": _read_torch,
    "matlab": _read_matlab,
    "netcdf3": _read_netcdf3,
    "hdf5": _read_hdf5,
    "zarr": _read_zarr,
    "table": _read_table,
}
