"""LocalFNO: FNO with derivatives and local integrals beside the transform (Liu-Schiaffini et
al. 2024, arXiv:2402.16845).

    v ← σ( W v + b + F⁻¹ R F v + D v + I v )

    D v (x) = (unit / h) Σ_p w_p v(x + p)       Σ_p w_p = 0      a stencil, a derivative as h → 0
    I v (x) = ∫_{|y| < radius} κ(y) v(x + y) dy                  a kernel of fixed physical size

Both keep their meaning when the grid is refined, which a plain convolution does not: its
stencil shrinks to a point.  The kernel κ is a sum of hat functions on rings and directions
with learned weights; on the grid the integral becomes a stencil whose size is radius / h.

Lengths are fractions of the last axis, and cells are taken to be cubes.  `unit` is the length
in which derivatives are measured; it sets the size of D v at the start and nothing else.  The
integral is defined in the plane: in one and three dimensions the layer has D alone.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from pydantic import Field as Setting
from torch import Tensor, nn

from fino.model.convolution import pad, stencil
from fino.model.fno import FourierNetwork
from fino.model.network import ACTIVATIONS, Activation, FourierSettings
from fino.model.spectral import Pointwise, SpectralConvolution, crop_right, pad_right
from fino.shapes import Field

__all__ = ["LocalFNO", "LocalFNOSettings"]


class LocalFNOSettings(FourierSettings):
    """Everything that decides the shape of a LocalFNO.

    `stencil_radius` is D's in cells; `radius` and `unit` are fractions of the last axis; the
    kernel of I has `rings` rings (the innermost is its centre) of `directions` hats each.
    """

    activation: Activation = "gelu"
    stencil_radius: int = Setting(1, ge=1)
    unit: float = Setting(1 / 64, gt=0)
    radius: float = Setting(3 / 64, gt=0, lt=0.5)
    rings: int = Setting(2, ge=1)
    directions: int = Setting(4, ge=1, le=8)
    integral: bool = True


class LocalFNO(FourierNetwork):
    """FNO with localised kernels: (b, inputs, *space) → (b, outputs, *space)."""

    paper: ClassVar[str] = (
        "Liu-Schiaffini et al. 2024, Neural Operators with Localized Integral and Differential "
        "Kernels"
    )
    sizes: ClassVar[dict[str, dict[str, Any]]] = {
        "small": {"width": 12, "modes": 8, "layers": 3, "head": 64},
        "paper": {"width": 20, "modes": 12, "layers": 4},
        "large": {"width": 40, "modes": 16, "layers": 4},
    }

    def __init__(self, **settings: Any) -> None:
        s = LocalFNOSettings(**settings)
        lift = Pointwise(s.inputs, s.width)
        super().__init__(s, "LocalFNO", lift, lambda last: LocalLayer(s, last))


class LocalLayer(nn.Module):
    """σ(W v + K v + D v + I v), the last without σ: (b, c, *space) → (b, c, *space)."""

    def __init__(self, settings: LocalFNOSettings, last: bool) -> None:
        super().__init__()
        width, boundary = settings.width, settings.boundaries
        self.pads = settings.pads
        self.activation = None if last else ACTIVATIONS[settings.activation]
        self.spectral = SpectralConvolution(width, width, settings.modes_per_axis)
        self.local = Pointwise(width, width)
        self.differential = DifferentialKernel(
            width, width, settings.stencil_radius, boundary, settings.unit
        )
        self.integral = (
            IntegralKernel(width, settings.radius, settings.rings, settings.directions, boundary)
            if settings.integral and settings.dims == 2
            else None
        )

    def forward(self, v: Field) -> Field:
        # The local kernels meet the boundary itself, not the zeros that pad it.
        inside = crop_right(v, self.pads)
        spacing = 1 / inside.shape[-1]
        near = self.differential(inside, spacing)
        if self.integral is not None:
            near = near + self.integral(inside, spacing)
        mixed = self.spectral(v) + self.local(v) + pad_right(near, self.pads)
        return mixed if self.activation is None else self.activation(mixed)


class DifferentialKernel(nn.Module):
    """A stencil whose weights sum to zero, divided by the spacing: a first derivative.

        D v (x) = (unit / h) Σ_p w_p ( v(x + p) − v(x) )

    (b, inputs, *space) → (b, outputs, *space)
    """

    def __init__(
        self, inputs: int, outputs: int, radius: int, boundary: tuple[str, ...], unit: float
    ) -> None:
        super().__init__()
        self.radius = (radius,) * len(boundary)
        self.boundary = boundary
        self.unit = unit
        self.weight = nn.Parameter(torch.empty(outputs, inputs, *(2 * r + 1 for r in self.radius)))
        bound = self.weight[0].numel() ** -0.5
        nn.init.uniform_(self.weight, -bound, bound)

    def forward(self, v: Field, spacing: float) -> Field:
        kernel = self.centred() * (self.unit / spacing)
        return stencil(pad(v, self.radius, self.boundary), kernel)

    def centred(self) -> Tensor:
        """The weights with their sum taken off the centre: (o, i, *taps), each summing to zero."""
        taps = self.weight.flatten(start_dim=2)
        middle = torch.zeros_like(taps[0, 0])
        middle[len(middle) // 2] = 1
        return (taps - taps.sum(dim=2, keepdim=True) * middle).view_as(self.weight)


class IntegralKernel(nn.Module):
    """A learned kernel of fixed physical radius in the plane: (b, c, *space) → (b, c, *space).

        I v (x) = Σ_j θ_j Σ_p q φ_j(p h) v(x + p)

    The hats φ_j are normalised on the grid, q Σ_p φ_j(p h) = 1, so that each is a local mean
    and a constant field stays what it is at every resolution.
    """

    def __init__(
        self, width: int, radius: float, rings: int, directions: int, boundary: tuple[str, ...]
    ) -> None:
        super().__init__()
        self.radius, self.rings, self.directions = radius, rings, directions
        self.boundary = boundary
        count = 1 + (rings - 1) * directions
        self.weight = nn.Parameter(torch.randn(width, width, count) / math.sqrt(width * count))
        self.bias = nn.Parameter(torch.zeros(width))
        self._hats: dict[tuple[float, torch.dtype, torch.device], Tensor] = {}

    def forward(self, v: Field, spacing: float) -> Field:
        hats = self.hats(spacing, v)
        cells = hats.shape[-1] // 2
        kernel = torch.tensordot(self.weight, hats, dims=1)
        return stencil(pad(v, (cells, cells), self.boundary), kernel, self.bias)

    def hats(self, spacing: float, like: Tensor) -> Tensor:
        """The hat functions on the grid's taps: (j, k, k), each summing to one."""
        key = (spacing, like.dtype, like.device)
        if key not in self._hats:
            hats = hats_on_rings(self.radius / spacing, self.rings, self.directions)
            self._hats[key] = hats.to(like)
        return self._hats[key]


