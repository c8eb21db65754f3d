"""U-Net in the size that PDEBench uses (Ronneberger et al. 2015, arXiv:1505.04597).

    encoder      two stencils of radius 1, then the maximum of two neighbours along each axis
    bottleneck   two stencils
    decoder      a transposed convolution to twice the cells, the encoder's field beside it,
                 two stencils

The width doubles with every level.  Everything is local, so the reach is finite, but wide: a
level doubles it.

Normalisation: PDEBench puts a batch norm behind every convolution.  While training, a batch
norm divides by statistics of the whole field and of the other samples, and the network is then
neither local nor a map of one sample; in use it divides by stored numbers and is local again.
The default is no normalisation, since the emulator scales its fields; `norm="batch"` is
PDEBench's, and `locality` says which of the two cases holds at the moment.

Activation: PDEBench's is tanh, which saturates and makes long training unstable where no norm
holds it; the default is GELU.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field as Setting
from torch import nn

from fino.locality import Locality
from fino.model.convolution import Convolution, Doubling, channels_last
from fino.model.network import ACTIVATIONS, Activation, NetworkSettings, check_field, check_halving
from fino.shapes import Field

__all__ = ["UNet", "UNetSettings", "batch_norm", "largest"]

_LARGEST = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
_BATCH_NORM = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}


class UNetSettings(NetworkSettings):
    """Everything that decides the shape of a U-Net."""

    width: int = Setting(32, ge=1)
    levels: int = Setting(4, ge=0)
    activation: Activation = "gelu"
    norm: Literal["none", "batch"] = "none"


class UNet(nn.Module):
    """The U-Net: (b, inputs, *space) → (b, outputs, *space).

    Every axis must be a multiple of 2^levels.
    """

    paper: ClassVar[str] = "Ronneberger et al. 2015, U-Net; as in PDEBench (Takamoto et al. 2022)"
    sizes: ClassVar[dict[str, dict[str, Any]]] = {
        "small": {"width": 8, "levels": 3},
        "paper": {"width": 32, "levels": 4, "activation": "tanh", "norm": "batch"},
        "large": {"width": 48, "levels": 4},
    }

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.settings = s = UNetSettings(**settings)
        widths = [s.width * 2**level for level in range(s.levels + 1)]
        ends = [s.inputs, *widths]
        self.encoder = nn.ModuleList(
            TwoStencils(a, b, s) for a, b in zip(ends, widths[:-1], strict=False)
        )
        self.bottleneck = TwoStencils(ends[s.levels], widths[-1], s)
        self.up = nn.ModuleList(Doubling(2 * w, w, s.boundaries) for w in widths[:-1])
        self.decoder = nn.ModuleList(TwoStencils(2 * w, w, s) for w in widths[:-1])
        self.head = Convolution(s.width, s.outputs, (0,) * s.dims, s.boundaries)

    @property
    def locality(self) -> Locality:
        """How far one step sees; everywhere while a batch norm takes live statistics."""
        if self.settings.norm == "batch" and self.training:
            return Locality.everywhere(self.settings.dims)
        two = Locality((2,) * self.settings.dims)
        reach = two
        for _ in range(self.settings.levels):
            reach = two.then(reach.below(2)).then(two)
        return reach

    def forward(self, u: Field) -> Field:
        check_field(u, self.settings, "U-Net")
        check_halving(u, self.settings.levels)
        u = channels_last(u)
        skips = []
        for stencils in self.encoder:
            u = stencils(u)
            skips.append(u)
            u = largest(u)
        u = self.bottleneck(u)
        for up, stencils, skip in zip(
            reversed(self.up), reversed(self.decoder), reversed(skips), strict=True
        ):
            u = stencils(torch.cat((up(u), skip), dim=1))
        return self.head(u)


class TwoStencils(nn.Module):
    """Twice a stencil of radius 1 and an activation: (b, inputs, *space) → (b, outputs, *space)."""

    def __init__(self, inputs: int, outputs: int, settings: UNetSettings) -> None:
        super().__init__()
        one, boundary, plain = (1,) * settings.dims, settings.boundaries, settings.norm == "none"
        self.first = Convolution(inputs, outputs, one, boundary, bias=plain)
        self.second = Convolution(outputs, outputs, one, boundary, bias=plain)
        self.first_norm = nn.Identity() if plain else batch_norm(outputs, settings.dims)
        self.second_norm = nn.Identity() if plain else batch_norm(outputs, settings.dims)
        self.activation = ACTIVATIONS[settings.activation]

    def forward(self, u: Field) -> Field:
        u = self.activation(self.first_norm(self.first(u)))
        return self.activation(self.second_norm(self.second(u)))


def largest(u: Field) -> Field:
    """The largest of each block of two cells along every axis: (b, c, *n) → (b, c, *(n / 2))."""
    return _LARGEST[u.dim() - 2](u, 2)


def batch_norm(channels: int, dims: int) -> nn.Module:
    """Batch normalisation for fields of `dims` axes."""
    return _BATCH_NORM[dims](channels)
