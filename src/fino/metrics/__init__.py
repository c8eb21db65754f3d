"""How wrong a rollout is: every metric, and the table `METRICS` that names them.

Every metric is a pure function of a prediction and the truth, in any number of dimensions,

    (b, t, c, *space) ×2 → (b, t, c, …)

one value for every sample, time and channel.  `METRICS` says how the samples are then joined
(mean, root mean square or largest); times and channels are averaged after that.  So a score
depends on the samples and not on the batches they came in.  PDEBench's own convention, which
does depend on them, is in `fino.metrics.pdebench`.

How far a score could have come out otherwise, had other samples been drawn, is its interval:
samples are drawn again with replacement, the score is computed for each draw, and the middle 95 %
of those is the interval.

A new metric is one function here and one line in the table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from fino.grid import Grid
from fino.metrics.spectrum import BANDS, amplitude, bands_of
from fino.settings import did_you_mean
from fino.shapes import Trajectory, expect
from fino.streams import torch_stream

__all__ = [
    "AT_REST",
    "METRICS",
    "Metric",
    "area_weights",
    "boundary_rmse",
    "conserved_error",
    "correlation",
    "correlation_time",
    "fourier_error",
    "max_error",
    "metric_named",
    "nrmse",
    "rest_size",
    "resting",
    "rmse",
    "vrmse",
]

Weights = Tensor | None
#: Below this correlation with the truth, a rollout is said to have lost it.
_LOST = 0.9
#: A frame with less than this share of its trajectory's size is at rest.
AT_REST = 0.01
_DRAWS = 1000
_LEVEL = 0.95


def rmse(prediction: Trajectory, truth: Trajectory, weights: Weights = None) -> Tensor:
    """Root mean square error over space: (b, t, c, *space) ×2 → (b, t, c)."""
    return _rms(_error(prediction, truth), weights)


def nrmse(
    prediction: Trajectory,
    truth: Trajectory,
    weights: Weights = None,
    smallest: Tensor | None = None,
) -> Tensor:
    """Error relative to the truth's own size: (b, t, c, *space) ×2 → (b, t, c).

    Zero is perfect; one is no better than predicting zero everywhere.  A frame that has come to
    rest has no size to compare with: one smaller than `smallest`, by default `rest_size` of these
    frames, counts as that large.
    """
    error, size = _rms(_error(prediction, truth), weights), _rms(truth, weights)
    smallest = resting(size) if smallest is None else smallest
    # A field that is zero and predicted to be zero is not wrong.
    return torch.where(error == 0, 0.0, error / torch.maximum(size, smallest))


def rest_size(truth: Trajectory) -> Tensor:
    """The size below which a field is at rest: (b, t, c, *space) → (b, 1, c).

    A hundredth of its root mean square over the whole trajectory.
    """
    return resting(_rms(truth, None))


def resting(size: Tensor) -> Tensor:
    """The size below which a field of these sizes is at rest: (b, t, c) → (b, 1, c)."""
    return AT_REST * size.square().mean(dim=1, keepdim=True).sqrt()


def vrmse(prediction: Trajectory, truth: Trajectory, weights: Weights = None) -> Tensor:
    """Error relative to the truth's standard deviation in space, as The Well has it: → (b, t, c).

    One is no better than predicting the mean.  A field that hardly varies counts as varying by a
    thousandth of its size, and one at rest by a hundredth of what it varies over the trajectory.
    """
    error, size = _rms(_error(prediction, truth), weights), _rms(truth, weights)
    middle = _mean(truth, weights)[(..., *[None] * (truth.ndim - 3))]
    spread = _rms(truth.double() - middle, weights)
    least = torch.maximum(1e-3 * size, resting(spread))
    return torch.where(error == 0, 0.0, error / torch.maximum(spread, least))


def _accumulated(prediction: Trajectory, truth: Trajectory, weights: Weights = None) -> Tensor:
    """The sum over time of the mean square error, as MP-PDE reports it: → (b, 1, c)."""
    return _mean(_error(prediction, truth).square(), weights).sum(dim=1, keepdim=True)


def max_error(prediction: Trajectory, truth: Trajectory, weights: Weights = None) -> Tensor:
    """The worst point: (b, t, c, *space) ×2 → (b, t, c)."""
    return _error(prediction, truth).abs().flatten(start_dim=3).amax(-1)


def conserved_error(prediction: Trajectory, truth: Trajectory, weights: Weights = None) -> Tensor:
    """How much the mean over space, the conserved quantity, is off: → (b, t, c)."""
    return _mean(_error(prediction, truth), weights).abs()


def boundary_rmse(prediction: Trajectory, truth: Trajectory, weights: Weights = None) -> Tensor:
    """Root mean square error over the cells at an edge, each counted once: → (b, t, c)."""
    inside = torch.zeros(truth.shape[3:], dtype=torch.bool, device=truth.device)
    inside[tuple(slice(1, -1) for _ in truth.shape[3:])] = True
    edge = _error(prediction, truth)[..., ~inside]
    if weights is not None:
        part = weights.expand(*edge.shape[:3], *truth.shape[3:])[..., ~inside]
        return ((edge.square() * part).sum(-1) / part.sum(-1).clamp_min(1e-30)).sqrt()
    return edge.square().mean(-1).sqrt()


def fourier_error(prediction: Trajectory, truth: Trajectory, weights: Weights = None) -> Tensor:
    """The error's amplitude at every wavenumber: (b, t, c, *space) ×2 → (b, t, c, k)."""
    return amplitude(_error(prediction, truth))


