"""What must never pass: a number that is not finite, caught in the step where it appears.

Each guard names the step and, where it can be known, the sample and the frame.  Nothing is saved
after that, so the last good checkpoint stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from fino.model.emulator import Emulator
from fino.model.rollout import frames
from fino.training.batch import Batch

__all__ = ["NotFinite", "check_batch", "check_gradient", "check_loss", "check_update"]

_ADVICE = "Try a smaller learning rate, a shorter horizon or clipping."


class NotFinite(ValueError):
    """A NaN or an infinity, with the place where it was met."""


def check_batch(batch: Batch, step: int) -> str | None:
    """Which sample and frame of the data are not finite."""
    both = (batch.given.history, batch.future)
    # A sum is finite only if every number is, and cheaper than looking at each.
    if all(bool(torch.isfinite(u.sum())) for u in both):
        return None
    good = torch.isfinite(torch.cat(both, dim=1)).flatten(start_dim=2).all(dim=2)
    if good.all():
        return None
    row, frame = (int(i) for i in (~good).nonzero()[0])
    return (
        f"Step {step}: the data have a NaN or infinite value in sample {batch.samples[row]}, "
        f"frame {batch.starts[row] + frame}. Remove or repair that sample."
    )


def check_loss(loss: Tensor, batch: Batch, emulator: Emulator, step: int) -> str | None:
    """Why the loss is not finite: a broken weight, or a rollout that diverged."""
    if torch.isfinite(loss):
        return None
    if broken := _first_bad(emulator.named_parameters()):
        return f"Step {step}: the weight {broken} is NaN or infinite. {_ADVICE}"
    horizon = batch.future.shape[1]
    for t, good in enumerate(_rows_that_stay_finite(emulator, batch)):
        if not good.all():
            sample = batch.samples[int((~good).nonzero()[0])]
            return (
                f"Step {step}: the rollout diverged on sample {sample}, {t + 1} of {horizon} "
                f"frames ahead. {_ADVICE}"
            )
    return (
        f"Step {step}: the rollout diverged so far that the square of its error overflows "
        f"({_named(batch)}). {_ADVICE}"
    )


def check_gradient(norm: Tensor, batch: Batch, emulator: Emulator, step: int) -> str | None:
    """Which weight has a gradient that is not finite."""
    if torch.isfinite(norm):
        return None
    gradients = ((n, p.grad) for n, p in emulator.named_parameters() if p.grad is not None)
    where = _first_bad(gradients) or "all weights together"
    return f"Step {step}: the gradient of {where} is NaN or infinite ({_named(batch)}). {_ADVICE}"


def check_update(emulator: Emulator, step: int) -> str | None:
    """Which weight the optimiser has just made NaN or infinite."""
    if torch.isfinite(torch.nn.utils.get_total_norm(emulator.parameters())):
        return None
    broken = _first_bad(emulator.named_parameters())
    return f"Step {step}: the update made the weight {broken} NaN or infinite. {_ADVICE}"


def _named(batch: Batch) -> str:
    return f"samples {', '.join(str(i) for i in batch.samples)}"


def _first_bad(tensors: Iterable[tuple[str, Tensor]]) -> str | None:
    return next((name for name, t in tensors if not t.isfinite().all()), None)


@torch.no_grad()
def _rows_that_stay_finite(emulator: Emulator, batch: Batch) -> Iterator[Tensor]:
    """For every frame of the rollout, which samples are still finite: (b,) of truths."""
    for frame in frames(emulator, batch.given, batch.future.shape[1]):
        yield torch.isfinite(frame).flatten(start_dim=1).all(dim=1)
