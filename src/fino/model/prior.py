"""Linear priors: what is predicted without learning, so that the network learns the residual.

    frame        û_{t+1} = 0                         the network predicts the frame itself
    increment    û_{t+1} = u_t                       … the change from the last frame
    linear       û_{t+1} = Σ_k w_k u_{t−k}           … the residual of past frames combined
    stencil      û_{t+1} = S ∗ u_t                   … the residual of a finite-difference scheme

Each is a small module: given → frame, with its locality and a line of words.  `fit` finds its
weights by least squares on training data and returns the scaling of the residual.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from fino.data.dataset import Dataset, Part
from fino.given import Given
from fino.grid import Grid
from fino.locality import Locality
from fino.model.convolution import pad, stencil
from fino.model.rollout import rollout
from fino.model.scaling import Scaling, fit_frames, fit_increments
from fino.shapes import Field, Trajectory

__all__ = ["PRIORS", "LinearPrior", "PastFrames", "Scheme", "choose_prior"]

#: Trajectories and numbers that a least-squares fit looks at.
_FIT_SAMPLES = 32
_FIT_VALUES = 200_000

#: Trajectories that priors are rolled out on, and the relative error of one that predicts them.
_ROLLED_SAMPLES = 8
_WELL_ROLLED = 0.05


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

    def forward(self, given: Given) -> Field:
        raise NotImplementedError

    def fit(self, data: Dataset) -> Scaling:
        """Fit the weights to the train part; the scaling of the residual that they leave."""
        raise NotImplementedError


class NoPrior(LinearPrior):
    """Nothing: the network predicts the frame itself, as the paper has it."""

    kind = "frame"
    line = "the next frame itself"

    def forward(self, given: Given) -> Field:
        return torch.zeros_like(given.history[:, -1])

    def fit(self, data: Dataset) -> Scaling:
        if data.steady:
            return fit_frames(data.train, 1, 1)
        return fit_frames(data.train, data.task(self.history).shown)


class LastFrame(LinearPrior):
    """The last frame again: the network predicts the increment."""

    kind = "increment"
    line = "the change from the last frame, scaled by its own spread"

    @property
    def frame_weights(self) -> Tensor | None:
        weights = torch.zeros(self.history, self.channels)
        weights[-1] = 1.0
        return weights

    def forward(self, given: Given) -> Field:
        return given.history[:, -1]

    def fit(self, data: Dataset) -> Scaling:
        return fit_increments(data.train, data.task(self.history).shown - 1)


class PastFrames(LinearPrior):
    """Past frames combined, cell by cell and by channel: û_{t+1} = Σ_k w_k u_{t−k}.

    The weight is (K, c), the newest frame last; before it is fitted, the last frame again.
    """

    kind = "linear"
    line = "the residual of the best linear combination of the history"
    weight: Tensor

    def __init__(self, channels: int, history: int, grid: Grid) -> None:
        super().__init__(channels, history, grid)
        weight = torch.zeros(history, channels)
        weight[-1] = 1.0
        self.register_buffer("weight", weight)

    @property
    def frame_weights(self) -> Tensor | None:
        return self.weight

    def forward(self, given: Given) -> Field:
        weights = self.weight.view(*self.weight.shape, *[1] * self.grid.dims)
        return (given.history * weights).sum(dim=1)

    def fit(self, data: Dataset) -> Scaling:
        weight, spread = fit_past_frames(data.train, self.history, data.task(self.history).start)
        self.weight.copy_(weight)
        return Scaling(torch.zeros_like(spread), spread)


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

    def forward(self, given: Given) -> Field:
        padded = pad(given.history[:, -1], (1,) * self.grid.dims, self.grid.boundary)
        return stencil(padded, self.weight)

    def fit(self, data: Dataset) -> Scaling:
        weight, constant, spread = fit_scheme(data.train, data.task(self.history).shown - 1)
        self.weight.copy_(weight)
        return Scaling(constant, spread)


#: Every prior by the name that the setting `predict` has.
PRIORS: dict[str, type[LinearPrior]] = {
    prior.kind: prior for prior in (NoPrior, LastFrame, PastFrames, Scheme)
}


def choose_prior(data: Dataset, history: int) -> str:
    """The kind of prior that suits the data: a key of `PRIORS`.

    Each is scored by what becomes of it when it is rolled out over training trajectories.  A
    finite-difference scheme that predicts them is best: its residual is a function of the last
    frame.  Combining past frames is taken where only that predicts them, as it does for waves that
    come back; elsewhere its small first error hides that it goes on with any error as if it were
    motion.  Then the scheme again, unless its error exceeds the data's own size: data that move
    farther in a step than it sees make it extrapolate, and it explodes.
    """
    if data.steady:
        return NoPrior.kind
    scheme_error = _rollout_error(Scheme, data, history)
    if scheme_error < _WELL_ROLLED:
        return Scheme.kind
    if _rollout_error(PastFrames, data, history) < _WELL_ROLLED:
        return PastFrames.kind
    return Scheme.kind if scheme_error < 1 else LastFrame.kind


def _rollout_error(kind: type[LinearPrior], data: Dataset, history: int) -> float:
    """The error of a fitted prior alone, relative to the fields, over training trajectories."""
    prior = kind(data.channels, history, data.grid)
    constant = prior.fit(data).mean.view(-1, *[1] * data.grid.dims)

    def step(history: Trajectory) -> Field:
        return prior(Given(history)) + constant

    given, truth = data.train.begin(range(min(len(data.train), _ROLLED_SAMPLES)), history)
    error = rollout(step, given, truth.shape[1]) - truth
    over = (0, 1, *range(3, truth.dim()))
    share = error.square().sum(over) / truth.square().sum(over).clamp_min(1e-30)
    return float(share.mean().sqrt())


def fit_past_frames(
    part: Part, history: int, start: int = 0, ridge: float = 1e-6
) -> tuple[Tensor, Tensor]:
    """The weights of past frames that predict the next one best, cell by cell and by channel.

        min_w Σ ( u_{t+1} − Σ_k w_k u_{t−k} )² + ridge · Σ u² · |w|²

    (k, c) weights and the (c,) spread of the residual.  Frames before `start` are not fitted.
    """
    gram, count = torch.zeros(()), 0
    for u, thin, mask in _trajectories_to_fit(part, start):
        cells = u.flatten(2) if mask is None else u[:, :, mask]
        windows = cells[..., ::thin].unfold(0, history + 1, 1).movedim(1, 0).flatten(1, 2)
        gram, count = gram + windows.mT @ windows, count + windows.shape[1]
    size = gram[:, :-1, :-1].diagonal(dim1=1, dim2=2).mean(dim=1, keepdim=True)
    weights, spread = _least_squares(gram, 1, ridge * size.expand(-1, history), count)
    return weights[..., 0].T.float(), spread.flatten().float()


def fit_scheme(part: Part, start: int = 0, ridge: float = 1e-8) -> tuple[Tensor, Tensor, Tensor]:
    """The linear scheme over the last frame that predicts the next one best.

        min_{S, s} Σ ‖ u_{t+1} − S ∗ u_t − s ‖² + ridge · Σ |u|² · |S|²

    (c, c, 3, …) weights from all fields to each, the (c,) constants s and the (c,) spread of the
    residual.  Frames before `start`, which are only ever shown, are not fitted.
    """
    boundary, channels = part.data.grid.boundary, part.data.channels
    gram, cells = torch.zeros(()), 0
    for u, thin, mask in _trajectories_to_fit(part, start):
        taps = _taps(u[:-1], boundary, thin)
        following = u[1:].transpose(0, 1).flatten(1)[:, ::thin]
        if mask is not None:
            inside = _inner(mask, boundary).repeat(len(u) - 1)[::thin]
            taps, following = taps[:, inside], following[:, inside]
        both = torch.cat([taps, torch.ones_like(taps[:1]), following])
        gram, cells = gram + both @ both.T, cells + both.shape[1]
    weights, spread = _least_squares(gram, channels, ridge * gram.diagonal()[:-channels], cells)
    scheme = weights[:-1].T.unflatten(1, (channels, *[3] * len(boundary)))
    return scheme.float(), weights[-1].float(), spread.float()


def _least_squares(gram: Tensor, targets: int, ridge: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Weights from the other columns of a Gram matrix to its last `targets`, and what they leave.

    (…, n + targets, n + targets), ridge (…, n) → (…, n, targets) and the spread (…, targets).
    """
    past, mixed = gram[..., :-targets, :-targets], gram[..., :-targets, -targets:]
    # A column of zeros, of a field that is zero everywhere, gets a weight of zero.
    ridge = torch.where(ridge > 0, ridge, 1.0)
    weights = torch.linalg.solve(past + torch.diag_embed(ridge), mixed)
    own = gram[..., -targets:, -targets:]
    left = own - 2 * weights.mT @ mixed + weights.mT @ past @ weights
    return weights, (left.diagonal(dim1=-2, dim2=-1).clamp_min(0) / count).sqrt()


