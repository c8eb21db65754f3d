"""Local motion between two images, and images moved along it.

    u(x, t) ≈ u(x − v(x), t − Δt)          v in cells a step, smooth over a window

Lucas and Kanade (1981): around every cell the v that fits the change from one image to the next
best, by least squares over a window.  It begins from one shift for the whole image, so that what
is left is less than a few cells, where the image is nearly linear.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from fino.shapes import Field

__all__ = ["MOST", "REACH", "follow", "local_motion"]

#: Motion is measured on images of half the cells along each axis; chosen for radar rain.
_COARSE = 2
#: Coarse cells of a box on each side; three boxes one after another are nearly a Gaussian.
_WINDOW, _BOXES = 8, 3
#: Where an image has no contrast, motion stays near the shift of the whole image.
_CALM = 3e-4
#: Cells by which the local motion may differ from that shift along each axis.
MOST = 3.0
#: Cells that it looks at beyond where the motion comes from.
REACH = _COARSE * (_WINDOW * _BOXES + 5)


def _warp(u: Field, shift: Tensor, mode: str = "bicubic") -> Field:
    """u(x − shift(x)), zero from beyond the edge: (b, c, y, x) and (b, 2, y, x) in cells."""
    rows, columns = u.shape[-2:]
    y = torch.arange(rows, device=u.device, dtype=u.dtype)[:, None] - shift[:, 0]
    x = torch.arange(columns, device=u.device, dtype=u.dtype) - shift[:, 1]
    places = torch.stack([(2 * x + 1) / columns - 1, (2 * y + 1) / rows - 1], dim=-1)
    return F.grid_sample(u, places, mode=mode, padding_mode="zeros", align_corners=False)


def follow(u: Field, mask: Field, shift: Tensor) -> Field:
    """u moved by shift (b, 2, y, x); where it comes from outside of the mask, u as it is here."""
    known = _warp(mask, shift, "bilinear") > 0.99
    return torch.where(known, _warp(u, shift), u)


@torch.no_grad()
def local_motion(before: Field, now: Field, mask: Field, uniform: Tensor) -> Tensor:
    """Cells that each place has moved since the image before: (b, c, y, x) ×2 → (b, 2, y, x).

    `uniform` (b, 2) is the shift of the whole image, `mask` (b, 1, y, x) is one inside.
    """
    inside = F.avg_pool2d(mask, _COARSE)
    before, now = (F.avg_pool2d(u * mask, _COARSE) / inside.clamp_min(1e-3) for u in (before, now))
    inside = (inside > 0.99).to(now)
    shift = (uniform / _COARSE)[..., None, None].expand(-1, -1, *now.shape[-2:])
    seen = inside * (_warp(inside, shift, "bilinear") > 0.99)
    seen = -F.max_pool2d(F.pad(-seen, (2, 2, 2, 2)), 5, 1)  # away from slopes of the edge
    moved = _warp(before, shift)
    along_y, along_x = _slopes((moved + now) / 2)
    change = moved - now
    products = [along_y**2, along_x**2, along_y * along_x, along_y * change, along_x * change]
    sums = _blur(torch.stack([(p * seen).sum(dim=1) for p in products], dim=1))
    yy, xx, yx, by, bx = sums.unbind(dim=1)
    yy, xx = yy + _CALM, xx + _CALM
    local = torch.stack([xx * by - yx * bx, yy * bx - yx * by], dim=1) / (yy * xx - yx**2)[:, None]
    local = (_COARSE * local).clamp(-MOST, MOST)
    fine = F.interpolate(local, scale_factor=_COARSE, mode="bilinear", align_corners=False)
    return uniform[..., None, None] + fine


def _slopes(u: Field) -> tuple[Field, Field]:
    """The central differences along y and x; at an edge half of them."""
    padded = F.pad(u, (1, 1, 1, 1), mode="replicate")
    along_y = (padded[..., 2:, 1:-1] - padded[..., :-2, 1:-1]) / 2
    along_x = (padded[..., 1:-1, 2:] - padded[..., 1:-1, :-2]) / 2
    return along_y, along_x


def _blur(u: Field) -> Field:
    """The mean over a window, nearly Gaussian, with nothing beyond the edge."""
    size = 2 * _WINDOW + 1
    for _ in range(_BOXES):
        u = F.avg_pool2d(u, (size, 1), 1, (_WINDOW, 0))
        u = F.avg_pool2d(u, (1, size), 1, (0, _WINDOW))
    return u
