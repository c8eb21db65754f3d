"""What the page says in words: the question, the headline numbers, the reach, the commands."""

from __future__ import annotations

import json
import math
import shlex
from pathlib import Path
from typing import Any

from fino.data.card import Card
from fino.data.dataset import Dataset
from fino.data.lightcone import light_cone
from fino.metrics.scores import Scores
from fino.model import MODELS
from fino.model.fino import TimeStep
from fino.pde import PROBLEMS
from fino.report.plan_words import describe_light_cone
from fino.report.tables import counted
from fino.training.run import Run
from fino.training.settings import TrainingSettings

__all__ = [
    "describe_task",
    "headline_tiles",
    "learned_steps",
    "number",
    "reach_bars",
    "reproduce_commands",
    "train_command",
]

#: Settings of a network that come from the data, and those of the model around it.
_FROM_DATA = ("dims", "inputs", "outputs", "boundary")
_FROM_MODEL = ("history", "predict", "coordinates", "edges")


def describe_task(data: Dataset, scores: Scores) -> str:
    """The question that the model had to answer, in one paragraph."""
    facts = scores.data
    points = " × ".join(str(n) for n in facts["points"])
    fields = ", ".join(facts["fields"])
    if data.steady:
        inputs = ", ".join(data.card.inputs) or "the input"
        return (
            f"Given {inputs} on a grid of {points} cells, find {fields}. Scored on "
            f"{facts['samples']} {facts['part']} samples that were not used for training."
        )
    return (
        f"Given the first {facts['shown']} frames of {fields} on a grid of {points} cells, predict "
        f"the next {facts['steps']}, one after the other, each from the model's own predictions. "
        f"Scored on {facts['samples']} {facts['part']} trajectories that were not used for "
        f"training; a frame is {facts['dt']:g} in time."
    )


def headline_tiles(scores: Scores) -> list[dict[str, str]]:
    """The numbers that a reader looks for first."""
    score, cost = scores.metrics.get("nrmse"), scores.cost
    found = []
    if score is not None:
        between = "" if score.low is None else f"95 %: {score.low:.3g} – {score.high:.3g}"
        found.append((number(score.value), "relative error (nRMSE)", between))
    baselines = scores.verdict["baselines"]
    if baselines and score is not None and score.value > 0 and math.isfinite(score.value):
        best = min(baselines, key=lambda name: baselines[name]["value"] or math.inf)
        ratio = (baselines[best]["value"] or math.inf) / score.value
        side, ratio = ("below", ratio) if ratio >= 1 else ("above", 1 / ratio)
        word = f"{ratio:.3g}×" if ratio < 1e4 else f"{ratio:.0e}×"
        found.append((word, f"{side} the best baseline", best))
    if "parameters" in cost:
        operations = f"{counted(cost['multiply_adds'])} multiply-adds a step"
        found.append((counted(cost["parameters"]), "parameters", operations))
    step = f"{1000 * cost['seconds_per_step']:.3g} ms"
    found.append((step, "a step", "one sample, this machine"))
    spent = cost.get("training_cpu_seconds")
    if spent:
        found.append((f"{spent:.3g} s", "of training", "processor time"))
    return [{"value": value, "name": name, "more": more} for value, name, more in found]


def number(value: float) -> str:
    """Three digits, or the word for a rollout that blew up."""
    return f"{value:.3g}" if math.isfinite(value) else "diverged"


def reach_bars(run: Run) -> dict[str, Any] | None:
    """How far the model sees beside how far the data move, in cells of the first axis."""
    locality = getattr(run.model, "locality", None)
    if locality is None:
        return None
    sees = max(float(r) for r in locality.radius)
    try:
        cone = light_cone(run.data)
    except ValueError:
        return None
    moves = max(cone.cells)
    widest = max(x for x in (sees, moves, 1.0) if math.isfinite(x)) * 1.05
    seen = f"{sees:.0f} cells" if math.isfinite(sees) else "the whole field"
    moved = describe_light_cone(cone, run.data)
    sentence = f"In one step the model sees {seen} in each direction; {moved}"
    return {
        "sentence": f"{sentence} {_verdict(sees, moves, max(run.data.grid.points))}",
        "sees": 100 * min(1.0, sees / widest),
        "moves": 100 * min(1.0, moves / widest),
        "sees_word": seen,
        "moves_word": f"{moves:.3g} cells" if math.isfinite(moves) else "the whole field",
    }


def _verdict(sees: float, moves: float, across: int) -> str:
    if math.isfinite(moves) and sees >= moves:
        return "That is enough to see where every next value comes from."
    if sees >= across - 1:
        return f"The domain is {across} cells across, so the model sees all of it."
    return "That is not enough: part of what it has to predict comes from farther away."


def learned_steps(model: Any) -> list[dict[str, Any]]:
    """Δt of every FINO block, in the order of the network."""
    if not hasattr(model, "network"):
        return []
    found = [
        (name.removesuffix(".dt"), float(module().detach()))
        for name, module in model.network.named_modules()
        if isinstance(module, TimeStep)
    ]
    most = max((value for _, value in found), default=1.0)
    return [
        {"name": name, "value": f"{value:.3f}", "share": 100 * value / most}
        for name, value in found
    ]


def reproduce_commands(card: Card, path: str | None, model: dict[str, Any], run: Path) -> list[str]:
    """Generate, train, evaluate, report: each as one line for the shell."""
    data = path or "YOUR-DATA.h5"
    lines = [_generate_command(card, data)] if card.version and card.seed is not None else []
    if "network" in model:
        lines.append(train_command(data, model, run))
    return [*lines, _line("evaluate", run), _line("report", run)]


def _generate_command(card: Card, path: str) -> str:
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
    for name, choice in card.vary.items():
        words += ["--vary", f"{name}={choice}"]
    return _line(*words, "--out", path)


def train_command(path: str, model: dict[str, Any], run: Path) -> str:
    """`fino train`, with every setting that is not a default."""
    words: list[Any] = ["train", "--data", path, "--model", model["name"]]
    network, emulator = model["network"], model["emulator"]
    usual = _defaults(model["name"])
    for name, value in network.items():
        if name not in _FROM_DATA and (name == "levels" or usual.get(name) != value):
            words += ["--set", f"model.{name}={_word(value)}"]
    for name in _FROM_MODEL:
        words += ["--set", f"model.{name}={_word(emulator[name])}"]
    seed = model.get("training", {}).get("seed", 0)
    if emulator.get("seed", seed) != seed:  # unless told, weights are drawn with the training's
        words += ["--set", f"model.seed={emulator['seed']}"]
    nothing: dict[str, Any] = {}
    defaults = TrainingSettings(**nothing).model_dump(mode="json")
    for name, value in model.get("training", {}).items():
        if value != defaults.get(name):
            words += ["--set", f"train.{name}={_word(value)}"]
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
