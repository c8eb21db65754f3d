"""Which data a run was trained on, and how to open them again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fino
from fino.data.card import Card
from fino.data.dataset import Dataset

__all__ = ["describe_data", "reopen"]


def describe_data(data: Dataset) -> dict[str, Any]:
    """The facts that lead back to the data: card, path, hash, samples."""
    return {
        "path": str(data.path.resolve()) if data.path else None,
        "hash": data.hash,
        "samples": list(data.samples or ()),
        "stride_space": list(data.stride_space),
        "stride_time": data.stride_time,
        "card": data.card.model_dump(mode="json"),
    }


def reopen(facts: dict[str, Any]) -> Dataset:
    """The same data from the same file, with the same samples, strides and split."""
    if not facts["path"]:
        raise ValueError(
            "The data of this run were never on disk. Give them again, or train on a file."
        )
    if not Path(facts["path"]).exists():
        raise ValueError(f"The data of this run are gone: there is no {facts['path']}.")
    data: Dataset = fino.open(facts["path"])
    chosen = list(data.samples or ())
    wanted = facts["samples"]
    if wanted != chosen:
        data = data.select([chosen.index(i) for i in wanted])
    space = tuple(a // b for a, b in zip(facts["stride_space"], data.stride_space, strict=True))
    time = facts["stride_time"] // data.stride_time
    if max(space) > 1 or time > 1:
        data = data.strided(space, time)
    card = Card(**facts["card"])
    data = data.with_history(card.history)
    return data.with_split(card.split) if card.split is not None else data
