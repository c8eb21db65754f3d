"""How far a score could have come out otherwise, had other samples been drawn.

Samples are drawn again with replacement, the score is computed for each draw, and the middle
95 % of those is the interval.  Draws depend only on the number of samples, so that two models
scored on the same samples are drawn alike and can be compared pair by pair.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fino.metrics.errors import Metric
from fino.streams import torch_stream

__all__ = ["interval", "resample"]

_DRAWS = 1000
_LEVEL = 0.95


def resample(metric: Metric, values: Tensor, draws: int = _DRAWS, seed: int = 0) -> Tensor:
    """The score of every draw: (n, t, c, …) → (draws)."""
    samples = len(values)
    stream = torch_stream(seed, "bootstrap", samples)
    chosen = torch.randint(samples, (draws, samples), generator=stream)
    if metric.over_samples == "mean":
        return values.flatten(1).mean(1)[chosen].mean(1)
    if metric.over_samples == "max":
        flat = values.flatten(1)
        return torch.stack([flat[draw].amax(0).mean() for draw in chosen])
    share = torch.zeros(draws, samples, dtype=torch.float64)
    share.scatter_add_(1, chosen, torch.full(chosen.shape, 1.0 / samples, dtype=torch.float64))
    return (share @ values.flatten(1).square()).sqrt().mean(1)


def interval(metric: Metric, values: Tensor) -> tuple[float, float] | None:
    """The middle 95 % of the draws, or None where it says nothing (one sample, a blow-up)."""
    if len(values) < 2 or not values.isfinite().all():
        return None
    tail = (1.0 - _LEVEL) / 2
    drawn = resample(metric, values)
    low, high = torch.quantile(drawn, torch.tensor([tail, 1.0 - tail], dtype=torch.float64))
    return float(low), float(high)
