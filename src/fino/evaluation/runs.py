"""What is scored: a run folder, a model or any stepper, together with the data it belongs to.

A run folder holds `model/`, `data.json` (the card, the path, the hash and the split of the data it
was trained on), `settings.json` and `metrics.jsonl`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from fino.data.dataset import Dataset
from fino.metrics.scores import Scores
from fino.model.pretrained import Pretrained, near_name, on_shelf
from fino.model.rollout import rollout
from fino.model.store import load
from fino.training.shelf import reopen

__all__ = ["Subject", "data_of_run", "read_json", "subject_from_shelf", "subject_of"]


@dataclass(frozen=True)
class Subject:
    """A stepper, its data, and the run that it came from, if any; `known` are shipped scores."""

    model: Any
    data: Dataset
    name: str
    folder: Path | None = None
    training: dict[str, Any] | None = None
    learned_from: int | None = None
    known: Scores | None = None

    def predict(self, history: Tensor, steps: int) -> Tensor:
        """Roll out on the model's own device, in its mode for use: (b, K, …) → (b, steps, …)."""
        if not isinstance(self.model, nn.Module):
            return rollout(self.model, history, steps)
        was_training = self.model.training
        weight = next(self.model.parameters(), history)
        self.model.eval()
        try:
            return rollout(self.model, history.to(weight.device), steps).to(history.device)
        finally:
            self.model.train(was_training)


def subject_of(run_or_model: Any, data: Dataset | str | Path | None = None) -> Subject:
    """Find the model and the data, and refuse a pair that does not fit."""
    if isinstance(run_or_model, Subject):
        return run_or_model
    shelved = on_shelf(run_or_model)
    if shelved is not None:
        return subject_from_shelf(shelved, data)
    folder = _folder_of(run_or_model)
    model = load(folder / "model") if folder is not None else run_or_model
    if not callable(model):
        raise ValueError(
            f"evaluate should be given a run folder, a model or a stepper, "
            f"got {type(run_or_model).__name__}."
        )
    if data is None:
        if folder is None:
            raise ValueError("A model alone does not know its data: pass data as well.")
        data = data_of_run(folder)
    elif not isinstance(data, Dataset):
        data = _open(Path(data))
    check_fit(model, data)
    training = read_json(folder / "settings.json") if folder is not None else None
    learned_from = _learned_from(folder) if folder is not None else None
    return Subject(model, data, _name_of(model), folder, training, learned_from)


def subject_from_shelf(
    shelved: Pretrained,
    data: Dataset | str | Path | None = None,
    samples: int | None = None,
    progress: Any = None,
) -> Subject:
    """A pretrained model with its test data, solved again unless they are given."""
    model, given = shelved.load(), data is not None
    if data is None:
        data = shelved.test_data(samples, progress)
    elif not isinstance(data, Dataset):
        data = _open(Path(data))
    check_fit(model, data)
    known: Scores | None = Scores.load(shelved.folder)
    if given and known is not None and data.hash != known.data["sha256"]:
        known = None
    training = shelved.card["recipe"]["training"]
    return Subject(model, data, _name_of(model), training=training, known=known)


def _learned_from(folder: Path) -> int | None:
    """How many trajectories the run was trained on, as it wrote down."""
    split = (read_json(folder / "data.json").get("card") or {}).get("split") or {}
    return sum(stop - start for start, stop in split.get("train", ())) or None


def data_of_run(folder: Path) -> Dataset:
    """The data that a run was trained on, with the same samples, strides and split."""
    facts = read_json(folder / "data.json")
    path = facts.get("path")
    if not path:
        raise ValueError(
            f"{folder / 'data.json'} names no file: the run was trained on an array in memory. "
            f"Pass its data."
        )
    if not Path(path).exists():
        raise ValueError(f"The data of {folder} are no longer at {path}. Pass them with --data.")
    try:
        data = reopen(facts)
    except (KeyError, TypeError, IndexError, AttributeError):
        raise ValueError(f"{folder / 'data.json'} is damaged: parts are missing.") from None
    if data.hash != facts.get("hash"):
        raise ValueError(
            f"{path} is not the file that {folder} was trained on: its SHA-256 is "
            f"{data.hash[:12]}…, the run's {str(facts.get('hash'))[:12]}…. "
            f"Pass --data to score it."
        )
    return data


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a run folder, or one line about what is wrong with it."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{path.parent} is not a whole run: {path.name} is missing.") from None
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise ValueError(f"{path} is damaged: it is not JSON.") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path} is damaged: it should be a JSON object.")
    return content


def check_fit(model: Any, data: Dataset) -> None:
    """Refuse data of another grid, other channels or another time step, in one line each."""
    channels, grid = getattr(model, "channels", None), getattr(model, "grid", None)
    if channels is not None and channels != data.channels:
        own = getattr(getattr(model, "settings", None), "fields", ())
        raise ValueError(
            f"The model predicts {channels} channels{_named(own)}, the data have "
            f"{data.channels}{_named(data.fields)}. Use data with the same fields."
        )
    if grid is not None:
        if grid.dims != data.grid.dims or grid.boundary != data.grid.boundary:
            raise ValueError(
                f"The model was made for {_described(grid)}, the data are on "
                f"{_described(data.grid)}. Use data of the same kind."
            )
        if not np.allclose(grid.spacing, data.grid.spacing, rtol=1e-5):
            raise ValueError(
                f"The model was made for {_described(grid)}, the data are on "
                f"{_described(data.grid)}: another spacing. Stride the data or train again."
            )
    dt = getattr(getattr(model, "settings", None), "dt", None)
    if dt is not None and not data.steady and not np.isclose(dt, data.dt, rtol=1e-5):
        raise ValueError(
            f"The model steps by {dt:g}, the data by {data.dt:g}. Stride the data or train again."
        )


def _folder_of(thing: Any) -> Path | None:
    if isinstance(thing, str | Path):
        folder = Path(thing)
    elif hasattr(thing, "folder"):
        folder = Path(thing.folder)
    else:
        return None
    if not folder.is_dir():
        hint = near_name(folder, otherwise=f"Train one with `fino train --out {folder}`.")
        raise ValueError(f"There is no run at {folder}. {hint}")
    if not (folder / "model").is_dir():
        raise ValueError(f"{folder} is not a whole run: it has no model. Train it again.")
    return folder


def _open(path: Path) -> Dataset:
    from fino.data.open import open as open_data

    return open_data(path)


def _name_of(model: Any) -> str:
    settings = getattr(model, "settings", None)
    return str(getattr(settings, "model", type(model).__name__.lower()))


def _named(fields: Any) -> str:
    return f" ({', '.join(fields)})" if fields else ""


def _described(grid: Any) -> str:
    points = " × ".join(str(n) for n in grid.points)
    spacing = ", ".join(f"{s:.4g}" for s in dict.fromkeys(grid.spacing))
    return f"a {points} grid ({', '.join(dict.fromkeys(grid.boundary))}, spacing {spacing})"
