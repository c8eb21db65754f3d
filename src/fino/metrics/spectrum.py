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

__all__ = ["BANDS", "amplitude", "bands_of", "spectrum"]

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
    # A real field's modes m and −m are equal in size: half of the last axis tells both.
    modes = torch.fft.rfftn(u.double(), dim=tuple(range(3, u.ndim)), norm="forward")
    half = modes.shape[-1]
    twice = torch.full((half,), 2.0, dtype=torch.float64, device=u.device)
    twice[0] = 1.0
    if space[-1] % 2 == 0:
        twice[-1] = 1.0
    energy = (torch.view_as_real(modes).square().sum(-1) * twice).flatten(start_dim=3)
    every = shells(space)
    index = every[..., :half].to(u.device).flatten()
    out = torch.zeros(*u.shape[:3], int(every.max()) + 1, dtype=energy.dtype, device=u.device)
    return out.index_add_(-1, index, energy)


def amplitude(u: Trajectory) -> Tensor:
    """√E_k, in the units of the field: (b, t, c, *space) → (b, t, c, k)."""
    return spectrum(u).sqrt()


def bands_of(space: tuple[int, ...]) -> tuple[str, ...]:
    """The bands that this grid can carry at all: 16 points have no wave of 12."""
    last = int(shells(tuple(space)).max())
    return tuple(name for name, (first, _) in BANDS.items() if first <= last)