def correlation(prediction: Trajectory, truth: Trajectory, weights: Weights = None) -> Tensor:
    """Pearson's correlation over space: (b, t, c, *space) ×2 → (b, t, c).

    One is the right pattern, whatever its size.  A constant field has no pattern: it correlates
    with another constant and with nothing else.
    """
    p = prediction.double() - _mean(prediction, weights)[(..., *[None] * (truth.ndim - 3))]
    q = truth.double() - _mean(truth, weights)[(..., *[None] * (truth.ndim - 3))]
    together, sizes = _mean(p * q, weights), (_rms(p, weights), _rms(q, weights))
    alone, both_flat = sizes[0] * sizes[1], (sizes[0] == 0) & (sizes[1] == 0)
    pattern = torch.where(alone > 0, together / alone, both_flat.double())
    return pattern.nan_to_num(nan=0.0)


def correlation_time(prediction: Trajectory, truth: Trajectory, weights: Weights = None) -> Tensor:
    """Steps before the correlation falls under 0.9 for the first time: → (b, 1, 1)."""
    held = correlation(prediction, truth, weights).mean(dim=2) >= _LOST
    return held.long().cumprod(dim=1).sum(dim=1).double()[:, None, None]


@dataclass(frozen=True)
class Metric:
    """A metric by name: its value for every sample, and how samples are joined.

    over_samples        mean, rms or max
    band                the wavenumbers that it measures (low, mid, high), for Fourier errors
    weighted            whether cells count by their area on the sphere
    unit                field, 1 (relative) or steps
    """

    name: str
    title: str
    each: Callable[[Trajectory, Trajectory, Weights], Tensor]
    over_samples: str = "mean"
    band: str | None = None
    weighted: bool = False
    higher_is_better: bool = False
    unit: str = "field"

    def per_sample(
        self, prediction: Trajectory, truth: Trajectory, weights: Weights = None
    ) -> Tensor:
        """The values that samples are joined from: (b, t, c, …).  Broken rollouts are inf."""
        return self.cut(self.each(prediction, truth, weights if self.weighted else None))

    def cut(self, values: Tensor) -> Tensor:
        """This metric's share of what `each` measured: its band, with broken values as inf."""
        if self.band:
            first, last = BANDS[self.band]
            values = values[..., first:last]
        return torch.where(values.isfinite(), values, torch.inf)

    def join(self, values: Tensor) -> Tensor:
        """All samples joined: (n, t, c, …) → (t, c, …)."""
        if self.over_samples == "max":
            return values.amax(dim=0)
        if self.over_samples == "rms":
            return values.square().mean(dim=0).sqrt()
        return values.mean(dim=0)

    def resample(self, values: Tensor, draws: int = _DRAWS, seed: int = 0) -> Tensor:
        """The score of every draw: (n, t, c, …) → (draws).

        Draws depend only on the number of samples, so that two models scored on the same samples
        are drawn alike and can be compared pair by pair.
        """
        samples = len(values)
        stream = torch_stream(seed, "bootstrap", samples)
        chosen = torch.randint(samples, (draws, samples), generator=stream)
        flat = values.flatten(1)
        if self.over_samples == "mean":
            return flat.mean(1)[chosen].mean(1)
        if self.over_samples == "max":
            return torch.stack([flat[draw].amax(0).mean() for draw in chosen])
        share = torch.zeros(draws, samples, dtype=torch.float64)
        share.scatter_add_(1, chosen, torch.full(chosen.shape, 1.0 / samples, dtype=torch.float64))
        return (share @ flat.square()).sqrt().mean(1)

    def interval(self, values: Tensor) -> tuple[float, float] | None:
        """The middle 95 % of the draws, or None where it says nothing (one sample, a blow-up)."""
        if len(values) < 2 or not values.isfinite().all():
            return None
        tail = (1.0 - _LEVEL) / 2
        ends = torch.tensor([tail, 1.0 - tail], dtype=torch.float64)
        low, high = torch.quantile(self.resample(values), ends)
        return float(low), float(high)

    def applies_to(self, space: tuple[int, ...], steps: int, has_area: bool) -> bool:
        """Whether this metric says anything on such a grid, for so many steps."""
        if self.band and self.band not in bands_of(space):
            return False
        return (has_area or not self.weighted) and (steps > 1 or self.each is not correlation_time)

    def __call__(
        self, prediction: Trajectory, truth: Trajectory, weights: Weights = None
    ) -> Tensor:
        """One number: (b, t, c, *space) ×2 → ()."""
        expect(prediction, "b t c *space", name="prediction")
        expect(truth, "b t c *space", name="truth")
        if prediction.shape != truth.shape:
            raise ValueError(
                f"prediction should have the shape of the truth, {tuple(truth.shape)}, "
                f"got {tuple(prediction.shape)}."
            )
        return self.join(self.per_sample(prediction, truth, weights)).mean()


