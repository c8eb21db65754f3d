"""Any data file, opened by looking inside it.

    fino.open("swe.h5")                          ours, PDEBench's three layouts, The Well's
    fino.open("mine.npz", array="u", dt=0.01, extent=(0, 1), boundary="periodic")
    fino.open(["air.sig995.2000.nc", …])         NOAA or ERA files: temperature → pressure
    fino.open("radar", window=16)                images of a weather radar: rain in the next hour
    fino.open("folder")                          files of one kind; train, valid and test inside

A file that cannot be read is answered with one line.  Our own files have checksums.  The libraries
for HDF5, NetCDF and MATLAB can crash or hang on damaged files of others, so those are first opened
in a process of their own, which reads some numbers and answers with an error line or "".  The
process starts with the first such file, serves later ones, and leaves when idle.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from fino.data.arrange import OPTIONS, arrange
from fino.data.arrays import make_grid, read_names
from fino.data.climate import is_climate, read_climate
from fino.data.conditions import Conditions, plain
from fino.data.dataset import Dataset
from fino.data.frames import BrokenSample, JoinedFrames, explain
from fino.data.pdebench import is_pdebench, read_pdebench
from fino.data.radar import is_radar, read_radar
from fino.data.readers import (
    READERS,
    Variable,
    find_kind,
    find_variables,
    from_xarray,
    hold_variable,
)
from fino.data.split import Split, split_by_rule
from fino.data.store import is_native, read_native
from fino.data.trial import ask, serve
from fino.data.well import is_well, read_well
from fino.settings import did_you_mean

__all__ = ["open"]

Place = str | os.PathLike[str]

#: What folders of files are called, and the parts that they hold.
_PARTS = {
    **{"train": "train", "valid": "validation", "val": "validation"},
    **{"validation": "validation", "test": "test"},
}

#: Endings of files that are looked for in folders.
_ENDINGS = (".h5", ".hdf5", ".nc", ".npy", ".npz", ".mat", ".pt", ".pth", ".csv", ".tsv", ".zarr")

#: Kinds of files whose libraries are not trusted with damaged ones.
_TRIED = ("hdf5", "netcdf3", "matlab")

#: What can be said of files whose layout is known, beside `OPTIONS`, and of every file.
_CHANGED = ("dt", "extent", "boundary", "fields", "name", "history")
_CUT = ("leave_out", "window", "test", "validation", "split", "test_data")
_CLIMATE = ("train", "test", "points")

_KNOWN = (
    "numpy .npy and .npz, torch .pt, MATLAB .mat, NetCDF, zarr, CSV, and HDF5: fino's, "
    "PDEBench's, The Well's or any other"
)
_NO_NETCDF = " It is not NetCDF, although its name says so: was the download cut short?"

#: Seconds that opening foreign files may take, and bytes for which one more is granted; every
#: file of a folder is granted one, too.
_PATIENCE = 60.0
_BYTES_A_SECOND = 2**25

#: Bytes of numbers that it reads, and bytes that are too many for one trajectory.
_TRIAL = 2**26
_LARGEST = 2**33


def open(path: Any, *, usual: Mapping[str, Any] | None = None, **options: Any) -> Dataset:
    """Open a data file, a folder or list of them, or arrays in memory; the format is recognised.

    Frames are read when they are asked for; arrays below a quarter of a gigabyte are held in
    memory.  What a file says of itself is taken from it, what it does not say is asked for, and
    what was guessed is on the card: `data.card.guesses`.

    path        a file: fino's, PDEBench's, The Well's; numpy (.npy, .npz), MATLAB (.mat), torch
                (.pt, tensors only), NetCDF, zarr, HDF5, or a table (.csv).  A folder or a list of
                such files with one grid and the same fields; folders train, valid and test inside
                become the parts.  Or an xarray.Dataset or DataArray, a numpy array, a torch tensor,
                or a dictionary of these.

    What arrays mean:
    array       the names of the arrays to predict, "u" or "u,v"; the largest if not given
    inputs      for a steady problem: the arrays that the others are the answer to
    axes        what each axis is: "sample time x", "sample x y", "time y x channel"
    dt          the time between two frames
    extent      the edges of the domain, (0, 1) or ((0, 1), (0, 2)) or "0:1,0:2"
    boundary    "periodic", "dirichlet", "neumann" or "reflect", or one for each axis
    fields      other names for the channels
    parameters, known, forcing    names of arrays that models are given: scalars of a trajectory,
                fields constant in time, what varies in time and is known in advance
    mask        the name of an array that is not zero in cells that are not part of the domain
    symmetries  what takes solutions to solutions, of "shift", "flip", "rotate" and "sign":
                training draws from them, and errors are estimated with them; they are not checked
    directions  the axis that each field points along, "-" for a scalar: "-,x,y" for a density and
                velocities, which a flip turns
    walls, name, history          as `fino.from_array` has them

    Which trajectories are for what:
    test, validation    how many (50), or what share (0.1), of the samples
    split       a rule, "first" or "last", that puts the test part first or last
    window      cut long trajectories into stretches of so many frames (`Dataset.windows`); of a
                single one the last frames are the test part, so many or that share
    test_data   another file that is the test part
    leave_out   numbers of samples to leave out

    usual       options for what a file of arrays does not say itself, and is not said here

    For NOAA's and ECMWF's maps: train and test, each (first month, last month) such as ("2000-01",
    "2004-12"); points, "paper" for its 72 × 72 points, "own" for the files' grid, "auto" for the
    paper's where the files have them.
    """
    places = _places(path)
    try:
        _check_options(options)
        given = {key: value for key, value in options.items() if value is not None}
        cut = [key for key in _CUT if key != "test" or not _is_period(given.get(key))]
        read = {key: value for key, value in given.items() if key not in cut}
        read |= {"usual": {k: v for k, v in usual.items() if k in OPTIONS}} if usual else {}
        if places is None:
            data = arrange(_in_memory(path), "array", **read)
        else:
            data = _open_files(places, read)
        if "test_data" in given:
            try:
                test = _open_files(_places(given["test_data"]) or [], read)
            except Exception as error:
                raise ValueError(
                    f"the test part, {given['test_data']}: {explain(error)}"
                ) from error
            data = _with_test_part(data, test)
        data = _cut(data, given)
    except FileNotFoundError:
        raise
    except Exception as error:
        named = "the array" if places is None else ", ".join(map(str, places[:2]))
        named += f" and {len(places) - 2} more" if places and len(places) > 2 else ""
        raise ValueError(f"{named} cannot be opened: {explain(error)}") from error
    return replace(data, opened=_record(places, given))


def _places(path: Any) -> list[Path] | None:
    """The files or folders that were meant; None for something in memory."""
    if isinstance(path, str | os.PathLike):
        return [Path(path)]
    is_list = isinstance(path, list | tuple)
    if is_list and all(isinstance(place, str | os.PathLike) for place in path):
        if not path:
            raise ValueError("open should be given a file, a folder or a list of files.")
        return [Path(place) for place in path]
    return None


def _check_options(options: Mapping[str, Any]) -> None:
    known = (*OPTIONS, *_CUT, *_CLIMATE)
    for key in options:
        if key not in known:
            raise ValueError(f"it takes no option '{key}'. {did_you_mean(key, known)}")


def _is_period(value: Any) -> bool:
    """Whether a value is a pair of months, as maps of the weather are cut by."""
    return isinstance(value, list | tuple) and all(isinstance(word, str) for word in value)


def _record(places: list[Path] | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """What would open the same again, if it can be written down; else nothing."""
    if places is None:
        return {}
    found: dict[str, Any] = {"path": [str(place.resolve()) for place in places], **given}
    if "test_data" in given:
        found["test_data"] = [str(p.resolve()) for p in _places(given["test_data"]) or []]
    try:
        return dict(json.loads(json.dumps(found)))
    except TypeError:
        return {}


def _in_memory(thing: Any) -> dict[str, Variable]:
    """xarray's objects, arrays, tensors, or a dictionary of them, as named arrays."""
    found = from_xarray(thing)
    if found is not None:
        return found
    arrays = thing if isinstance(thing, Mapping) else {"u": thing}
    if not all(hasattr(array, "shape") for array in arrays.values()):
        raise ValueError(f"it is no file, array, tensor or xarray object, but {type(thing)}.")
    return {
        str(name): hold_variable(
            np.ma.filled(a.astype(float), np.nan) if np.ma.isMaskedArray(a) else plain(a)
        )
        for name, a in arrays.items()
    }


