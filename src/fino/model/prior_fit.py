"""Linear priors fitted to data by least squares, and the one that suits them best.

The priors are compared by what becomes of them in a rollout, not by their first step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import torch
from torch import Tensor

from fino.data.dataset import Dataset, Part
from fino.model.conditioning import Conditioning
from fino.model.convolution import pad, stencil
from fino.model.prior import (
    NEAREST,
    PRIORS,
    Flow,
    LastFrame,
    LinearPrior,
    Moved,
    NoPrior,
    PastFrames,
    Scheme,
    polynomials,
    powers,
)
from fino.model.scaling import Scaling, fit_frames, fit_increments

__all__ = ["Fitted", "choose_prior", "fit_prior"]

#: Trajectories and numbers that a least-squares fit looks at; coefficients of θ need more of them.
_FIT_SAMPLES, _THETA_SAMPLES = 32, 512
_FIT_VALUES = 200_000
#: Polynomials of θ: no more than so many, and a trajectory for each eighth of one.
_MOST_POLYNOMIALS = 35

#: A frame can be moved so many times as far as in training: θ outside of its range goes on.
_BEYOND = 1.25

#: Trajectories that priors are rolled out on, and the relative error of one that predicts them.
_ROLLED_SAMPLES = 8
_WELL_ROLLED = 0.05


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted prior, the scaling of its residual, and the error of a rollout of its own."""

    prior: LinearPrior
    residual: Scaling
    error: float = math.nan

    @property
    def kind(self) -> str:
        return self.prior.kind


def choose_prior(
    data: Dataset,
    history: int,
    conditioning: Conditioning | None = None,
    moved_history: int = 1,
) -> Fitted:
    """The prior that suits the data: a key of `PRIORS`, fitted.

    Each is scored by what becomes of it when it is rolled out over training trajectories.  A
    finite-difference scheme that predicts them is best: its residual is a function of the last
    frame.  Combining past frames is taken where only that predicts them, as it does for waves that
    come back; elsewhere its small first error hides that it goes on with any error as if it were
    motion.  Then the scheme again, unless its error exceeds the data's own size: data that move
    farther in a step than it sees make it extrapolate, and it explodes.  With parameters that vary
    one scheme for all of them is not taken unless it predicts: networks upon it exploded too.
    `moved_history` frames moved along are tried where neither predicts, and first of all where
    parameters vary or steps have several lengths.
    """
    conditioning = conditioning or Conditioning.of(data)
    if data.steady:
        return fit_prior(NoPrior.kind, data, history, conditioning)
    order = [Scheme.kind, PastFrames.kind, Moved.kind]
    if conditioning.settings.steps:
        order = [Moved.kind]
    elif conditioning.settings.parameters:
        order = [Moved.kind, Scheme.kind, PastFrames.kind]
    found = {}
    for kind in order:
        frames = moved_history if kind == Moved.kind else history
        fitted = fit_prior(kind, data, frames, conditioning)
        found[kind] = _scored(fitted, data, conditioning)
        if found[kind].error < _WELL_ROLLED and _moves(found[kind].prior):
            return found[kind]
    weak = found.get(Scheme.kind)
    if weak is not None and weak.error < 1 and not conditioning.settings.parameters:
        return weak
    return fit_prior(LastFrame.kind, data, history, conditioning)


def _moves(prior: LinearPrior) -> bool:
    """Whether a prior that moves the frame moves it at all."""
    return not isinstance(prior, Moved) or any(prior.radius)


def fit_prior(kind: str, data: Dataset, history: int, conditioning: Conditioning) -> Fitted:
    """The prior of a kind, fitted to the train part, and the scaling of what it leaves over."""
    prior, task = PRIORS[kind](data.channels, history, data.grid), data.task(history)
    if conditioning.settings.steps and not isinstance(prior, NoPrior | LastFrame | Moved):
        raise ValueError(
            f"predict='{kind}' is fitted to one length of a step. With strides use 'moved', "
            f"'increment' or 'frame'."
        )
    if isinstance(prior, PastFrames):
        return _fit_past_frames(data, history, conditioning)
    if isinstance(prior, Scheme):
        weight, constant, spread = fit_scheme(data.train, task.shown - 1)
        prior.weight.copy_(weight)
        return Fitted(prior, Scaling(constant, spread))
    if data.steady:
        return Fitted(prior, fit_frames(data.train, 1, 1))
    views = _views(data, conditioning)
    if isinstance(prior, NoPrior):
        return Fitted(prior, _stacked([fit_frames(v.train, v.task(history).shown) for v in views]))
    if isinstance(prior, Moved):
        prior = fit_motion(data, history, conditioning)
        return Fitted(prior, _stacked([_left(prior, view, conditioning) for view in views]))
    if isinstance(prior, Flow):
        prior = fit_flow(data, history, conditioning)
        return Fitted(prior, _left(prior, data, conditioning))
    found = [fit_increments(v.train, v.task(history).shown - 1) for v in views]
    return Fitted(prior, _stacked(found))


