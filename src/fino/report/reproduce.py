"""The commands that lead to a result again, from the facts that travelled with it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from fino.data.card import Card
from fino.model import MODELS
from fino.pde import PROBLEMS
from fino.training.settings import TrainingSettings

__all__ = ["commands"]

#: Settings of a network that come from the data.
_FROM_DATA = ("dims", "inputs", "outputs", "boundary")
_FROM_MODEL = ("history", "predict", "coordinates", "edges")


def commands(card: Card, path: str | None, model: dict[str, Any], run: Path) -> list[str]:
    """Generate, train, evaluate, report: each as one line for the shell."""
    data = path or "YOUR-DATA.h5"
    lines = [generate_command(card, data)] if card.version and card.seed is not None else []
    if "network" in model:
        lines.append(train_command(data, model, run))
    return [*lines, _line("evaluate", run), _line("report", run)]


def generate_command(card: Card, path: str) -> str:
    """`fino generate`, with every setting that is not the problem's own default."""
    words: list[Any] = ["generate", card.name, "--samples", card.samples, "--seed", card.seed]
    if max(card.stride_space) > 1:
        words += ["--stride-space", card.stride_space[0]]
    if card.stride_time > 1:
        words += ["--stride-time", card.stride_time]
    usual = PROBLEMS[card.name]().model_dump(mode="json") if card.name in PROBLEMS else {}
    for name, value in card.parameters.items():
        if name not in usual or usual[name] != value:
            words += ["--set", f"{name}={_word(value)}"]
    return _line(*words, "--out", path)


def train_command(path: str, model: dict[str, Any], run: Path) -> str:
    """`fino train`, with every setting that is not a default."""
    words: list[Any] = ["train", "--data", path, "--model", model["name"]]
    network, emulator = model["network"], model["emulator"]
    usual = _defaults(model["name"])
    for name, value in network.items():
        if name not in _FROM_DATA and (name == "levels" or usual.get(name) != value):
            words += [f"--model.{name}", _word(value)]
    for name in _FROM_MODEL:
        words += [f"--model.{name}", _word(emulator[name])]
    seed = model.get("training", {}).get("seed", 0)
    if emulator.get("seed", seed) != seed:  # unless told, weights are drawn with the training's
        words += ["--model.seed", emulator["seed"]]
    nothing: dict[str, Any] = {}
    defaults = TrainingSettings(**nothing).model_dump(mode="json")
    for name, value in model.get("training", {}).items():
        if value != defaults.get(name):
            words += [f"--train.{name}", _word(value)]
    return _line(*words, "--out", run)


def _defaults(name: str) -> dict[str, Any]:
    """The defaults of a network's settings, from the class of its settings."""
    network = MODELS[name](dims=1, inputs=1, outputs=1)
    return {str(k): v for k, v in network.settings.model_dump(mode="json").items()}


def _word(value: Any) -> str:
    if value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(value)


def _line(*words: Any) -> str:
    return shlex.join(["fino", *(str(word) for word in words)])
