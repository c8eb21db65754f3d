"""How much one step can stretch a small error: the Lipschitz constant, measured from below.

    C(x) = ‖J(x)‖₂ = σ_max( ∂F/∂x )          C ≈ max over the buffers of a trajectory

The largest singular value comes from Lanczos' refinement of the power iteration on JᵀJ: it
needs only products with J and Jᵀ, and approaches σ_max from below.  A number measured at some
states is no bound for all states: it is evidence, not a proof.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fino.inspection.step import BufferStep, Tangent
from fino.shapes import Trajectory
from fino.streams import torch_stream

__all__ = ["Stretch", "lipschitz", "stretch_of_newest"]


@dataclass(frozen=True, eq=False)
class Stretch:
    """The largest singular value at each buffer, and the change of the input that it belongs to.

    `uncertain` bounds how far the iteration was from having converged.
    """

    values: Tensor
    directions: Trajectory
    uncertain: Tensor

    @property
    def largest(self) -> float:
        return float(self.values.max())


def lipschitz(
    step: BufferStep, buffers: Trajectory, iterations: int = 24, seed: int = 0
) -> Stretch:
    """C of the step at each buffer (b, K, c, *space), given in the units of the step."""
    forward, backward = step.linearised(buffers)
    return _lanczos(lambda v: backward(forward(v)), buffers, iterations, seed)


def stretch_of_newest(
    step: BufferStep, buffers: Trajectory, iterations: int = 8, seed: int = 0
) -> Stretch:
    """How much an error in the newest frame alone can grow in the newest frame `steps` later.

    A model's own error enters through the newest frame, so this is what a rollout does with it.
    """
    forward, backward = step.linearised(buffers)

    def newest(x: Trajectory) -> Trajectory:
        mask = torch.zeros_like(x)
        mask[:, -1] = x[:, -1]
        return mask

    return _lanczos(
        lambda v: newest(backward(newest(forward(newest(v))))), newest(buffers), iterations, seed
    )


def _lanczos(gram: Tangent, like: Trajectory, iterations: int, seed: int) -> Stretch:
    """The largest eigenvalue of JᵀJ for each sample, by Lanczos with full reorthogonalisation."""
    batch = like.shape[0]
    start = torch.randn(like.shape, generator=torch_stream(seed, "lanczos"))
    # one product with JᵀJ brings the start into the space where the map acts at all
    v = _unit(gram(start.to(like)))
    basis, alphas, betas = [v], [], []
    for _ in range(max(1, iterations)):
        w = gram(basis[-1])
        alphas.append(_dot(w, basis[-1]))
        for _twice in range(2):
            for q in basis:
                w = w - q * _over(_dot(w, q), w)
        beta = w.flatten(1).norm(dim=1)
        betas.append(beta)
        if float(beta.max()) <= 1e-7 * max(1e-30, float(torch.stack(alphas).abs().max())):
            break
        basis.append(w / _over(beta.clamp_min(1e-30), w))
    count = len(alphas)
    small = torch.zeros(batch, count, count, dtype=torch.float64)
    for i in range(count):
        small[:, i, i] = alphas[i].double()
        if i + 1 < count:
            small[:, i, i + 1] = small[:, i + 1, i] = betas[i].double()
    values, vectors = torch.linalg.eigh(small)
    top = values[:, -1].clamp_min(0).sqrt()
    residual = betas[-1].double() * vectors[:, -1, -1].abs()
    direction = sum(
        (q * _over(vectors[:, i, -1].to(q), q) for i, q in enumerate(basis[:count])),
        torch.zeros_like(like),
    )
    return Stretch(top, direction, residual / (2 * top).clamp_min(1e-30))


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a.flatten(1) * b.flatten(1)).sum(dim=1)


def _over(number: Tensor, like: Tensor) -> Tensor:
    """One number a sample, ready to multiply a whole buffer."""
    return number.view(-1, *[1] * (like.dim() - 1))


def _unit(v: Tensor) -> Tensor:
    return v / _over(v.flatten(1).norm(dim=1).clamp_min(1e-30), v)
