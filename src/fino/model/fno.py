"""FNO: lift, a few Fourier layers, project (Li et al. 2021, arXiv:2010.08895).

    v ← P u                                  lift, a matrix at every cell
    v ← σ( W v + b + F⁻¹ R F v )             Fourier layers; the last one without σ
    u ← Q₂ σ( Q₁ v )                         project

The sum over frequencies makes every cell depend on every other: its reach is infinite.  On an
axis that is not periodic, `padding` cells of zeros are put after the end, so that the period
that the transform assumes does not join the two edges.  Periodic axes get none: there the
network commutes with every shift.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch.nn.functional as F
from pydantic import Field as Setting
from pydantic import ValidationInfo, field_validator
from torch import nn

from fino.grid import boundary_per_axis
from fino.locality import Locality
from fino.model.spectral import Pointwise, SpectralConvolution, crop_right, pad_right
from fino.settings import Settings
from fino.shapes import Field, expect

__all__ = ["FNO", "FNOSettings"]


class FNOSettings(Settings):
    """Everything that an FNO is built from."""

    dims: int = Setting(ge=1, le=3)
    inputs: int = Setting(ge=1)
    outputs: int = Setting(ge=1)
    boundary: str | tuple[str, ...] = "periodic"
    width: int = Setting(20, ge=1)
    modes: int | tuple[int, ...] = 12
    layers: int = Setting(4, ge=1)
    head: int = Setting(128, ge=1)
    padding: int = Setting(2, ge=0)

    @field_validator("boundary")
    @classmethod
    def _one_boundary_an_axis(cls, value: Any, info: ValidationInfo) -> tuple[str, ...]:
        return boundary_per_axis(value, info.data.get("dims", len(value)))

    @field_validator("modes")
    @classmethod
    def _one_count_an_axis(cls, value: Any, info: ValidationInfo) -> tuple[int, ...]:
        dims = info.data.get("dims", 1)
        modes = (value,) * dims if isinstance(value, int) else tuple(value)
        if len(modes) != dims or min(modes) < 1:
            raise ValueError(
                f"modes should be one positive number or one for each of {dims} axes, got {value}."
            )
        return modes

    @property
    def pads(self) -> tuple[int, ...]:
        """Cells of zeros after the end of each axis: none where the boundary is periodic."""
        return tuple(0 if name == "periodic" else self.padding for name in self.boundary)


class FNO(nn.Module):
    """The Fourier neural operator: (b, inputs, *space) → (b, outputs, *space)."""

    paper: ClassVar[str] = (
        "Li et al., Fourier Neural Operator for Parametric Partial Differential Equations, "
        "ICLR 2021"
    )
    sizes: ClassVar[dict[str, dict[str, Any]]] = {
        "small": {"width": 12, "modes": 8, "layers": 3, "head": 64},
        "paper": {"width": 20, "modes": 12, "layers": 4, "head": 128, "padding": 2},
        "large": {"width": 40, "modes": 16, "layers": 4, "head": 128},
    }

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.settings = s = FNOSettings(**settings)
        assert isinstance(s.modes, tuple)
        self.lift = Pointwise(s.inputs, s.width)
        self.spectral = nn.ModuleList(
            SpectralConvolution(s.width, s.width, s.modes) for _ in range(s.layers)
        )
        self.local = nn.ModuleList(Pointwise(s.width, s.width) for _ in range(s.layers))
        self.head = Pointwise(s.width, s.head)
        self.project = Pointwise(s.head, s.outputs)

    @property
    def locality(self) -> Locality:
        return Locality.everywhere(self.settings.dims)

    def forward(self, u: Field) -> Field:
        s = self.settings
        expect(u, "b c *space", name="FNO's input", c=s.inputs)
        v = pad_right(self.lift(u), s.pads)
        for layer, (spectral, local) in enumerate(zip(self.spectral, self.local, strict=True)):
            v = spectral(v) + local(v)
            if layer < s.layers - 1:
                v = F.gelu(v)
        v = F.gelu(self.head(crop_right(v, s.pads)))
        return self.project(v)
