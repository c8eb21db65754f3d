"""An emulator is a network that knows its data: what is given in, next frame out.

    û_{t+1} = prior(given) + scale ⊙ f_θ( X_t ) + shift
    X_t(x)  = concat( (u_{t−K+1:t}(x) − mean)/std, G(x) )                             (11)

The linear prior is what is predicted without learning (see `fino.model.prior`); the network
predicts the residual, in units of the residual's own spread.  Scaling is fitted on training data
and saved with the weights.

The position channels G are computed from the *global* grid.  A tile or a rank gets its slice of
them, never coordinates of its own, or it would believe to be the whole domain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import PositiveFloat
from torch import Tensor, nn

from fino.given import Given
from fino.grid import Grid
from fino.locality import Locality
from fino.model.conditioning import EXTENDED, Conditioning, ConditioningSettings, extend
from fino.model.prior import PRIORS, Flow, LinearPrior, Moved, MovingFrame, PastFrames
from fino.settings import Settings
from fino.shapes import Field, Trajectory, expect

__all__ = ["Emulator", "EmulatorSettings", "assemble", "position_channels"]


class EmulatorSettings(Settings):
    """How an emulator presents the data to its network, and what drew its first weights.

    model          the network's name in `MODELS`
    fields         the names of the fields that are predicted
    history        past frames that the network looks at; the data's own history, or one where
                   the state is whole
    predict        the linear prior that the network adds to: a key of `PRIORS`
    moves          cells along each axis that `predict="moved"` and `"flow"` may reach
    degree         degree of the polynomials in θ that `predict="linear"` combines frames by
    coordinates    whether each cell's position is an input; only for a fixed domain
    edges          whether cells at a wall are marked; where a boundary is not periodic
    steady         whether the data have no time: input → answer
    dt             the time between two frames, in the data's unit
    seed           what the first weights are drawn from
    given          parameters, known fields, forcing and masks, by name
    """

    model: str
    fields: tuple[str, ...]
    history: int = 10
    predict: Literal["frame", "increment", "linear", "stencil", "moved", "flow"] = "frame"
    moves: tuple[int, ...] = ()
    degree: int = 0
    coordinates: bool = False
    edges: bool = False
    steady: bool = False
    dt: PositiveFloat = 1.0
    seed: int = 0
    given: ConditioningSettings = ConditioningSettings()

    @property
    def channels(self) -> int:
        return len(self.fields)

    def make_prior(self, grid: Grid) -> LinearPrior:
        """The prior that the network adds to, before it is fitted."""
        given = self.given
        if self.predict == Moved.kind:
            dt, count = given.steps[0] if given.steps else None, len(given.parameters)
            count -= bool(given.steps)
            return Moved(self.channels, self.history, grid, self.moves, count, dt)
        if self.predict == Flow.kind:
            return Flow(self.channels, self.history, grid, self.moves)
        if self.predict == PastFrames.kind:
            count = len(given.parameters)
            return PastFrames(self.channels, self.history, grid, count, self.degree)
        return PRIORS[self.predict](self.channels, self.history, grid)

    def inputs(self, grid: Grid) -> int:
        """How many channels the network is shown."""
        frames = self.history * self.channels
        return frames + position_count(grid, self.coordinates, self.edges) + self.given.channels


class Emulator(nn.Module):
    """A learned stepper: given → next frame (b, c, *space).

    It takes a `Given`, or simply a history (b, K, c, *space).
    """

    takes_given: ClassVar[bool] = True
    input_mean: Tensor
    input_std: Tensor
    output_mean: Tensor
    output_std: Tensor

    def __init__(self, network: nn.Module, settings: EmulatorSettings, grid: Grid) -> None:
        super().__init__()
        self.network = network
        self.settings = settings
        self.grid = grid
        each = [len(settings.given.steps)] if settings.given.steps else []
        for name, value in (("mean", 0.0), ("std", 1.0)):
            self.register_buffer(f"input_{name}", torch.full((settings.channels,), value))
            shape = (*each, settings.channels)
            self.register_buffer(f"output_{name}", torch.full(shape, value))
        self.prior = settings.make_prior(grid)
        self.conditioning = Conditioning(settings.given)
        #: What training saw and how far off predictions are, as `fino.trust` measured it.
        self.trust: dict[str, Any] | None = None
        self._positions: dict[tuple[int, ...], Tensor] = {}

    def __repr__(self) -> str:
        """A line; `print(model.network)` shows the layers."""
        sees = f"{self.locality.radius[0]} cells" if self.locality.is_local else "the whole field"
        frames = f"{self.history} frame{'s' if self.history > 1 else ''} of "
        return (
            f"Emulator({self.settings.model}: {self.parameters_count:,} weights, {frames}"
            f"{', '.join(self.settings.fields)} on {' × '.join(map(str, self.grid.points))} cells, "
            f"sees {sees} a step)"
        )

    @property
    def history(self) -> int:
        return self.settings.history

    @property
    def channels(self) -> int:
        return self.settings.channels

    @property
    def locality(self) -> Locality:
        network: Any = self.network
        reach = network.locality.beside(self.prior.locality)
        if isinstance(self.prior, MovingFrame):
            reach = self.prior.locality.then(network.locality)
        if self.settings.given.walls == "neumann":
            return Locality((EXTENDED,) * self.grid.dims).then(reach)
        return reach

    @property
    def parameters_count(self) -> int:
        return sum(p.numel() for p in self.network.parameters())

    def positions(self, space: tuple[int, ...] | None = None) -> Tensor:
        """The position channels (p, *space) of the model's own grid, or of a larger domain."""
        space = tuple(space or self.grid.points)
        if not position_count(self.grid, self.settings.coordinates, self.settings.edges):
            return torch.empty(0, *space)
        if torch.compiler.is_exporting() and not all(isinstance(n, int) for n in space):
            raise ValueError(
                "this model is given positions (edge markers or coordinates) of its grid, so it is "
                "exported at one size: leave the axes of space out of dynamic_shapes."
            )
        if space not in self._positions:
            self.check_space(space)
            self._positions[space] = position_channels(
                self.grid.with_points(space), self.settings.coordinates, self.settings.edges
            )
        return self._positions[space]

    @property
    def members(self) -> int:
        """Networks that it is the mean of."""
        return int(getattr(self.network.settings, "members", 1))

    def forward(self, given: Given | Trajectory) -> Field:
        """The next frame: (b, K, c, *space) → (b, c, *space); of several members the mean."""
        given = self.conditioning.with_dt(Given.of(given))
        return self._jump(given) if given.pace > 1 else self._step(given, self.network)[0]

    def with_members(self, members: int) -> Emulator:
        """An untrained ensemble of such networks, with the same scaling, prior and settings."""
        network: Any = self.network
        shape = network.settings.model_dump()
        if "members" not in shape:
            raise ValueError(f"{self.settings.model} has no members. Use fino, or train several.")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.settings.seed)
            network = type(network)(**{**shape, "members": members})
        other = Emulator(network, self.settings, self.grid)
        own = {k: v for k, v in self.state_dict().items() if not k.startswith("network.")}
        other.load_state_dict(own, strict=False)
        return other

    def each(self, given: Given | Trajectory) -> list[Field]:
        """The next frame as every member has it."""
        network: Any = self.network
        given = self.conditioning.with_dt(Given.of(given))
        return self._step(given, network.each if self.members > 1 else network)

    def _step(self, given: Given, network: Callable[..., Field | list[Field]]) -> list[Field]:
        """The prior and what a network makes of what is given, one frame for each answer."""
        if given.positions is None:
            self.check(given.history)
            self.conditioning.check(given)
            given = replace(given, positions=self.positions(given.space))
        given = self.prior.carry(self._extended(given.last(self.history)))
        over_space = (-1, *[1] * self.grid.dims)
        scaled = given.history - self.input_mean.view(over_space)
        scaled = scaled / self.input_std.view(over_space)
        assert given.positions is not None
        beside = self.conditioning.channels(given, self.conditioning.theta(given))
        x = assemble(scaled, given.positions, beside)
        theta = self.modulation(given)
        answers = network(x) if theta is None else network(x, theta)
        mean, std = self.residual_scale(given)
        prior = self.prior(given, self.conditioning.unit(given))
        several = answers if isinstance(answers, list) else [answers]
        frames = [prior + torch.addcmul(mean, residual, std) for residual in several]
        return frames if given.mask is None else [frame * given.mask for frame in frames]

    def modulation(self, given: Given) -> Tensor | None:
        """What FiLM is given: scaled scalars, and the phase of a moving frame; None without."""
        theta = self.conditioning.theta(given)
        if theta is None or self.settings.given.condition != "film":
            return None
        if isinstance(self.prior, Moved) and self.prior.phases:
            return torch.cat([theta, self.prior.phase(given)], dim=1)
        return theta

    def residual_scale(self, given: Given) -> tuple[Tensor, Tensor]:
        """Mean and spread of the residual, (c, 1, …), or (b, c, 1, …) by the length of the step."""
        mean, std = self.output_mean, self.output_std
        if self.settings.given.steps:
            near = self.conditioning.near_steps(given)
            mean, std = near @ mean, near @ std
        over_space = [1] * self.grid.dims
        return mean.view(*mean.shape, *over_space), std.view(*std.shape, *over_space)

    @property
    def strides(self) -> tuple[int, ...]:
        """The frames that a step may pass."""
        return tuple(round(dt / self.settings.dt) for dt in self.settings.given.steps) or (1,)

    def at_stride(self, given: Given, stride: int) -> Given:
        """The same for a step that passes so many frames."""
        return self.conditioning.with_dt(given.every(stride), stride * self.settings.dt)

    def reach(self, frames: int = 1) -> Locality:
        """How far it sees on its way over so many frames."""
        return self.locality.repeated(len(fewest_steps(frames, self.strides)))

    def _jump(self, given: Given) -> Field:
        """The frame that lies `given.pace` frames ahead, in as few steps as possible."""
        given, frames = replace(given, pace=1), given.pace
        for stride in fewest_steps(frames, self.strides):
            frame = self(self.at_stride(given, stride))
            given = replace(given.at(stride), history=frame[:, None])
        return given.history[:, -1]

    def _extended(self, given: Given) -> Given:
        """The history with what lies at the walls of the mask in the cells outside of it."""
        walls = self.settings.given.walls
        if given.mask is None or walls is None:
            return given
        outside = self.input_mean.view(-1, *[1] * self.grid.dims)
        frames = [extend(u, given.mask, self.grid, walls, outside) for u in given.history.unbind(1)]
        return replace(given, history=torch.stack(frames, dim=1))

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

    def check_space(self, space: tuple[int, ...]) -> None:
        """Refuse another domain than its own where the model was given coordinates."""
        if self.settings.coordinates and space != self.grid.points:
            raise ValueError(
                f"This model was given coordinates of a {self.grid.points} grid and cannot run on "
                f"{space}. Build it with coordinates=False to run on other sizes."
            )

    def _load_from_state_dict(
        self, state_dict: dict[str, Tensor], prefix: str, *rest: Any, **more: Any
    ) -> None:
        """Models of the first format kept the prior's weights as `base` and `scheme`."""
        past = state_dict.pop(f"{prefix}base", None)
        scheme = state_dict.pop(f"{prefix}scheme", None)
        old = {"linear": past, "stencil": scheme}.get(self.settings.predict)
        if old is not None:
            state_dict[f"{prefix}prior.weight"] = old
        super()._load_from_state_dict(state_dict, prefix, *rest, **more)


