"""Unrolling a model and measuring it: equations 13, 14 and 15.

    û_t = f(x^{(t−K)}),   x^{(t−K+1)} = shift(x^{(t−K)}) ‖ û_t                     (13)
    L_step = Σ_t 1/B Σ_b ‖ û_t^{(b)} − u_t^{(b)} ‖²          what is minimised      (14)
    L_full = 1/B Σ_b ‖ Û^{(b)} − U^{(b)} ‖²           what the paper chooses models by (15)

The paper's sum in (14) runs over one frame more than its rollout in (13); we count the H frames
that are predicted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from fino.model.emulator import Emulator
from fino.model.rollout import frames as predicted_frames
from fino.shapes import Field, Trajectory
from fino.training.settings import TrainingSettings

__all__ = ["LOSSES", "Judgement", "Unroll", "full_trajectory_error", "validate"]


def paper_loss(error: Field, spread: Tensor) -> Tensor:
    """‖û − u‖² averaged over the batch, as (14) has it for one frame."""
    return error.square().sum() / error.shape[0]


def scaled_loss(error: Field, spread: Tensor) -> Tensor:
    """The mean square in units of what the network has to say in one step."""
    return (error / spread).square().mean()


def root_loss(error: Field, spread: Tensor) -> Tensor:
    """The root mean square of every sample and channel, so that hard samples rule less."""
    square = (error / spread).square().flatten(start_dim=2).mean(dim=2)
    return (square + 1e-12).sqrt().mean()


#: Error (b, c, *space) and spread (c, 1…) → one number for a frame.
LOSSES = {
    "paper": paper_loss,
    "scaled": scaled_loss,
    "fields": scaled_loss,
    "root": root_loss,
}


class Unroll(nn.Module):
    """A model run over a window and its loss there: (b, K + H, c, *space) → ().

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
        self,
        history: Trajectory,
        future: Trajectory,
        static: Tensor | None = None,
        inner: tuple[slice, ...] = (),
    ) -> Tensor:
        measure = LOSSES[self.settings.loss]
        dims = history.dim() - 3
        spread = self._spread().view(-1, *[1] * dims)
        losses = [
            measure(_inside(frame - future[:, t], inner), spread)
            for t, frame in self._unrolled(history, future.shape[1], static)
        ]
        total = torch.stack(losses).sum()
        return total if self.settings.loss == "paper" else total / len(losses)

    def _spread(self) -> Tensor:
        """The unit of error for each channel.

        `fields` weighs the channels by the size of their fields, as nRMSE does, and has one
        common factor that makes the loss begin near one.
        """
        said, fields = self.emulator.output_std, self.emulator.input_std
        if self.settings.loss != "fields":
            return said
        return fields * (said / fields).square().mean().sqrt()

    def _unrolled(
        self, history: Trajectory, horizon: int, static: Tensor | None
    ) -> Iterator[tuple[int, Field]]:
        """The frames that count, with their place in the horizon."""
        mode, truncate = self.settings.gradient, self.settings.truncate
        first = max(0, horizon - truncate) if mode == "pushforward" else 0
        buffer = history
        for t in range(horizon):
            with torch.set_grad_enabled(t >= first and torch.is_grad_enabled()):
                frame = self._next(buffer, static)
            if t >= first:
                yield t, frame
            kept = frame.detach() if mode == "truncated" and (t + 1) % truncate == 0 else frame
            buffer = torch.cat([buffer[:, 1:], kept.unsqueeze(1)], dim=1)
            if mode == "truncated" and (t + 1) % truncate == 0:
                buffer = buffer.detach()

    def _next(self, buffer: Trajectory, static: Tensor | None) -> Field:
        if self.settings.recompute and torch.is_grad_enabled():
            return checkpoint(self.step, buffer, static, use_reentrant=False)
        return self.step(buffer, static)


def _inside(error: Field, inner: tuple[slice, ...]) -> Field:
    """The cells that are judged: all, or those of a crop without its halo."""
    return error[(slice(None), slice(None), *inner)] if inner else error


def full_trajectory_error(prediction: Trajectory, truth: Trajectory) -> Tensor:
    """L_full of equation 15: the squared error over the whole window, averaged over the batch.

    The frames that were given agree by construction and add nothing.
    """
    return (prediction - truth).square().sum() / prediction.shape[0]


#: Trajectories that are rolled out together; many more would leave the cache.
_JUDGED_AT_ONCE = 16


@dataclass(frozen=True)
class Judgement:
    """How a model's rollout did: `full` is L_full (15), `nrmse` the same relative to the truth.

    `diverged` is the frame after the history, if any, at which a rollout stopped being finite.
    """

    full: float
    nrmse: float
    diverged: int | None = None


@torch.no_grad()
def validate(emulator: Emulator, trajectories: Trajectory) -> Judgement:
    """Roll out from the first frames to the end and compare: (b, t, c, *space) → Judgement."""
    squares, relative = 0.0, []
    for some in trajectories.split(_JUDGED_AT_ONCE):
        history, truth = some[:, : emulator.history], some[:, emulator.history :]
        for t, frame in enumerate(predicted_frames(emulator, history, truth.shape[1])):
            error = (frame - truth[:, t]).double().flatten(start_dim=2)
            if not torch.isfinite(error).all():
                return Judgement(float("inf"), float("inf"), diverged=t)
            size = truth[:, t].double().flatten(start_dim=2).square().mean(dim=2).sqrt()
            rms = error.square().mean(dim=2).sqrt()
            relative.append((rms / size.clamp_min(1e-12)).flatten())
            squares += float(error.square().sum())
    return Judgement(squares / len(trajectories), float(torch.cat(relative).mean()))
