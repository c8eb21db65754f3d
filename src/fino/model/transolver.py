"""Transolver: attention among slices of the domain, not among its cells (Wu et al. 2024,
arXiv:2402.02366).

    w   = softmax( S x / τ )                 each cell belongs a little to each slice
    z_g = Σ_x w_g(x) f(x) / Σ_x w_g(x)       a slice is the mean of its cells
    z   ← attention(z)                       slices talk to each other
    v(x) = Σ_g w_g(x) z_g                    and tell their cells

x and f are two projections of the field; on a regular grid they are stencils.  Slices gather
cells in a like state wherever they lie, so the reach is infinite, but the cost is linear in the
number of cells.  A block is v ← v + PhysicsAttention(LN v), v ← v + MLP(LN v).
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from pydantic import Field as Setting
from pydantic import ValidationInfo, field_validator
from torch import Tensor, nn

from fino.locality import Locality
from fino.model.convolution import Convolution
from fino.model.network import NetworkSettings, check_field
from fino.shapes import Field

__all__ = ["Transolver", "TransolverSettings"]


class TransolverSettings(NetworkSettings):
    """Everything that decides the shape of a Transolver.

    `radius` is that of the two projecting stencils, zero for the pointwise maps of unstructured
    meshes; `mlp` the hidden width of a block's network relative to `width`.
    """

    width: int = Setting(128, ge=1)
    layers: int = Setting(8, ge=1)
    heads: int = Setting(8, ge=1)
    slices: int = Setting(64, ge=1)
    mlp: int = Setting(1, ge=1)
    radius: int = Setting(1, ge=0)

    @field_validator("heads")
    @classmethod
    def _divides_the_width(cls, heads: int, info: ValidationInfo) -> int:
        width = info.data.get("width", heads)
        if width % heads:
            raise ValueError(f"heads should divide width = {width}, got {heads}.")
        return heads


class Transolver(nn.Module):
    """A transformer over learned slices: (b, inputs, *space) → (b, outputs, *space)."""

    paper: ClassVar[str] = (
        "Wu et al. 2024, Transolver: A Fast Transformer Solver for PDEs on General Geometries"
    )
    sizes: ClassVar[dict[str, dict[str, Any]]] = {
        "small": {"width": 32, "layers": 3, "heads": 4, "slices": 16},
        "paper": {"width": 128, "layers": 8, "heads": 8, "slices": 64},
        "large": {"width": 256, "layers": 8, "heads": 8, "slices": 64},
    }

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.settings = s = TransolverSettings(**settings)
        self.lift = mlp(s.inputs, 2 * s.width, s.width)
        self.blocks = nn.ModuleList(Block(s) for _ in range(s.layers))
        self.norm = nn.LayerNorm(s.width)
        self.project = nn.Linear(s.width, s.outputs)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.trunc_normal_(module.weight, std=0.02)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    @property
    def locality(self) -> Locality:
        return Locality.everywhere(self.settings.dims)

    def forward(self, u: Field) -> Field:
        check_field(u, self.settings, "Transolver")
        v = self.lift(u.movedim(1, -1))
        for block in self.blocks:
            v = block(v)
        return self.project(self.norm(v)).movedim(-1, 1)


class Block(nn.Module):
    """Attention and a network in every cell, each behind a layer norm and beside a skip.

    (b, *space, c) → (b, *space, c)
    """

    def __init__(self, settings: TransolverSettings) -> None:
        super().__init__()
        width = settings.width
        self.first_norm = nn.LayerNorm(width)
        self.attention = PhysicsAttention(settings)
        self.second_norm = nn.LayerNorm(width)
        self.network = mlp(width, settings.mlp * width, width)

    def forward(self, v_last: Tensor) -> Tensor:
        v_last = v_last + self.attention(self.first_norm(v_last))
        return v_last + self.network(self.second_norm(v_last))


class PhysicsAttention(nn.Module):
    """Slice, attend, tell: (b, *space, c) → (b, *space, c), channels last."""

    def __init__(self, settings: TransolverSettings) -> None:
        super().__init__()
        s = settings
        radius, each = (s.radius,) * s.dims, s.width // s.heads
        self.heads, self.each = s.heads, each
        self.temperature = nn.Parameter(torch.full((s.heads, 1, 1), 0.5))
        self.to_slice = Convolution(s.width, s.width, radius, s.boundaries)
        self.to_value = Convolution(s.width, s.width, radius, s.boundaries)
        self.slices = nn.Linear(each, s.slices)
        self.query = nn.Linear(each, each, bias=False)
        self.key = nn.Linear(each, each, bias=False)
        self.value = nn.Linear(each, each, bias=False)
        self.out = nn.Linear(s.width, s.width)

    def forward(self, v_last: Tensor) -> Tensor:
        u = v_last.movedim(-1, 1)
        values, features = self._per_head(self.to_value(u)), self._per_head(self.to_slice(u))
        membership = self.slices(features) / self.temperature.clamp(0.1, 5.0)
        membership = membership.softmax(dim=-1)
        weight = membership.sum(dim=2).unsqueeze(-1) + 1e-5
        tokens = membership.mT @ values / weight
        tokens = F.scaled_dot_product_attention(
            self.query(tokens), self.key(tokens), self.value(tokens)
        )
        told = membership @ tokens
        return self.out(told.transpose(1, 2).reshape(v_last.shape))

    def _per_head(self, u: Field) -> Tensor:
        """(b, heads · d, *space) → (b, heads, cells, d)"""
        cells = u.movedim(1, -1).flatten(1, -2)
        return cells.unflatten(-1, (self.heads, self.each)).transpose(1, 2)


def mlp(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    """Two matrices with a GELU between, over the last axis."""
    return nn.Sequential(nn.Linear(inputs, hidden), nn.GELU(), nn.Linear(hidden, outputs))
