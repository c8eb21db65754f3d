"""The FNO as its paper and PDEBench write it, kept as a yardstick for speed.

    v ← σ( W v + F⁻¹( R · F v ) )      width 20, 12 modes, 4 layers, 2 cells of padding

Our own FNO (`fino.model.fno`) computes the same layers with fewer operations.  Published
ratios refer to this form, so `python -m lab bench speed` shows both.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fino.shapes import Field

__all__ = ["TextbookFNO"]


class TextbookFNO(nn.Module):
    """(b, inputs, *space) → (b, outputs, *space), in one or two dimensions."""

    def __init__(
        self, dims: int, inputs: int, outputs: int, width: int = 20, modes: int = 12
    ) -> None:
        super().__init__()
        self.modes, self.padding = modes, 2
        self.lift = nn.Linear(inputs, width)
        corners = 2 ** (dims - 1)
        shape = (corners, width, width, *[modes] * dims)
        self.multipliers = nn.ParameterList(
            torch.rand(shape, dtype=torch.cfloat) / width**2 for _ in range(4)
        )
        convolution = nn.Conv1d if dims == 1 else nn.Conv2d
        self.local = nn.ModuleList(convolution(width, width, 1) for _ in range(4))
        self.head = nn.Linear(width, 128)
        self.project = nn.Linear(128, outputs)

    def forward(self, x: Field) -> Field:
        space = x.shape[2:]
        v = self.lift(x.movedim(1, -1)).movedim(-1, 1)
        v = F.pad(v, [0, self.padding] * len(space))
        for layer, (multiplier, local) in enumerate(zip(self.multipliers, self.local, strict=True)):
            v = self._spectral(v, multiplier) + local(v)
            v = F.gelu(v) if layer < 3 else v
        for axis, n in enumerate(space, start=2):
            v = v.narrow(axis, 0, n)
        return self.project(F.gelu(self.head(v.movedim(1, -1)))).movedim(-1, 1)

    def _spectral(self, v: Field, multiplier: Tensor) -> Field:
        m, axes = self.modes, tuple(range(2, v.dim()))
        spectrum = torch.fft.rfftn(v, dim=axes)
        out = torch.zeros_like(spectrum)
        if len(axes) == 1:
            out[..., :m] = torch.einsum("bix,iox->box", spectrum[..., :m], multiplier[0])
        else:
            for corner, rows in enumerate((slice(None, m), slice(-m, None))):
                part = spectrum[:, :, rows, :m]
                out[:, :, rows, :m] = torch.einsum("bixy,ioxy->boxy", part, multiplier[corner])
        return torch.fft.irfftn(out, s=v.shape[2:], dim=axes)
