"""Convolution, pooling and upsampling that know what lies beyond the edge.

All padding of the project happens here, by physical name and for each axis:

    periodic     the other side of the domain
    dirichlet    zero
    neumann      the edge cell again (no flux)
    reflect      the mirror image about the edge cell

Fields are `(b, c, *space)` in one, two and three dimensions.  Inside the network they lie in
memory with the channels last, so that a pointwise map is one matrix product and a stencil
reads whole cells; `channels_last` brings them there once, at the network's door.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fino.locality import Locality
from fino.shapes import Field

__all__ = [
    "Convolution",
    "Doubling",
    "Pool",
    "Upsample",
    "channels_last",
    "check_ghosts",
    "fold",
    "pad",
    "pointwise",
    "stencil",
    "transposed",
    "unfold",
]

_CONVOLVE = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
_LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}


def channels_last(u: Field) -> Field:
    """The same field with the channels of a cell next to each other in memory."""
    return u.movedim(1, -1).contiguous().movedim(-1, 1)


def pad(u: Field, width: Sequence[int], boundary: Sequence[str]) -> Field:
    """Add `width` ghost cells on both sides of each axis: (b, c, *n) → (b, c, *(n + 2 width))."""
    for axis, (w, name) in enumerate(zip(width, boundary, strict=True), start=2):
        if w:
            u = torch.cat([_ghosts(u, axis, w, name, low=True), u, _ghosts(u, axis, w, name)], axis)
    return u


def _ghosts(u: Field, axis: int, width: int, boundary: str, low: bool = False) -> Field:
    """The cells beyond the low or the high end of one axis."""
    n = u.shape[axis]
    check_ghosts(n, width, boundary)
    if boundary == "periodic":
        return u.narrow(axis, n - width if low else 0, width)
    if boundary == "neumann":
        shape = [width if a == axis else -1 for a in range(u.dim())]
        return u.narrow(axis, 0 if low else n - 1, 1).expand(shape)
    if boundary == "reflect":
        return u.narrow(axis, 1 if low else n - 1 - width, width).flip(axis)
    shape = [width if a == axis else n for a, n in enumerate(u.shape)]
    return u.new_zeros(shape)


def check_ghosts(n: int, width: int, boundary: str) -> None:
    """Refuse an axis that has too few cells to make its ghost cells from."""
    needed = {"periodic": width, "reflect": width + 1}.get(boundary, 1)
    if n < needed:
        raise ValueError(
            f"An axis of {n} cells is too short for {width} {boundary} ghost cells. "
            f"Use a larger grid, fewer levels or a smaller radius."
        )


class Convolution(nn.Module):
    """A stencil with learned weights: (b, inputs, *space) → (b, outputs, *space).

        y_α(x) = Σ_c Σ_{|p| ≤ r} w_{α,c,p} u_c(x + p) + b_α

    A radius of zero is a pointwise linear map of the channels.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        radius: Sequence[int],
        boundary: Sequence[str],
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.radius = tuple(radius)
        self.boundary = tuple(boundary)
        self.weight = nn.Parameter(torch.empty(outputs, inputs, *(2 * r + 1 for r in self.radius)))
        self.bias = nn.Parameter(torch.empty(outputs)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform weights of variance 1 / (3 · fan-in), as torch's own convolutions."""
        bound = 1 / math.sqrt(self.weight[0].numel())
        nn.init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            nn.init.uniform_(self.bias, -bound, bound)

    @property
    def locality(self) -> Locality:
        return Locality(self.radius)

    @property
    def weights(self) -> tuple[Tensor, Tensor]:
        """The weight and the bias, zero where it has none."""
        bias = self.weight.new_zeros(len(self.weight)) if self.bias is None else self.bias
        return self.weight, bias

    def forward(self, u: Field) -> Field:
        if not any(self.radius):
            return pointwise(u, self.weight.flatten(1), self.bias)
        return stencil(pad(u, self.radius, self.boundary), self.weight, self.bias)


def pointwise(u: Field, weight: Tensor, bias: Tensor | None = None) -> Field:
    """The same linear map of the channels in every cell, as one matrix product."""
    return F.linear(u.movedim(1, -1), weight, bias).movedim(-1, 1)


def stencil(
    padded: Field, weight: Tensor, bias: Tensor | None = None, *, groups: int = 1, **spread: int
) -> Field:
    """A stencil over a field that already carries its ghost cells.

    `spread` is a `stride`, every so many cells are computed, or a `dilation`, so many cells lie
    between two taps.  One dimension runs as a row of two: only then does the library keep the
    channels last.
    """
    if padded.dim() == 3:
        row: dict[str, Any] = {name: (1, cells) for name, cells in spread.items()}
        out = F.conv2d(padded.unsqueeze(2), weight.unsqueeze(2), bias, groups=groups, **row)
        return out.squeeze(2)
    return _CONVOLVE[padded.dim() - 2](padded, weight, bias, groups=groups, **spread)


def transposed(u: Field, weight: Tensor, bias: Tensor | None = None, **spread: int) -> Field:
    """The adjoint of a stencil: with a stride of two, twice the cells; weights (i, o, *taps)."""
    return _TRANSPOSED[u.dim() - 2](u, weight, bias, **spread)


def fold(u: Field, patch: int) -> Field:
    """Patches of cells as channels of one cell: (b, c, *n) → (b, c · patch^d, *(n / patch)).

    Of a channel's cells in a patch, the one with the lowest indices comes first and the last axis
    runs fastest.
    """
    space = u.shape[2:]
    dims = len(space)
    blocks = [size for n in space for size in (n // patch, patch)]
    u = u.reshape(*u.shape[:2], *blocks)
    inside, coarse = range(3, 3 + 2 * dims, 2), range(2, 2 + 2 * dims, 2)
    return u.permute(0, 1, *inside, *coarse).flatten(1, 1 + dims)


def unfold(u: Field, patch: int) -> Field:
    """The inverse of `fold`: (b, c · patch^d, *n) → (b, c, *(patch · n))."""
    space = u.shape[2:]
    dims = len(space)
    u = u.unflatten(1, (-1, *[patch] * dims))
    order = [axis for a in range(dims) for axis in (2 + dims + a, 2 + a)]
    return u.permute(0, 1, *order).reshape(*u.shape[:2], *(patch * n for n in space))


class Pool(nn.Module):
    """The average of two neighbours along every axis: (b, c, *n) → (b, c, *(n / 2))."""

    def __init__(self, dims: int) -> None:
        super().__init__()
        self.dims = dims

    def forward(self, u: Field) -> Field:
        if self.dims == 1:
            return F.avg_pool2d(u.unsqueeze(2), (1, 2)).squeeze(2)
        return F.avg_pool2d(u, 2) if self.dims == 2 else F.avg_pool3d(u, 2)


class Upsample(nn.Module):
    """Twice as many cells along every axis: (b, c, *n) → (b, c, *(2 n)).

    `nearest` repeats each coarse cell.  `linear` interpolates between coarse cell centres; at
    the edge it meets the boundary's ghost cells, not a clamped copy, or a periodic model
    would not be periodic.
    """

    def __init__(self, mode: str, boundary: Sequence[str]) -> None:
        super().__init__()
        self.mode = mode
        self.boundary = tuple(boundary)

    @property
    def locality(self) -> Locality:
        """What it adds on the fine grid: linear is nearest smoothed by ¼, ½, ¼."""
        dims = len(self.boundary)
        return Locality((1,) * dims) if self.mode == "linear" else Locality.point(dims)

    def forward(self, z: Field) -> Field:
        dims = len(self.boundary)
        if self.mode == "nearest":
            if dims == 1:
                return _repeat(z)
            return F.interpolate(z, scale_factor=2, mode="nearest")
        padded = pad(z, (1,) * dims, self.boundary)
        fine = F.interpolate(padded, scale_factor=2, mode=_LINEAR[dims], align_corners=False)
        return _doubled(fine, z, 1)


class Doubling(nn.Module):
    """A learned, transposed stencil to twice the cells: (b, inputs, *n) → (b, outputs, *(2 n)).

    With two taps each coarse cell becomes its own fine cells.  With four, neighbours overlap:
    ghost cells go in before and their images are cut off after, so that it knows the boundary.
    """

    def __init__(
        self, inputs: int, outputs: int, boundary: Sequence[str], taps: Literal[2, 4] = 2
    ) -> None:
        super().__init__()
        self.boundary, self.ghosts = tuple(boundary), taps // 2 - 1
        dims = len(self.boundary)
        bound = (outputs * taps**dims) ** -0.5
        shape = (inputs, outputs, *[taps] * dims)
        self.weight = nn.Parameter(torch.empty(shape).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound))

    def forward(self, u: Field) -> Field:
        dims = len(self.boundary)
        padded = pad(u, (self.ghosts,) * dims, self.boundary)
        fine = transposed(padded, self.weight, self.bias, stride=2, padding=self.ghosts)
        return _doubled(fine, u, self.ghosts)


def _doubled(fine: Field, u: Field, ghosts: int) -> Field:
    """The fine cells of a field without those of its ghost cells."""
    for axis, n in enumerate(u.shape[2:], start=2):
        fine = fine.narrow(axis, 2 * ghosts, 2 * n)
    return fine


def _repeat(z: Field) -> Field:
    """Each cell of a line twice, the channels still last: (b, c, n) → (b, c, 2n)."""
    b, c, n = z.shape
    return z.movedim(1, -1).unsqueeze(2).expand(b, n, 2, c).reshape(b, 2 * n, c).movedim(-1, 1)
