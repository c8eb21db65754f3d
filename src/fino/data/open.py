"""Any data file that we know, opened by looking inside it.

    fino.open("swe.h5")                          ours, PDEBench's three layouts, The Well's
    fino.open(["air.sig995.2000.nc", …])         NOAA or ERA files: temperature → pressure
    fino.open("folder of NetCDF or Well files")

A file that cannot be read is answered with one line.  Our own files have checksums.  The HDF5
library can crash or hang on damaged files of others, so those are first opened in a process of
their own, which reads some numbers and answers with an error line or "".  The process starts with
the first such file, serves later ones, and leaves when idle.
"""

from __future__ import annotations

import atexit
import json
import math
import os
import select
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import h5py

from fino.data.climate import read_climate
from fino.data.dataset import Dataset
from fino.data.frames import explain
from fino.data.netcdf import is_netcdf3, is_netcdf4
from fino.data.pdebench import is_pdebench, read_pdebench
from fino.data.store import is_native, read_native
from fino.data.well import find_well_files, is_well, read_well

__all__ = ["open"]

Place = str | os.PathLike[str]

_KNOWN = "HDF5 files of fino, PDEBench and The Well, and NetCDF maps"

#: Seconds that opening a foreign file may take, and bytes for which one more is granted.
_PATIENCE = 20.0
_BYTES_A_SECOND = 2**25

#: Seconds without work after which the process leaves.
_IDLE = 5.0

#: Bytes of numbers that it reads, and bytes that are too many for one trajectory.
_TRIAL = 2**26
_LARGEST = 2**33

_lock = Lock()
_process: subprocess.Popen[str] | None = None


def open(path: Place | Sequence[Place], **options: Any) -> Dataset:
    """Open a data file, a folder of them, or a list of NetCDF files; the format is recognised.

    Frames of HDF5 files are read when they are asked for; NetCDF maps are loaded at once.

    path        a file of fino, PDEBench or The Well; a folder of The Well (with train, valid and
                test inside, which become the split); NetCDF files of NOAA or ECMWF with
                near-surface temperature and surface pressure, as a list or a folder
    options     for PDEBench: boundary ("periodic", "dirichlet", "neumann" or "reflect", one for all
                axes or one for each) and name, where the file is taken for something else.
                For NetCDF: train and test, each (first month, last month) such as
                ("2000-01", "2004-12"); points, "paper" for its 72 × 72 points, "own" for the files'
                grid, "auto" (the default) for the paper's where the files have them.
    """
    places = [path] if isinstance(path, str | os.PathLike) else list(path)
    files = _find_files([Path(place) for place in places])
    named = str(files[0]) if len(files) == 1 else f"{files[0].parent} ({len(files)} files)"
    try:
        if len(files) == 1 and is_native(files[0]):
            return read_native(files[0], **options)
        _try_elsewhere(files, options)
        return _read(files, options)
    except Exception as error:
        raise ValueError(f"{named} cannot be opened: {explain(error)}") from error


def _find_files(places: list[Path]) -> list[Path]:
    """The files that were meant, folders opened; each is there and not empty."""
    if not places:
        raise ValueError("open should be given a file, a folder or a list of NetCDF files.")
    files: list[Path] = []
    for place in places:
        if not place.exists():
            raise FileNotFoundError(f"{place} does not exist.")
        if place.is_dir():
            inside = sorted(place.glob("*.nc")) or find_well_files(place)
            if not inside:
                raise ValueError(f"the folder {place} has no NetCDF (.nc) or HDF5 files in it.")
            files += inside
        else:
            files.append(place)
    for file in files:
        if file.stat().st_size == 0:
            raise ValueError(f"{file} is empty.")
    return files


def _read(files: list[Path], options: dict[str, Any]) -> Dataset:
    """Open files by what is inside them."""
    first = files[0]
    kinds = {_named_kind(file, len(files)) for file in files}
    if len(kinds) > 1:
        raise ValueError(f"its files are of different kinds ({', '.join(sorted(kinds))}).")
    (kind,) = kinds
    readers: dict[str, Callable[[], Dataset]] = {
        "fino": lambda: read_native(first, **options),
        "netcdf": lambda: read_climate(files, **options),
        "well": lambda: read_well(files, **options),
        "pdebench": lambda: read_pdebench(first, **options),
    }
    if kind in ("fino", "pdebench") and len(files) > 1:
        raise ValueError(f"{kind} files are opened one at a time.")
    return readers[kind]()


