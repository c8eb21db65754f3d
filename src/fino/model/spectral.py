"""Learned multipliers in Fourier space: the layer that the Fourier family is made of.

    (K u)(x) = F⁻¹( R_k · F(u)_k )        for the lowest frequencies k, zero for the others

R_k is one complex matrix (channels × channels) for every kept frequency.  `modes` frequencies
are kept on the last axis (0 … modes − 1) and 2 · modes on every other one (−modes … modes − 1);
the negative half of the last axis follows from the field being real.

Weights are stored as pairs of real numbers: `module.double()` and the file format then treat
them like all others.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fino.shapes import Field

__all__ = ["Pointwise", "SpectralConvolution", "crop_right", "multiply_axis", "pad_right"]


class SpectralConvolution(nn.Module):
    """One matrix a frequency, over all axes at once (Li et al. 2021, eq. 5).

    (b, inputs, *space) → (b, outputs, *space)

    A grid too coarse for `modes` uses those of its frequencies that exist.
    """

    def __init__(self, inputs: int, outputs: int, modes: tuple[int, ...]) -> None:
        super().__init__()
        self.modes = modes
        kept = (*(2 * m for m in modes[:-1]), modes[-1])
        start = torch.rand(2, *kept, inputs, outputs) / (inputs * outputs)
        self.weight = nn.Parameter(start)

    def forward(self, u: Field) -> Field:
        space = u.shape[2:]
        spectrum = torch.fft.rfft(u, dim=-1)
        last = min(self.modes[-1], spectrum.shape[-1])
        spectrum = spectrum[..., :last]
        weight = self.weight[..., :last, :, :]
        for axis in range(len(space) - 1):
            spectrum = torch.fft.fft(spectrum, dim=2 + axis)
            low, high = _sides(self.modes[axis], space[axis])
            spectrum = _ends(spectrum, 2 + axis, low, high)
            weight = _ends(weight, 1 + axis, low, high)
        spectrum = multiply_modes(spectrum, weight)
        for axis in range(len(space) - 1):
            low, high = _sides(self.modes[axis], space[axis])
            spectrum = _fill(spectrum, 2 + axis, low, high, space[axis])
            spectrum = torch.fft.ifft(spectrum, dim=2 + axis)
        return torch.fft.irfft(spectrum, n=space[-1], dim=-1)


class Pointwise(nn.Module):
    """The same matrix at every cell: (b, inputs, *space) → (b, outputs, *space).

    A batched matrix product; on the CPU it is two to three times cheaper than a convolution
    with a kernel of one cell.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        bound = inputs**-0.5
        self.weight = nn.Parameter(torch.empty(outputs, inputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound))

    def forward(self, u: Field) -> Field:
        return self.apply_weight(u, self.weight)

    def apply_weight(self, u: Field, weight: Tensor) -> Field:
        """The map with another matrix in place of its own."""
        flat = u.flatten(start_dim=2)
        out = torch.baddbmm(self.bias.unsqueeze(-1), weight.expand(len(u), -1, -1), flat)
        return out.unflatten(-1, u.shape[2:])


def multiply_modes(spectrum: Tensor, weight: Tensor) -> Tensor:
    """Σ_i û_i,k R_i,o,k over all axes: (b, i, *modes), (2, *modes, i, o) → (b, o, *modes)."""
    modes = spectrum.shape[2:]
    flat = multiply_axis(spectrum.flatten(start_dim=2), weight.flatten(1, -3), axis=2)
    return flat.unflatten(2, modes)


def multiply_axis(spectrum: Tensor, weight: Tensor, axis: int) -> Tensor:
    """Σ_i û_i,k R_i,o,k with k along one axis: (b, i, *space), (2, k, i, o) → (b, o, *space).

    Spectra are complex, weights real pairs.  One real matrix product a frequency,
    [Re û, Im û] · [[Re R, Im R], [−Im R, Re R]], because torch's complex product on the CPU is
    up to three times slower.
    """
    real, imaginary = weight
    matrix = torch.cat(
        (torch.cat((real, imaginary), dim=2), torch.cat((-imaginary, real), dim=2)), dim=1
    )
    # (b, i, *space, 2) → (k, b, *others, 2, i): frequency first, channels last.
    pairs = torch.view_as_real(spectrum).movedim((axis, 1), (0, -1))
    product = torch.bmm(pairs.reshape(len(matrix), -1, matrix.shape[1]), matrix)
    product = product.view(*pairs.shape[:-1], -1).movedim((0, -1), (axis, 1))
    return torch.view_as_complex(product.contiguous())


def pad_right(u: Field, cells: tuple[int, ...]) -> Field:
    """Zeros after the end of each axis, so that a field without a period may have one."""
    if not any(cells):
        return u
    return F.pad(u, [width for cell in reversed(cells) for width in (0, cell)])


def crop_right(u: Field, cells: tuple[int, ...]) -> Field:
    """What `pad_right` added, taken away again."""
    for axis, cell in enumerate(cells):
        u = u.narrow(2 + axis, 0, u.shape[2 + axis] - cell)
    return u


def _sides(modes: int, points: int) -> tuple[int, int]:
    """How many non-negative and negative frequencies of an axis are kept."""
    return min(modes, (points + 1) // 2), min(modes, points // 2)


def _ends(u: Tensor, dim: int, low: int, high: int) -> Tensor:
    """The first `low` and the last `high` entries along `dim`."""
    size = u.shape[dim]
    if low + high == size:
        return u
    return torch.cat((u.narrow(dim, 0, low), u.narrow(dim, size - high, high)), dim)


def _fill(u: Tensor, dim: int, low: int, high: int, size: int) -> Tensor:
    """The inverse of `_ends`: zeros between the two parts, up to `size`."""
    if low + high == size:
        return u
    shape = list(u.shape)
    shape[dim] = size - low - high
    return torch.cat((u.narrow(dim, 0, low), u.new_zeros(shape), u.narrow(dim, low, high)), dim)
