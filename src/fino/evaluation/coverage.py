"""What a test part says about bands, guards and mirror images.

Cells that bands hold, starts that alarm, and errors as they were estimated and as they are.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from fino.given import Given
from fino.metrics import nrmse
from fino.training.run import Run
from fino.trust.bands import LEVELS, Bands
from fino.trust.guards import Seen, describe_start
from fino.trust.mirror import Mirror

__all__ = ["CLOSE", "Coverage"]

#: An estimate within this factor of the true error counts as right.
CLOSE = 1.5
#: Pairs of an estimate and an error that are kept.
_KEPT = 100


class Coverage:
    """Counts cells in their bands, starts unlike the training data, and estimates of errors."""

    def __init__(self, run: Run) -> None:
        self.model, self.grid = run.model, run.data.grid
        self.bands, self.seen = Bands.of(run.model), Seen.of(run.model)
        self.levels: list[float] = []
        if self.bands is not None:
            self.levels = [level for level in LEVELS if self.bands.allows(level)]
        self.held: list[Tensor] = []
        self.widths: list[Tensor] = []
        self.alarms: list[bool] = []
        self.worst = (0.0, "")
        self.mirror = Mirror.of(run.model)
        self.errors: list[Tensor] = []
        self.estimates: list[Tensor] = []
        self.unusual: list[bool] = []

    def add(self, given: Given, prediction: Tensor, truth: Tensor) -> None:
        """Look at some rollouts beside the truth: (b, t, c, *space) ×2."""
        if self.seen is not None and given.history.shape[1] >= self.seen.frames:
            self._add_starts(given, prediction)
        if self.mirror is not None:
            self._add_estimates(self.mirror, given, prediction, truth)
        if self.levels:
            steps = range(1, truth.shape[1] + 1)
            rows = [self._step(given, prediction, truth, step) for step in steps]
            self.held.append(torch.stack([held for held, _ in rows], dim=1))
            self.widths.append(torch.stack([width for _, width in rows], dim=1))

    def _add_starts(self, given: Given, prediction: Tensor) -> None:
        assert self.seen is not None
        flat = prediction.double().movedim(2, 1).flatten(2)
        least, most = self.seen.bounds(0.0)
        inside = (flat.amin(2) >= least) & (flat.amax(2) <= most)
        distance, _ = self.seen.weigh(*self.seen.measure(given, self.model))
        unlike = (distance > 1) | ~inside.all(1)
        self.alarms += unlike.tolist()
        found = describe_start(self.model, self.seen, given, (0,) * self.grid.dims)
        self.worst = max(self.worst, found)

    def _add_estimates(
        self, mirror: Mirror, given: Given, prediction: Tensor, truth: Tensor
    ) -> None:
        found = mirror.estimate(self.model, given, prediction)
        inside = 1.0 if given.mask is None else given.mask.unsqueeze(1)
        self.estimates.append(found.flatten(1).mean(1))
        self.errors.append(nrmse(prediction * inside, truth * inside).double().flatten(1).mean(1))
        self.unusual += (mirror.in_usual_errors(found) > mirror.limit).tolist()

    def _step(
        self, given: Given, prediction: Tensor, truth: Tensor, step: int
    ) -> tuple[Tensor, Tensor]:
        """The share of cells in each band and its mean width: (b, level) each."""
        assert self.bands is not None
        frame = prediction[:, step - 1]
        scale = self.bands.scale(frame, step, self.grid.is_periodic)
        ratio = (truth[:, step - 1] - frame).abs() / scale
        inside = torch.ones_like(ratio) if given.mask is None else given.mask.expand_as(ratio)
        held, widths = [], []
        for level in self.levels:
            quantile = self.bands.quantile(step, level).to(ratio)
            most = quantile.view(-1, *[1] * self.grid.dims)
            held.append(_mean((ratio <= most).to(ratio), inside))
            widths.append(_mean(2 * most * scale, inside))
        return torch.stack(held, dim=1), torch.stack(widths, dim=1)

    def content(self) -> dict[str, Any]:
        """What `scores.json` keeps of it; nothing for a model without bands and guards."""
        found: dict[str, Any] = {}
        if self.held:
            held, widths = torch.cat(self.held).double(), torch.cat(self.widths).double()
            found["coverage"] = {
                "levels": self.levels,
                "held": held.mean((0, 1)).tolist(),
                "width": widths.mean((0, 1)).tolist(),
                "over_time": held.mean(0).T.tolist(),
            }
        if self.alarms:
            line = self.worst[1] if self.worst[0] > 1 else ""
            found["guards"] = {
                "samples": len(self.alarms),
                "alarms": sum(self.alarms),
                "worst": line,
            }
        if self.errors:
            true, guess = torch.cat(self.errors), torch.cat(self.estimates)
            ratio = (guess / true.clamp_min(1e-30)).nan_to_num(torch.inf)
            found["mirror"] = {
                "within": float(((ratio < CLOSE) & (ratio > 1 / CLOSE)).double().mean()),
                "unusual": sum(self.unusual),
                "estimates": [_short(value) for value in guess[:_KEPT].tolist()],
                "errors": [_short(value) for value in true[:_KEPT].tolist()],
            }
        return found


def _short(value: float) -> float | None:
    return float(f"{value:.4g}") if math.isfinite(value) else None


def _mean(values: Tensor, inside: Tensor) -> Tensor:
    """The mean over fields and the cells of a mask: (b, c, *space) → (b,)."""
    return (values * inside).flatten(1).sum(1) / inside.flatten(1).sum(1).clamp_min(1.0)
