"""The control: FINO's encoder–decoder with plain blocks instead of FINO blocks.

    B(U) = φ( W_2 ∗ φ(W_1 ∗ U + b_1) + b_2 )        two stencils, no gate, no Euler step

Everything else is FINO's: levels, pooling, skips, head.  What FINO gains over it is what its
block is worth.
"""

from __future__ import annotations

from typing import Any, ClassVar

from torch import nn

from fino.locality import Locality
from fino.model.convolution import Convolution
from fino.model.fino import EncoderDecoder, EncoderDecoderSettings
from fino.model.network import ACTIVATIONS
from fino.shapes import Field

__all__ = ["Plain"]


class Plain(EncoderDecoder):
    """FINO's skeleton with blocks of two plain stencils: (b, inputs, *space) → (b, outputs, …).

    `EncoderDecoderSettings` lists all settings; the same values as for FINO are good.
    """

    paper: ClassVar[str] = (
        "a control: the skeleton of FINO (Cheng et al. 2025) with plain convolutions"
    )
    sizes: ClassVar[dict[str, dict[str, object]]] = {
        "small": {"width": 16, "levels": 1},
        "paper": {"width": 32, "levels": 2},
        "large": {"width": 64, "levels": 3},
    }
    shaped_by_data: ClassVar[bool] = True

    def __init__(self, **settings: Any) -> None:
        super().__init__(EncoderDecoderSettings(**settings), PlainBlock, "the plain network")


class PlainBlock(nn.Module):
    """Two stencils, each with an activation: (b, inputs, *space) → (b, outputs, *space)."""

    def __init__(
        self, inputs: int, features: int, outputs: int, settings: EncoderDecoderSettings
    ) -> None:
        super().__init__()
        self.first = Convolution(inputs, features, settings.radii, settings.boundaries)
        self.second = Convolution(features, outputs, settings.radii, settings.boundaries)
        self.activation = ACTIVATIONS[settings.activation]

    @property
    def locality(self) -> Locality:
        return self.first.locality.then(self.second.locality)

    def forward(self, u: Field) -> Field:
        return self.activation(self.second(self.activation(self.first(u))))
