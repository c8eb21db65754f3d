"""Test samples go by in chunks, and every predictor is scored on each of them.

What is kept are values for each sample, so the size of a chunk changes nothing but the memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from fino.data.dataset import Part
from fino.given import Given
from fino.metrics import METRICS, Metric, pdebench
from fino.metrics.scores import Score
from fino.metrics.spectrum import spectrum

__all__ = ["Predict", "Tally", "tally_all"]

#: Values in one chunk of trajectories: enough to keep the machine busy, not to fill it.
_CHUNK = 2**23
#: Values that are scored at a time: they and what metrics make of them stay in the cache, which
#: is several times faster than scoring a whole chunk at once.
_PIECE = 2**18
#: (what is given, with the history from the first frame on; steps) → the predicted frames.
Predict = Callable[[Given, int], Tensor]


class Tally:
    """The values of every metric, sample by sample, as chunks of a test set go by."""

    def __init__(self, metrics: list[Metric], weights: Tensor | None) -> None:
        self.metrics, self.weights = metrics, weights
        self.chunks: dict[str, list[Tensor]] = {metric.name: [] for metric in metrics}
        self.broken = 0
        self.energy: list[Tensor] = []
        self.batches: dict[str, list[float]] = {}

    def add(self, prediction: Tensor, truth: Tensor, mask: Tensor | None = None) -> None:
        """Score one chunk: (b, t, c, *space) ×2, in the cells of a mask (b, 1, *space)."""
        size = max(1, _PIECE // max(1, truth[0].numel()))
        for start in range(0, len(truth), size):
            rows = slice(start, start + size)
            inside = None if mask is None else mask[rows].unsqueeze(1).double()
            self._add_piece(prediction[rows], truth[rows], inside)

    def _add_piece(self, prediction: Tensor, truth: Tensor, inside: Tensor | None) -> None:
        self.broken += int((~prediction.isfinite().flatten(1).all(1)).sum())
        prediction, truth = prediction.double(), truth.double()
        cells = None
        if inside is not None:
            prediction, truth = prediction * inside, truth * inside
            share = inside.flatten(1).mean(dim=1).view(-1, *[1] * (inside.dim() - 1))
            cells = inside / share
        measured: dict[Any, Tensor] = {}
        for metric in self.metrics:
            key = (metric.each, metric.weighted)
            if key not in measured:
                both = [cells, self.weights if metric.weighted else None]
                there = [weights for weights in both if weights is not None]
                weights = math.prod(there[1:], start=there[0]) if there else None
                measured[key] = metric.each(prediction, truth, weights)
            self.chunks[metric.name].append(metric.cut(measured[key]))
        self.energy.append(spectrum(prediction[:, -1:])[:, 0])

    def add_batch(self, prediction: Tensor, truth: Tensor) -> None:
        """The same in PDEBench's convention, which knows batches and no samples."""
        for name in pdebench.CONVENTION:
            value = pdebench.of_batch(name, prediction, truth)
            self.batches.setdefault(name, []).append(value)

    def values(self, name: str) -> Tensor:
        """(n, t, c, …) of one metric."""
        return torch.cat(self.chunks[name])

    def scores(self, fields: tuple[str, ...]) -> dict[str, Score]:
        """Every metric as a number with its interval, in the convention that was tallied."""
        if self.batches:
            values = {n: pdebench.from_batches(b) for n, b in self.batches.items()}
            return {n: Score(v) for n, v in values.items() if not math.isnan(v)}
        return {metric.name: self._score(metric, fields) for metric in self.metrics}

    def _score(self, metric: Metric, fields: tuple[str, ...]) -> Score:
        values = self.values(metric.name)
        joined = metric.join(values)
        low, high = metric.interval(values) or (None, None)
        by_channel = joined.movedim(1, 0).flatten(1).mean(1).tolist()
        named = dict(zip(fields, by_channel, strict=True)) if len(by_channel) > 1 else {}
        return Score(float(joined.mean()), low, high, named)

    def over_time(self, name: str) -> list[float]:
        """The error of each step, over all samples and channels."""
        series: list[float] = METRICS[name].join(self.values(name)).flatten(1).mean(1).tolist()
        return series


def tally_all(
    predictors: dict[str, Predict],
    part: Part,
    shown: int,
    weights: Tensor | None = None,
    batch: int | None = None,
    look: Callable[[Given, Tensor, Tensor], None] | None = None,
    progress: Callable[[float], None] | None = None,
) -> tuple[dict[str, Tally], Tensor, dict[str, str]]:
    """Score every predictor on the whole part, reading it once.

    The first `shown` frames are given, the others predicted.  Returns the tallies, the truth's
    energy in the last frame (n, c, k), and what could not predict with the reason.  A `batch`
    tallies PDEBench's convention as well; `look` is shown the model's predictions and the truth.
    """
    points, steps = part.data.grid.points, part.data.task(shown).steps
    metrics = [m for m in METRICS.values() if m.applies_to(points, steps, weights is not None)]
    tallies = {name: Tally(metrics, weights) for name in predictors}
    skipped: dict[str, str] = {}
    energy: list[Tensor] = []
    size = batch or max(1, _CHUNK // max(1, math.prod(part.shape[1:])))
    for start in range(0, len(part), size):
        given, truth = part.begin(range(start, min(start + size, len(part))), shown)
        for name in list(tallies):
            try:
                prediction = predictors[name](given, steps)
            except ValueError as error:
                if name == "model":
                    raise
                skipped[name] = " ".join(str(error).split())
                del tallies[name]
                continue
            tallies[name].add(prediction, truth, given.mask)
            if look and name == "model":
                look(given, prediction, truth)
            if batch is not None:
                tallies[name].add_batch(prediction, truth)
        energy.append(spectrum(truth[:, -1:])[:, 0])
        if progress:
            progress((start + len(truth)) / len(part))
    return tallies, torch.cat(energy), skipped
