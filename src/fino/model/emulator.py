"""An emulator is a network that knows its data: history in, next frame out.

    û_{t+1} = Σ_k base_k ⊙ u_{t−k} + scale ⊙ f_θ( concat((u − mean)/std, G) ) + shift

The sum over past frames is what is predicted without learning: nothing (`frame`), the last
frame (`increment`), or the linear combination of the history that fits the training data best
(`linear`).  With `stencil` it is a finite-difference scheme over the last frame, S ∗ u_t, found
by least squares: it mixes the fields and sees one cell around.  The network supplies the rest,
in units of that rest's own spread.  Scaling is fitted on training data and saved with the weights.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from fino.grid import Grid
from fino.locality import Locality
from fino.model.convolution import pad, stencil
from fino.model.features import assemble, position_channels, position_count
from fino.settings import Settings
from fino.shapes import Field, Trajectory, expect

__all__ = ["Emulator", "EmulatorSettings"]


class EmulatorSettings(Settings):
    """How an emulator presents the data to its network, and what drew its first weights."""

    model: str
    fields: tuple[str, ...]
    history: int = 10
    predict: Literal["frame", "increment", "linear", "stencil"] = "frame"
    coordinates: bool = False
    edges: bool = False
    steady: bool = False
    dt: float = 1.0
    seed: int = 0

    @property
    def channels(self) -> int:
        return len(self.fields)

    def inputs(self, grid: Grid) -> int:
        """How many channels the network is shown."""
        return self.history * self.channels + position_count(grid, self.coordinates, self.edges)


class Emulator(nn.Module):
    """A learned stepper: (b, K, c, *space) → (b, c, *space)."""

    input_mean: Tensor
    input_std: Tensor
    output_mean: Tensor
    output_std: Tensor
    base: Tensor
    scheme: Tensor

    def __init__(self, network: nn.Module, settings: EmulatorSettings, grid: Grid) -> None:
        super().__init__()
        self.network = network
        self.settings = settings
        self.grid = grid
        channels, history = settings.channels, settings.history
        for name, value in (("mean", 0.0), ("std", 1.0)):
            self.register_buffer(f"input_{name}", torch.full((channels,), value))
            self.register_buffer(f"output_{name}", torch.full((channels,), value))
        base = torch.zeros(history, channels)
        if settings.predict in ("increment", "linear"):
            base[-1] = 1.0
        self.register_buffer("base", base)
        if settings.predict == "stencil":
            self.register_buffer("scheme", torch.zeros(channels, channels, *[3] * grid.dims))
        self._positions: dict[tuple[int, ...], Tensor] = {}

    @property
    def history(self) -> int:
        return self.settings.history

    @property
    def channels(self) -> int:
        return self.settings.channels

    @property
    def locality(self) -> Locality:
        locality: Any = self.network.locality
        if self.settings.predict == "stencil":
            return locality.beside(Locality((1,) * self.grid.dims))
        return locality

    @property
    def parameters_count(self) -> int:
        return sum(p.numel() for p in self.network.parameters())

    def static(self, space: tuple[int, ...] | None = None) -> Tensor:
        """The position channels (p, *space) of the model's own grid, or of a larger domain."""
        space = tuple(space or self.grid.points)
        if space not in self._positions:
            if self.settings.coordinates and space != self.grid.points:
                raise ValueError(
                    f"This model was given coordinates of a {self.grid.points} grid and cannot "
                    f"run on {space}. Build it with coordinates=False to run on other sizes."
                )
            grid = self.grid.with_points(space)
            self._positions[space] = position_channels(
                grid, self.settings.coordinates, self.settings.edges
            )
        return self._positions[space]

    def forward(self, history: Trajectory, static: Tensor | None = None) -> Field:
        """The next frame; `static` is the slice of the position channels that belongs to a tile."""
        if static is None:
            self.check(history)
            static = self.static(tuple(history.shape[3:]))
        history = history[:, -self.history :]
        over_space = (-1, *[1] * (history.dim() - 3))
        scaled = history - self.input_mean.view(over_space)
        scaled = scaled / self.input_std.view(over_space)
        correction = self.network(assemble(scaled, static))
        correction = torch.addcmul(
            self.output_mean.view(over_space), correction, self.output_std.view(over_space)
        )
        if self.settings.predict == "frame":
            return correction
        if self.settings.predict == "increment":
            return history[:, -1] + correction
        if self.settings.predict == "stencil":
            ghosts = (1,) * self.grid.dims
            padded = pad(history[:, -1], ghosts, self.grid.boundary)
            return stencil(padded, self.scheme) + correction
        weights = self.base.view(*self.base.shape, *over_space[1:])
        return (history * weights).sum(dim=1) + correction

    def check(self, history: Trajectory) -> None:
        """Refuse a history of another shape, in words."""
        expect(history, "b t c *space", name="history", c=self.channels)
        if history.dim() - 3 != self.grid.dims:
            raise ValueError(
                f"history should have {self.grid.dims} space axes, got shape "
                f"{tuple(history.shape)} for (b, t, c, *space)."
            )
        if history.shape[1] < self.history:
            raise ValueError(
                f"history should hold at least {self.history} frames, got {history.shape[1]}."
            )
