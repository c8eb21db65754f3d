"""One rollout for everything that steps (eq. 13).

    û_t = f(x^{(t−K)}),    x^{(t−K+1)} = shift(x^{(t−K)}) ‖ û_t

A stepper is any callable from a history `(b, K, c, *space)` to the next frame
`(b, c, *space)`: a learned model, a classical solver, the guess that nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import torch

from fino.shapes import Field, Trajectory

__all__ = ["Stepper", "frames", "rollout"]


class Stepper(Protocol):
    """History in, next frame out; `history` says how many frames it needs."""

    @property
    def history(self) -> int: ...

    def __call__(self, history: Trajectory, /) -> Field: ...


AnyStepper = Stepper | Callable[[Trajectory], Field]


def frames(stepper: AnyStepper, history: Trajectory, steps: int) -> Iterator[Field]:
    """Yield the predicted frames one by one, in constant memory however many there are."""
    if steps < 0:
        raise ValueError(f"steps should be 0 or more, got {steps}.")
    needed = getattr(stepper, "history", history.shape[1])
    if history.shape[1] < needed:
        raise ValueError(f"history should hold at least {needed} frames, got {history.shape[1]}.")
    buffer = history[:, history.shape[1] - needed :]
    for _ in range(steps):
        frame = stepper(buffer)
        yield frame
        buffer = torch.cat([buffer[:, 1:], frame.unsqueeze(1)], dim=1)


def rollout(stepper: AnyStepper, history: Trajectory, steps: int) -> Trajectory:
    """Predict `steps` frames: (b, K, c, *space) → (b, steps, c, *space).

    A history without a batch, (K, c, *space), gives a trajectory without one.  No gradient is
    kept; training unrolls by itself.
    """
    dims = getattr(getattr(stepper, "grid", None), "dims", None)
    alone = dims is not None and history.dim() == dims + 2
    with torch.no_grad():
        batch = history.unsqueeze(0) if alone else history
        predicted = list(frames(stepper, batch, steps))
        if not predicted:
            return history[:0] if alone else history[:, :0]
        stacked = torch.stack(predicted, dim=1)
    return stacked[0] if alone else stacked
