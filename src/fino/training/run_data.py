"""The data of a run: how they are written down, opened again, and checked against the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, PositiveInt

from fino.data.card import Card
from fino.data.dataset import Dataset
from fino.data.open import open as open_data
from fino.settings import Settings

__all__ = [
    "check_fit",
    "check_same_data",
    "describe_data",
    "incomplete",
    "read_facts",
    "read_json",
    "reopen_data",
]


_TRAIN = "Train it with `fino train`."


class _Facts(Settings, extra="ignore"):
    """What `data.json` holds; folders of earlier versions lack some of it."""

    path: str | None = None
    hash: str | None = None
    samples: tuple[int, ...] = ()
    stride_space: tuple[PositiveInt, ...] = ()
    stride_time: PositiveInt = 1
    card: dict[str, Any] = Field(default_factory=dict)


def read_facts(path: Path) -> dict[str, Any]:
    """`data.json` of a run, refused if something in it is of another kind."""
    content = read_json(path)
    try:
        _Facts(**content)
        Card(**content.get("card", {}))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} is damaged: {error} Restore it or train again.") from None
    return content


def describe_data(data: Dataset) -> dict[str, Any]:
    """The facts that lead back to the data: card, path, hash, samples."""
    return {
        "path": str(data.path.resolve()) if data.path else None,
        "opened": data.opened,
        "hash": data.hash,
        "samples": list(data.samples or ()),
        "stride_space": list(data.stride_space),
        "stride_time": data.stride_time,
        "card": data.card.model_dump(mode="json"),
    }


def reopen_data(facts: dict[str, Any], folder: Path) -> Dataset:
    """The same data from the same file, with the same samples, strides and split."""
    path = facts.get("path")
    if not path:
        raise ValueError(
            f"{folder / 'data.json'} names no file: the run was trained on an array in memory. "
            f"Pass its data."
        )
    if not Path(path).exists():
        raise ValueError(f"The data of {folder} are no longer at {path}. Pass them with --data.")
    try:
        data, wanted = open_data(**(facts.get("opened") or {"path": path})), facts["samples"]
        chosen = list(data.samples or ())
        if not set(wanted) <= set(chosen):
            raise ValueError(f"{path} no longer holds all samples of {folder}. Restore the file.")
        if wanted != chosen:
            data = data.select([chosen.index(i) for i in wanted])
        strides = zip(facts["stride_space"], data.stride_space, strict=True)
        space, time = tuple(a // b for a, b in strides), facts["stride_time"] // data.stride_time
        if max(space) > 1 or time > 1:
            data = data.strided(space, time)
        card = Card(**facts["card"])
        data = data.with_history(card.history)
        return data.with_split(card.split) if card.split is not None else data
    except (KeyError, TypeError, IndexError, AttributeError):
        raise ValueError(f"{folder / 'data.json'} is damaged: parts are missing.") from None


def check_same_data(data: Dataset, facts: dict[str, Any], folder: Path) -> None:
    """Refuse data that are not those that the run was trained on."""
    if data.hash != facts.get("hash"):
        raise ValueError(
            f"{data.path or data.card.name} is not what {folder} was trained on: its SHA-256 is "
            f"{data.hash[:12]}…, the run's {str(facts.get('hash'))[:12]}…. Restore it; to score "
            f"the run on other data, pass them with --data."
        )


def check_fit(model: Any, data: Dataset) -> None:
    """Refuse data of another grid, other channels or another time step, in one line each."""
    channels, grid = getattr(model, "channels", None), getattr(model, "grid", None)
    settings = getattr(model, "settings", None)
    if channels is not None and channels != data.channels:
        own = getattr(settings, "fields", ())
        raise ValueError(
            f"The model predicts {channels} channels{_named(own)}, the data have "
            f"{data.channels}{_named(data.fields)}. Use data with the same fields."
        )
    if grid is not None:
        both = f"The model was made for {_grid(grid)}, the data are on {_grid(data.grid)}"
        if grid.dims != data.grid.dims or grid.boundary != data.grid.boundary:
            raise ValueError(f"{both}. Use data of the same kind.")
        if not np.allclose(grid.spacing, data.grid.spacing, rtol=1e-5):
            raise ValueError(f"{both}: another spacing. Stride the data or train again.")
    dt = getattr(settings, "dt", None)
    if dt is not None and not data.steady and not np.isclose(dt, data.dt, rtol=1e-5):
        raise ValueError(
            f"The model steps by {dt:g}, the data by {data.dt:g}. Stride the data or train again."
        )


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a run folder, or one line about what is wrong with it."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise incomplete(path.parent, f"{path.name} is missing") from None
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise ValueError(f"{path} is damaged: it is not JSON.") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path} is damaged: it should be a JSON object.")
    return content


def incomplete(folder: Path, what: str) -> ValueError:
    """The error for a folder that lacks something."""
    can_go_on = (folder / "start").is_dir() and (folder / "settings.json").is_file()
    how = f"Go on with `fino train --resume {folder}`." if can_go_on else _TRAIN
    return ValueError(f"{folder} is not a whole run: {what}. {how}")


def _named(fields: Any) -> str:
    return f" ({', '.join(fields)})" if fields else ""


def _grid(grid: Any) -> str:
    points = " × ".join(str(n) for n in grid.points)
    spacing = ", ".join(f"{s:.4g}" for s in dict.fromkeys(grid.spacing))
    return f"a {points} grid ({', '.join(dict.fromkeys(grid.boundary))}, spacing {spacing})"
