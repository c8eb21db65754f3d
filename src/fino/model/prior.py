"""What is predicted without learning: linear rules found by least squares on training data.

    linear      û_{t+1} = Σ_k w_k u_{t−k}        past frames combined, cell by cell
    stencil     û_{t+1} = S ∗ u_t + s            a finite-difference scheme over the last frame

A network that adds to such a rule need not learn what the rule already knows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import Tensor

from fino.data.dataset import Dataset, Part
from fino.model.convolution import pad, stencil
from fino.model.rollout import rollout

__all__ = ["Base", "choose_base", "fit_base", "fit_linear_base", "fit_stencil_base"]

#: Trajectories and numbers that a least-squares fit looks at.
_FIT_SAMPLES = 32
_FIT_VALUES = 200_000

#: Trajectories that rules are rolled out on, and the relative error of one that predicts them.
_ROLLED_SAMPLES = 8
_WELL_ROLLED = 0.05


@dataclass(frozen=True, eq=False)
class Base:
    """A rule as it was fitted; `frame` (nothing) and `increment` (the last frame) need no fit.

        û_{t+1} = Σ_k past_k u_{t−k}        or        û_{t+1} = scheme ∗ u_t + constant

    `spread` is the size of what it leaves over, channel by channel.
    """

    kind: str
    past: Tensor | None = None
    scheme: Tensor | None = None
    constant: Tensor | None = None
    spread: Tensor | None = None

    def __call__(self, frames: Tensor, boundary: tuple[str, ...]) -> Tensor:
        """(b, K, c, *space) → (b, c, *space), of a fitted rule."""
        one = (1,) * len(boundary)
        if self.past is not None:
            return (frames * self.past.view(*self.past.shape, *one)).sum(dim=1)
        assert self.scheme is not None and self.constant is not None
        stepped = stencil(pad(frames[:, -1], one, boundary), self.scheme)
        return stepped + self.constant.view(-1, *one)


def fit_base(kind: str, data: Dataset, history: int) -> Base:
    """The rule of this kind, fitted where the task begins: after the frames that are given."""
    first = max(history, data.history)
    if data.steady:
        return Base(kind)
    if kind == "linear":
        past, spread = fit_linear_base(data.train, history, first - history)
        return Base(kind, past=past, spread=spread, constant=torch.zeros_like(spread))
    if kind == "stencil":
        scheme, constant, spread = fit_stencil_base(data.train, first - 1)
        return Base(kind, scheme=scheme, constant=constant, spread=spread)
    return Base(kind)


def choose_base(data: Dataset, history: int) -> Base:
    """What a network should add to: nothing, the last frame, past frames combined, or a scheme.

    Each rule is judged by what becomes of it when it is rolled out over training trajectories.
    A finite-difference scheme that predicts them is best: what it leaves over is a function of
    the last frame.  Combining past frames is taken where only that predicts them, as it does for
    waves that come back; elsewhere its small first error hides that it goes on with any error as
    if it were motion.  Then the scheme again, unless it goes astray by more than the data's own
    size: data that move farther in a step than it sees make it extrapolate, and it explodes.
    """
    if data.steady:
        return Base("frame")
    scheme = fit_base("stencil", data, history)
    stepped = _rolled_error(scheme, data, history)
    if stepped < _WELL_ROLLED:
        return scheme
    combined = fit_base("linear", data, history)
    if _rolled_error(combined, data, history) < _WELL_ROLLED:
        return combined
    return scheme if stepped < 1 else Base("increment")


def _rolled_error(base: Base, data: Dataset, history: int) -> float:
    """The error of a rule alone, relative to the fields, over whole training trajectories."""
    trajectories = data.train.read(range(min(len(data.train), _ROLLED_SAMPLES)))
    shown, truth = trajectories[:, :history], trajectories[:, history:]
    error = rollout(lambda frames: base(frames, data.grid.boundary), shown, truth.shape[1]) - truth
    over = (0, 1, *range(3, truth.dim()))
    share = error.square().sum(over) / truth.square().sum(over).clamp_min(1e-30)
    return float(share.mean().sqrt())


def fit_linear_base(
    part: Part, history: int, start: int = 0, ridge: float = 1e-6
) -> tuple[Tensor, Tensor]:
    """The weights of past frames that predict the next one best, cell by cell and by channel.

        min_w Σ ( u_{t+1} − Σ_k w_k u_{t−k} )² + ridge · Σ u² · |w|²

    (k, c) weights and the (c,) spread of what they leave over.
    """
    gram, cells = torch.zeros(()), 0
    for u, thin in _trajectories_to_fit(part, start):
        windows = u.flatten(2)[..., ::thin].unfold(0, history + 1, 1).movedim(1, 0).flatten(1, 2)
        gram, cells = gram + windows.mT @ windows, cells + windows.shape[1]
    past, mixed = gram[:, :-1, :-1], gram[:, :-1, -1:]
    size = past.diagonal(dim1=1, dim2=2).mean(dim=1).view(-1, 1, 1)
    held = past + ridge * size * torch.eye(history, dtype=gram.dtype)
    weights = torch.linalg.solve(held, mixed)
    left = gram[:, -1:, -1:] - 2 * weights.mT @ mixed + weights.mT @ past @ weights
    spread = (left.flatten().clamp_min(0) / cells).sqrt()
    return weights[..., 0].T.float(), spread.float()


def fit_stencil_base(
    part: Part, start: int = 0, ridge: float = 1e-8
) -> tuple[Tensor, Tensor, Tensor]:
    """The linear scheme over the last frame that predicts the next one best.

        min_{S, s} Σ ‖ u_{t+1} − S ∗ u_t − s ‖² + ridge · Σ |u|² · |S|²

    (c, c, 3, …) weights from all fields to each, the (c,) constants s and the (c,) spread of what
    they leave over.  Frames before `start`, which are only ever shown, are not fitted.
    """
    boundary, channels = part.data.grid.boundary, part.data.channels
    gram, cells = torch.zeros(()), 0
    for u, thin in _trajectories_to_fit(part, start):
        taps = _taps(u[:-1], boundary, thin)
        following = u[1:].transpose(0, 1).flatten(1)[:, ::thin]
        both = torch.cat([taps, torch.ones_like(taps[:1]), following])
        gram, cells = gram + both @ both.T, cells + both.shape[1]
    past, mixed = gram[:-channels, :-channels], gram[:-channels, -channels:]
    weights = torch.linalg.solve(past + ridge * past.diagonal().diag(), mixed)
    left = gram[-channels:, -channels:] - 2 * weights.T @ mixed + weights.T @ past @ weights
    spread = (left.diagonal().clamp_min(0) / cells).sqrt()
    scheme = weights[:-1].T.unflatten(1, (channels, *[3] * len(boundary)))
    return scheme.float(), weights[-1].float(), spread.float()


def _trajectories_to_fit(part: Part, start: int) -> Iterator[tuple[Tensor, int]]:
    """Some trajectories (t, c, *space) in double precision, and how thinly to look at them."""
    count = min(len(part), _FIT_SAMPLES)
    for i in torch.linspace(0, len(part) - 1, count).long().tolist():
        u = part.read([i], start)[0].double()
        # Never a multiple of two, or the cells looked at would stand in columns.
        yield u, max(1, count * u[:, 0].numel() // _FIT_VALUES) | 1


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
