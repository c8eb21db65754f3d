"""One rollout for everything that steps (eq. 13).

    û_t = f(x^{(t−K)}),    x^{(t−K+1)} = shift(x^{(t−K)}) ‖ û_t

A step is any callable from what is given to the next frame `(b, c, *space)`: a learned model, a
classical solver, the guess that nothing changes.  A callable of yours is handed the history
`(b, K, c, *space)`; one that says `takes_given = True` is handed the whole `Given`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import torch

from fino.given import Given
from fino.shapes import Field, Trajectory

__all__ = ["AnyStepper", "Stepper", "frames", "rollout", "take_step"]


class Stepper(Protocol):
    """What is given in, next frame out; `history` says how many frames it needs."""

    @property
    def history(self) -> int: ...

    def __call__(self, given: Any, /) -> Field: ...


AnyStepper = Stepper | Callable[[Any], Field]


def take_step(stepper: AnyStepper, given: Given) -> Field:
    """The next frame (b, c, *space)."""
    return stepper(given if getattr(stepper, "takes_given", False) else given.history)


def frames(stepper: AnyStepper, given: Given | Trajectory, steps: int) -> Iterator[Field]:
    """Yield the predicted frames one by one, in constant memory however many there are."""
    if steps < 0:
        raise ValueError(f"steps should be 0 or more, got {steps}.")
    given = Given.of(given)
    known = given.history.shape[1]
    needed = getattr(stepper, "history", known)
    if known < needed:
        raise ValueError(f"history should hold at least {needed} frames, got {known}.")
    given = given.last(needed)
    for _ in range(steps):
        frame = take_step(stepper, given)
        yield frame
        given = given.step(frame)


def rollout(stepper: AnyStepper, given: Given | Trajectory, steps: int) -> Trajectory:
    """Predict `steps` frames: (b, K, c, *space) → (b, steps, c, *space).

    A history without a batch, (K, c, *space), gives a trajectory without one.  No gradient is
    kept; training unrolls by itself.
    """
    given = Given.of(given)
    dims = getattr(getattr(stepper, "grid", None), "dims", None)
    if dims is not None and given.history.dim() == dims + 2:
        return rollout(stepper, Given(given.history.unsqueeze(0), given.positions), steps)[0]
    with torch.no_grad():
        predicted = list(frames(stepper, given, steps))
    return torch.stack(predicted, dim=1) if predicted else given.history[:, :0]
