"""Trained models that come with the package: where they lie, their cards, and their test data.

    weights/NAME/
      model.safetensors, config.json    as fino.save writes them
      card.json                         data, recipe, scores, cost, reach, known limits
      scores.json                       all that `fino evaluate` measured

The table of names is what lies in the folder; `fino.PRETRAINED` opens each as a run.  Test data
are not shipped but solved again: a sample is a pure function of the card's settings, its seed and
its number, so the test part can be made without the rest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fino.data.card import Card
from fino.data.dataset import Dataset
from fino.data.frames import ArrayFrames
from fino.data.generate import Plan, plan, shard_size
from fino.data.split import Split
from fino.pde import PROBLEMS

__all__ = [
    "CARD",
    "FORMAT",
    "WEIGHTS",
    "card_title",
    "plan_again",
    "pretrained_names",
    "read_card",
    "solve_samples",
    "solve_test_part",
]

FORMAT = "fino pretrained 1"
CARD = "card.json"

#: Where the folders lie.
WEIGHTS = Path(__file__).parent / "weights"

#: Data that cannot be solved again, and the files to give instead.
_MEASURED = {
    "climate-monthly": "a folder with NOAA's air.mon.mean.nc and slp.mon.mean.nc",
    "climate-daily": "a folder with NOAA's air.sig995.*.nc and pres.sfc.*.nc",
}

#: The parts of a card; see docs/pretrained.md.
_PARTS = ("title", "date", "data", "recipe", "scores", "cost", "reach", "versions", "limits")


def pretrained_names() -> list[str]:
    """The name of every folder that has a card."""
    return sorted(path.parent.name for path in WEIGHTS.glob(f"[!.]*/{CARD}"))


def card_title(card: dict[str, Any]) -> str:
    """A model in a line: what it solves, how well, how far it sees."""
    error, cells = card["scores"]["nrmse"]["value"], card["reach"]["cells"]
    reach = f"{cells[0]} cells" if cells[0] is not None else "the whole field"
    return f"{card['title']}: nRMSE {error:.3g}, sees {reach}"


def read_card(path: Path) -> dict[str, Any]:
    """What `card.json` says, or one line about what is wrong with it."""
    try:
        card = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise ValueError(f"{path} is damaged: it is not JSON. Install fino again.") from None
    if not isinstance(card, dict) or card.get("format") != FORMAT:
        raise ValueError(f"{path} is not a card of a pretrained model that this fino reads.")
    missing = [part for part in _PARTS if part not in card]
    missing += [m for m in ("rmse", "nrmse") if m not in card.get("scores", {})]
    if missing:
        raise ValueError(f"{path} is damaged: it has no {missing[0]}. Install fino again.")
    return card


def solve_test_part(
    card: Card,
    name: str,
    samples: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> Dataset:
    """The first so many test samples of a data card, or all, solved again; no other parts.

    `name` is the model that asks, for the message where the data were measured, not solved.
    """
    assert card.split is not None
    if card.name not in PROBLEMS or card.seed is None:
        files = _MEASURED.get(card.name, "the file that it was trained on")
        raise ValueError(
            f"The data of '{name}' cannot be solved again. Pass them with --data: {files}."
        )
    if samples is not None and samples < 1:
        raise ValueError(f"samples should be a positive number, got {samples}.")
    return solve_samples(plan_again(card), card.split.samples("test")[:samples], progress)


def plan_again(card: Card, **changes: Any) -> Plan:
    """The plan that made the data of a card.

    `changes` are other settings of its problem, `vary` among them what is drawn anew.
    """
    settings = {**card.parameters, **changes}
    vary = settings.pop("vary", card.vary)
    settings.pop("initial", None)
    again = plan(
        card.name,
        card.samples,
        card.seed or 0,
        stride_space=card.stride_space,
        stride_time=card.stride_time,
        refine=card.refine,
        initial=card.initial or "ours",
        vary=vary,
        **settings,
    )
    if not changes and again.card.shape != card.shape:
        raise ValueError(
            f"This fino makes {card.name} as {again.card.shape}, the card says {card.shape}."
        )
    return replace(again, card=again.card.changed(history=card.history))


def solve_samples(
    again: Plan, samples: tuple[int, ...], progress: Callable[[float], None] | None = None
) -> Dataset:
    """Only these samples of a plan, as a test part with nothing beside it."""
    size = shard_size(again.full)
    blocks: list[np.ndarray] = []
    done = 0
    for start, stop in _ranges(samples, size):
        blocks.append(again.solve(start, stop))
        done += stop - start
        if progress:
            progress(done / len(samples))
    split = Split.of("the test part alone", test=range(len(samples)))
    card = again.card.changed(samples=len(samples), split=split)
    everywhere = (slice(None),) * len(card.points)
    conditions = again.conditions.kept(samples, 1, everywhere)
    return Dataset(card, ArrayFrames(np.concatenate(blocks)), conditions=conditions)


def _ranges(samples: tuple[int, ...], size: int) -> Iterator[tuple[int, int]]:
    """Stretches of neighbours, none longer than is solved at once."""
    start = samples[0]
    for here, after in zip(samples, (*samples[1:], None), strict=True):
        if after != here + 1 or here + 1 - start == size:
            yield start, here + 1
            start = after if after is not None else here
