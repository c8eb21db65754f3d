"""A rollout alone as a film, for predictions that have no truth beside them.

Fields of any size: what does not fit on a screen is thinned to every n-th cell, and long rollouts
to evenly spaced frames, so that a large file is never read whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image

from fino.report.look import FIELD_MAP, color_of, drawn

__all__ = ["film"]

_PIXELS = 512
_FRAMES = 150


def film(frames: Any, path: str | Path, channel: int = 0, fps: int = 12) -> Path:
    """Write frames (t, c, *space), an array or a tensor, as a GIF."""
    path = Path(path)
    if path.suffix != ".gif":
        raise ValueError(f"a film without truth should end in .gif, got '{path.name}'.")
    if not len(frames):
        raise ValueError("a film needs at least one frame. Use more steps.")
    path.parent.mkdir(parents=True, exist_ok=True)
    shown = np.linspace(0, len(frames) - 1, min(len(frames), _FRAMES)).round().astype(int)
    small = np.stack([_thinned(frames[int(time)][channel]) for time in shown])
    pictures = list(_lines(small) if small.ndim == 2 else _maps(small))
    duration = [round(1000 / fps)] * len(pictures)
    duration[-1] = 1200
    pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=duration, loop=0)
    return path


def _thinned(field: Any) -> np.ndarray:
    """A line or a plane of a field, small enough to show."""
    if len(field.shape) == 3:
        field = field[..., field.shape[-1] // 2]
    stride = max(1, -(-max(field.shape) // _PIXELS))
    part = field[tuple(slice(None, None, stride) for _ in field.shape)]
    array = part.detach().cpu().numpy() if hasattr(part, "detach") else part
    return np.array(array, dtype=np.float64)


def _limits(values: np.ndarray) -> tuple[float, float]:
    finite = values[np.isfinite(values)]
    if not finite.size:
        return 0.0, 1.0
    low, high = np.quantile(finite, (0.002, 0.998))
    return (float(low), float(high)) if high > low else (float(low) - 0.5, float(low) + 0.5)


def _maps(planes: np.ndarray) -> Iterator[Image.Image]:
    """Planes (t, x, y) as pictures with y upwards, in one palette for all frames."""
    low, high = _limits(planes)
    colors = (255 * colormaps[FIELD_MAP](np.linspace(0, 1, 256))[:, :3]).round().astype(int)
    zoom = max(1, _PIXELS // max(planes.shape[1:]) // 2)
    for plane in planes:
        level = np.nan_to_num((plane - low) / (high - low)).clip(0, 1)
        pixels = (255 * level.T[::-1]).astype(np.uint8)
        picture = Image.fromarray(pixels.repeat(zoom, 0).repeat(zoom, 1)).convert("P")
        picture.putpalette(colors.ravel().tolist())
        yield picture


def _lines(lines: np.ndarray) -> Iterator[Image.Image]:
    """Lines (t, x) as plots with one scale."""
    low, high = _limits(lines)
    margin = 0.08 * (high - low)
    with drawn(7.2, 3.2) as figure:
        canvas = FigureCanvasAgg(figure)
        panel = figure.subplots()
        (line,) = panel.plot(lines[0], color=color_of(0))
        panel.set(ylim=(low - margin, high + margin), xlabel="cell")
        for values in lines:
            line.set_ydata(values)
            canvas.draw()
            yield Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3].copy())
