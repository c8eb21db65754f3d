"""Numbers scaled to mean zero and size one, by statistics of the training part alone.

scale(u) = (u − mean) / std        per channel
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from fino.data.dataset import Part

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Scaling", "fit_frames", "fit_increments"]


@dataclass(frozen=True)
class Scaling:
    """A mean and a standard deviation for each channel, both of shape (c,)."""

    mean: Tensor
    std: Tensor


#: Values that are looked at at a time.
_PIECE = 2**16
#: Deviations of a field below this are not trained on: their squares vanish in float32.
_SMALLEST = 1e-15


def fit_frames(part: Part, start: int = 0, length: int | None = None) -> Scaling:
    """The scaling of the frames themselves.

    For steady data, fit_frames(part, 0, 1) is the input's and fit_frames(part, 1, 1) the output's.
    """
    return _fit(part, start, length, increments=False)


def fit_increments(part: Part, start: int = 0) -> Scaling:
    """The scaling of u(t + dt) − u(t), the target of a model that predicts increments.

    A model that is shown k frames never predicts the first changes: its start is k − 1.
    """
    return _fit(part, start, None, increments=True, still=0.0)


def _pieces(u: Tensor, increments: bool, mask: Tensor | None = None) -> Iterator[Tensor]:
    """Frames (t, c, *space), or their changes, a few at a time in float64, as (c, values)."""
    if mask is not None:
        u = u[:, :, mask]
    at_once = max(1, _PIECE // math.prod(u.shape[1:]))
    for first in range(0, len(u) - increments, at_once):
        piece = u[first : first + at_once + increments].double()
        piece = piece.diff(dim=0) if increments else piece
        yield piece.transpose(0, 1).flatten(start_dim=1)


def _fit(
    part: Part, start: int, length: int | None, increments: bool, still: float = 1.0
) -> Scaling:
    """Mean and deviation in float64, in pieces that stay in the cache: Σ share (σ² + (μ − μ̄)²)."""
    if part.name != "train":
        raise ValueError(
            f"scaling should be fitted on the train part alone, got the {part.name} part."
        )
    counts, means, squares = [], [], []
    for i in range(len(part)):
        u = part.trajectory(i, start, length)
        for piece in _pieces(u, increments, part.mask(i)):
            counts.append(piece.shape[1])
            means.append(piece.mean(dim=1))
            squares.append((piece - means[-1][:, None]).square_().mean(dim=1))
    if not counts:
        raise ValueError(f"the train part of {part.data.card.name} is empty: nothing to fit on.")
    share = torch.tensor(counts, dtype=torch.float64)[:, None] / sum(counts)
    each = torch.stack(means)
    mean = (share * each).sum(dim=0)
    spread = (share * (torch.stack(squares) + (each - mean) ** 2)).sum(dim=0).sqrt()
    tiny = (spread > 1e-7 * mean.abs()) & (spread > 0) & (spread < _SMALLEST)
    if tiny.any() and not increments:
        name, least = part.data.fields[int(tiny.nonzero()[0])], float(spread[tiny][0])
        raise ValueError(
            f"the field '{name}' varies by {least:.1e} only, and squares of such numbers vanish in "
            f"float32. Give it in another unit, so that it varies by about one."
        )
    # A channel that never changes has nothing to scale by; rounding must not blow it up.
    constant = spread <= 1e-7 * mean.abs().clamp_min(1e-30)
    if constant.all() and not increments:
        same = ", ".join(
            f"{name} = {m:.6g}" for name, m in zip(part.data.fields, mean, strict=True)
        )
        warnings.warn(
            f"the training part is the same in every cell, frame and sample ({same}): there is "
            "nothing to learn. Check the arrays and axes that were given.",
            stacklevel=4,
        )
    return Scaling(mean.float(), torch.where(constant, still, spread).float())
