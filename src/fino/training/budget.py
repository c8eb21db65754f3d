"""How much of the budget is spent: by steps, epochs, wall minutes or CPU-seconds.

share = max( step / steps,  wall / minutes,  cpu / cpu_seconds )        0 … 1

Schedules are functions of the share.  CPU-seconds count every thread of every process of the
training and no other, so comparisons stay fair on a busy machine.  What earlier sittings of a run
have spent is kept in the checkpoint and counts.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from fino.training.processes import ALONE, Processes
from fino.training.settings import TrainingSettings

__all__ = ["Clock", "share_spent", "steps_allowed"]


@dataclass
class Clock:
    """Seconds since the run began, over all its sittings."""

    wall: float = 0.0
    cpu: float = 0.0

    def __post_init__(self) -> None:
        self.resume()

    def resume(self) -> None:
        """Begin a sitting: what passed since the last tick does not count."""
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
