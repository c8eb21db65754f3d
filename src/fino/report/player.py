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

from fino.report.look import ERROR_MAP, FIELD_MAP
from fino.report.scene import Scene

__all__ = ["gradient", "player_content"]

#: Browsers draw pictures up to this width everywhere.
_WIDEST = 8192
_FRAMES = 60


def player_content(scene: Scene, channel: int = 0) -> dict[str, Any]:
    """What the page needs to play one channel of the rollout."""
    scene = scene.flat()
    worst = scene.error_limit(channel)
    low, high = scene.limits(channel) if scene.dims == 1 else scene.color_limits(channel)
    picked = scene.moments(_FRAMES)
    content: dict[str, Any] = {
        "kind": "lines" if scene.dims == 1 else "maps",
        "times": [f"{scene.times[i]:.4g}" for i in picked],
        "label": scene.label(channel),
        "low": f"{low:.3g}",
        "high": f"{high:.3g}",
        "worst": f"{worst:.2g}",
        "tallness": scene.tallness if scene.dims == 2 else 1.0,
        "model": scene.model,
    }
    parts = {"truth": scene.truth, "prediction": scene.prediction, "error": scene.error}
    if scene.dims == 1:
        content["lines"] = {
            name: _heights(values[picked, channel], name == "error", worst, low, high)
            for name, values in parts.items()
        }
        return content
    width = scene.picture(scene.truth[0, channel]).shape[1]
    picked = scene.moments(max(2, min(_FRAMES, _WIDEST // width)))
    content["times"] = [f"{scene.times[i]:.4g}" for i in picked]
    content["strips"] = {
        name: _strip(
            [scene.picture(values[i, channel]) for i in picked],
            *((-worst, worst) if name == "error" else (low, high)),
            ERROR_MAP if name == "error" else FIELD_MAP,
        )
        for name, values in parts.items()
    }
    return content


def gradient(name: str) -> str:
    """A colour map as the stops of a CSS gradient."""
    colors = (np.array(colormaps[name](np.linspace(0, 1, 12)))[:, :3] * 255).round().astype(int)
    return ", ".join(f"rgb({r} {g} {b})" for r, g, b in colors)


def _strip(pictures: list[np.ndarray], low: float, high: float, name: str) -> str:
    """Tiles side by side as a PNG with the map's own palette, as a data address."""
    values = np.nan_to_num(np.concatenate(pictures, axis=1), nan=high, posinf=high, neginf=low)
    index = np.clip((values - low) / (high - low) * 255, 0, 255).round().astype(np.uint8)
    image = Image.fromarray(index)
    palette = (np.array(colormaps[name](np.linspace(0, 1, 256)))[:, :3] * 255).round()
    image.putpalette([int(v) for v in palette.ravel()])
    buffer = io.BytesIO()
    image.save(buffer, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def _heights(
    values: np.ndarray, is_error: bool, worst: float, low: float, high: float
) -> list[list[float]]:
    """Heights from the top of a box of 100: (t, n) numbers, thinned to what a screen can show."""
    bottom, top = (-worst, worst) if is_error else (low, high)
    margin = 0.06 * (top - bottom)
    values = values[:, :: max(1, values.shape[1] // 512)]
    share = (values - bottom + margin) / (top - bottom + 2 * margin)
    shown = np.nan_to_num(100 * (1 - share), nan=-50.0, posinf=-50.0, neginf=150.0)
    return [[round(float(v), 2) for v in line] for line in np.clip(shown, -50, 150)]