def _open_files(places: list[Path], options: dict[str, Any]) -> Dataset:
    """Open files of one data set, those of others first elsewhere."""
    files = _find_files(places)
    if len(files) == 1 and is_native(files[0]):
        return _changed(read_native(files[0]), options)
    if any(find_kind(file) in _TRIED for file in files):
        _try_elsewhere(files, options)
    data = _read(files, options)
    return replace(data, path=places[0] if len(places) == 1 else files[0].parent)


def _find_files(places: list[Path]) -> list[Path]:
    """The files that were meant, folders opened; each is there and not empty."""
    files: list[Path] = []
    for place in places:
        if not place.exists():
            raise FileNotFoundError(f"{place} does not exist.")
        if not place.is_dir() or find_kind(place):
            files.append(place)
            continue
        if any((place / name).exists() for name in ("settings.json", "config.json", "data.json")):
            raise ValueError("it is a run or a model, not data: open is for data, load for models.")
        folders = [inside / name for inside in (place, place / "data") for name in ("", *_PARTS)]
        found = [f for folder in folders for f in sorted(folder.glob("[!.]*"))]
        found = [f for f in found if f.suffix.lower() in _ENDINGS]
        if not found:
            raise ValueError(f"the folder has no data files in it ({', '.join(_ENDINGS)}).")
        files += found
    for file in files:
        if file.is_file() and file.stat().st_size == 0:
            raise ValueError(f"{file} is empty.")
    return files


