"""FNO: lift, a few Fourier layers, project (Li et al. 2021, arXiv:2010.08895).

    v ← P u                                  lift, a matrix in every cell
    v ← σ( W v + b + F⁻¹ R F v )             Fourier layers; the last one without σ
    u ← Q₂ σ( Q₁ v )                         project

The sum over frequencies makes every cell depend on every other: its reach is infinite.  On an
axis that is not periodic, `padding` cells of zeros are put after the end, so that the period
that the transform assumes does not join the two edges.  Periodic axes get none: there the
network commutes with every shift.

With `channel_mlp` and `lift` it is the FNO of the neuraloperator library, whose layers add a
pointwise network and a second skip:

    v ← σ( M₂ σ( M₁ σ(W v + F⁻¹ R F v) ) + g ⊙ v )
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from pydantic import Field as Setting
from torch import Tensor, nn

from fino.locality import Locality
from fino.model.network import ACTIVATIONS, Activation, FourierSettings, check_field
from fino.model.spectral import Pointwise, SpectralConvolution, crop_right, pad_right
from fino.shapes import Field

__all__ = ["FNO", "FNOSettings", "FourierNetwork", "PointwiseNetwork"]


class FNOSettings(FourierSettings):
    """Everything that decides the shape of an FNO.

    `lift` is the hidden width of a two-layer lift (0: one matrix), `channel_mlp` the width of
    the pointwise network in each layer relative to `width` (0: none).
    """

    activation: Activation = "gelu"
    lift: int = Setting(0, ge=0)
    channel_mlp: float = Setting(0.0, ge=0)


class FourierNetwork(nn.Module):
    """Lift, layers, project: (b, inputs, *space) → (b, outputs, *space).

    `layer(last)` makes one layer; fields that have no period are padded between lift and project.
    """

    def __init__(
        self, settings: Any, title: str, lift: nn.Module, layer: Callable[[bool], nn.Module]
    ) -> None:
        super().__init__()
        self.settings, self.title, self.lift = settings, title, lift
        self.layers = nn.ModuleList(layer(i == settings.layers - 1) for i in range(settings.layers))
        activation = ACTIVATIONS[settings.activation]
        self.project = PointwiseNetwork(settings.width, settings.head, settings.outputs, activation)

    @property
    def locality(self) -> Locality:
        return Locality.everywhere(self.settings.dims)

    def forward(self, u: Field) -> Field:
        check_field(u, self.settings, self.title)
        v = pad_right(self.lift(u), self.settings.pads)
        for layer in self.layers:
            v = layer(v)
        return self.project(crop_right(v, self.settings.pads))


class FNO(FourierNetwork):
    """The Fourier neural operator: (b, inputs, *space) → (b, outputs, *space)."""

    paper: ClassVar[str] = "Li et al. 2021, Fourier Neural Operator for Parametric PDEs"
    sizes: ClassVar[dict[str, dict[str, Any]]] = {
        "small": {"width": 12, "modes": 8, "layers": 3, "head": 64},
        "paper": {"width": 20, "modes": 12, "layers": 4, "head": 128, "padding": 2},
        "large": {"width": 40, "modes": 16, "layers": 4, "head": 128},
    }

    def __init__(self, **settings: Any) -> None:
        s = FNOSettings(**settings)
        lift = PointwiseNetwork(s.inputs, s.lift, s.width, ACTIVATIONS[s.activation])
        super().__init__(s, "FNO", lift, lambda last: FourierLayer(s, last))


class FourierLayer(nn.Module):
    """σ(W v + K v), and on request a pointwise network behind it: (b, c, *space) → the same."""

    def __init__(self, settings: FNOSettings, last: bool) -> None:
        super().__init__()
        width = settings.width
        self.spectral = SpectralConvolution(width, width, settings.modes_per_axis)
        self.local = Pointwise(width, width)
        self.activation = None if last else ACTIVATIONS[settings.activation]
        self.mlp: PointwiseNetwork | None = None
        if settings.channel_mlp:
            hidden = max(1, round(settings.channel_mlp * width))
            self.mlp = PointwiseNetwork(width, hidden, width, ACTIVATIONS[settings.activation])
            self.gate = nn.Parameter(torch.ones(width, *[1] * settings.dims))

    def forward(self, v: Field) -> Field:
        mixed = self._activate(self.spectral(v) + self.local(v))
        if self.mlp is None:
            return mixed
        return self._activate(self.mlp(mixed) + self.gate * v)

    def _activate(self, v: Field) -> Field:
        return v if self.activation is None else self.activation(v)


class PointwiseNetwork(nn.Module):
    """Two matrices with σ between, in every cell; one matrix if nothing is hidden."""

    def __init__(
        self, inputs: int, hidden: int, outputs: int, activation: Callable[[Tensor], Tensor]
    ) -> None:
        super().__init__()
        self.activation = activation
        self.first = Pointwise(inputs, hidden) if hidden else None
        self.last = Pointwise(hidden or inputs, outputs)

    def forward(self, v: Field) -> Field:
        return self.last(v if self.first is None else self.activation(self.first(v)))
