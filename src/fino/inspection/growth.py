"""How much small errors grow: in one step at worst, and over many steps as found by trying.

A rollout iterates the step as a map of the rolled buffer to itself, history included:

    x = (u_{t−K+1}, …, u_t)   →   F(x) = (u_{t−K+2}, …, u_t, f(x))

    C(x) = ‖J(x)‖₂ = σ_max( ∂F/∂x )          the Lipschitz constant at a buffer x
    G_j = max over small changes δ of the newest frame of ‖Ψ^j(x + δ) − Ψ^j(x)‖ / ‖δ‖

The largest singular value comes from Lanczos' refinement of the power iteration on JᵀJ: it
needs only products with J and Jᵀ, and approaches σ_max from below.  The size of a change is its
root mean square over cells and channels, every channel in units of its own spread.

A model's own error enters through the newest frame, so Σ_j G_j says how errors add up; unlike C^j
it does not assume that every step stretches the same direction most.  The changes tried are the
directions that one step and a few steps stretch most, and the longest wave: on three shipped
models (shallow water, advection, compressible flow) shorter waves and the model's own errors grew
less.  Both numbers are the largest found at some states, not a bound for all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from fino.given import Given
from fino.model.fused import plain_blocks
from fino.model.rollout import AnyStepper, frames, take_step
from fino.shapes import Field, Trajectory
from fino.streams import torch_stream

__all__ = ["BufferStep", "cosine_waves", "growth_of_errors", "lipschitz", "over_space", "size"]

#: A map of small changes of a buffer to small changes of a buffer.
_Tangent = Callable[[Trajectory], Trajectory]
#: The search stops where its answer is this sure, as a share of the answer.
_SURE = 1e-3


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

    def linearised(self, buffer: Trajectory) -> tuple[_Tangent, _Tangent]:
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


@dataclass(frozen=True, eq=False)
class Stretch:
    """The largest singular value at each buffer (b,), and the change of the input it belongs to."""

    values: Tensor
    directions: Trajectory


def lipschitz(
    step: BufferStep, buffers: Trajectory, iterations: int = 24, newest: bool = False
) -> Stretch:
    """C of the step at each buffer (b, K, c, *space), given in the units of the step.

    `newest` asks how much an error in the newest frame alone can grow in the newest frame: that
    is what a rollout does with a model's own error.
    """
    forward, backward = step.linearised(buffers)
    older = torch.zeros_like(buffers, dtype=torch.bool)
    older[:, :-1] = newest

    def gram(v: Trajectory) -> Trajectory:
        grown = forward(v.masked_fill(older, 0.0))
        return backward(grown.masked_fill(older, 0.0)).masked_fill(older, 0.0)

    return _lanczos(gram, buffers, iterations)


def growth_of_errors(
    stepper: AnyStepper,
    scale: Tensor,
    buffer: Trajectory,
    amplitude: float,
    steps: int,
    looks: Sequence[int] = (1, 4),
) -> np.ndarray:
    """G_0 … G_{steps−1} at a buffer (1, K, c, *space), the largest over some directions.

    `looks` are the numbers of steps over which the worst direction is searched for.
    """
    directions = [cosine_waves(buffer[0, -1], [1])]
    for look in (j for j in looks if j < steps):
        step = BufferStep(stepper, scale, look)
        worst = lipschitz(step, step.scaled(buffer), iterations=8, newest=True).directions
        directions.append(worst[:, -1].detach())
    found = growth_of_changes(stepper, scale, buffer, torch.cat(directions), amplitude, steps - 1)
    return np.concatenate([np.ones(1), found.max(axis=0)])


def growth_of_changes(
    stepper: AnyStepper,
    scale: Tensor,
    buffer: Trajectory,
    directions: Field,
    amplitude: float,
    steps: int,
) -> np.ndarray:
    """Growth of each direction (n, c, *space), in units of the scale, over 1 … steps steps."""
    scale = over_space(scale.to(buffer), buffer)
    # a direction that the step forgets at once comes back from the search as nothing
    directions = directions[size(directions) > 0]
    change = directions / _over(size(directions), directions)
    together = buffer.repeat(1 + len(change), *[1] * (buffer.dim() - 1))
    together[1:, -1] += amplitude * change * scale
    grown = [torch.empty(len(change), 0)]
    with torch.no_grad():
        for frame in frames(stepper, together, steps):
            grown.append(size((frame[1:] - frame[:1]) / scale)[:, None] / amplitude)
    values = torch.cat(grown, dim=1).double().numpy()
    return np.where(np.isfinite(values), values, np.inf)


def cosine_waves(frame: Field, wavenumbers: Sequence[int], axis: int = 0) -> Field:
    """A wave along one axis for each wavenumber and channel of a frame: (n·c, c, *space)."""
    c, *space = frame.shape
    x = (torch.arange(space[axis]).to(frame) + 0.5) / space[axis]
    in_channel = torch.eye(c).to(frame).view(c, c, *[1] * len(space))
    found = []
    for k in wavenumbers:
        line = torch.cos(2 * math.pi * int(k) * x + 0.3)
        line = line.view([-1 if a == axis else 1 for a in range(len(space))])
        found.append(in_channel * line.expand(space))
    return torch.cat(found)


def _lanczos(gram: _Tangent, like: Trajectory, iterations: int) -> Stretch:
    """The largest eigenvalue of JᵀJ for each sample, by Lanczos with full reorthogonalisation."""
    start = torch.randn(like.shape, generator=torch_stream(0, "lanczos")).to(like)
    # one product with JᵀJ brings the start into the space where the map acts at all
    start = gram(start)
    basis = [start / _over(_norm(start).clamp_min(1e-30), start)]
    alphas: list[Tensor] = []
    betas: list[Tensor] = []
    for _ in range(iterations):
        w = gram(basis[-1])
        alphas.append(_dot(w, basis[-1]))
        for _twice in range(2):
            for q in basis:
                w = w - q * _over(_dot(w, q), w)
        small = torch.diag_embed(torch.stack(alphas, dim=1).double())
        for i, beta in enumerate(betas):
            small[:, i, i + 1] = small[:, i + 1, i] = beta.double()
        if not torch.isfinite(small).all():
            raise ValueError(
                "the derivative of the step is NaN or infinite: the model has weights far out of "
                "bounds. Train it again, with a smaller learning rate."
            )
        values, vectors = torch.linalg.eigh(small)  # in ascending order
        betas.append(_norm(w))
        left = betas[-1].double() * vectors[:, -1, -1].abs()
        if bool((left <= _SURE * values[:, -1]).all()):
            break
        basis.append(w / _over(betas[-1].clamp_min(1e-30), w))
    direction = torch.zeros_like(like)
    for i, q in enumerate(basis[: len(alphas)]):
        direction = direction + q * _over(vectors[:, i, -1].to(q), q)
    return Stretch(values[:, -1].clamp_min(0).sqrt(), direction)


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a.flatten(1) * b.flatten(1)).sum(dim=1)


def _norm(v: Tensor) -> Tensor:
    return v.flatten(1).norm(dim=1)


def _over(number: Tensor, like: Tensor) -> Tensor:
    """One number a sample, ready to multiply a whole buffer."""
    return number.view(-1, *[1] * (like.dim() - 1))
