"""What becomes of an error: the step is shaken once, and the difference is followed.

    G_j = max over small changes δ of the newest frame of ‖Ψ^j(x + δ) − Ψ^j(x)‖ / ‖δ‖

A model's own error enters through the newest frame, so Σ_j G_j says how errors add up; unlike C^j
it does not assume that every step stretches the same direction most.  The changes are the
directions that one step and a few steps stretch most, waves, and the model's own errors.  It is
the largest growth found, not the largest there is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from fino.inspection.lipschitz import stretch_of_newest
from fino.inspection.step import BufferStep, size
from fino.model.rollout import AnyStepper, frames
from fino.shapes import Field, Trajectory

__all__ = ["growth_of_errors", "shaken", "worst_directions"]

_WAVES = 4


def growth_of_errors(
    stepper: AnyStepper,
    scale: Tensor,
    buffers: Trajectory,
    own_errors: Field,
    amplitude: float,
    steps: int,
    looks: Sequence[int] = (1, 4),
) -> np.ndarray:
    """G_0 … G_{steps−1}, the largest over some buffers (b, K, c, *space) and directions."""
    found = [np.ones((1, 1))]
    for buffer in buffers.split(1):
        worst = worst_directions(stepper, scale, buffer, [j for j in looks if j < steps])
        directions = torch.cat([*worst, _waves(buffer[0, -1]), own_errors])
        found.append(shaken(stepper, scale, buffer, directions, amplitude, steps - 1))
    together = np.concatenate(found[1:])
    return np.concatenate([np.ones(1), together.max(axis=0)])


def shaken(
    stepper: AnyStepper,
    scale: Tensor,
    buffer: Trajectory,
    directions: Field,
    amplitude: float,
    steps: int,
) -> np.ndarray:
    """Growth of each direction (n, c, *space), in units of the scale, over 1 … steps steps."""
    over_space = scale.to(buffer).view(-1, *[1] * (buffer.dim() - 3))
    # a direction that the step forgets at once comes back from the search as nothing
    directions = directions[size(directions) > 0]
    change = directions / size(directions).view(-1, *[1] * (directions.dim() - 1))
    together = buffer.repeat(1 + len(change), *[1] * (buffer.dim() - 1))
    together[1:, -1] += amplitude * change * over_space
    grown = []
    with torch.no_grad():
        for frame in frames(stepper, together, steps):
            grown.append(size((frame[1:] - frame[:1]) / over_space) / amplitude)
    if not grown:
        return np.empty((len(change), 0))
    values = torch.stack(grown, dim=1).double().numpy()
    return np.where(np.isfinite(values), values, np.inf)


def worst_directions(
    stepper: AnyStepper, scale: Tensor, buffer: Trajectory, looks: Sequence[int]
) -> list[Field]:
    """The changes of the newest frame that grow most over each number of steps."""
    found = []
    for steps in looks:
        step = BufferStep(stepper, scale, steps)
        found.append(stretch_of_newest(step, step.scaled(buffer)).directions[:, -1].detach())
    return found


def _waves(frame: Field) -> Field:
    """A few waves along the first axis in each channel, from long to short."""
    channels, n = frame.shape[:2]
    x = torch.arange(n).to(frame) / n
    found = []
    for k in np.unique(np.geomspace(1, max(1, n // 2), _WAVES).round().astype(int)):
        line = torch.cos(2 * math.pi * int(k) * x + 0.3).view(-1, *[1] * (frame.dim() - 2))
        for channel in range(channels):
            change = torch.zeros_like(frame)
            change[channel] = line.expand(frame.shape[1:])
            found.append(change)
    return torch.stack(found)
