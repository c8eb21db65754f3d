"""The data of a case: where they are, what they depend on, and how to open them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fino
from fino.data.dataset import Dataset
from fino.data.split import Split
from fino.data.store import save
from fino.recipe.recipe import DataChoice
from fino.recipe.steps import file_hash

__all__ = ["cut", "gathered", "make", "opened", "source_key", "source_settings"]

#: What decides the numbers in the file; the rest says how they are cut.
_MADE_FROM = ("problem", "air", "pressure", "samples", "seed", "initial", "settings")


def source_settings(choice: DataChoice) -> dict[str, Any]:
    """Everything that the data file of a choice depends on, the files it is made from included."""
    if choice.file is not None:
        path = _existing(choice.file)
        return {"file": str(path), "hash": opened(choice, path).hash}
    settings = choice.model_dump(mode="json", include={*_MADE_FROM}, exclude_none=True)
    if choice.problem is not None:
        return {**settings, "strides": [choice.stride_space, choice.stride_time]}
    settings["files"] = {path.name: file_hash(path) for path in gathered(choice)}
    return settings


def gathered(choice: DataChoice) -> list[Path]:
    """The temperature and pressure files of a climate choice, patterns and folders opened."""
    found: list[Path] = []
    for quantity in ("air", "pressure"):
        wanted = getattr(choice, quantity)
        for place in [wanted] if isinstance(wanted, str) else wanted:
            path = Path(place)
            for one in sorted(path.parent.glob(path.name)) or [_existing(path)]:
                found += sorted(one.glob("*.nc")) if one.is_dir() else [one]
    return list(dict.fromkeys(found))


def make(
    choice: DataChoice, path: Path, *, overwrite: bool, progress: Callable[[float], None] | None
) -> Dataset:
    """Solve the problem, or pair the weather maps, into a file of our own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if choice.problem is None:
        return save(fino.open(gathered(choice)), path, overwrite=True)
    assert choice.samples is not None
    data: Dataset = fino.generate(
        choice.problem,
        choice.samples,
        choice.seed,
        out=path,
        stride_space=choice.stride_space,
        stride_time=choice.stride_time,
        initial=choice.initial,
        overwrite=overwrite,
        progress=progress,
        **choice.settings,
    )
    return data


def opened(choice: DataChoice, path: Path) -> Dataset:
    """The data of a choice, strided, split and cut as it says."""
    data: Dataset = fino.open(path)
    if choice.problem is None and max(choice.stride_space, choice.stride_time) > 1:
        data = data.strided(choice.stride_space, choice.stride_time)
    if choice.split is not None:
        data = data.with_split(choice.split)
    if choice.history is not None:
        data = data.with_history(choice.history)
    return data if choice.train is None else cut(data, choice.train)


def cut(data: Dataset, train: int) -> Dataset:
    """The same data with only so many trajectories to learn from; what judges stays the same."""
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


def source_key(choice: DataChoice) -> str:
    """A short name for everything but how much is learnt from: the same key, the same test."""
    content = choice.model_dump(mode="json", exclude={"train"})
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]


def _existing(place: str | Path) -> Path:
    path = Path(place)
    if not path.exists():
        raise FileNotFoundError(f"There is no data file {path}.")
    return path
