"""F-FNO: Fourier layers factorised over the axes (Tran et al. 2023, arXiv:2111.13802).

    K v = Σ_axis F⁻¹_axis( R_axis · F_axis v )            one transform an axis, added up
    v   ← v + W₂ σ( W₁ K v + b₁ ) + b₂                    the residual comes after σ
    u   ← Q₂ σ( Q₁ v )

A factorised layer has modes · width² weights an axis where FNO has (modes · width)² of them in
two dimensions, and the residual lets many layers be stacked.  With `shared`, all layers use the
same R, as the paper does for time-dependent problems.  With `weight_norm`, each row of a matrix
is a direction times a learned length.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from pydantic import Field as Setting
from torch import Tensor, nn

from fino.locality import Locality
from fino.model.network import ACTIVATIONS, Activation, FourierSettings, check_field
from fino.model.spectral import Pointwise, crop_right, multiply_axis, pad_right
from fino.shapes import Field

__all__ = ["FFNO", "FFNOSettings"]


class FFNOSettings(FourierSettings):
    """Everything that decides the shape of an F-FNO.

    `factor` is the hidden width of a layer's pointwise network relative to `width`.
    """

    width: int = Setting(64, ge=1)
    modes: int | tuple[int, ...] = 16
    factor: int = Setting(4, ge=1)
    shared: bool = True
    weight_norm: bool = False
    activation: Activation = "relu"


class FFNO(nn.Module):
    """The factorised Fourier neural operator: (b, inputs, *space) → (b, outputs, *space)."""

    paper: ClassVar[str] = "Tran et al. 2023, Factorized Fourier Neural Operators"
    sizes: ClassVar[dict[str, dict[str, Any]]] = {
        "small": {"width": 24, "modes": 12, "layers": 3, "factor": 2, "head": 64},
        "paper": {"width": 64, "modes": 16, "layers": 4, "factor": 4, "weight_norm": True},
        "large": {"width": 64, "modes": 16, "layers": 12, "factor": 4},
    }

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.settings = s = FFNOSettings(**settings)
        self.activation = ACTIVATIONS[s.activation]
        self.lift = matrix(s.inputs, s.width, s.weight_norm)
        # Kept here and not in the layers: layers that share them would save them twice.
        self.spectral = nn.ModuleList(
            AxisWeights(s.width, s.modes_per_axis, gain=0.1 if s.shared else 1.0)
            for _ in range(1 if s.shared else s.layers)
        )
        self.expand = nn.ModuleList(
            matrix(s.width, s.factor * s.width, s.weight_norm) for _ in range(s.layers)
        )
        self.contract = nn.ModuleList(
            matrix(s.factor * s.width, s.width, s.weight_norm) for _ in range(s.layers)
        )
        self.head = matrix(s.width, s.head, s.weight_norm)
        self.project = matrix(s.head, s.outputs, s.weight_norm)

    @property
    def locality(self) -> Locality:
        return Locality.everywhere(self.settings.dims)

    def forward(self, u: Field) -> Field:
        s = self.settings
        check_field(u, s, "F-FNO")
        v = pad_right(self.lift(u), s.pads)
        for layer in range(s.layers):
            mixed = self.spectral[0 if s.shared else layer](v)
            v = v + self.contract[layer](self.activation(self.expand[layer](mixed)))
        v = crop_right(v, s.pads)
        return self.project(self.activation(self.head(v)))


class AxisWeights(nn.Module):
    """Σ_axis F⁻¹ R F, one transform an axis: (b, c, *space) → (b, c, *space)."""

    def __init__(self, width: int, modes: tuple[int, ...], gain: float) -> None:
        super().__init__()
        self.weights = nn.ParameterList(
            torch.randn(2, m, width, width) * gain * (2 / (2 * width * 2 * m)) ** 0.5 for m in modes
        )

    def forward(self, v: Field) -> Field:
        parts = []
        for axis, weight in enumerate(self.weights, start=2):
            spectrum = torch.fft.rfft(v, dim=axis)
            kept = min(weight.shape[1], spectrum.shape[axis])
            product = multiply_axis(spectrum.narrow(axis, 0, kept), weight[:, :kept], axis)
            parts.append(torch.fft.irfft(product, n=v.shape[axis], dim=axis))
        return torch.stack(parts).sum(dim=0) if len(parts) > 1 else parts[0]


class NormedPointwise(nn.Module):
    """A matrix whose rows are directions times lengths: (b, i, *space) → (b, o, *space)."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.inner = Pointwise(inputs, outputs)
        self.length = nn.Parameter(self.inner.weight.detach().norm(dim=1, keepdim=True))

    def forward(self, v: Field) -> Field:
        return self.inner.apply_weight(v, self._weight())

    def _weight(self) -> Tensor:
        return self.length * F.normalize(self.inner.weight, dim=1)


def matrix(inputs: int, outputs: int, weight_norm: bool) -> nn.Module:
    """A pointwise linear map, with or without weight normalisation."""
    return NormedPointwise(inputs, outputs) if weight_norm else Pointwise(inputs, outputs)