def fewest_steps(frames: int, strides: Sequence[int]) -> tuple[int, ...]:
    """The fewest strides that add up to so many frames, the longest first."""
    best: list[tuple[int, ...] | None] = [()]
    for far in range(1, frames + 1):
        ways = [(s, best[far - s]) for s in strides if s <= far]
        found = [(*way, s) for s, way in ways if way is not None]
        best.append(min(found, key=len, default=None))
    way = best[frames]
    if way is None:
        raise ValueError(f"{frames} frames cannot be reached by steps of {tuple(strides)} frames.")
    return tuple(sorted(way, reverse=True))


def position_count(grid: Grid, coordinates: bool, edges: bool) -> int:
    """How many position channels there are."""
    walls = sum(not periodic for periodic in grid.is_periodic)
    return grid.dims * coordinates + 2 * walls * edges


def position_channels(
    grid: Grid, coordinates: bool, edges: bool, box: Sequence[tuple[int, int]] | None = None
) -> Tensor:
    """Where each cell lies: () → (p, *space), or (p, *box) in a part of the grid, which may wrap.

    `coordinates`: the position on each axis, from −1 to 1 over the domain.
    `edges`: for each wall, one in the cells that touch it and zero elsewhere.  The two walls of
    an axis have a channel each, because strided data have unlike edges.
    """
    spans = box or [(0, n) for n in grid.points]
    size = tuple(stop - start for start, stop in spans)
    lines: list[tuple[int, np.ndarray]] = []
    if coordinates:
        scaled = zip(grid.coordinates(), grid.extent, strict=True)
        lines += [(axis, 2 * (x - lo) / (hi - lo) - 1) for axis, (x, (lo, hi)) in enumerate(scaled)]
    if edges:
        for axis, periodic in enumerate(grid.is_periodic):
            for cell in () if periodic else (0, grid.points[axis] - 1):
                lines.append((axis, (np.arange(grid.points[axis]) == cell).astype(float)))
    channels = np.zeros((len(lines), *size))
    for channel, (axis, line) in zip(channels, lines, strict=True):
        cells = np.arange(*spans[axis]) % len(line)
        np.moveaxis(channel, axis, -1)[...] = line[cells]
    return torch.from_numpy(channels)


def assemble(history: Trajectory, positions: Tensor, beside: Sequence[Field] = ()) -> Field:
    """Frames, positions and what else is given as channels: (b, k·c + p + n, *space)."""
    channels = [history.flatten(1, 2)]
    if positions.shape[0]:
        channels.append(positions.to(history).expand(len(history), *positions.shape))
    channels += beside
    return channels[0] if len(channels) == 1 else torch.cat(channels, dim=1)
