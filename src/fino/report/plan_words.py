"""What a training run will do, and how far its data move, in sentences."""

from __future__ import annotations

import math
from typing import Any

from fino.data.dataset import Dataset
from fino.data.lightcone import LightCone, light_cone
from fino.model.emulator import Emulator
from fino.training.settings import TrainingSettings

__all__ = ["cells", "describe_light_cone", "describe_plan"]


def describe_plan(settings: TrainingSettings, model: Emulator, data: Dataset) -> list[str]:
    """One line for each choice of a training run, with its reason."""
    prior, network = model.prior, model.network.settings
    names = ("width", "levels", "blocks", "modes", "layers")
    shape = ", ".join(f"{n} {getattr(network, n)}" for n in names if hasattr(network, n))
    unit = "frame" if model.history == 1 else "frames"
    no_validation = "" if len(data.validation) else " (so the training part itself is used)"
    moves = data.card.symmetries if settings.augment else ()
    return [
        f"model {model.settings.model}: {model.parameters_count:,} weights, {shape}",
        _reach(model, prior.kind, data),
        f"it is shown {model.history} {unit} and predicts {prior.line}",
        f"data: {len(data.train)} trajectories to learn from, {len(data.validation)} to validate on"
        f"{no_validation}",
        f"batch {settings.batch}, horizon up to {settings.horizon or 'the end'}, "
        f"{settings.optimizer} at {settings.learning_rate:g} ({settings.schedule}), "
        f"symmetries used: {', '.join(moves) or 'none'}",
        f"budget: {_budget(settings)}; validated {settings.validations} times by "
        f"{settings.validation_samples} rollouts",
    ]


def describe_light_cone(cone: LightCone, data: Dataset) -> str:
    """How far the data move in a step, and how that is known."""
    if cone.source == "steady":
        return (
            f"{data.card.name} is steady: every cell of the answer depends on the whole input, "
            "so no finite reach is enough."
        )
    how = {"card": "by the card's wave speed", "estimated": "estimated from the data"}[cone.source]
    return f"the data move {cells(cone.cells)} cells a step ({cone.length:.3g} in length), {how}."


def cells(numbers: tuple[float, ...]) -> str:
    """25.6, or 25.6 × 12 where the axes differ."""
    different = numbers if len(set(numbers)) > 1 else numbers[:1]
    return " × ".join("all" if math.isinf(n) else f"{n:.3g}" for n in different)


def _reach(model: Emulator, prior: str, data: Dataset) -> str:
    cone, radius = light_cone(data), model.locality.radius
    sees = f"{cells(radius)} cells" if model.locality.is_local else "the whole field"
    verdict = "less than the data move; more levels would see farther"
    if all(r >= c for r, c in zip(radius, cone.cells, strict=True)):
        verdict = "enough"
    elif prior == "linear":
        verdict = "less, but the history itself carries the motion"
    return f"reach: it sees {sees} a step; {describe_light_cone(cone, data).rstrip('.')}: {verdict}"


def _budget(settings: Any) -> str:
    words = {
        "minutes": settings.minutes,
        "CPU-seconds": settings.cpu_seconds,
        "steps": settings.steps,
        "epochs": settings.epochs,
    }
    return " or ".join(f"{value:g} {word}" for word, value in words.items() if value)
