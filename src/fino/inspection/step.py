"""The step as a map of the rolled buffer to itself, and its linearisation.

    x = (u_{t−K+1}, …, u_t)   →   F(x) = (u_{t−K+2}, …, u_t, f(x))

A rollout iterates F, so growth is measured on F: history included.  The size of a buffer is

    ‖x‖² = Σ_k mean over cells and channels of (u_k / scale)²

the paper's norm for one frame, with every channel in units of its own spread.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from fino.given import Given
from fino.model.emulator import Emulator
from fino.model.fused import plain_blocks
from fino.model.rollout import AnyStepper
from fino.shapes import Field, Trajectory

__all__ = ["BufferStep", "Tangent", "periodic_twin", "scale_of", "size", "stride_of"]

#: A map of small changes of a buffer to small changes of a buffer.
Tangent = Callable[[Trajectory], Trajectory]


@dataclass(frozen=True, eq=False)
class BufferStep:
    """F, applied `steps` times, on buffers in units of `scale`: (b, K, c, *space) → the same."""

    stepper: AnyStepper
    scale: Tensor
    steps: int = 1

    def __call__(self, buffer: Trajectory) -> Trajectory:
        scale = self.scale.to(buffer).view(-1, *[1] * (buffer.dim() - 3))
        for _ in range(self.steps):
            frame = self.stepper(buffer * scale) / scale
            buffer = torch.cat([buffer[:, 1:], frame.unsqueeze(1)], dim=1)
        return buffer

    def scaled(self, history: Trajectory) -> Trajectory:
        """A physical history in the units that this map works in."""
        needed = getattr(self.stepper, "history", history.shape[1])
        over_space = (-1, *[1] * (history.dim() - 3))
        return history[:, history.shape[1] - needed :] / self.scale.to(history).view(over_space)

    def linearised(self, buffer: Trajectory) -> tuple[Tangent, Tangent]:
        """v ↦ J v and w ↦ Jᵀ w at this buffer, each sample of the batch by itself.

        The step runs once.  Jᵀ w is its backward pass; that pass is linear in w, so J v is the
        backward pass of the backward pass.
        """
        with plain_blocks(), sdpa_kernel(SDPBackend.MATH), torch.enable_grad():
            x = buffer.detach().requires_grad_()
            y = self(x)
            dual = torch.zeros_like(y).requires_grad_()
            pulled = torch.autograd.grad(y, x, dual, create_graph=True)[0]

        def forward(v: Trajectory) -> Trajectory:
            return torch.autograd.grad(pulled, dual, v, retain_graph=True)[0]

        def backward(w: Trajectory) -> Trajectory:
            return torch.autograd.grad(y, x, w, retain_graph=True)[0]

        return forward, backward


def size(change: Tensor, frames: int = 1) -> Tensor:
    """The norm of each sample: root mean square over cells and channels, summed over frames."""
    flat = change.flatten(1)
    return (flat.square().sum(dim=1) * (frames / flat.shape[1])).sqrt()


def scale_of(stepper: Any, channels: int) -> Tensor:
    """The spread of each channel that a stepper was trained on; one where it knows none."""
    known = getattr(stepper, "input_std", None)
    return torch.ones(channels) if known is None else known.detach().float().cpu()


def stride_of(stepper: Any, dims: int) -> tuple[int, ...]:
    """The shifts that a stepper commutes with; a stepper that says nothing is a plain stencil."""
    locality = getattr(stepper, "locality", None)
    return (1,) * dims if locality is None else tuple(locality.stride)


def periodic_twin(stepper: AnyStepper) -> AnyStepper:
    """The same weights on a domain without edges, for the analysis by waves.

    Position channels are held at zero: the middle of the domain, away from every wall.
    """
    if not isinstance(stepper, Emulator):
        return stepper
    if all(stepper.grid.is_periodic) and not stepper.settings.coordinates:
        return stepper
    settings = cast(Any, stepper.network.settings).model_dump()
    dtype = next(stepper.network.parameters()).dtype
    network = type(stepper.network)(**{**settings, "boundary": "periodic"}).to(dtype)
    network.load_state_dict(stepper.network.state_dict())
    return _InTheMiddle(stepper, network.eval())


class _InTheMiddle(nn.Module):
    """An emulator far from every wall."""

    def __init__(self, emulator: Emulator, network: nn.Module) -> None:
        super().__init__()
        grid = replace(emulator.grid, boundary=("periodic",) * emulator.grid.dims)
        self.emulator = Emulator(network, emulator.settings, grid)
        for name, value in emulator.named_buffers(recurse=False):
            setattr(self.emulator, name, copy.deepcopy(value))
        self.emulator.prior.load_state_dict(emulator.prior.state_dict())
        self.positions = emulator.positions().shape[0]

    @property
    def history(self) -> int:
        return self.emulator.history

    @property
    def locality(self) -> Any:
        return self.emulator.locality

    def forward(self, history: Trajectory) -> Field:
        nowhere = torch.zeros(self.positions, *history.shape[3:])
        return self.emulator(Given(history, nowhere))
