"""The budget of a run and what follows it: learning rate and horizon as functions of the share.

    share = max( step / steps,  wall / minutes,  cpu / cpu_seconds )        0 … 1

CPU-seconds count every thread of every process of the training and no other, so comparisons stay
fair on a busy machine.  What earlier sessions of a run have spent is kept in the checkpoint and
counts.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from fino.training.processes import ALONE, Processes
from fino.training.settings import TrainingSettings

__all__ = ["Clock", "horizon_at", "learning_rate_at", "share_spent", "steps_allowed"]


@dataclass
class Clock:
    """Seconds since the run began, over all its sessions."""

    wall: float = 0.0
    cpu: float = 0.0

    def __post_init__(self) -> None:
        self.resume()

    def resume(self) -> None:
        """Begin a session: what passed since the last tick does not count."""
        self._wall, self._cpu = time.monotonic(), time.process_time()

    def tick(self, processes: Processes = ALONE) -> None:
        """Add what has passed since the last tick: once by the wall, by the CPU in each process."""
        wall, cpu = time.monotonic(), time.process_time()
        self.wall += wall - self._wall
        self.cpu += processes.total(cpu - self._cpu)
        self._wall, self._cpu = wall, cpu


def steps_allowed(settings: TrainingSettings, samples: int, batch: int) -> int | None:
    """The number of steps, where steps or epochs decide it; an epoch meets every sample once."""
    limits = [settings.steps] if settings.steps else []
    if settings.epochs:
        limits.append(math.ceil(settings.epochs * samples / batch))
    return min(limits, default=None)


def share_spent(settings: TrainingSettings, step: int, steps: int | None, clock: Clock) -> float:
    """How much of the tightest budget is gone, from 0 to 1."""
    shares = [0.0]
    if steps:
        shares.append(step / steps)
    if settings.minutes:
        shares.append(clock.wall / (60 * settings.minutes))
    if settings.cpu_seconds:
        shares.append(clock.cpu / settings.cpu_seconds)
    return min(1.0, max(shares))


#: Where one-cycle turns, and the fraction of the peak that it begins with.
_TURN, _LOW = 0.3, 0.04


def _cosine(share: float) -> float:
    return 0.5 * (1 + math.cos(math.pi * share))


def _one_cycle(share: float) -> float:
    if share < _TURN:
        return _LOW + (1 - _LOW) * _cosine(1 - share / _TURN)
    return _cosine((share - _TURN) / (1 - _TURN))


def _step(share: float) -> float:
    """PDEBench's: half of it after every quarter of the budget."""
    return 0.5 ** int(4 * min(share, 0.999))


#: Share of the budget → factor of the learning rate.
_SCHEDULES: dict[str, Callable[[float], float]] = {
    "cosine": _cosine,
    "one-cycle": _one_cycle,
    "step": _step,
    "constant": lambda share: 1.0,
}


def learning_rate_at(share: float, settings: TrainingSettings) -> float:
    """The learning rate, rising from almost nothing over the first `warmup` of the budget."""
    rise = 1.0 if share >= settings.warmup else 0.01 + 0.99 * share / settings.warmup
    return settings.learning_rate * rise * _SCHEDULES[settings.schedule](share)


def horizon_at(share: float, longest: int, grow_from: float) -> int:
    """One step until `grow_from` of the budget, then evenly up to the longest horizon.

    grow_from = 0 begins with the longest at once.
    """
    if grow_from == 0:
        return longest
    if share < grow_from or longest == 1:
        return 1
    grown = (share - grow_from) / max(1e-9, 1 - grow_from)
    return min(longest, 2 + int(grown * (longest - 1)))
