"""What is chosen when nothing is said."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import torch

from fino.data.dataset import Dataset
from fino.inference.process_group import is_launched
from fino.machine import check_device, free_memory, threads
from fino.model.emulator import Emulator
from fino.training.batch import validation_part
from fino.training.loop import begin, train
from fino.training.settings import (
    VALIDATION_SAMPLES,
    VALIDATION_SHARE,
    VALIDATIONS,
    TrainingSettings,
)

__all__ = ["DEFAULT_MINUTES", "check_machine", "choose_settings"]

#: Cells that one step looks at; small batches and many cheap steps did best in the search.
_CELLS_A_STEP = 8192
#: What validation begins with at least; `train` leaves out what would take more than its share.
_FEWEST_SAMPLES, _FEWEST_VALIDATIONS = 4, 3
#: Samples that validate a model of steady data, where a rollout is a single step.
_STEADY_SAMPLES = 512
DEFAULT_MINUTES = 5.0
#: More threads have to be so much faster: a machine that is idle now may be busy in a minute.
_WORTH_MORE_THREADS = 1.25
#: Seconds that a number of threads is timed for, and the share of a budget that all may take.
#: Shorter timings would fall between two turns of a busy processor.
_TIMED, _TIMING_SHARE = 0.25, 0.02


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
    if settings.threads is None:
        changes["threads"] = _choose_threads(settings.changed(**changes), model, data)
    is_told = None not in (settings.validations, settings.validation_samples)
    if settings.validation_share is None:
        changes["validation_share"] = 1.0 if is_told else VALIDATION_SHARE
    if not is_told:
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


def _choose_threads(settings: TrainingSettings, model: Emulator, data: Dataset) -> int | None:
    """The threads that steps of training are fastest with, found by taking a few.

    The number of cores does not tell: beside a busy process the threads of a small network wait
    for the one that has no core, and two were forty times slower than one.  A budget of steps
    leaves torch its own number, because weights repeat only with the same number of threads.
    """
    most, seconds = torch.get_num_threads(), _seconds(settings)
    if most == 1 or not seconds or settings.device != "cpu" or settings.compile or is_launched():
        return None
    if settings.cpu_seconds is not None:
        return 1  # each thread more costs processor time and saves none
    endless = {"minutes": None, "epochs": None, "steps": 10**9, "validation_samples": 1}
    trial = settings.changed(**endless)
    steps = train(begin(deepcopy(model), trial), data, trial)
    limit = time.monotonic() + _TIMING_SHARE * seconds
    timed = min(_TIMED, _TIMING_SHARE * seconds / 5)
    best = 1
    if _step_seconds(steps, best, timed) > _TIMING_SHARE * seconds:
        return most  # no time to try; steps as long as this one keep many threads busy
    while 2 * best <= most and time.monotonic() < limit:
        # What is compared is timed in turns, so that both meet the same neighbours.
        both = [[_step_seconds(steps, n, timed) for n in (best, 2 * best)] for _ in range(2)]
        now, doubled = (sum(times) for times in zip(*both, strict=True))
        if now < _WORTH_MORE_THREADS * doubled:
            break
        best *= 2
    return best


def _step_seconds(steps: Iterator[Any], count: int, seconds: float) -> float:
    """The mean wall time of a step with so many threads.

    The mean, because beside busy processes the few slow steps are what the threads cost.
    """
    with threads(count):
        next(steps)  # what only the first costs
        began, taken = time.monotonic(), 0
        while not taken or time.monotonic() - began < seconds:
            next(steps)
            taken += 1
        return (time.monotonic() - began) / taken


def _seconds(settings: TrainingSettings) -> float:
    """The tightest budget of time; zero if there is none."""
    return min((s for s in (settings.cpu_seconds, 60 * (settings.minutes or 0)) if s), default=0.0)


def _validation(settings: TrainingSettings, model: Emulator, data: Dataset) -> dict[str, int]:
    """How often to validate the model, and by how many whole rollouts.

    They may take a tenth of a budget of time: in the plane a few of them can cost more than a
    minute of training.  Fewer trajectories come first, then fewer validations.
    """
    often = settings.validations or VALIDATIONS
    usual = min(_STEADY_SAMPLES, len(validation_part(data))) if data.steady else VALIDATION_SAMPLES
    many = settings.validation_samples or usual
    seconds = _seconds(settings)
    # Processes that measure for themselves would disagree and wait for one another forever.
    if seconds and settings.device == "cpu" and not is_launched():
        with threads(settings.threads):  # idle threads that wait for work cost time as well
            rollouts = (settings.validation_share or VALIDATION_SHARE) * seconds
            rollouts /= _rollout_seconds(model, data)
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
