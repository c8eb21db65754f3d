"""The data of a recipe: what they depend on, how to make and to open them, and what was read.

`Files` remembers.  A file is opened once in a process, and its hash is known until its size, time
or place on disk changes; the next process finds the hashes in steps/hashes.json.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from fino.data.dataset import Dataset
from fino.data.generate import generate
from fino.data.open import open as open_file
from fino.data.split import Split
from fino.data.store import save
from fino.durable import write_json
from fino.recipe.recipe import DataChoice
from fino.settings import did_you_mean

__all__ = ["Files", "describe_source", "make_data", "open_data"]

#: What decides the numbers in the file; the rest says how they are cut.
_MADE_FROM = ("problem", "air", "pressure", "samples", "seed", "initial", "settings", "refine")


class Files:
    """Open data, and the hashes of files, remembered for as long as the files do not change."""

    def __init__(self, kept: Path | None = None) -> None:
        self._kept, self._changed = kept, False
        self._open: dict[str, tuple[str, Dataset]] = {}
        self._hashes: dict[str, list[str]] = {}
        with suppress(OSError, ValueError):  # then everything is read again
            self._hashes.update(json.loads(kept.read_bytes()) if kept else {})

    def open(self, path: Path, reading: Mapping[str, Any] | None = None) -> Dataset:
        """The data of a file or folder, opened if they were not open yet."""
        key, stamp = _key(path, reading), _stamp(path) or ""
        open_before = self._open.get(key)
        if open_before is None or open_before[0] != stamp:
            self._open[key] = (stamp, open_file(path, **(reading or {})))
        return self._open[key][1]

    def add(self, path: Path, data: Dataset) -> None:
        """Take data that were just written there, as if they had been opened."""
        self._open[_key(path, None)] = (_stamp(path) or "", data)

    def hash(self, path: Path, read: Callable[[], str], what: str = "bytes") -> str | None:
        """What `read` finds in a file; None if the file is not there or damaged."""
        key, stamp = f"{what} {path.absolute()}", _stamp(path)
        if stamp is None:
            return None
        known = self._hashes.get(key)
        if not isinstance(known, list) or known[:1] != [stamp]:
            try:
                self._hashes[key] = known = [stamp, read()]
            except (OSError, ValueError, KeyError, RuntimeError):
                return None
            self._changed = True
        return known[1]

    def bytes_hash(self, path: Path) -> str | None:
        """The SHA-256 of a file; None if it is not there."""
        return self.hash(path, lambda: hashlib.sha256(path.read_bytes()).hexdigest())

    def save(self) -> None:
        """Leave the hashes for the next process."""
        if self._kept is not None and self._changed:
            write_json(self._kept, self._hashes)
            self._changed = False


def _key(path: Path, reading: Mapping[str, Any] | None) -> str:
    return json.dumps([str(path), reading or {}], sort_keys=True)


def _stamp(path: Path) -> str | None:
    """Size, time and place of a file, or of all files in a folder; None if it is not there."""
    try:
        found = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
        facts = [(p.name, s.st_size, s.st_mtime_ns, s.st_ino) for p in found if (s := p.stat())]
    except OSError:
        return None
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


def open_data(choice: DataChoice, path: Path, files: Files | None = None) -> Dataset:
    """The data of a choice, strided, split and cut as it says."""
    files = files or Files()
    data = files.open(_existing(path), choice.reading)
    if choice.problem is None and max(choice.stride_space, choice.stride_time) > 1:
        data = data.strided(choice.stride_space, choice.stride_time)
    if data.recorded_hash is None:
        # To hash data that are not ours, or strided, is to read all of them: once is enough.
        what = f"data, strides {choice.stride_space} and {choice.stride_time},"
        what += (
            f" read with {json.dumps(choice.reading, sort_keys=True)}," if choice.reading else ""
        )
        data = replace(data, recorded_hash=files.hash(path, lambda: data.hash, what))
    if choice.split is not None:
        data = data.with_split(choice.split)
    if choice.history is not None:
        data = data.with_history(choice.history)
    return data if choice.train is None else _take_train(data, choice.train)


def _take_train(data: Dataset, train: int) -> Dataset:
    """The same data with only so many trajectories to learn from; the other parts stay."""
    available = data.train.samples
    if train > len(available):
        raise ValueError(
            f"data.train should be at most the {len(available)} trajectories of the training "
            f"part, got {train}. Make more samples."
        )
    split = Split.of(
        f"{data.split.rule}; learning from the first {train} only",
        train=available[:train],
        validation=data.validation.samples,
        test=data.test.samples,
    )
    return data.with_split(split)


def make_data(
    choice: DataChoice, path: Path, progress: Callable[[float], None] | None = None
) -> Dataset:
    """Solve the problem, or pair the weather maps, into a file of our own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if choice.problem is None:
        return save(open_file(_list_files(choice)), path, overwrite=True)
    assert choice.samples is not None
    return generate(
        choice.problem,
        choice.samples,
        choice.seed,
        out=path,
        stride_space=choice.stride_space,
        stride_time=choice.stride_time,
        refine=choice.refine,
        initial=choice.initial,
        overwrite=not path.exists(),
        progress=progress,
        **choice.settings,
    )


def describe_source(choice: DataChoice, files: Files) -> dict[str, Any]:
    """Everything that the data file of a choice depends on, the files it is made from included."""
    if choice.file is not None:
        path = _existing(choice.file)
        told = {"reading": choice.reading} if choice.reading else {}
        return {"file": str(path), "hash": open_data(choice, path, files).hash, **told}
    settings = choice.model_dump(mode="json", include={*_MADE_FROM}, exclude_none=True)
    if choice.problem is not None:
        return {**settings, "strides": [choice.stride_space, choice.stride_time]}
    settings["files"] = {path.name: files.bytes_hash(path) for path in _list_files(choice)}
    return settings


def _list_files(choice: DataChoice) -> list[Path]:
    """The temperature and pressure files of a climate choice, patterns and folders opened."""
    found: list[Path] = []
    for quantity in ("air", "pressure"):
        wanted = getattr(choice, quantity)
        for place in [wanted] if isinstance(wanted, str) else wanted:
            path = Path(place)
            for one in sorted(path.parent.glob(path.name)) or [_existing(path)]:
                found += sorted(one.glob("*.nc")) if one.is_dir() else [one]
    return list(dict.fromkeys(found))


def _existing(place: str | Path) -> Path:
    path = Path(place)
    if not path.exists():
        beside = [p.name for p in path.parent.glob("[!.]*")] if path.parent.is_dir() else []
        near = did_you_mean(path.name, beside) if beside else ""
        hint = f" {near}" if near.startswith("Did") else ""
        raise FileNotFoundError(f"There is no data file {path}.{hint}")
    return path