def _views(data: Dataset, conditioning: Conditioning) -> list[Dataset]:
    """The data at each stride that a model is trained on."""
    strides = [round(dt / data.dt) for dt in conditioning.settings.steps]
    return [data.strided(time=s).with_history(1) for s in strides] or [data]


def _stacked(each: list[Scaling]) -> Scaling:
    """One scaling for each stride; plain where there is one."""
    if len(each) == 1:
        return each[0]
    return Scaling(torch.stack([s.mean for s in each]), torch.stack([s.std for s in each]))


def _scored(fitted: Fitted, data: Dataset, conditioning: Conditioning) -> Fitted:
    """With the error of a rollout, relative to the fields, at the worst of the strides."""
    worst, prior = 0.0, fitted.prior
    for place, view in enumerate(_views(data, conditioning)):
        mean = fitted.residual.mean.view(-1, view.channels)[place]
        constant, count = (
            mean.view(-1, *[1] * view.grid.dims),
            min(len(view.train), _ROLLED_SAMPLES),
        )
        given, truth = view.train.begin(range(count), prior.history)
        recent = conditioning.with_dt(given.last(prior.history), view.dt)
        theta, wrong = conditioning.unit(recent), torch.zeros(view.channels)
        for frame in truth.unbind(1):
            predicted = prior(prior.carry(recent), theta) + constant
            wrong = wrong + (predicted - frame).square().sum((0, *range(2, frame.dim())))
            recent = recent.step(predicted)
        share = wrong / truth.square().sum((0, 1, *range(3, truth.dim()))).clamp_min(1e-30)
        error = float(share.mean().sqrt())
        worst = max(worst, error if math.isfinite(error) else math.inf)
    return replace(fitted, error=worst)