def _named_kind(path: Path, files: int) -> str:
    try:
        return _kind(path)
    except Exception as error:
        if files == 1:
            raise
        raise ValueError(f"{path.name}: {explain(error)}") from error


def _kind(path: Path) -> str:
    if is_netcdf3(path):
        return "netcdf"
    if not h5py.is_hdf5(path):
        hint = ""
        if path.suffix in (".npy", ".npz"):
            hint = " Load it with numpy and use fino.from_array."
        if path.suffix == ".nc":
            hint = " It is not NetCDF, although its name says so: was the download cut short?"
        raise ValueError(f"it is none of the formats we know ({_KNOWN}).{hint}")
    with h5py.File(path, "r") as file:
        if "card" in file.attrs and "fino" in file:
            return "fino"  # ours, with its first words damaged: its checksums will tell
        for kind, fits in (("well", is_well), ("netcdf", is_netcdf4), ("pdebench", is_pdebench)):
            if fits(file):
                return kind
        inside = ", ".join(list(file)[:5]) or "nothing"
    raise ValueError(f"it is HDF5, but none of the layouts we know ({_KNOWN}): it holds {inside}.")


def _try_elsewhere(files: list[Path], options: dict[str, Any]) -> None:
    """Open files in the other process; a crash, a hang or a refusal becomes one ValueError."""
    size = sum(path.stat().st_size for path in files)
    request = json.dumps([[str(path.resolve()) for path in files], options])
    with _lock:
        answer = _ask(request, _PATIENCE + size / _BYTES_A_SECOND)
    if answer is None:
        raise ValueError("it is damaged: reading it crashed or did not end.")
    if answer:
        raise ValueError(answer)


def _ask(request: str, patience: float) -> str | None:
    """The process's answer, "" if all is well; None if it died or was too slow."""
    global _process
    for _ in range(2):  # an idle process may leave just as it is asked
        if _process is not None and _process.poll() is not None:
            _stop()
        process = _process = _process or _start()
        if process is None:
            return ""
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(request + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            _stop()
            continue
        ready, _, _ = select.select([process.stdout], [], [], patience)
        line = process.stdout.readline() if ready else ""
        if line:
            return str(json.loads(line))
        left = process.poll() == 0
        _stop()
        if not left:
            return None
    return None


def _start() -> subprocess.Popen[str] | None:
    """A new process, or None where none may be started: then the file is opened untried."""
    code = f"import sys; sys.path[:] = {sys.path!r}; from fino.data.open import serve; serve()"
    try:
        return subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
    except OSError:
        return None


def _stop() -> None:
    global _process
    if _process is not None:
        _process.kill()
        with _process:  # closes its pipes and waits for it
            _process = None


atexit.register(_stop)


def serve() -> None:
    """The other process: answer requests until there are none for a while."""
    while select.select([sys.stdin], [], [], _IDLE)[0]:
        line = sys.stdin.readline()
        if not line:
            return
        files, options = json.loads(line)
        print(json.dumps(_try([Path(file) for file in files], options)), flush=True)


def _try(files: list[Path], options: dict[str, Any]) -> str:
    """Open, read the first and last samples and as many between as the trial allows."""
    try:
        source = _read(files, options).source
        samples, *rest = source.shape
        size = 4 * math.prod(rest)
        if size > _LARGEST:
            return f"one of its trajectories is {size / 1e9:.0f} GB: too large to be one."
        count = max(2, min(samples, _TRIAL // size))
        whole = (slice(None),) * (len(rest) - 2)
        for i in sorted({round(k * (samples - 1) / (count - 1)) for k in range(count)}):
            source.read([i], slice(None), whole)
    except Exception as error:  # whatever it was, the caller gets one line
        return explain(error)
    return ""
