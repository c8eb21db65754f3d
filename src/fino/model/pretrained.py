"""Trained models that come with the package, by name; they work without a network.

    model = fino.pretrained("shallow-water")
    data  = PRETRAINED["shallow-water"].test_data(samples=2)
    u     = fino.rollout(model, data.test[0].history, steps=91)

    weights/NAME/
      model.safetensors, config.json    as fino.save writes them
      card.json                         data, recipe, scores, cost, reach, known limits
      scores.json                       all that `fino evaluate` measured

The table is what lies in the folder: a name is there if its folder is.  Test data are not
shipped but solved again: a sample is a pure function of the card's settings, its seed and its
number, so the test part can be made without the rest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fino.data.card import Card
from fino.data.dataset import Dataset
from fino.data.frames import ArrayFrames
from fino.data.generate import Plan, plan, shard_size
from fino.data.split import Split
from fino.model.emulator import Emulator
from fino.model.store import load
from fino.pde import PROBLEMS
from fino.settings import did_you_mean

__all__ = [
    "CARD",
    "FORMAT",
    "PRETRAINED",
    "SHELF",
    "Pretrained",
    "near_name",
    "on_shelf",
    "plan_again",
    "pretrained",
    "solved",
]

FORMAT = "fino pretrained 1"
CARD = "card.json"

#: Where the folders lie.
SHELF = Path(__file__).parent / "weights"

#: Data that cannot be solved again, and the files to give instead.
_MEASURED = {
    "climate-monthly": "a folder with NOAA's air.mon.mean.nc and slp.mon.mean.nc",
    "climate-daily": "a folder with NOAA's air.sig995.*.nc and pres.sfc.*.nc",
}

#: The parts of a card; see docs/pretrained.md.
_PARTS = ("title", "date", "data", "recipe", "scores", "cost", "reach", "versions", "limits")


@dataclass(frozen=True)
class Pretrained:
    """A trained model on the shelf: its folder and its card."""

    name: str
    folder: Path

    @cached_property
    def card(self) -> dict[str, Any]:
        """What `card.json` says, or one line about what is wrong with it."""
        return _read_card(self.folder / CARD)

    @property
    def title(self) -> str:
        """The card in a line: what it solves, how well, how far it sees."""
        card = self.card
        error, cells = card["scores"]["nrmse"]["value"], card["reach"]["cells"]
        reach = f"{cells[0]} cells" if cells[0] is not None else "the whole field"
        return f"{card['title']}: nRMSE {error:.3g}, sees {reach}"

    @property
    def data(self) -> Card:
        """The card of the data that it was trained on."""
        return Card(**self.card["data"]["card"])

    def load(self) -> Emulator:
        """The model, every byte checked."""
        return load(self.folder).eval()

    def test_data(
        self, samples: int | None = None, progress: Callable[[float], None] | None = None
    ) -> Dataset:
        """The first so many test samples, or all, solved again; there are no other parts."""
        card = self.data
        assert card.split is not None
        if card.name not in PROBLEMS or card.seed is None:
            files = _MEASURED.get(card.name, "the file that it was trained on")
            raise ValueError(
                f"The data of '{self.name}' cannot be solved again. Pass them with --data: {files}."
            )
        if samples is not None and samples < 1:
            raise ValueError(f"samples should be a positive number, got {samples}.")
        return solved(plan_again(card), card.split.samples("test")[:samples], progress)


class _Shelf(Mapping[str, Pretrained]):
    """Every folder on the shelf that has a card."""

    def __getitem__(self, name: str) -> Pretrained:
        if name not in list(self):
            raise ValueError(f"There is no pretrained model '{name}'. {_hint(name, list(self))}")
        return Pretrained(name, SHELF / name)

    def __contains__(self, name: object) -> bool:
        return name in list(self)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(path.parent.name for path in SHELF.glob(f"[!.]*/{CARD}")))

    def __len__(self) -> int:
        return len(list(iter(self)))


PRETRAINED: Mapping[str, Pretrained] = _Shelf()


def pretrained(name: str) -> Emulator:
    """A trained model that came with the package: `fino list pretrained` shows the names."""
    return PRETRAINED[name].load()


def on_shelf(place: object) -> Pretrained | None:
    """The pretrained model of that name; nothing if there is a file or folder of that name."""
    if not isinstance(place, str | Path) or Path(place).exists():
        return None
    name = str(place)
    return Pretrained(name, SHELF / name) if name in PRETRAINED else None


def near_name(place: object, otherwise: str) -> str:
    """A hint for a place where nothing is: the model whose name is close to it, or `otherwise`."""
    near = did_you_mean(str(place), list(PRETRAINED))
    return near if near.startswith("Did") else otherwise


def plan_again(card: Card, **changes: Any) -> Plan:
    """The plan that made the data of a card; `changes` are other settings of its problem."""
    settings = {**card.parameters, **changes}
    settings.pop("initial", None)
    again = plan(
        card.name,
        card.samples,
        card.seed or 0,
        stride_space=card.stride_space,
        stride_time=card.stride_time,
        initial=card.initial or "ours",
        **settings,
    )
    if not changes and again.card.shape != card.shape:
        raise ValueError(
            f"This fino makes {card.name} as {again.card.shape}, the card says {card.shape}."
        )
    return replace(again, card=again.card.changed(history=card.history))


def solved(
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
    return Dataset(card, ArrayFrames(np.concatenate(blocks)))


def _ranges(samples: tuple[int, ...], size: int) -> Iterator[tuple[int, int]]:
    """Runs of neighbours, none longer than is solved at once."""
    start = samples[0]
    for here, after in zip(samples, (*samples[1:], None), strict=True):
        if after != here + 1 or here + 1 - start == size:
            yield start, here + 1
            start = after if after is not None else here


def _read_card(path: Path) -> dict[str, Any]:
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


def _hint(name: str, known: list[str]) -> str:
    return did_you_mean(name, known) if known else "There are none in this installation."
