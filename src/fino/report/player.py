"""A rollout that plays inside the page: strips of pictures, or lines, and a slider to move them.

Planes become one strip of tiles for the truth, the prediction and the error each; lines are
given as numbers and drawn by the page itself.  Nothing is fetched.
"""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
from matplotlib import colormaps
from PIL import Image

from fino.report.scene import Scene

__all__ = ["gradient", "player_content"]

#: Browsers draw pictures up to this width everywhere.
_WIDEST = 8192
_FRAMES = 60


def player_content(scene: Scene, channel: int = 0) -> dict[str, Any]:
    """What the page needs to play one channel of the rollout."""
    scene = scene.flat()
    is_line = scene.dims == 1
    worst = scene.error_limit(channel)
    low, high = scene.limits(channel) if is_line else scene.color_limits(channel)
    frames = _FRAMES
    if not is_line:
        width = scene.picture(scene.truth[0, channel]).shape[1]
        frames = max(2, min(_FRAMES, _WIDEST // width))
    picked = scene.moments(frames)
    content: dict[str, Any] = {
        "kind": "lines" if is_line else "maps",
        "times": [f"{scene.times[i]:.4g}" for i in picked],
        "label": scene.label(channel),
        "low": f"{low:.3g}",
        "high": f"{high:.3g}",
        "worst": f"{worst:.2g}",
        "tallness": 1.0 if is_line else scene.tallness,
        "model": scene.model,
    }
    panels = dict(zip(("truth", "prediction", "error"), scene.panels(channel), strict=True))
    if is_line:
        content["lines"] = {
            name: _heights(panel.values[picked], *ends)
            for (name, panel), ends in zip(
                panels.items(), ((low, high), (low, high), (-worst, worst)), strict=True
            )
        }
    else:
        content["strips"] = {
            name: _strip([scene.picture(panel.values[i]) for i in picked], panel.colors)
            for name, panel in panels.items()
        }
    return content


def gradient(name: str) -> str:
    """A colour map as the stops of a CSS gradient."""
    colors = (np.array(colormaps[name](np.linspace(0, 1, 12)))[:, :3] * 255).round().astype(int)
    return ", ".join(f"rgb({r} {g} {b})" for r, g, b in colors)


def _strip(pictures: list[np.ndarray], colors: dict[str, Any]) -> str:
    """Tiles side by side as a PNG with the map's own palette, as a data address."""
    low, high = colors["vmin"], colors["vmax"]
    values = np.nan_to_num(np.concatenate(pictures, axis=1), nan=high, posinf=high, neginf=low)
    index = np.clip((values - low) / (high - low) * 255, 0, 255).round().astype(np.uint8)
    image = Image.fromarray(index)
    palette = (np.array(colormaps[colors["cmap"]](np.linspace(0, 1, 256)))[:, :3] * 255).round()
    image.putpalette([int(v) for v in palette.ravel()])
    buffer = io.BytesIO()
    image.save(buffer, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def _heights(values: np.ndarray, bottom: float, top: float) -> list[list[float]]:
    """Heights from the top of a box of 100: (t, n) numbers, thinned to what a screen can show."""
    margin = 0.06 * (top - bottom)
    values = values[:, :: max(1, values.shape[1] // 512)]
    share = (values - bottom + margin) / (top - bottom + 2 * margin)
    shown = np.nan_to_num(100 * (1 - share), nan=-50.0, posinf=-50.0, neginf=150.0)
    return [[round(float(v), 2) for v in line] for line in np.clip(shown, -50, 150)]
