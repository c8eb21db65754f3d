"""Unrolling a model and measuring it: equations 13, 14 and 15.

    û_t = f(x^{(t−K)}),   x^{(t−K+1)} = shift(x^{(t−K)}) ‖ û_t                     (13)
    L_step = Σ_t 1/B Σ_b ‖ û_t^{(b)} − u_t^{(b)} ‖²          what is minimised      (14)
    L_full = 1/B Σ_b ‖ Û^{(b)} − U^{(b)} ‖²           what the paper chooses models by (15)

The paper's sum in (14) runs over one frame more than its rollout in (13); we count the H frames
that are predicted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from fino.given import Given
from fino.metrics import nrmse, rest_size
from fino.model.emulator import Emulator
from fino.model.rollout import frames
from fino.shapes import Field, Trajectory
from fino.training.settings import TrainingSettings

__all__ = ["Unroll", "Validation", "validate"]


def paper_loss(error: Field, spread: Tensor) -> Tensor:
    """‖û − u‖² averaged over the batch, as (14) has it for one frame."""
    return error.square().sum() / error.shape[0]


def scaled_loss(error: Field, spread: Tensor) -> Tensor:
    """The mean square in units of the residual of one step."""
    return (error / spread).square().mean()


def root_loss(error: Field, spread: Tensor) -> Tensor:
    """The root mean square of every sample and channel, so that hard samples rule less."""
    square = (error / spread).square().flatten(start_dim=2).mean(dim=2)
    return (square + 1e-12).sqrt().mean()


def absolute_loss(error: Field, spread: Tensor) -> Tensor:
    """The mean absolute error: what is uncertain is answered with its median, not its mean."""
    return (error / spread).abs().mean()


def sobolev_loss(error: Field, spread: Tensor) -> Tensor:
    """The mean square of the error and of its differences between neighbours (the H¹ norm)."""
    scaled = error / spread
    slopes = [scaled.diff(dim=axis).square().mean() for axis in range(2, scaled.dim())]
    return scaled.square().mean() + torch.stack(slopes).sum()


#: Error (b, c, *space) and spread (c, 1…) → one number for a frame.
LOSSES = {
    "paper": paper_loss,
    "scaled": scaled_loss,
    "fields": scaled_loss,
    "root": root_loss,
    "absolute": absolute_loss,
    "sobolev": sobolev_loss,
}
#: Losses that weigh channels by the size of their fields, not of the residual.
_BY_FIELDS = ("fields", "absolute", "sobolev")


class Unroll(nn.Module):
    """A model run over a window and its loss there.

    `gradient` decides how far the error is traced back: through everything (`full`), through
    stretches of `truncate` frames (`truncated`), or through the last `truncate` frames alone,
    which then are the only ones that count (`pushforward`).
    """

    def __init__(self, emulator: Emulator, settings: TrainingSettings) -> None:
        super().__init__()
        self.emulator = emulator
        self.settings = settings
        self.step = torch.compile(emulator) if settings.compile else emulator

    def forward(
        self, given: Given | Trajectory, future: Trajectory, inner: tuple[slice, ...] = ()
    ) -> Tensor:
        """What is given and the future (b, H, c, *space) → (); `inner` are the cells that count."""
        measure, given = LOSSES[self.settings.loss], Given.of(given)
        spread = self._spread(self.emulator.conditioning.with_dt(given))
        losses = [
            measure(_inside(_masked(frame - future[:, t], given), inner), spread)
            for t, each in self._unroll(given, future.shape[1])
            for frame in each
        ]
        total = torch.stack(losses).sum()
        # Members of an ensemble are trained each on its own error, from the mean of all.
        members = self.emulator.members
        return total / members if self.settings.loss == "paper" else total / len(losses)

    def _spread(self, given: Given) -> Tensor:
        """The unit of error for each channel: (c, 1, …), or (b, c, 1, …) where steps differ.

        By default the channels are weighed by the size of their fields, as nRMSE does, with one
        common factor that makes the loss begin near one.
        """
        _, residual = self.emulator.residual_scale(given)
        fields = self.emulator.input_std.view(-1, *[1] * self.emulator.grid.dims)
        if self.settings.loss not in _BY_FIELDS:
            return torch.where(residual > 0, residual, fields)
        channel = residual.dim() - 1 - self.emulator.grid.dims
        common = (residual / fields).square().mean(dim=channel, keepdim=True).sqrt()
        return fields * torch.where(common > 0, common, 1.0)

    def _unroll(self, given: Given, horizon: int) -> Iterator[tuple[int, list[Field]]]:
        """The frames that count, as every member has them, with their place in the horizon."""
        mode, truncate = self.settings.gradient, self.settings.truncate
        first = max(0, horizon - truncate) if mode == "pushforward" else 0
        for t in range(horizon):
            with torch.set_grad_enabled(t >= first and torch.is_grad_enabled()):
                each = self._next(given)
            if t >= first:
                yield t, each
            given = given.step(each[0] if len(each) == 1 else torch.stack(each).mean(0))
            if mode == "truncated" and (t + 1) % truncate == 0:
                given = given.detach()

    def _next(self, given: Given) -> list[Field]:
        def step(history: Trajectory) -> list[Field]:
            now = replace(given, history=history)
            return self.emulator.each(now) if self.emulator.members > 1 else [self.step(now)]

        if self.settings.recompute and torch.is_grad_enabled():
            # A checkpoint follows the gradients of tensors that it is handed by name.
            found: list[Field] = checkpoint(step, given.history, use_reentrant=False)
            return found
        return step(given.history)


def _masked(error: Field, given: Given) -> Field:
    """Nothing in the cells that are not part of the domain; the others count for all."""
    if given.mask is None:
        return error
    share = given.mask.flatten(1).mean(dim=1).clamp_min(1e-12).sqrt()
    return error * given.mask / share.view(-1, *[1] * (error.dim() - 1))


def _inside(error: Field, inner: tuple[slice, ...]) -> Field:
    """The cells that count: all, or those of a crop without its halo."""
    return error[(slice(None), slice(None), *inner)] if inner else error


#: Trajectories that are rolled out together; many more would leave the cache.
_AT_ONCE = 16


@dataclass(frozen=True)
class Validation:
    """How a model's rollout did: `full` is L_full (15), `nrmse` the error relative to the truth.

    `diverged` is the frame after the history, if any, at which a rollout stopped being finite.
    """

    full: float
    nrmse: float
    diverged: int | None = None


#: The size of a field below which errors are no longer taken relative to it.
_SMALLEST = 1e-12


@torch.no_grad()
def validate(emulator: Emulator, given: Given, future: Trajectory) -> Validation:
    """Roll out over the future (b, t, c, *space) and compare; what was given adds nothing."""
    squares, relative = 0.0, []
    for start in range(0, len(future), _AT_ONCE):
        rows = slice(start, start + _AT_ONCE)
        some, truth = given.rows(rows), future[rows]
        mask = torch.ones(()) if some.mask is None else some.mask.to(truth).unsqueeze(1)
        smallest = rest_size(truth * mask).clamp_min(_SMALLEST)
        for t, frame in enumerate(frames(emulator, some, truth.shape[1])):
            error = _masked(frame - truth[:, t], some).double()
            if not torch.isfinite(error).all():
                return Validation(float("inf"), float("inf"), diverged=t)
            ours, theirs = frame.unsqueeze(1) * mask, truth[:, t : t + 1] * mask
            each = nrmse(ours, theirs, smallest=smallest)
            relative.append(each.flatten())
            squares += float(error.square().sum())
    return Validation(squares / len(future), float(torch.cat(relative).mean()))
