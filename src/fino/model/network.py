"""What every network is told when it is built, and how it refuses a field of another shape.

A network maps `(b, inputs, *space)` to `(b, outputs, *space)` on any grid that its structure
allows; `dims` says how many axes of space there are and `boundary` what lies beyond them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field as Setting
from pydantic import ValidationInfo, field_validator
from torch import Tensor

from fino.grid import boundary_per_axis
from fino.settings import Settings
from fino.shapes import Field, expect

__all__ = [
    "ACTIVATIONS",
    "Activation",
    "FourierSettings",
    "NetworkSettings",
    "check_field",
    "check_halving",
    "one_each",
]

Activation = Literal["relu", "gelu", "silu", "tanh"]

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "silu": F.silu,
    "tanh": torch.tanh,
}


def one_each(value: int | tuple[int, ...], count: int) -> tuple[int, ...]:
    """One number for all as one for each."""
    return (value,) * count if isinstance(value, int) else value


class NetworkSettings(Settings):
    """The shape of the task: dimensions, channels in and out, boundary."""

    dims: int
    inputs: int = Setting(ge=1)
    outputs: int = Setting(ge=1)
    boundary: str | tuple[str, ...] = "periodic"

    @field_validator("dims")
    @classmethod
    def _one_to_three(cls, dims: int) -> int:
        if dims not in (1, 2, 3):
            raise ValueError(f"dims should be 1, 2 or 3, got {dims}.")
        return dims

    @field_validator("boundary")
    @classmethod
    def _known_boundary(
        cls, boundary: str | tuple[str, ...], info: ValidationInfo
    ) -> str | tuple[str, ...]:
        if "dims" in info.data:
            boundary_per_axis(boundary, info.data["dims"])
        return boundary

    @property
    def boundaries(self) -> tuple[str, ...]:
        """The boundary of each axis."""
        return boundary_per_axis(self.boundary, self.dims)


class FourierSettings(NetworkSettings):
    """What the Fourier family shares.

    `modes` is the number of frequencies kept on each side of zero, `head` the hidden width of
    the projection, `padding` the cells of zeros after the end of an axis that is not periodic.
    """

    width: int = Setting(20, ge=1)
    modes: int | tuple[int, ...] = 12
    layers: int = Setting(4, ge=1)
    head: int = Setting(128, ge=1)
    padding: int = Setting(2, ge=0)

    @field_validator("modes")
    @classmethod
    def _one_count_an_axis(
        cls, modes: int | tuple[int, ...], info: ValidationInfo
    ) -> int | tuple[int, ...]:
        dims = info.data.get("dims", 1)
        if len(one_each(modes, dims)) != dims or min(one_each(modes, dims)) < 1:
            raise ValueError(
                f"modes should be at least 1, one number or one for each of {dims} axes, "
                f"got {modes}."
            )
        return modes

    @property
    def modes_per_axis(self) -> tuple[int, ...]:
        return one_each(self.modes, self.dims)

    @property
    def pads(self) -> tuple[int, ...]:
        """Cells of zeros after the end of each axis: none where the boundary is periodic."""
        return tuple(0 if name == "periodic" else self.padding for name in self.boundaries)


def check_field(u: Field, settings: NetworkSettings, name: str) -> None:
    """Refuse an input of another shape than the network was built for."""
    expect(u, "b inputs *space", name=f"input of {name}", inputs=settings.inputs)
    if u.dim() - 2 != settings.dims:
        raise ValueError(
            f"input of {name} should have {settings.dims} space axes, got {u.dim() - 2}: "
            f"shape {tuple(u.shape)} is (b, inputs, *space)."
        )


def check_halving(u: Field, levels: int, patch: int = 1) -> None:
    """Refuse a grid that cannot be cut into patches and halved `levels` times."""
    stride = patch * 2**levels
    if any(n % stride for n in u.shape[2:]):
        factor = "" if patch == 1 else f"patch ({patch}) times "
        raise ValueError(
            f"grid {tuple(u.shape[2:])} should be a multiple of {factor}2^levels = {stride} on "
            f"every axis. Use fewer levels than {levels}, or another grid."
        )
