"""The step as a map of the rolled buffer to itself, and its linearisation.

    x = (u_{t−K+1}, …, u_t)   →   F(x) = (u_{t−K+2}, …, u_t, f(x))

A rollout iterates F, so growth is measured on F: history included.  The size of a buffer is

    ‖x‖² = Σ_k mean over cells and channels of (u_k / scale)²

the paper's norm for one frame, with every channel in units of its own spread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from fino.given import Given
from fino.model.emulator import Emulator
from fino.model.fused import plain_blocks
from fino.model.rollout import AnyStepper, take_step
from fino.shapes import Field, Trajectory

__all__ = ["BufferStep", "Tangent", "over_space", "periodic_twin", "scale_of", "size"]

#: A map of small changes of a buffer to small changes of a buffer.
Tangent = Callable[[Trajectory], Trajectory]


@dataclass(frozen=True, eq=False)
class BufferStep:
    """F, applied `steps` times, on buffers in units of `scale`: (b, K, c, *space) → the same."""

    stepper: AnyStepper
    scale: Tensor
    steps: int = 1

    def __call__(self, buffer: Trajectory) -> Trajectory:
        scale = over_space(self.scale.to(buffer), buffer)
        given = Given(buffer * scale)
        for _ in range(self.steps):
            given = given.step(take_step(self.stepper, given))
        return given.history / scale

    def scaled(self, history: Trajectory) -> Trajectory:
        """A physical history in the units that this map works in."""
        needed = getattr(self.stepper, "history", history.shape[1])
        return Given(history).last(needed).history / over_space(self.scale.to(history), history)

    def linearised(self, buffer: Trajectory) -> tuple[Tangent, Tangent]:
        """v ↦ J v and w ↦ Jᵀ w at this buffer, each sample of the batch by itself.

        The step runs once.  Jᵀ w is its backward pass; that pass is linear in w, so J v is the
        backward pass of the backward pass.
        """
        with plain_blocks(), sdpa_kernel(SDPBackend.MATH), torch.enable_grad():
            x = buffer.detach().requires_grad_()
            y = self(x)
            dual = torch.zeros_like(y).requires_grad_()

        @cache
        def pulled() -> Trajectory:
            with torch.enable_grad():
                return torch.autograd.grad(y, x, dual, create_graph=True)[0]

        def forward(v: Trajectory) -> Trajectory:
            return torch.autograd.grad(pulled(), dual, v, retain_graph=True)[0]

        def backward(w: Trajectory) -> Trajectory:
            return torch.autograd.grad(y, x, w, retain_graph=True)[0]

        return forward, backward


def over_space(channels: Tensor, like: Tensor) -> Tensor:
    """One number a channel (c,), ready to multiply a trajectory (b, t, c, *space)."""
    return channels.view(-1, *[1] * (like.dim() - 3))


def size(change: Tensor) -> Tensor:
    """The norm of each sample: root mean square over cells and channels."""
    return change.flatten(1).square().mean(dim=1).sqrt()


def scale_of(stepper: Any, channels: int) -> Tensor:
    """The spread of each channel that a stepper was trained on; one where it knows none."""
    known = getattr(stepper, "input_std", None)
    return torch.ones(channels) if known is None else known.detach().float().cpu()


def periodic_twin(stepper: AnyStepper) -> AnyStepper:
    """The same weights on a domain without edges, for the analysis by waves.

    Position channels are held at zero: the middle of the domain, away from every wall.
    """
    if not isinstance(stepper, Emulator):
        return stepper
    if all(stepper.grid.is_periodic) and not stepper.settings.coordinates:
        return stepper
    settings = {**cast(Any, stepper.network.settings).model_dump(), "boundary": "periodic"}
    grid = replace(stepper.grid, boundary=("periodic",) * stepper.grid.dims)
    twin = Emulator(type(stepper.network)(**settings), stepper.settings, grid)
    twin = twin.to(next(stepper.parameters()).dtype).eval()
    twin.load_state_dict(stepper.state_dict())
    positions = stepper.positions().shape[0]

    def far_from_walls(history: Trajectory) -> Field:
        return twin(Given(history, torch.zeros(positions, *history.shape[3:])))

    return far_from_walls
