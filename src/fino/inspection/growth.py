"""How much small errors grow: in one step at worst, and over many steps as found by trying.

    C(x) = ‖J(x)‖₂ = σ_max( ∂F/∂x )          the Lipschitz constant at a buffer x
    G_j = max over small changes δ of the newest frame of ‖Ψ^j(x + δ) − Ψ^j(x)‖ / ‖δ‖

The largest singular value comes from Lanczos' refinement of the power iteration on JᵀJ: it
needs only products with J and Jᵀ, and approaches σ_max from below.

A model's own error enters through the newest frame, so Σ_j G_j says how errors add up; unlike C^j
it does not assume that every step stretches the same direction most.  The changes tried are the
directions that one step and a few steps stretch most, and the longest wave: on three shipped
models (shallow water, advection, compressible flow) shorter waves and the model's own errors grew
less.  Both numbers are the largest found at some states, not a bound for all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fino.inspection.step import BufferStep, Tangent, over_space, size
from fino.model.rollout import AnyStepper, frames
from fino.shapes import Field, Trajectory
from fino.streams import torch_stream

__all__ = [
    "cosine_waves",
    "growth_of_changes",
    "growth_of_errors",
    "lipschitz",
    "stretch_of_newest",
]

#: The search stops where its answer is this sure, as a share of the answer.
_SURE = 1e-3


@dataclass(frozen=True, eq=False)
class Stretch:
    """The largest singular value at each buffer (b,), and the change of the input it belongs to."""

    values: Tensor
    directions: Trajectory


def lipschitz(step: BufferStep, buffers: Trajectory, iterations: int = 24) -> Stretch:
    """C of the step at each buffer (b, K, c, *space), given in the units of the step."""
    forward, backward = step.linearised(buffers)
    return _lanczos(lambda v: backward(forward(v)), buffers, iterations)


def stretch_of_newest(step: BufferStep, buffers: Trajectory, iterations: int = 8) -> Stretch:
    """How much an error in the newest frame alone can grow in the newest frame `steps` later.

    A model's own error enters through the newest frame, so this is what a rollout does with it.
    """
    forward, backward = step.linearised(buffers)

    def newest(x: Trajectory) -> Trajectory:
        mask = torch.zeros_like(x)
        mask[:, -1] = x[:, -1]
        return mask

    return _lanczos(
        lambda v: newest(backward(newest(forward(newest(v))))), newest(buffers), iterations
    )


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
        worst = stretch_of_newest(step, step.scaled(buffer)).directions
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
    n = frame.shape[1 + axis]
    x = (torch.arange(n).to(frame) + 0.5) / n
    found = []
    for k in wavenumbers:
        line = torch.cos(2 * math.pi * int(k) * x + 0.3)
        line = line.view([n if a == axis else 1 for a in range(frame.dim() - 1)])
        for channel in range(len(frame)):
            change = torch.zeros_like(frame)
            change[channel] = line.expand(frame.shape[1:])
            found.append(change)
    return torch.stack(found)


def _lanczos(gram: Tangent, like: Trajectory, iterations: int) -> Stretch:
    """The largest eigenvalue of JᵀJ for each sample, by Lanczos with full reorthogonalisation."""
    start = torch.randn(like.shape, generator=torch_stream(0, "lanczos")).to(like)
    # one product with JᵀJ brings the start into the space where the map acts at all
    start = gram(start)
    basis = [start / _over(_norm(start).clamp_min(1e-30), start)]
    alphas: list[Tensor] = []
    betas: list[Tensor] = []
    for _ in range(max(1, iterations)):
        w = gram(basis[-1])
        alphas.append(_dot(w, basis[-1]))
        for _twice in range(2):
            for q in basis:
                w = w - q * _over(_dot(w, q), w)
        betas.append(_norm(w))
        values, vectors = _tridiagonal(alphas, betas)
        left = betas[-1].double() * vectors[:, -1, -1].abs()
        if bool((left <= _SURE * values[:, -1]).all()):
            break
        basis.append(w / _over(betas[-1].clamp_min(1e-30), w))
    direction = sum(
        (q * _over(vectors[:, i, -1].to(q), q) for i, q in enumerate(basis[: len(alphas)])),
        torch.zeros_like(like),
    )
    return Stretch(values[:, -1].clamp_min(0).sqrt(), direction)


def _tridiagonal(alphas: list[Tensor], betas: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Eigenvalues (b, n) and eigenvectors (b, n, n) of the small matrices, in ascending order."""
    small = torch.diag_embed(torch.stack(alphas, dim=1).double())
    for i, beta in enumerate(betas[: len(alphas) - 1]):
        small[:, i, i + 1] = small[:, i + 1, i] = beta.double()
    values, vectors = torch.linalg.eigh(small)
    return values, vectors


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a.flatten(1) * b.flatten(1)).sum(dim=1)


def _norm(v: Tensor) -> Tensor:
    return v.flatten(1).norm(dim=1)


def _over(number: Tensor, like: Tensor) -> Tensor:
    """One number a sample, ready to multiply a whole buffer."""
    return number.view(-1, *[1] * (like.dim() - 1))