def fit_motion(data: Dataset, history: int, conditioning: Conditioning) -> Moved:
    """How far the fields move in a step, as an affine function of the parameters.

    Each trajectory's own shift is where its frames correlate best with those before them.  Some
    correlate as well elsewhere; the line through all of them gives such outliers no weight.
    """
    settings, points = conditioning.settings, data.grid.points
    count = len(settings.parameters) - bool(settings.steps)
    chosen = _spread(len(data.train), _THETA_SAMPLES if count else _FIT_SAMPLES)
    found = torch.stack([_best_shift(_moving(data.train, i)) for i in chosen])
    if data.conditions.mask is None:  # nothing moves through a wall; a mask may be open
        walls = torch.tensor([not periodic for periodic in data.grid.is_periodic])
        found[:, walls] = 0.0
    given = data.train.beside(chosen, 0, 1)
    theta = torch.zeros(len(chosen), 0) if not count else given.parameters
    assert theta is not None
    columns = torch.cat([torch.ones(len(chosen), 1), theta], dim=1).double()
    velocity = torch.stack([_robust_line(columns, s) for s in found.T], dim=1)
    longest = max(settings.steps, default=data.dt) / data.dt * history
    far = (columns @ velocity).abs().amax(dim=0) * longest
    still = (far < 0.5) | torch.tensor([c + NEAREST > n for c, n in zip(far, points, strict=True)])
    far = torch.minimum(far * (_BEYOND if count else 1.0), torch.tensor(points) - NEAREST)
    radius = [0 if s else math.ceil(c) + NEAREST // 2 for s, c in zip(still, far, strict=True)]
    dt = settings.steps[0] if settings.steps else None
    prior = Moved(data.channels, history, data.grid, tuple(radius), count, dt)
    prior.velocity.copy_(torch.where(still, 0.0, velocity))
    return prior


def fit_flow(data: Dataset, history: int, conditioning: Conditioning) -> Flow:
    """The shift of the whole field, around which local motion is measured."""
    if conditioning.settings.parameters:
        raise ValueError("predict='flow' knows no parameters. Use predict='moved'.")
    uniform = fit_motion(data, history, conditioning)
    prior = Flow(data.channels, history, data.grid)
    prior.velocity.copy_(uniform.velocity)
    prior.radius = prior.farthest()
    return prior


def _moving(part: Part, sample: int) -> Tensor:
    """A trajectory (t, c, *space) around its mean, and nothing in the cells outside of a mask.

    Else the edge of the mask, which never moves, would be what is followed.
    """
    u, mask = part.trajectory(sample), part.mask(sample)
    if mask is None:
        return u
    mean = u[..., mask].mean(dim=-1).view(*u.shape[:2], *[1] * (u.dim() - 2))
    return (u - mean) * mask


def _best_shift(u: Tensor) -> Tensor:
    """The shift by which each frame (t, c, *space) follows best from the one before: (dims,)."""
    dims = u.dim() - 2
    axes = tuple(range(2, u.dim()))
    size = u.double().std(dim=(0, *axes), keepdim=True).clamp_min(1e-30)
    waves = torch.fft.fftn((u.double() - u.double().mean(dim=axes, keepdim=True)) / size, dim=axes)
    cross = (waves[1:] * waves[:-1].conj()).sum(dim=(0, 1))
    space = cross.shape
    peak = torch.unravel_index(torch.fft.ifftn(cross).real.argmax(), space)
    at = torch.stack(
        [p - n if p > n // 2 else p for p, n in zip(peak, space, strict=True)]
    ).double()
    ways = [2 * math.pi * torch.fft.fftfreq(n, dtype=torch.float64) for n in space]
    k = torch.stack(torch.meshgrid(*ways, indexing="ij")).flatten(1)
    # Newton's steps from the best whole number of cells to the top between cells.
    for _ in range(10):
        here = cross.flatten() * torch.exp(1j * (at @ k))
        slope, bend = -(k * here.imag).sum(dim=1), -(k * here.real) @ k.T
        bend = bend - 1e-9 * bend.diagonal().abs().sum().clamp_min(1e-30) * torch.eye(dims)
        at = at - torch.linalg.solve(bend.double(), slope).clamp(-0.5, 0.5)
    return at


def _robust_line(columns: Tensor, values: Tensor) -> Tensor:
    """Least squares (n, p), (n,) → (p,) in which outliers lose their weight, round by round."""
    line = torch.linalg.lstsq(columns, values[:, None]).solution[:, 0]
    for _ in range(30):
        off = (values - columns @ line).abs()
        weight = 1 / (1 + (off / off.median().clamp_min(1e-3)).square())
        both = columns * weight[:, None]
        line = torch.linalg.lstsq(both, (values * weight)[:, None]).solution[:, 0]
    return line


def _left(prior: LinearPrior, view: Dataset, conditioning: Conditioning) -> Scaling:
    """The scaling of what a prior of one frame leaves over in a step of the training part."""
    start, squares, sums, count = view.task(1).start, 0.0, 0.0, 0
    for i in _spread(len(view.train), _FIT_SAMPLES):
        u = view.train.trajectory(i, start)
        given = view.train.beside([i], start, 1)
        given = conditioning.with_dt(given, view.dt)
        whole = None if given.parameters is None else given.parameters.expand(len(u) - 1, -1)
        recent = replace(given, history=u[:-1, None], parameters=whole)
        rest = (u[1:] - prior(prior.carry(recent))).double().transpose(0, 1).flatten(2)
        mask = view.train.mask(i)
        rest = (rest if mask is None else rest[..., mask.flatten()]).flatten(1)
        sums, squares = sums + rest.sum(dim=1), squares + rest.square().sum(dim=1)
        count += rest.shape[1]
    mean = torch.as_tensor(sums) / count
    return Scaling(mean.float(), (squares / count - mean.square()).clamp_min(0).sqrt().float())


def _fit_past_frames(data: Dataset, history: int, conditioning: Conditioning) -> Fitted:
    """Frames combined alike for all; or by polynomials of θ, of the degree that rolls out best."""
    task, count = data.task(history), len(conditioning.settings.parameters)
    most = min(_MOST_POLYNOMIALS, len(data.train) // 8)
    tried: list[Fitted] = []
    for degree in range(9 if count else 1):
        if degree and math.comb(count + degree, count) > most:
            break
        prior = PastFrames(data.channels, history, data.grid, count, degree)
        chosen = _spread(len(data.train), _THETA_SAMPLES if degree else _FIT_SAMPLES)
        theta = conditioning.unit(data.train.beside(chosen, 0, 1)) if degree else None
        features = None if theta is None else polynomials(theta, powers(count, degree)).double()
        weight, spread = fit_past_frames(data.train, history, task.start, chosen, features)
        prior.weight.copy_(weight if degree else weight[0])
        fitted = Fitted(prior, Scaling(torch.zeros_like(spread), spread))
        tried.append(_scored(fitted, data, conditioning))
    return min(tried, key=lambda fitted: fitted.error)


def fit_past_frames(
    part: Part,
    history: int,
    start: int = 0,
    chosen: Sequence[int] | None = None,
    features: Tensor | None = None,
    ridge: float = 1e-6,
) -> tuple[Tensor, Tensor]:
    """The weights of past frames that predict the next one best, cell by cell and by channel.

        min_w Σ ( u_{t+1} − Σ_k w_k(θ) u_{t−k} )² + ridge · Σ u² · |w|²

    (J, k, c) weights for as many `features` of each trajectory (n, J), one if there are none, and
    the (c,) spread of the residual.  Frames before `start` are not fitted.
    """
    chosen = _spread(len(part), _FIT_SAMPLES) if chosen is None else chosen
    phi = torch.ones(len(chosen), 1, dtype=torch.float64) if features is None else features
    gram, count = torch.zeros(()), 0
    for (u, thin, mask), own in zip(_trajectories_to_fit(part, start, chosen), phi, strict=True):
        cells = u.flatten(2) if mask is None else u[:, :, mask]
        windows = cells[..., ::thin].unfold(0, history + 1, 1).movedim(1, 0).flatten(1, 2)
        square = torch.einsum("j,k,cpq->cjpkq", own, own, windows.mT @ windows)
        gram, count = gram + square, count + windows.shape[1]
    size = len(phi[0]) * history
    past = gram[:, :, :-1, :, :-1].flatten(3).flatten(1, 2)
    mixed = gram[:, :, :-1, 0, -1:].flatten(1, 2)
    scale = _held(ridge * past.diagonal(dim1=1, dim2=2).mean(dim=1)).view(-1, 1, 1)
    weights = torch.linalg.solve(past + scale * torch.eye(size, dtype=past.dtype), mixed)
    left = gram[:, 0, -1:, 0, -1:] - 2 * weights.mT @ mixed + weights.mT @ past @ weights
    spread = (left.flatten().clamp_min(0) / count).sqrt()
    return weights[..., 0].unflatten(1, (-1, history)).movedim(0, -1).float(), spread.float()


def fit_scheme(part: Part, start: int = 0, ridge: float = 1e-8) -> tuple[Tensor, Tensor, Tensor]:
    """The linear scheme over the last frame that predicts the next one best.

        min_{S, s} Σ ‖ u_{t+1} − S ∗ u_t − s ‖² + ridge · Σ |u|² · |S|²

    (c, c, 3, …) weights from all fields to each, the (c,) constants s and the (c,) spread of the
    residual.  Frames before `start`, which are only ever shown, are not fitted.
    """
    boundary, channels = part.data.grid.boundary, part.data.channels
    gram, cells = torch.zeros(()), 0
    for u, thin, mask in _trajectories_to_fit(part, start, _spread(len(part), _FIT_SAMPLES)):
        taps = _taps(u[:-1], boundary, thin)
        following = u[1:].transpose(0, 1).flatten(1)[:, ::thin]
        if mask is not None:
            inside = _inner(mask, boundary).repeat(len(u) - 1)[::thin]
            taps, following = taps[:, inside], following[:, inside]
        both = torch.cat([taps, torch.ones_like(taps[:1]), following])
        gram, cells = gram + both @ both.T, cells + both.shape[1]
    past, mixed = gram[:-channels, :-channels], gram[:-channels, -channels:]
    weights = torch.linalg.solve(past + _held(ridge * past.diagonal()).diag(), mixed)
    left = gram[-channels:, -channels:] - 2 * weights.T @ mixed + weights.T @ past @ weights
    spread = (left.diagonal().clamp_min(0) / cells).sqrt()
    scheme = weights[:-1].T.unflatten(1, (channels, *[3] * len(boundary)))
    return scheme.float(), weights[-1].float(), spread.float()


def _held(ridge: Tensor) -> Tensor:
    """A column of zeros, of a field that is zero everywhere, gets a weight of zero."""
    return torch.where(ridge > 0, ridge, 1.0)


def _spread(count: int, most: int) -> list[int]:
    """At most so many numbers below `count`, spread evenly."""
    return torch.linspace(0, count - 1, min(count, most)).long().tolist()


def _trajectories_to_fit(
    part: Part, start: int, chosen: Sequence[int]
) -> Iterator[tuple[Tensor, int, Tensor | None]]:
    """Some trajectories (t, c, *space) in double precision, how thinly to look at them, a mask."""
    for i in chosen:
        u = part.trajectory(i, start).double()
        # Never a multiple of two, or the cells looked at would stand in columns.
        yield u, max(1, len(chosen) * u[:, 0].numel() // _FIT_VALUES) | 1, part.mask(i)


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
