"""What is chosen when nothing is said."""

from __future__ import annotations

import math
import time
from typing import Any

import torch

from fino.data.dataset import Dataset
from fino.inference.process_group import is_launched
from fino.machine import check_device, free_memory, threads
from fino.model.emulator import Emulator
from fino.training.batch import validation_part
from fino.training.settings import VALIDATION_SAMPLES, VALIDATIONS, TrainingSettings

__all__ = ["DEFAULT_MINUTES", "check_machine", "choose_settings"]

#: Cells that one step looks at; small batches and many cheap steps did best in the search.
_CELLS_A_STEP = 8192
#: The share of a budget of time that validation may take, and what it never falls below.
_VALIDATION_SHARE = 0.1
_FEWEST_SAMPLES, _FEWEST_VALIDATIONS = 4, 3
#: Samples that validate a model of steady data, where a rollout is a single step.
_STEADY_SAMPLES = 512
DEFAULT_MINUTES = 5.0


def choose_settings(settings: TrainingSettings, model: Emulator, data: Dataset) -> TrainingSettings:
    """The same settings with everything that was left open decided."""
    check_machine(settings, data)
    changes: dict[str, Any] = {}
    if not settings.has_budget:
        changes["minutes"] = DEFAULT_MINUTES
    if settings.batch is None:
        cells = math.prod(data.grid.points)
        changes["batch"] = max(2, min(64, len(data.train), _CELLS_A_STEP // cells))
    ahead = data.task(model.history).steps
    if len(data.train) == 0:
        raise ValueError(f"the train part of {data.card.name} is empty. Use data.with_split(…).")
    if settings.validations is None or settings.validation_samples is None:
        changes.update(_validation(settings.changed(**changes), model, data))
    if settings.horizon is not None and settings.horizon > ahead:
        changes["horizon"] = ahead
        if ahead == 1 and settings.gradient == "pushforward":
            changes["gradient"] = "full"
    return settings.changed(**changes) if changes else settings


def check_machine(settings: TrainingSettings, data: Dataset) -> None:
    """Refuse a device that is not there, and a batch that does not fit into the memory."""
    check_device(settings.device)
    ahead = min(settings.horizon or data.frames, data.frames)
    needed = 4 * (settings.batch or 0) * (1 + ahead) * data.channels * math.prod(data.grid.points)
    free = free_memory()
    if needed > free:
        raise ValueError(
            f"a batch of {settings.batch} trajectories needs at least {needed / 1e9:.3g} GB of "
            f"memory, and {free / 1e9:.3g} GB are free. Use a batch of 2 to 64."
        )


def _validation(settings: TrainingSettings, model: Emulator, data: Dataset) -> dict[str, int]:
    """How often to validate the model, and by how many whole rollouts.

    They may take a tenth of a budget of time: in the plane a few of them can cost more than a
    minute of training.  Fewer trajectories come first, then fewer validations.
    """
    often = settings.validations or VALIDATIONS
    usual = min(_STEADY_SAMPLES, len(validation_part(data))) if data.steady else VALIDATION_SAMPLES
    many = settings.validation_samples or usual
    seconds = [s for s in (settings.cpu_seconds, 60 * (settings.minutes or 0)) if s]
    # Processes that measure for themselves would disagree and wait for one another forever.
    if seconds and settings.device == "cpu" and not is_launched():
        with threads(settings.threads):  # idle threads that wait for work cost time as well
            rollouts = _VALIDATION_SHARE * min(seconds) / _rollout_seconds(model, data)
        if settings.validation_samples is None:
            many = max(_FEWEST_SAMPLES, min(many, int(rollouts / often)))
        if settings.validations is None:
            often = max(_FEWEST_VALIDATIONS, min(often, int(rollouts / many)))
    return {"validations": often, "validation_samples": many}


def _rollout_seconds(model: Emulator, data: Dataset) -> float:
    """The CPU time of one rollout to the end of a trajectory, from two steps of a few of them."""
    part = validation_part(data)
    samples = min(len(part), _FEWEST_SAMPLES)
    given, future = part.begin(range(samples), model.history)
    with torch.no_grad():
        model(given)  # what only the first step costs
        began = time.process_time()
        for _ in range(2):
            model(given)
        spent = time.process_time() - began
    return max(1e-9, spent / (2 * samples) * future.shape[1])
