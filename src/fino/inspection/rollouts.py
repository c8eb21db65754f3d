"""What rollouts show: errors beside the truth, the states they visit, and whether they stay put."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fino.inspection.step import size
from fino.model.rollout import AnyStepper, frames, rollout
from fino.shapes import Field, Trajectory

__all__ = ["Bounded", "Errors", "bounded_rollout", "rollout_errors", "spread_of", "visited_buffers"]


@dataclass(frozen=True)
class Bounded:
    """How far rollouts stayed within twice the range of the data.

    `first_left` is the step at which the first trajectory left it, None if none did.
    """

    steps: int
    horizon: int
    first_left: int | None
    trajectories: int
    stayed: int
    excess: float


@dataclass(frozen=True, eq=False)
class Errors:
    """Errors (b, t − K) of the rollout and of single steps from true histories, in spreads.

    `examples` are a few single-step errors as fields (n, c, *space).
    """

    rolled: np.ndarray
    single: np.ndarray
    examples: Field


def rollout_errors(stepper: AnyStepper, truth: Trajectory, history: int, scale: Tensor) -> Errors:
    """Roll out from the first history, and step once from every other."""
    over_space = scale.view(-1, *[1] * (truth.dim() - 3))
    steps = truth.shape[1] - history
    predicted = rollout(stepper, truth[:, :history], steps)
    rolled, single, examples = [], [], []
    with torch.no_grad():
        for t in range(steps):
            exact = truth[:, history + t]
            wrong = (stepper(truth[:, t : t + history]) - exact) / over_space
            rolled.append(size((predicted[:, t] - exact) / over_space).double().numpy())
            single.append(size(wrong).double().numpy())
            if t in (0, steps // 2, steps - 1):
                examples.append(wrong[:1])
    errors = np.stack(rolled, axis=1)
    finite = np.where(np.isfinite(errors), errors, np.inf)
    return Errors(finite, np.stack(single, axis=1), torch.cat(examples))


def spread_of(stepper: Any, truth: Trajectory, scale: Tensor) -> float:
    """The error of the constant guess: what any bound has to stay below."""
    over_space = (-1, *[1] * (truth.dim() - 3))
    mean = getattr(stepper, "input_mean", None)
    if mean is None:
        mean = truth.transpose(1, 2).flatten(2).mean(dim=(0, 2))
    away = (truth - mean.view(over_space)) / scale.view(over_space)
    return float(away.square().mean().sqrt())


def visited_buffers(stepper: AnyStepper, truth: Trajectory, history: int, count: int) -> Trajectory:
    """True histories from the beginning to the end, and the model's own at the end."""
    last = truth.shape[1] - history
    starts = np.unique(np.linspace(0, last, count).round().astype(int))
    found = [truth[:1, t : t + history] for t in starts]
    found += [
        truth[i : i + 1, starts[i % len(starts)] :][:, :history] for i in range(1, len(truth))
    ]
    own = rollout(stepper, truth[:1, :history], last)[:, -history:]
    if own.shape[1] == history and bool(torch.isfinite(own).all()):
        found.append(own)
    return torch.cat(found)


def bounded_rollout(stepper: AnyStepper, truth: Trajectory, history: int, longer: int) -> Bounded:
    """Roll out far beyond the data and watch the range."""
    horizon = truth.shape[1] - history
    steps = longer * max(1, horizon)
    low = truth.transpose(1, 2).flatten(2).amin(dim=(0, 2))
    high = truth.transpose(1, 2).flatten(2).amax(dim=(0, 2))
    over_space = (-1, *[1] * (truth.dim() - 3))
    middle, half = ((high + low) / 2).view(over_space), ((high - low) / 2).view(over_space)
    left = torch.full((len(truth),), steps + 1)
    excess = 0.0
    with torch.no_grad():
        for t, frame in enumerate(frames(stepper, truth[:, :history], steps), start=1):
            away = ((frame - middle).abs() / half.clamp_min(1e-12)).flatten(1).amax(dim=1)
            out = ~(away <= 2.0)
            left = torch.where(out & (left > steps), t, left)
            if bool(torch.isfinite(away).all()):
                excess = float(away.max())
            if bool((left <= steps).all()):
                break
    first = int(left.min())
    return Bounded(
        steps=steps,
        horizon=horizon,
        first_left=None if first > steps else first,
        trajectories=len(truth),
        stayed=int((left > steps).sum()),
        excess=excess,
    )
