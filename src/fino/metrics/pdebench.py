"""PDEBench's own convention, quirks included, so that its tables can be read beside ours.

Its definitions (facts read from metrics.py of pdebench/PDEBench at 9754b4c) differ from ours in
five ways, each of which a test works out by hand:

* batches, not samples, are averaged: a short last batch weighs as much as a full one;
* the sum over batches is divided by their number **less one**, which inflates every number;
* cRMSE, max error and fRMSE join the samples inside a batch, so they depend on its size;
* bRMSE in two dimensions counts the four corners twice;
* fRMSE in one dimension counts each pair of modes ±m once; in two it looks only at the modes
  with 0 ≤ i < nₓ/2 and 0 ≤ j < n_y/2, and drops shells from min(nₓ, n_y)/2 on.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from fino.metrics import conserved_error, max_error, rmse
from fino.metrics.spectrum import BANDS
from fino.settings import did_you_mean
from fino.shapes import Trajectory

__all__ = ["CONVENTION", "from_batches", "of_batch"]


def _rmse(prediction: Trajectory, truth: Trajectory) -> Tensor:
    return rmse(prediction, truth).mean()


def _nrmse(prediction: Trajectory, truth: Trajectory) -> Tensor:
    # Nothing guards the division: a field of zeros gives nan, as it does there.
    return (rmse(prediction, truth) / rmse(torch.zeros_like(truth), truth)).mean()


def _max_error(prediction: Trajectory, truth: Trajectory) -> Tensor:
    return max_error(prediction, truth).amax(dim=0).mean()


def _crmse(prediction: Trajectory, truth: Trajectory) -> Tensor:
    return conserved_error(prediction, truth).square().mean(dim=0).sqrt().mean()


def _brmse(prediction: Trajectory, truth: Trajectory) -> Tensor:
    squared = (prediction.double() - truth.double()).square()
    total, cells = torch.zeros(truth.shape[:3], dtype=torch.float64), 0
    for axis in range(3, truth.ndim):
        for end in (0, -1):
            face = squared.select(axis, end).reshape(*truth.shape[:3], -1)
            total, cells = total + face.sum(-1).cpu(), cells + face.shape[-1]
    return (total / cells).sqrt().mean()


def _modes_1d(error: Tensor) -> Tensor:
    """Each mode 0 … n/2 by itself: (b, t, c, n) → (b, t, c, k)."""
    return (torch.fft.rfft(error).abs() / error.shape[-1]).square()


def _modes_2d(error: Tensor) -> Tensor:
    """The positive quadrant, summed into shells: (b, t, c, nₓ, n_y) → (b, t, c, k)."""
    rows, columns = error.shape[-2] // 2, error.shape[-1] // 2
    modes = torch.fft.fft2(error)[..., :rows, :columns].abs() / error[0, 0, 0].numel()
    i, j = torch.arange(rows)[:, None], torch.arange(columns)[None, :]
    shell = (i.square() + j.square()).double().sqrt().floor().long().flatten()
    kept = shell < min(rows, columns)
    energy = modes.square().flatten(start_dim=3)[..., kept]
    out = torch.zeros(*error.shape[:3], min(rows, columns), dtype=torch.float64)
    return out.index_add_(-1, shell[kept], energy.cpu())


def _frmse(band: str) -> Callable[[Trajectory, Trajectory], Tensor]:
    first, last = BANDS[band]

    def of_band(prediction: Trajectory, truth: Trajectory) -> Tensor:
        error = prediction.double() - truth.double()
        energy = _modes_1d(error) if error.ndim == 4 else _modes_2d(error)
        return energy.mean(dim=0).sqrt()[..., first:last].mean()

    return of_band


#: Metric → its value for one batch, averaged over times and channels.
CONVENTION: dict[str, Callable[[Trajectory, Trajectory], Tensor]] = {
    "rmse": _rmse,
    "nrmse": _nrmse,
    "max_error": _max_error,
    "crmse": _crmse,
    "brmse": _brmse,
    "frmse_low": _frmse("low"),
    "frmse_mid": _frmse("mid"),
    "frmse_high": _frmse("high"),
}


def of_batch(name: str, prediction: Trajectory, truth: Trajectory) -> float:
    """What PDEBench adds to its sum for one batch: (b, t, c, *space) ×2 → a number."""
    if name not in CONVENTION:
        raise ValueError(
            f"PDEBench's convention has no metric '{name}'. {did_you_mean(name, list(CONVENTION))}"
        )
    if truth.ndim not in (4, 5):
        raise ValueError(
            f"PDEBench's convention is known in one and two dimensions, got {truth.ndim - 3}."
        )
    return float(CONVENTION[name](prediction, truth))


def from_batches(values: list[float]) -> float:
    """The sum over batches, divided by their number less one, as PDEBench divides it."""
    if len(values) < 2:
        raise ValueError(
            "PDEBench's convention divides by the number of batches less one, so it needs two "
            "batches or more. Use a smaller batch."
        )
    return sum(values) / (len(values) - 1)
