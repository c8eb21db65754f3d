"""U-FNO: a small U-Net beside the Fourier transform in the last layers (Wen et al. 2022,
arXiv:2109.03697).

    v ← σ( W v + b + F⁻¹ R F v )                 the first layers, as in FNO
    v ← σ( W v + b + F⁻¹ R F v + U v )           the last `paths` layers
    u ← Q₂ σ( Q₁ v )

U halves the grid three times with strided stencils and comes back with transposed ones, at
constant width, the encoder's field beside it at every step.  It sees edges and fronts that the
few kept frequencies blur.  Every axis must be a multiple of eight; an axis that is not periodic
is padded until it is.

The paper puts a batch norm behind U's stencils; `norm="batch"` does so, the default does not
(see `unet.py` for why).
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field as Setting
from pydantic import ValidationInfo, field_validator
from torch import nn

from fino.locality import Locality
from fino.model.convolution import Convolution, Doubling, pad, stencil
from fino.model.fno import PointwiseNetwork
from fino.model.network import ACTIVATIONS, Activation, FourierSettings, check_field
from fino.model.spectral import Pointwise, SpectralConvolution, crop_right, pad_right
from fino.model.unet import batch_norm
from fino.shapes import Field

__all__ = ["UFNO", "UFNOSettings"]

#: The U-Net path halves the grid three times.
STRIDE = 8


class UFNOSettings(FourierSettings):
    """Everything that decides the shape of a U-FNO; `paths` layers have a U-Net path."""

    width: int = Setting(36, ge=1)
    modes: int | tuple[int, ...] = 10
    layers: int = Setting(6, ge=1)
    padding: int = Setting(8, ge=0)
    paths: int = Setting(3, ge=0)
    activation: Activation = "relu"
    norm: Literal["none", "batch"] = "none"

    @field_validator("paths")
    @classmethod
    def _at_most_the_layers(cls, paths: int, info: ValidationInfo) -> int:
        if paths > info.data.get("layers", paths):
            raise ValueError(
                f"paths should be at most layers = {info.data['layers']}, got {paths}."
            )
        return paths

    def pads_for(self, space: tuple[int, ...]) -> tuple[int, ...]:
        """Cells of zeros after the end of each axis, at least `padding`, up to a multiple of 8."""
        return tuple(p and p + -(n + p) % STRIDE for p, n in zip(self.pads, space, strict=True))


class UFNO(nn.Module):
    """The U-Net enhanced Fourier neural operator: (b, inputs, *space) → (b, outputs, *space)."""

    paper: ClassVar[str] = "Wen et al. 2022, U-FNO, for multiphase flow"
    sizes: ClassVar[dict[str, dict[str, Any]]] = {
        "small": {"width": 12, "modes": 8, "layers": 3, "paths": 1, "head": 64},
        "paper": {"width": 36, "modes": 10, "layers": 6, "paths": 3, "norm": "batch"},
        "large": {"width": 48, "modes": 16, "layers": 6, "paths": 3},
    }

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.settings = s = UFNOSettings(**settings)
        self.activation = ACTIVATIONS[s.activation]
        self.lift = Pointwise(s.inputs, s.width)
        self.spectral = nn.ModuleList(
            SpectralConvolution(s.width, s.width, s.modes_per_axis) for _ in range(s.layers)
        )
        self.local = nn.ModuleList(Pointwise(s.width, s.width) for _ in range(s.layers))
        self.paths = nn.ModuleList(UPath(s) for _ in range(s.paths))
        self.project = PointwiseNetwork(s.width, s.head, s.outputs, self.activation)

    @property
    def locality(self) -> Locality:
        stride = STRIDE if self.settings.paths else 1
        everywhere = Locality.everywhere(self.settings.dims)
        return Locality(everywhere.radius, (stride,) * self.settings.dims)

    def forward(self, u: Field) -> Field:
        s = self.settings
        check_field(u, s, "U-FNO")
        pads = s.pads_for(tuple(u.shape[2:])) if s.paths else s.pads
        v = pad_right(self.lift(u), pads)
        if s.paths and any(n % STRIDE for n in v.shape[2:]):
            raise ValueError(
                f"grid {tuple(u.shape[2:])} should be a multiple of {STRIDE} on every periodic "
                f"axis. Use another grid, or paths=0."
            )
        plain = s.layers - s.paths
        for layer, (spectral, local) in enumerate(zip(self.spectral, self.local, strict=True)):
            mixed = spectral(v) + local(v)
            v = self.activation(mixed if layer < plain else mixed + self.paths[layer - plain](v))
        return self.project(crop_right(v, pads))


class UPath(nn.Module):
    """Three halvings and back at constant width: (b, c, *space) → (b, c, *space)."""

    def __init__(self, settings: UFNOSettings) -> None:
        super().__init__()
        width, dims, boundary = settings.width, settings.dims, settings.boundaries
        self.first = Halving(settings, refine=False)
        self.second = Halving(settings, refine=True)
        self.third = Halving(settings, refine=True)
        self.from_third = Doubling(width, width, boundary, taps=4)
        self.from_second = Doubling(2 * width, width, boundary, taps=4)
        self.from_first = Doubling(2 * width, width, boundary, taps=4)
        self.out = Convolution(2 * width, width, (1,) * dims, boundary)

    def forward(self, v: Field) -> Field:
        first = self.first(v)
        second = self.second(first)
        third = self.third(second)
        up = torch.cat((second, _raise(self.from_third, third)), dim=1)
        up = torch.cat((first, _raise(self.from_second, up)), dim=1)
        up = torch.cat((v, _raise(self.from_first, up)), dim=1)
        return self.out(up)


def _raise(double: nn.Module, v: Field) -> Field:
    return F.leaky_relu(double(v), 0.1)


class Halving(nn.Module):
    """A stencil at every second cell, and one more on request: (b, c, *n) → (b, c, *(n / 2))."""

    def __init__(self, settings: UFNOSettings, refine: bool) -> None:
        super().__init__()
        plain = settings.norm == "none"
        stencils = [
            Convolution(
                settings.width, settings.width, (1,) * settings.dims, settings.boundaries, plain
            )
            for _ in range(1 + refine)
        ]
        self.stencils = nn.ModuleList(stencils)
        self.norms = nn.ModuleList(
            nn.Identity() if plain else batch_norm(settings.width, settings.dims) for _ in stencils
        )

    def forward(self, v: Field) -> Field:
        for index, (layer, norm) in enumerate(zip(self.stencils, self.norms, strict=True)):
            assert isinstance(layer, Convolution)
            padded = pad(v, layer.radius, layer.boundary)
            v = stencil(padded, layer.weight, layer.bias, stride=1 if index else 2)
            v = F.leaky_relu(norm(v), 0.1)
        return v