def _read(files: list[Path], options: dict[str, Any]) -> Dataset:
    """Open files by what is inside them, and put them together."""
    kinds = {_naming(file, files, _layout, options) for file in files}
    if len(kinds) > 1:
        raise ValueError(f"its files are of different kinds ({', '.join(sorted(kinds))}).")
    if kinds == {"climate"}:
        own = {key: options[key] for key in options if key in _CLIMATE}
        others = {key: options[key] for key in options if key not in _CLIMATE}
        return _changed(read_climate(files, **own), others)
    if kinds == {"radar"}:
        return _changed(read_radar(files), options)
    months = [key for key in _CLIMATE if key in options]
    if months:
        raise ValueError(f"{months[0]} is for maps of the weather; test=50 chooses a test part.")
    parts = [_naming(file, files, _read_one, *kinds, options) for file in files]
    return parts[0] if len(parts) == 1 else _join(parts, files)


def _naming(file: Path, files: list[Path], work: Callable[..., Any], *arguments: Any) -> Any:
    """Do something with one of several files; what goes wrong names the file."""
    try:
        return work(file, *arguments)
    except Exception as error:
        if len(files) == 1:
            raise
        raise ValueError(f"{file.name}: {explain(error)}") from error


def _layout(path: Path, options: Mapping[str, Any]) -> str:
    """What a file is: fino's, The Well's, PDEBench's, maps of the weather, or any arrays."""
    kind = find_kind(path)
    if kind not in READERS:
        hint = _NO_NETCDF if path.suffix == ".nc" else ""
        raise ValueError(f"it is none of the formats we know ({_KNOWN}).{hint}")
    told = any(key in options for key in ("array", "axes", "inputs"))
    if kind == "hdf5":
        with h5py.File(path, "r") as file:
            if "card" in file.attrs and "fino" in file:
                return "fino"
            if not told and is_well(file):
                return "The Well's"
            if not told and is_pdebench(file):
                return "PDEBench's"
            if not told and is_radar(file):
                return "radar"
    if kind in ("hdf5", "netcdf3") and not told and is_climate(find_variables(path)):
        return "climate"
    return "arrays"


def _read_one(path: Path, layout: str, options: dict[str, Any]) -> Dataset:
    if layout == "arrays":
        return arrange(find_variables(path), path.stem, path, **options)
    if layout == "fino":
        return _changed(read_native(path), options)
    if layout == "The Well's":
        return _changed(read_well(path), options)
    words = {key: options[key] for key in options if key in ("boundary", "name")}
    return _changed(read_pdebench(path, **words), options)


