"""Learning rate and horizon as functions of the share of the budget that is spent."""

from __future__ import annotations

import math
from collections.abc import Callable

from fino.training.settings import TrainingSettings

__all__ = ["SCHEDULES", "horizon_at", "learning_rate_at"]

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
SCHEDULES: dict[str, Callable[[float], float]] = {
    "cosine": _cosine,
    "one-cycle": _one_cycle,
    "step": _step,
    "constant": lambda share: 1.0,
}


def learning_rate_at(share: float, settings: TrainingSettings) -> float:
    """The learning rate, rising from almost nothing over the first `warmup` of the budget."""
    rise = 1.0 if share >= settings.warmup else 0.01 + 0.99 * share / settings.warmup
    return settings.learning_rate * rise * SCHEDULES[settings.schedule](share)


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