_TABLE = (
    Metric("rmse", "root mean square error", rmse),
    Metric("nrmse", "error relative to the field's size", nrmse, unit="1"),
    Metric("vrmse", "error relative to the field's spread in space", vrmse, unit="1"),
    Metric("accumulated", "sum of the mean square errors of all steps", _accumulated),
    Metric("max_error", "worst point of any sample", max_error, "max"),
    Metric("crmse", "error of the mean, the conserved quantity", conserved_error, "rms"),
    Metric("brmse", "error on the boundary", boundary_rmse),
    Metric("frmse_low", "error at wavenumbers 0–3", fourier_error, "rms", "low"),
    Metric("frmse_mid", "error at wavenumbers 4–11", fourier_error, "rms", "mid"),
    Metric("frmse_high", "error at wavenumbers from 12", fourier_error, "rms", "high"),
    Metric(
        "correlation_time",
        "steps with correlation above 0.9",
        correlation_time,
        higher_is_better=True,
        unit="steps",
    ),
    Metric("rmse_area", "root mean square error by area", rmse, weighted=True),
    Metric("nrmse_area", "relative error by area", nrmse, weighted=True, unit="1"),
    Metric("crmse_area", "error of the mean by area", conserved_error, "rms", weighted=True),
)

#: Every metric by name, in the order of the tables.
METRICS: dict[str, Metric] = {metric.name: metric for metric in _TABLE}


def metric_named(name: str) -> Metric:
    """The metric of that name, or a hint."""
    if name not in METRICS:
        raise ValueError(f"Unknown metric '{name}'. {did_you_mean(name, list(METRICS))}")
    return METRICS[name]


def area_weights(grid: Grid, latitude: int = 0) -> Tensor:
    """cos(latitude) spread over the grid, its mean one: → (*space).

    `latitude` is the axis whose coordinate is in degrees north.
    """
    degrees = torch.from_numpy(grid.mesh()[latitude])
    if degrees.abs().max() > 90.0:
        raise ValueError(
            f"area weights need latitudes between -90 and 90 degrees on axis {latitude}, "
            f"got up to {float(degrees.abs().max()):g}."
        )
    weights = torch.deg2rad(degrees).cos().clamp(min=0.0)
    return weights / weights.mean()


def _error(prediction: Trajectory, truth: Trajectory) -> Tensor:
    # Double precision: a float32 sum over a fine grid would lose the conserved quantity.
    return prediction.double() - truth.double()


def _mean(u: Tensor, weights: Weights) -> Tensor:
    """The mean over space; weights are (*space), or (b, 1, 1, *space) for each sample."""
    if weights is not None:
        u = u.double() * weights
    return u.double().flatten(start_dim=3).mean(-1)


def _rms(u: Tensor, weights: Weights) -> Tensor:
    if weights is not None:
        return _mean(u.double().square(), weights).sqrt()
    flat = u.double().flatten(start_dim=3)
    return torch.linalg.vector_norm(flat, dim=-1) / flat.shape[-1] ** 0.5
