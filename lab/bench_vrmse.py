"""`python -m lab bench vrmse RUN`: errors over The Well's stretches of a rollout, and conservation.

The Well scores steps 6 to 12 and 13 to 30 of Δt = 0.05 by the VRMSE, the RMSE over the spread of
the truth in space, for each field.  A model with longer steps is scored at the same times.
"""

from __future__ import annotations

import torch

from fino.cli.console import say
from fino.training.run import find_run

__all__ = ["drift", "vrmse", "vrmse_between"]

#: The ends of the stretches, in times of `euler-2d`.
STRETCHES = ((0.3, 0.6), (0.65, 1.5))


def vrmse(run: str) -> None:
    """VRMSE by stretch, and how far sums drift: `python -m lab bench vrmse euler-2d`.

    Parameters
    ----------
    run
        A run folder or the name of a shipped model.
    """
    found = find_run(run)
    data, part = found.data, found.data.test
    task = data.task(found.model.history)
    given, future = part.begin(range(len(part)), task.shown)
    prediction = found.predict(given, task.steps)
    times = data.dt * torch.arange(task.shown, task.shown + task.steps)
    for low, high in STRETCHES:
        mean, steps = vrmse_between(prediction, future, times, low, high)
        say(f"t = {low:g} to {high:g}, {steps} steps: VRMSE {mean:.3f}, {len(part)} trajectories")
    say(f"sums drift by {drift(prediction, given.history[:, -1]):.1e} of the sum of sizes at most")


def vrmse_between(
    prediction: torch.Tensor, truth: torch.Tensor, times: torch.Tensor, low: float, high: float
) -> tuple[float, int]:
    """The mean VRMSE of (b, t, c, *space) from one time to another, and how many steps that is."""
    space, rounding = tuple(range(3, truth.dim())), 1e-6
    chosen = (times > low - rounding) & (times < high + rounding)
    error = (prediction - truth).square().mean(space).sqrt()
    spread = truth.std(space, unbiased=False)
    return float((error / spread)[:, chosen].mean()), int(chosen.sum())


def drift(prediction: torch.Tensor, start: torch.Tensor) -> float:
    """How much the sum of a field changes, relative to the sum of its sizes at the start."""
    space = tuple(range(2, start.dim()))
    begin, size = start.double().sum(space), start.double().abs().sum(space)
    end = prediction.double().sum(tuple(d + 1 for d in space))
    return float(((end - begin[:, None]).abs() / size[:, None]).max())
