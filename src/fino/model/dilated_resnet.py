"""The dilated ResNet of Stachenfeld et al. 2022: strictly local, far-seeing, no coarse grid.

    block    u + c₁ ∘ … ∘ c₇ (u)      cᵢ = stencil with dilation 1, 2, 4, 8, 4, 2, 1, then ReLU

An encoder stencil, some blocks, a decoder stencil.  Their model has four blocks of 48 channels,
predicts the change of the state, and is trained with noise of 0.01.
"""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field as Setting
from torch import nn

from fino.locality import Locality
from fino.model.convolution import Convolution, channels_last, pad, stencil
from fino.model.network import ACTIVATIONS, Activation, NetworkSettings, check_field
from fino.shapes import Field

__all__ = ["DilatedResNet", "DilatedResNetSettings"]


class DilatedResNetSettings(NetworkSettings):
    """The shape of a dilated ResNet.

    width        channels; 48 in the paper
    blocks       residual blocks; 4 in the paper
    dilations    cells between the taps of each stencil of a block
    """

    width: int = Setting(48, ge=1)
    blocks: int = Setting(4, ge=1)
    dilations: tuple[int, ...] = (1, 2, 4, 8, 4, 2, 1)
    activation: Activation = "relu"


class DilatedResNet(nn.Module):
    """Residual blocks of dilated stencils: (b, inputs, *space) → (b, outputs, *space)."""

    paper: ClassVar[str] = "Stachenfeld et al. 2022, Learned Coarse Models for Turbulence"
    sizes: ClassVar[dict[str, dict[str, Any]]] = {
        "small": {"width": 16, "blocks": 2, "dilations": (1, 2, 4, 2, 1)},
        "paper": {"width": 48, "blocks": 4},
        "large": {"width": 64, "blocks": 4},
    }

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.settings = s = DilatedResNetSettings(**settings)
        one = (1,) * s.dims
        self.encoder = Convolution(s.inputs, s.width, one, s.boundaries)
        self.blocks = nn.ModuleList(DilatedBlock(s) for _ in range(s.blocks))
        self.decoder = Convolution(s.width, s.outputs, one, s.boundaries)

    @property
    def locality(self) -> Locality:
        ends = self.encoder.locality.then(self.decoder.locality)
        block = Locality((sum(self.settings.dilations),) * self.settings.dims)
        return ends.then(block.repeated(self.settings.blocks))

    def forward(self, u: Field) -> Field:
        check_field(u, self.settings, "dilated ResNet")
        u = self.encoder(channels_last(u))
        for block in self.blocks:
            u = u + block(u)
        return self.decoder(u)


class DilatedBlock(nn.Module):
    """Stencils with growing and shrinking dilation, each followed by an activation."""

    def __init__(self, settings: DilatedResNetSettings) -> None:
        super().__init__()
        self.settings = settings
        self.stencils = nn.ModuleList(
            Convolution(settings.width, settings.width, (1,) * settings.dims, settings.boundaries)
            for _ in settings.dilations
        )
        self.activation = ACTIVATIONS[settings.activation]

    def forward(self, u: Field) -> Field:
        for layer, dilation in zip(self.stencils, self.settings.dilations, strict=True):
            padded = pad(u, (dilation,) * self.settings.dims, self.settings.boundaries)
            assert isinstance(layer, Convolution)
            u = self.activation(stencil(padded, *layer.weights, dilation=dilation))
        return u