def _changed(data: Dataset, options: Mapping[str, Any]) -> Dataset:
    """Data of a known layout, with what the user knows better."""
    options = {key: value for key, value in options.items() if key != "usual"}
    wrong = [key for key in options if key not in _CHANGED]
    if wrong:
        hint = " Name its arrays with array=… (--array) to have them read as any others."
        raise ValueError(
            f"its layout says itself what its arrays are: it takes no option '{wrong[0]}'."
            f"{'' if wrong[0] == 'array' else hint}"
        )
    if not options:
        return data
    old = data.grid
    offset = () if "extent" in options else old.offset
    extent, boundary = options.get("extent", old.extent), options.get("boundary", old.boundary)
    grid = make_grid(old.points, extent, boundary, offset)
    facts = {key: options[key] for key in options if key not in ("extent", "boundary")}
    if "fields" in facts:
        facts["fields"] = tuple(read_names(facts["fields"]))
    return replace(data, card=data.card.changed(**vars(grid), **facts))


def _join(parts: Sequence[Dataset], files: Sequence[Path]) -> Dataset:
    """The samples of several files as one data set; folders that name parts become the split.

    A parameter that is one number in each file, but not in all the same, varies.
    """
    first = parts[0]
    for file, part in zip(files, parts, strict=True):
        if _kind_of(part) != _kind_of(first):
            raise ValueError(
                f"{file.name} holds {part.shape} of {', '.join(part.fields)} with Δt {part.dt:g}, "
                f"{files[0].name} {first.shape} of {', '.join(first.fields)} with Δt "
                f"{first.dt:g}: not one data set."
            )
    begins = [0, *np.cumsum([len(part) for part in parts]).tolist()]
    numbers: dict[str, list[int]] = {}
    for file, start, stop in zip(files, begins, begins[1:], strict=False):
        if file.parent.name in _PARTS:
            numbers.setdefault(_PARTS[file.parent.name], []).extend(range(start, stop))
    split = Split.of("by folders", **numbers) if numbers else split_by_rule(begins[-1])
    conditions, varying = _join_conditions(parts)
    constant = {k: v for k, v in first.card.parameters.items() if k not in varying}
    facts = {"samples": begins[-1], "split": split, "varying": varying, "parameters": constant}
    if len({part.card.name for part in parts}) > 1:
        facts["name"] = files[0].parent.name
    source = JoinedFrames(tuple(part.source for part in parts))
    return Dataset(first.card.changed(**facts), source, conditions=conditions)


def _kind_of(data: Dataset) -> tuple[Any, ...]:
    """What has to be the same in all files of a data set."""
    grid = tuple(float(f"{number:.4g}") for number in (data.dt, *data.grid.spacing))
    return (data.fields, data.shape[1:], data.grid.boundary, grid)


def _join_conditions(parts: Sequence[Dataset]) -> tuple[Conditions, dict[str, str]]:
    """Everything beside the trajectories of several files, and the parameters that vary."""
    found: dict[str, Any] = {}
    columns: dict[str, np.ndarray] = {}
    every = [part.card.parameters | part.parameters for part in parts]
    for name in dict.fromkeys(name for values in every for name in values):
        rows = [values.get(name) for values in every]
        if any(isinstance(row, np.ndarray) for row in rows) or any(r != rows[0] for r in rows):
            if not all(isinstance(row, np.ndarray | int | float) for row in rows):
                raise ValueError(f"'{name}' is not a number in every file: not one data set.")
            columns[name] = _rows(rows, parts)
    if columns:
        found["parameters"] = np.stack(list(columns.values()), axis=1)
    for field in (f.name for f in fields(Conditions) if f.name != "parameters"):
        arrays = [getattr(part.conditions, field) for part in parts]
        if all(array is None for array in arrays):
            continue
        usual = {
            "mask": lambda p: np.ones((1, *p.grid.points), bool),
            "lengths": lambda p: p.lengths,
        }
        arrays = [
            usual[field](p) if a is None and field in usual else a
            for a, p in zip(arrays, parts, strict=True)
        ]
        if any(array is None for array in arrays):
            raise ValueError(f"not every file has {field}: not one data set.")
        same = all(len(a) == 1 and np.array_equal(a, arrays[0]) for a in arrays)
        found[field] = arrays[0] if same else _rows(arrays, parts)
    units = {k: v for part in parts for k, v in part.card.varying.items()}
    return Conditions(**found), {name: units.get(name, "") for name in columns}


