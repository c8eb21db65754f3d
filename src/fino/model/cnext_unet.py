"""CNextU-Net: ConvNeXt blocks in a U-Net, the strongest baseline of The Well on most of its sets.

    block    u + γ ⊙ W_2 GELU(W_1 LayerNorm(depthwise 7-stencil(u)))      W_1 widens fourfold
    down     LayerNorm, then a 2-strided stencil of two cells, twice the channels
    up       LayerNorm, then its transpose; the skip is concatenated and projected

The norm is over the channels of a cell alone, so the network is strictly local.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from pydantic import Field as Setting
from torch import nn

from fino.locality import Locality
from fino.model.convolution import Convolution, channels_last, pad, stencil, transposed
from fino.model.network import NetworkSettings, check_field, check_halving
from fino.shapes import Field

__all__ = ["CNextUNet", "CNextUNetSettings"]


class CNextUNetSettings(NetworkSettings):
    """The shape of a CNextU-Net.

    width        channels at the finest level, doubled at each level; 42 in The Well
    levels       how often the grid is halved; 4 in The Well, which has finer grids
    blocks       ConvNeXt blocks at each level; 2 in The Well
    radius       reach of the depthwise stencil; 3
    layer_scale  first value of γ; 1e-6 in ConvNeXt, larger ones learn sooner
    """

    width: int = Setting(32, ge=1)
    levels: int = Setting(3, ge=0)
    blocks: int = Setting(2, ge=1)
    radius: int = Setting(3, ge=1)
    layer_scale: float = Setting(1e-6, gt=0)


class CNextUNet(nn.Module):
    """ConvNeXt blocks in an encoder–decoder: (b, inputs, *space) → (b, outputs, *space).

    Every axis must be a multiple of 2^levels.
    """

    paper: ClassVar[str] = "Ohana et al. 2024, The Well (CNextU-Net); Liu et al. 2022, ConvNeXt"
    sizes: ClassVar[dict[str, dict[str, Any]]] = {
        "small": {"width": 12, "levels": 2, "blocks": 1},
        "paper": {"width": 42, "levels": 3, "blocks": 2},
        "large": {"width": 64, "levels": 3, "blocks": 2},
    }

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.settings = s = CNextUNetSettings(**settings)
        one, pointwise = (1,) * s.dims, (0,) * s.dims
        widths = [s.width * 2**level for level in range(s.levels + 1)]
        self.enter = Convolution(s.inputs, s.width, one, s.boundaries)
        self.encoder = nn.ModuleList(_stack(w, s) for w in widths[:-1])
        self.down = nn.ModuleList(Resample(w, 2 * w, s.dims) for w in widths[:-1])
        self.bottleneck = _stack(widths[-1], s)
        self.up = nn.ModuleList(Resample(2 * w, w, s.dims, up=True) for w in widths[:-1])
        self.join = nn.ModuleList(
            Convolution(2 * w, w, pointwise, s.boundaries) for w in widths[:-1]
        )
        self.decoder = nn.ModuleList(_stack(w, s) for w in widths[:-1])
        self.leave = Convolution(s.width, s.outputs, one, s.boundaries)

    @property
    def locality(self) -> Locality:
        s = self.settings
        stack = Locality((s.radius,) * s.dims).repeated(s.blocks)
        reach = stack
        for _ in range(s.levels):
            reach = stack.then(reach.below(2)).then(stack)
        return self.enter.locality.then(reach).then(self.leave.locality)

    def forward(self, u: Field) -> Field:
        check_field(u, self.settings, "CNextU-Net")
        check_halving(u, self.settings.levels)
        u = self.enter(channels_last(u))
        skips = []
        for blocks, down in zip(self.encoder, self.down, strict=True):
            u = blocks(u)
            skips.append(u)
            u = down(u)
        u = self.bottleneck(u)
        levels = zip(self.up, self.join, self.decoder, skips, strict=True)
        for up, join, blocks, skip in reversed(list(levels)):
            u = blocks(join(torch.cat((up(u), skip), dim=1)))
        return self.leave(u)


def _stack(width: int, settings: CNextUNetSettings) -> nn.Sequential:
    return nn.Sequential(*(ConvNextBlock(width, settings) for _ in range(settings.blocks)))


class ConvNextBlock(nn.Module):
    """A depthwise stencil, a norm over channels, a pointwise network, added to its input."""

    def __init__(self, width: int, settings: CNextUNetSettings) -> None:
        super().__init__()
        self.settings = settings
        taps = 2 * settings.radius + 1
        bound = taps ** (-settings.dims / 2)
        self.weight = nn.Parameter(
            torch.empty(width, 1, *[taps] * settings.dims).uniform_(-bound, bound)
        )
        self.bias = nn.Parameter(torch.zeros(width))
        self.norm = nn.LayerNorm(width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((width,), settings.layer_scale))

    def forward(self, u: Field) -> Field:
        s = self.settings
        padded = pad(u, (s.radius,) * s.dims, s.boundaries)
        v = stencil(padded, self.weight, self.bias, groups=u.shape[1])
        v = self.norm(v.movedim(1, -1))
        v = self.scale * self.narrow(F.gelu(self.widen(v)))
        return u + v.movedim(-1, 1)


class Resample(nn.Module):
    """A norm over channels, then half or twice the cells along every axis."""

    def __init__(self, inputs: int, outputs: int, dims: int, up: bool = False) -> None:
        super().__init__()
        self.norm, self.up = nn.LayerNorm(inputs), up
        bound = (inputs * 2**dims) ** -0.5
        channels = (inputs, outputs) if up else (outputs, inputs)
        self.weight = nn.Parameter(torch.empty(*channels, *[2] * dims).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, u: Field) -> Field:
        u = self.norm(u.movedim(1, -1)).movedim(-1, 1)
        resample = transposed if self.up else stencil
        return resample(u, self.weight, self.bias, stride=2)
