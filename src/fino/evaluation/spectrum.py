"""How much of a field lives at each wavenumber.

    E_k = Σ_{k ≤ |m| < k+1} |û_m|² / N²        Σ_k E_k = mean of u²   (Parseval)

The modes m are whole numbers of waves across the domain on every axis, positive and negative,
and every one of them belongs to exactly one shell.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from fino.shapes import Trajectory

__all__ = ["BANDS", "amplitude", "bands_of", "shells", "spectrum"]

#: Low, middle and high wavenumbers, as PDEBench divides them: [first, last).
BANDS: dict[str, tuple[int, int | None]] = {"low": (0, 4), "mid": (4, 12), "high": (12, None)}


@lru_cache(maxsize=16)
def shells(space: tuple[int, ...]) -> Tensor:
    """The shell ⌊|m|⌋ of every mode, in the order of `fftn`: (*space)."""
    squared = torch.zeros(space, dtype=torch.int64)
    for axis, points in enumerate(space):
        mode = (torch.fft.fftfreq(points, dtype=torch.float64) * points).round().to(torch.int64)
        along = [1] * len(space)
        along[axis] = points
        squared = squared + mode.square().reshape(along)
    # Whole numbers below 2⁵³ have exact square roots in float64, so no shell is off by one.
    return squared.double().sqrt().floor().to(torch.int64)


def spectrum(u: Trajectory) -> Tensor:
    """The energy in every shell of wavenumbers: (b, t, c, *space) → (b, t, c, k)."""
    space = tuple(u.shape[3:])
    modes = torch.fft.fftn(u.double(), dim=tuple(range(3, u.ndim)))
    points = modes[0, 0, 0].numel()
    energy = (modes.abs() / points).square().flatten(start_dim=3)
    index = shells(space).to(u.device).flatten()
    count = int(index.max()) + 1
    out = torch.zeros(*u.shape[:3], count, dtype=energy.dtype, device=u.device)
    return out.index_add_(-1, index, energy)


def amplitude(u: Trajectory) -> Tensor:
    """√E_k, in the units of the field: (b, t, c, *space) → (b, t, c, k)."""
    return spectrum(u).sqrt()


def bands_of(space: tuple[int, ...]) -> tuple[str, ...]:
    """The bands that this grid can carry at all: 16 points have no wave of 12."""
    last = int(shells(tuple(space)).max())
    return tuple(name for name, (first, _) in BANDS.items() if first <= last)