def hats_on_rings(radius: float, rings: int, directions: int) -> Tensor:
    """Hat functions over rings and directions within `radius` cells: (j, k, k), each of sum one.

    Ring i lies at i · radius / rings and fades to zero over one ring's width on either side; the
    innermost is the centre and has no direction.  Rings are kept at least three quarters of a
    cell apart, or some would hold no cell.
    """
    radius = max(radius, 0.75 * max(rings, 2))
    step = radius / rings
    # The last cell that a hat gives a weight to; at the radius itself all of them are zero.
    cells = math.ceil(radius - 1e-9) - 1
    taps = torch.arange(-cells, cells + 1, dtype=torch.float64)
    y, x = torch.meshgrid(taps, taps, indexing="ij")
    distance, angle = torch.hypot(x, y), torch.atan2(y, x)
    hats = [(1 - distance / step).clamp_min(0)]
    width = 2 * math.pi / directions
    for ring in range(1, rings):
        along = (1 - (distance - ring * step).abs() / step).clamp_min(0)
        for direction in range(directions):
            turn = torch.remainder(angle - direction * width + math.pi, 2 * math.pi) - math.pi
            around = (1 - turn.abs() / width).clamp_min(0) if directions > 1 else 1.0
            hats.append(along * around)
    stacked = torch.stack(hats)
    return stacked / stacked.sum(dim=(1, 2), keepdim=True)
