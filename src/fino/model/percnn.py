"""PeRCNN's product block (Rao et al. 2023): stencils multiplied, exact for polynomial reactions.

    y = W_o ∗ ( s₁ ⊙ s₂ ⊙ … ⊙ s_n ) + w ∗ u        sᵢ = wᵢ ∗ u + bᵢ

A product of n stencils is a polynomial of degree n in the fields and their differences; the
last term is a linear scheme.  Strictly local, and it sees one stencil far.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from pydantic import Field as Setting
from torch import nn

from fino.locality import Locality
from fino.model.convolution import Convolution, channels_last
from fino.model.network import NetworkSettings, check_field
from fino.shapes import Field

__all__ = ["PeRCNN", "PeRCNNSettings"]


class PeRCNNSettings(NetworkSettings):
    """The shape of a product block.

    width        products; 16 in the paper
    factors      stencils that are multiplied; 3 for a cubic reaction
    radius       cells that a stencil reaches; 2 in the paper
    """

    width: int = Setting(16, ge=1)
    factors: int = Setting(3, ge=1)
    radius: int = Setting(2, ge=1)


class PeRCNN(nn.Module):
    """One product block: (b, inputs, *space) → (b, outputs, *space)."""

    paper: ClassVar[str] = "Rao et al. 2023, Encoding physics to learn reaction–diffusion processes"
    sizes: ClassVar[dict[str, dict[str, Any]]] = {
        "small": {"width": 8},
        "paper": {"width": 16},
        "large": {"width": 64},
    }

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.settings = s = PeRCNNSettings(**settings)
        radius, pointwise = (s.radius,) * s.dims, (0,) * s.dims
        self.stencils = nn.ModuleList(
            Convolution(s.inputs, s.width, radius, s.boundaries) for _ in range(s.factors)
        )
        self.combine = Convolution(s.width, s.outputs, pointwise, s.boundaries)
        self.linear = Convolution(s.inputs, s.outputs, radius, s.boundaries, bias=False)

    @property
    def locality(self) -> Locality:
        return self.linear.locality

    def forward(self, u: Field) -> Field:
        check_field(u, self.settings, "PeRCNN")
        u = channels_last(u)
        product = torch.stack([stencil(u) for stencil in self.stencils]).prod(dim=0)
        return self.combine(product) + self.linear(u)