def _rows(arrays: Sequence[Any], parts: Sequence[Dataset]) -> np.ndarray:
    """One row for each sample of every file."""
    shapes = [(len(part), *np.shape(array)[1:]) for array, part in zip(arrays, parts, strict=True)]
    return np.concatenate([np.broadcast_to(a, s) for a, s in zip(arrays, shapes, strict=True)])


def _with_test_part(data: Dataset, test: Dataset) -> Dataset:
    """Data to learn from, a tenth of them for validation, and other data as the test part."""
    learn, checks = len(data), max(1, len(data) // 10)
    whole = _join([data, test], [data.path or Path(), test.path or Path()])
    split = Split.of(
        "test = a file of its own, validation = first 10 % of the other, train = rest",
        train=range(checks, learn),
        validation=range(checks),
        test=range(learn, len(whole)),
    )
    return replace(whole, card=whole.card.changed(split=split), path=data.path)


def _cut(data: Dataset, given: Mapping[str, Any]) -> Dataset:
    """Leave out samples, and choose the parts, as a user says."""
    if "leave_out" in given:
        words = given["leave_out"]
        try:
            numbers = read_names(words) if isinstance(words, str) else np.atleast_1d(words)
            gone = {range(len(data))[int(word)] for word in numbers}
        except (ValueError, IndexError):
            raise ValueError(
                f"leave_out should be sample numbers from 0 to {len(data) - 1}, got {words}."
            ) from None
        data = data.select([i for i in range(len(data)) if i not in gone])
    if "window" in given:
        return _windows(data, given)
    if "split" in given:
        data = data.with_split(given["split"])
    sizes = {k: given[k] for k in ("test", "validation") if k in given and not _is_period(given[k])}
    if not sizes:
        return data
    if "test_data" in given or "split" in given:
        raise ValueError("test and validation do not go with split or test_data.")
    count = {part: int(n) if n >= 1 else round(n * len(data)) for part, n in sizes.items()}
    tests = count.get("test", max(1, len(data) // 10))
    usual = max(1, (len(data) - tests) // 10)
    return data.with_split(test=tests, validation=count.get("validation", usual))


def _windows(data: Dataset, given: Mapping[str, Any]) -> Dataset:
    """Stretches of long trajectories; of a single one, parts in time."""
    wrong = [key for key in ("split", "test_data") if key in given]
    if wrong:
        raise ValueError(f"{wrong[0]} does not go with window: its parts follow in time.")
    sizes = {k: given[k] for k in ("test", "validation") if k in given}
    sizes = {k: int(n) if n >= 1 else n for k, n in sizes.items()}
    return data.windows(int(given["window"]), **sizes)


def _try_elsewhere(files: list[Path], options: dict[str, Any]) -> None:
    """Open files in another process; a crash, a hang or a refusal becomes one ValueError."""
    # Arrays that were given beside the file are not needed to find out whether it can be read.
    beside = ("parameters", "known", "forcing", "mask")
    told = {k: v for k, v in options.items() if k not in beside or read_names(v)}
    size = sum(path.stat().st_size for path in files)
    request = json.dumps([[str(path.resolve()) for path in files], told])
    code = "from fino.data.open import answer_all; answer_all()"
    line = ask(code, request, _PATIENCE + len(files) + size / _BYTES_A_SECOND)
    answered = "it is damaged: reading it crashed or did not end." if line is None else line
    if answered:
        raise ValueError(answered)


def answer_all() -> None:
    """In the other process: try whatever files it is asked about."""
    serve(_try)


def _try(request: str) -> str:
    """Open files, read the first and last samples and as many between as the trial allows."""
    try:
        files, options = json.loads(request)
        source = _read([Path(file) for file in files], options).source
        samples, *rest = source.shape
        size = 4 * math.prod(rest)
        if size > _LARGEST:
            return f"one of its trajectories is {size / 1e9:.0f} GB: too large to be one."
        count = max(2, min(samples, _TRIAL // size))
        whole = (slice(None),) * (len(rest) - 2)
        for i in sorted({round(k * (samples - 1) / (count - 1)) for k in range(count)}):
            with suppress(BrokenSample):  # one sample does not close the file
                source.read([i], slice(None), whole)
    except Exception as error:  # whatever it was, the caller gets one line
        return explain(error)
    return ""
