"""How far off a rollout is, without a truth and without a solver: `fino.estimate_error`.

    found = fino.estimate_error(run, data.test[0], steps=91)
    print(found)        nRMSE about 0.0012 by the mirror image, 0.93 of the usual error.
    found.over_time     (t,)

A model that is calibrated on data with a symmetry is asked for the mirror image of the start as
well; by how much the two rollouts disagree says how far off they are (`fino.trust.mirror`).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from fino.data.dataset import Sample
from fino.given import Given
from fino.training.run import Run, find_run
from fino.trust.mirror import Mirror

__all__ = ["ErrorEstimate", "estimate_error", "require_mirror"]


@dataclass(frozen=True)
class ErrorEstimate:
    """What the mirror image of a start says of a rollout.

    error       the nRMSE of the whole rollout, of several the largest
    over_time   the nRMSE at every step: (t,)
    factor      the error in usual errors of validation
    limit       the factor that nearly all validation trajectories stay below
    """

    error: float
    over_time: list[float]
    factor: float
    limit: float

    @property
    def is_usual(self) -> bool:
        """Whether it is an error as on validation data."""
        return self.factor <= self.limit

    def __str__(self) -> str:
        words = f"nRMSE about {self.error:.3g} by the mirror image, {self.factor:.3g} of the usual"
        more = "" if self.is_usual else f". On validation data it stays below {self.limit:.3g}"
        return f"{words} error{more}."


def estimate_error(
    run: Any, start: Any, frames: Any = None, *, steps: int | None = None, strict: bool = False
) -> ErrorEstimate:
    """Estimate the error of a rollout by that of the mirror image of its start.

    run       a run, a model, or the name of a shipped model
    start     what the rollout began with: a sample, a history (K, c, *space), or a `Given`
    frames    the rollout (t, c, *space), every frame; computed here if not given
    steps     how far to go if there are no frames; as far as the sample's own future, if not given
    strict    refuse an error that is unusual instead of warning of it

    On test data of most shipped models more than eight in ten estimates are within a factor of 1.5
    of the true error (docs/trust.md).  It does not see what both rollouts get wrong alike, such as
    another equation.
    """
    run = find_run(run)
    mirror = require_mirror(run)
    given = _begin(start, run.model.grid.dims)
    if frames is None:
        future = start.future if isinstance(start, Sample) else None
        steps = len(future) if steps is None and future is not None else steps
        if steps is None:
            raise ValueError("estimate_error should be given frames, or steps to predict.")
        frames = run.predict(given, steps)
    frames = frames if isinstance(frames, torch.Tensor) else torch.from_numpy(np.array(frames))
    frames = frames if frames.dim() == run.model.grid.dims + 3 else frames[None]
    expected = (len(given.history), frames.shape[1], *given.history.shape[2:])
    if frames.shape != expected:
        raise ValueError(
            f"frames should be those that follow the start, (t, c, *space) with {expected[2:]} "
            f"behind the time, got {tuple(frames.shape)}."
        )
    found = mirror.estimate(run.model, given, frames)
    factors = mirror.in_usual_errors(found)
    worst = int(factors.argmax())
    each = found[worst].mean(1)
    estimate = ErrorEstimate(
        error=float(each.mean()),
        over_time=each.tolist(),
        factor=float(factors[worst]),
        limit=mirror.limit,
    )
    if not estimate.is_usual:
        if strict:
            raise ValueError(str(estimate))
        warnings.warn(str(estimate), stacklevel=2)
    return estimate


def require_mirror(run: Run) -> Mirror:
    """What a run knows of mirror images, or a line that says how it could."""
    mirror = Mirror.of(run.model)
    if mirror is None:
        raise ValueError(
            f"{run.name} cannot be asked for a mirror image: its data declare no symmetry, or one "
            "that the model has by itself, or it was not calibrated. If the data have one, say so: "
            "fino calibrate RUN --data FILE --symmetries flip."
        )
    return mirror


def _begin(start: Any, dims: int) -> Given:
    """A start with a batch, whatever it was given as."""
    if isinstance(start, Sample):
        return start.given
    if isinstance(start, Given):
        return start
    history = torch.as_tensor(start)
    return Given(history if history.dim() == dims + 3 else history[None])
