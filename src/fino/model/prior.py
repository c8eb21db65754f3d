"""Linear priors: what is predicted without learning, so that the network learns the residual.

    frame        û_{t+1} = 0                         the network predicts the frame itself
    increment    û_{t+1} = u_t                       … the change from the last frame
    linear       û_{t+1} = Σ_k w_k u_{t−k}           … the residual of past frames combined
    stencil      û_{t+1} = S ∗ u_t                   … the residual of a finite-difference scheme
    moved        û_{t+1} = u_t(x − s(θ))             … the change in the frame that moves along
    flow         û_{t+1} = u_t(x − v(x))             … the same, with a motion for every place

The weights w_k and the shift s may depend on the parameters θ.
Each is a small module: given → frame, with its locality and a line of words.  `prior_fit` finds
their weights by least squares on training data, and the one that suits the data.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from typing import ClassVar

import torch
from torch import Tensor, nn

from fino.given import Given
from fino.grid import Grid
from fino.locality import Locality
from fino.model.convolution import pad, stencil
from fino.model.flow import MOST, REACH, follow, local_motion
from fino.shapes import Field

__all__ = [
    "PRIORS",
    "Flow",
    "LastFrame",
    "LinearPrior",
    "Moved",
    "MovingFrame",
    "NoPrior",
    "PastFrames",
    "Scheme",
    "polynomials",
    "powers",
]


class LinearPrior(nn.Module):
    """What every prior promises: given → frame, how far it looks, and what is left to learn.

    `history` frames of `channels` fields are given; `line` names the residual in words.
    """

    kind: ClassVar[str]
    line: ClassVar[str]
    takes_given: ClassVar[bool] = True

    def __init__(self, channels: int, history: int, grid: Grid) -> None:
        super().__init__()
        self.channels, self.history, self.grid = channels, history, grid

    @property
    def locality(self) -> Locality:
        return Locality.point(self.grid.dims)

    @property
    def frame_weights(self) -> Tensor | None:
        """(K, c): the weight of each past frame; None where the prior is no sum of frames."""
        return torch.zeros(self.history, self.channels)

    def carry(self, given: Given) -> Given:
        """The history as the network and the prior itself are shown it."""
        return given

    @contextmanager
    def mirrored(self, facing: Tensor | None) -> Iterator[None]:
        """For trajectories that are mirrored along the axes where `facing` (b, dims) is −1."""
        yield

    def forward(self, given: Given, theta: Tensor | None = None) -> Field:
        """The frame (b, c, *space); `theta` (b, p) are the parameters, each from −1 to 1."""
        raise NotImplementedError


class NoPrior(LinearPrior):
    """Nothing: the network predicts the frame itself, as the paper has it."""

    kind = "frame"
    line = "the next frame itself"

    def forward(self, given: Given, theta: Tensor | None = None) -> Field:
        return torch.zeros_like(given.history[:, -1])


class LastFrame(LinearPrior):
    """The last frame again: the network predicts the increment."""

    kind = "increment"
    line = "the change from the last frame, scaled by its own spread"

    @property
    def frame_weights(self) -> Tensor | None:
        return _newest(self.history, self.channels)

    def forward(self, given: Given, theta: Tensor | None = None) -> Field:
        return given.history[:, -1]


def _newest(history: int, channels: int) -> Tensor:
    """The weights (K, c) of past frames that repeat the newest."""
    weights = torch.zeros(history, channels)
    weights[-1] = 1.0
    return weights


class PastFrames(LinearPrior):
    """Past frames combined, cell by cell and by channel: û_{t+1} = Σ_k w_k(θ) u_{t−k}.

    The weight is (K, c), the newest frame last; before it is fitted, the last frame again.  With a
    `degree` the weights are polynomials of the parameters, and there is one such weight for each:
    (J, K, c).
    """

    kind = "linear"
    line = "the residual of the best linear combination of the history"
    weight: Tensor

    def __init__(
        self, channels: int, history: int, grid: Grid, parameters: int = 0, degree: int = 0
    ) -> None:
        super().__init__(channels, history, grid)
        self.powers = powers(parameters, degree)
        newest = _newest(history, channels)
        others = torch.zeros(len(self.powers) - 1, history, channels)
        self.register_buffer("weight", torch.cat([newest[None], others]) if degree else newest)

    @property
    def frame_weights(self) -> Tensor | None:
        return self.weight if self.weight.dim() == 2 else self.weight[0]

    def forward(self, given: Given, theta: Tensor | None = None) -> Field:
        weight = self.weight
        if weight.dim() == 3:
            assert theta is not None
            weight = torch.tensordot(polynomials(theta, self.powers), weight, dims=1)
        return (given.history * weight.view(*weight.shape, *[1] * self.grid.dims)).sum(dim=1)


def powers(parameters: int, degree: int) -> tuple[tuple[int, ...], ...]:
    """The degree in each parameter of every polynomial, lower total degrees first."""
    every = product(range(degree + 1), repeat=parameters)
    kept = [powers for powers in every if sum(powers) <= degree]
    return tuple(sorted(kept, key=lambda powers: (sum(powers), powers)))


def polynomials(theta: Tensor, powers: Sequence[tuple[int, ...]]) -> Tensor:
    """Products of Chebyshev polynomials of parameters from −1 to 1: (b, p) → (b, J).

    Beyond that range they stay what they are at its end, because polynomials explode there.
    """
    x = theta.clamp(-1, 1)
    each = [torch.ones_like(x), x]
    for _ in range(max(sum(row) for row in powers) - 1):
        each.append(2 * x * each[-1] - each[-2])
    columns = [torch.ones_like(theta[:, 0])]
    for row in powers[1:]:
        factors = [each[k][:, place] for place, k in enumerate(row) if k]
        columns.append(torch.stack(factors).prod(dim=0))
    return torch.stack(columns, dim=1)


class Scheme(LinearPrior):
    """A finite-difference scheme over the last frame, S ∗ u_t, which may mix the fields.

    The weight is (c, c, 3, …): from all fields to each, one cell around.
    """

    kind = "stencil"
    line = "the residual of the best linear finite-difference scheme"
    weight: Tensor

    def __init__(self, channels: int, history: int, grid: Grid) -> None:
        super().__init__(channels, history, grid)
        self.register_buffer("weight", torch.zeros(channels, channels, *[3] * grid.dims))

    @property
    def locality(self) -> Locality:
        return Locality((1,) * self.grid.dims)

    @property
    def frame_weights(self) -> Tensor | None:
        return None

    def forward(self, given: Given, theta: Tensor | None = None) -> Field:
        padded = pad(given.history[:, -1], (1,) * self.grid.dims, self.grid.boundary)
        return stencil(padded, self.weight)


class MovingFrame(LinearPrior):
    """The last frame moved along; the network works in the frame that moves, too.

    `carry` moves the history, `velocity` is in cells a step, `radius` what it may look at.
    """

    velocity: Tensor
    radius: tuple[int, ...]
    facing: Tensor | None = None

    @property
    def frame_weights(self) -> Tensor | None:
        return _newest(self.history, self.channels)

    @contextmanager
    def mirrored(self, facing: Tensor | None) -> Iterator[None]:
        self.facing = facing
        try:
            yield
        finally:
            self.facing = None

    def turned(self, shift: Tensor) -> Tensor:
        """The shift (b, dims) of trajectories as they are given, mirrored or not."""
        return shift if self.facing is None else shift * self.facing

    def forward(self, given: Given, theta: Tensor | None = None) -> Field:
        return given.history[:, -1]


class Moved(MovingFrame):
    """The last frame moved along with the flow: û_{t+1}(x) = u_t(x − s).

        s(θ) = (s₀ + Σ_p θ_p s_p) · Δt / Δt₀          cells a step, along each axis

    Between cells it is interpolated by the polynomial through the eight nearest.  The network is
    shown the history moved as well, a frame of k steps ago by (k + 1) s: it works in the frame
    that moves along, where what is left to learn is local, however far the data move in a step.

    `velocity` (1 + p, dims) holds s₀ and s_p; no frame is moved farther than `radius` allows.
    `dt` is the shortest step of a model that takes several.
    """

    kind = "moved"
    line = "the change from the last frame, moved along with the flow"

    def __init__(
        self,
        channels: int,
        history: int,
        grid: Grid,
        radius: tuple[int, ...] = (),
        parameters: int = 0,
        dt: float | None = None,
    ) -> None:
        super().__init__(channels, history, grid)
        self.radius, self.dt = radius or (0,) * grid.dims, dt
        self.register_buffer("velocity", torch.zeros(1 + parameters, grid.dims))

    @property
    def locality(self) -> Locality:
        return Locality(self.radius)

    def shift(self, given: Given) -> Tensor:
        """Cells that each trajectory moves in the step: (b, dims)."""
        if given.parameters is None:
            return self.turned(self.velocity[:1].expand(len(given.history), -1))
        theta = given.parameters[:, : len(self.velocity) - 1]
        moved = self.velocity[0] + theta @ self.velocity[1:]
        moved = moved if self.dt is None else moved * given.parameters[:, -1:] / self.dt
        return self.turned(moved)

    @property
    def phases(self) -> int:
        """How many numbers `phase` gives."""
        return 2 * sum(radius > 0 for radius in self.radius)

    def phase(self, given: Given) -> Tensor:
        """Where between two cells the shift ends, cos and sin of 2πs for each axis: (b, phases).

        Interpolation errs by the fraction of a cell, which goes round many times while θ crosses
        its range: a network that is told need not find out.
        """
        turns = 2 * torch.pi * self.shift(given)[:, [radius > 0 for radius in self.radius]]
        return torch.cat([turns.cos(), turns.sin()], dim=1)

    def carry(self, given: Given) -> Given:
        frames = given.history.shape[1]
        ages = torch.arange(frames, 0, -1, device=given.history.device)
        cells = (self.shift(given)[:, None] * ages[:, None]).flatten(0, 1)
        u = given.history.flatten(0, 1)
        for axis, radius in enumerate(self.radius):
            if radius:
                u = move(u, cells[:, axis], axis, radius, self.grid.boundary[axis])
        return replace(given, history=u.unflatten(0, (-1, frames)))


class Flow(MovingFrame):
    """The last frame moved along its local flow: û_{t+1}(x) = u_t(x − v(x)), in the plane.

    v is measured on the last two frames (see `fino.model.flow`), around the shift s of the whole
    field, which is fitted to the training part.  As with `moved` the network is shown the history
    moved as well.  What comes in from outside of the mask is unknown: the frame stays there as it
    is.  Made for images of what drifts, such as rain or clouds.

    `velocity` (1, 2) holds s, in cells a step.
    """

    kind = "flow"
    line = "the change from the last frame, moved along its local flow"

    def __init__(
        self, channels: int, history: int, grid: Grid, radius: tuple[int, ...] = ()
    ) -> None:
        super().__init__(channels, history, grid)
        if grid.dims != 2 or any(grid.is_periodic):
            raise ValueError(
                "predict='flow' follows images in the plane with open edges. Use predict='moved'."
            )
        self.radius = radius or (0, 0)
        self.register_buffer("velocity", torch.zeros(1, 2))

    @property
    def locality(self) -> Locality:
        return Locality(self.radius, (2, 2))

    def farthest(self) -> tuple[int, ...]:
        """Cells along each axis that it looks at: moved frames, and the window of the motion."""
        step = self.velocity[0].abs() + MOST
        return tuple(math.ceil(max(self.history * s + 3, s + REACH)) for s in step.tolist())

    def carry(self, given: Given) -> Given:
        if any(n % 2 for n in given.space):
            raise ValueError(
                f"predict='flow' measures motion on blocks of two by two cells, so grid "
                f"{given.space} should be even on both axes. Leave out a row or a column, or use "
                f"predict='moved'."
            )
        u = given.history
        mask = torch.ones_like(u[:, 0, :1]) if given.mask is None else given.mask
        mask = mask.to(u).expand(len(u), -1, -1, -1)
        shift = self.turned(self.velocity.expand(len(u), -1))
        if u.shape[1] > 1:
            motion = local_motion(u[:, -2], u[:, -1], mask, shift)
        else:
            motion = shift[..., None, None].expand(-1, -1, *given.space)
        ages = range(u.shape[1], 0, -1)
        moved = [follow(f, mask, k * motion) for f, k in zip(u.unbind(1), ages, strict=True)]
        return replace(given, history=torch.stack(moved, dim=1))


#: Cells whose polynomial interpolates between two of them.
NEAREST = 8


def move(u: Field, cells: Tensor, axis: int, radius: int, boundary: str) -> Field:
    """u(x − s) along one axis, with a shift s of its own for each row: (b, c, *space), (b,)."""
    dims = u.dim() - 2
    width = [radius if a == axis else 0 for a in range(dims)]
    padded = pad(u, width, [boundary] * dims)
    weight = _lagrange(-cells, radius).repeat_interleave(u.shape[1], dim=0)
    weight = weight.view(-1, 1, *(2 * w + 1 for w in width))
    return stencil(padded.flatten(0, 1)[None], weight, groups=len(weight))[0].view_as(u)


def _lagrange(at: Tensor, radius: int) -> Tensor:
    """Weights of the cells −radius … radius that interpolate between them: (b, 2 radius + 1)."""
    half = NEAREST // 2
    at = at.clamp(-(radius - half), radius - half)
    first = at.detach().floor() - (half - 1)
    places = torch.arange(NEAREST, device=at.device)
    apart = (at - first)[:, None] - places
    same = torch.eye(NEAREST, dtype=torch.bool, device=at.device)
    factors = torch.where(same, 1.0, apart[:, None] / (places[:, None] - places + same.to(at)))
    where = (first[:, None] + places + radius).long().clamp(0, 2 * radius)
    empty = torch.zeros(len(at), 2 * radius + 1, dtype=at.dtype, device=at.device)
    return empty.scatter(1, where, factors.prod(dim=2))


#: Every prior by the name that the setting `predict` has.
PRIORS: dict[str, type[LinearPrior]] = {
    prior.kind: prior for prior in (NoPrior, LastFrame, PastFrames, Scheme, Moved, Flow)
}