def _trajectories_to_fit(part: Part, start: int) -> Iterator[tuple[Tensor, int, Tensor | None]]:
    """Some trajectories (t, c, *space) in double precision, how thinly to look at them, a mask."""
    count = min(len(part), _FIT_SAMPLES)
    for i in torch.linspace(0, len(part) - 1, count).long().tolist():
        u = part.trajectory(i, start).double()
        # Never a multiple of two, or the cells looked at would stand in columns.
        yield u, max(1, count * u[:, 0].numel() // _FIT_VALUES) | 1, part.mask(i)


def _inner(mask: Tensor, boundary: tuple[str, ...]) -> Tensor:
    """The cells whose neighbours are part of the domain too: (*space) → (cells,)."""
    one = mask.float()[None, None]
    whole = torch.ones(1, 1, *[3] * mask.dim())
    counted = stencil(pad(one, (1,) * mask.dim(), boundary), whole)
    return (counted[0, 0] > 3 ** mask.dim() - 0.5).flatten()


def _taps(u: Tensor, boundary: tuple[str, ...], thin: int) -> Tensor:
    """What a stencil of radius one sees at every `thin`-th cell: (t, c, *space) → (c · 3^d, n)."""
    frames, _, *space = u.shape
    padded = pad(u, (1,) * len(space), boundary).transpose(0, 1)
    cells = torch.arange(0, frames * math.prod(space), thin)
    frame, *place = torch.unravel_index(cells, (frames, *space))
    seen = []
    for offset in product(range(3), repeat=len(space)):
        there: list[Any] = [p + o for p, o in zip(place, offset, strict=True)]
        seen.append(padded[(slice(None), frame, *there)])
    return torch.stack(seen, dim=1).flatten(0, 1)
