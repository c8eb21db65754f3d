"""A rollout that moves: as a movie file, or inside a page with a slider.

    write_movie(scene, "out.gif")               truth, prediction and error: GIF or mp4
    write_prediction_movie(frames, "out.gif")   a prediction alone: GIF
    player_content(scene)                       what a page needs to play it

GIF needs nothing but Pillow, which matplotlib brings; mp4 needs `ffmpeg` on the path.  Predictions
may be of any size: what does not fit on a screen is thinned to every n-th cell, and long rollouts
to evenly spaced frames, so that a large file is never read whole.

In a page, planes become one strip of tiles for the truth, the prediction and the error each; lines
are given as numbers and drawn by the page itself.  Nothing is fetched.
"""

from __future__ import annotations

import base64
import io
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from PIL import Image

from fino.durable import whole_file
from fino.report.look import ERROR_MAP, FIELD_MAP, INK, color_of, drawn
from fino.report.scene import Scene, color_limits, draw_lines, draw_row

__all__ = ["gradient", "player_content", "write_movie", "write_prediction_movie"]

#: A prediction alone is shown with at most so many cells on a side, and frames.
_PIXELS = 512
_FRAMES = 150
#: A page plays so many frames; browsers draw strips up to this width everywhere.
_PLAYED = 60
_WIDEST = 8192


def write_movie(scene: Scene, path: str | Path, channel: int = 0, fps: int = 12) -> Path:
    """Write one channel of the rollout as GIF or mp4; the ending of the name says how."""
    path = Path(path)
    if path.suffix not in (".gif", ".mp4"):
        raise ValueError(f"a movie should end in .gif or .mp4, got '{path.name}'.")
    if path.suffix == ".mp4" and shutil.which("ffmpeg") is None:
        raise ValueError("mp4 needs ffmpeg, which is not installed. Use a name ending in .gif.")
    path.parent.mkdir(parents=True, exist_ok=True)
    write = _write_gif if path.suffix == ".gif" else _write_mp4
    write(movie_frames(scene, channel), path, fps)
    return path


def movie_frames(scene: Scene, channel: int = 0) -> Iterator[np.ndarray]:
    """The movie's pictures one by one, (height, width, 3) in bytes."""
    scene = scene.flat()
    panels, is_line = scene.panels(channel), scene.dims == 1
    with drawn(7.2, 4.2) if is_line else drawn(9.0, 3.3) as figure:
        canvas = FigureCanvasAgg(figure)
        figure.set_dpi(100)
        artists: Sequence[Any] = (
            draw_lines(figure, scene, [0], channel)[0]
            if is_line
            else draw_row(figure, scene, panels, channel)
        )
        for frame, time in enumerate(scene.times):
            for artist, panel in zip(artists, panels, strict=True):
                values = panel.values[frame]
                artist.set_ydata(values) if is_line else artist.set_data(scene.picture(values))
            figure.suptitle("steady" if scene.steady else f"t = {time:.3f}", fontsize=11)
            canvas.draw()
            if frame == 0:
                # The layout is found once; a movie whose axes wander is hard to watch.
                figure.set_layout_engine("none")
            yield np.asarray(canvas.buffer_rgba())[..., :3].copy()


def _write_gif(frames: Iterator[np.ndarray], path: Path, fps: int) -> None:
    palette, dither = Image.new("P", (1, 1)), Image.Dither.NONE
    palette.putpalette(_palette())
    small = [Image.fromarray(frame).quantize(palette=palette, dither=dither) for frame in frames]
    _save_gif(small, path, fps)


def _save_gif(pictures: list[Image.Image], path: Path, fps: int) -> None:
    duration = [round(1000 / fps)] * len(pictures)
    duration[-1] = 1200
    options = {"save_all": True, "append_images": pictures[1:], "duration": duration, "loop": 0}
    with whole_file(path) as temporary:
        pictures[0].save(temporary, "GIF", **options)


def _palette() -> list[int]:
    """256 colours: both maps and the ink on white.  One palette for all, or colours flicker."""
    maps = [_colors(name, 104) for name in (FIELD_MAP, ERROR_MAP)]
    ramps = [
        255 * (1 + (np.array(to_rgb(color)) - 1) * np.linspace(0, 1, 16)[:, None])
        for color in (INK, color_of(0), color_of(1))
    ]
    return [int(part) for part in np.concatenate([*maps, *ramps]).round().ravel()]


def _colors(name: str, count: int) -> np.ndarray:
    """Evenly spaced colours of a map: (count, 3) numbers from 0 to 255."""
    return np.round(255 * np.array(colormaps[name](np.linspace(0, 1, count)))[:, :3])


def _write_mp4(frames: Iterator[np.ndarray], path: Path, fps: int) -> None:
    first = next(frames)
    height, width = (n - n % 2 for n in first.shape[:2])
    command = ["ffmpeg", "-y", "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", "rgb24"]
    command += ["-s", f"{width}x{height}", "-r", str(fps), "-i", "-"]
    command += ["-pix_fmt", "yuv420p", "-threads", "1", "-f", "mp4"]
    content = b"".join(frame[:height, :width].tobytes() for frame in (first, *frames))
    with whole_file(path) as temporary:
        done = subprocess.run([*command, str(temporary)], input=content, capture_output=True)
        if done.returncode:
            raise ValueError(f"ffmpeg could not write {path}: {done.stderr.decode().strip()}")


def write_prediction_movie(frames: Any, path: str | Path, channel: int = 0, fps: int = 12) -> Path:
    """Write frames (t, c, *space), an array or a tensor, as a GIF."""
    path = Path(path)
    if path.suffix != ".gif":
        raise ValueError(f"a movie without truth should end in .gif, got '{path.name}'.")
    if not len(frames):
        raise ValueError("a movie needs at least one frame. Use more steps.")
    path.parent.mkdir(parents=True, exist_ok=True)
    shown = np.linspace(0, len(frames) - 1, min(len(frames), _FRAMES)).round().astype(int)
    small = np.stack([_thin(frames[int(time)][channel]) for time in shown])
    _save_gif(list(_line_pictures(small) if small.ndim == 2 else _map_pictures(small)), path, fps)
    return path


def _thin(field: Any) -> np.ndarray:
    """A line or a plane of a field, small enough to show."""
    if len(field.shape) == 3:
        field = field[..., field.shape[-1] // 2]
    stride = max(1, -(-max(field.shape) // _PIXELS))
    part = field[tuple(slice(None, None, stride) for _ in field.shape)]
    array = part.detach().cpu().numpy() if hasattr(part, "detach") else part
    return np.array(array, dtype=np.float64)


def _map_pictures(planes: np.ndarray) -> Iterator[Image.Image]:
    """Planes (t, x, y) as pictures with y upwards, in one palette for all frames."""
    low, high = color_limits(planes)
    zoom = max(1, _PIXELS // max(planes.shape[1:]) // 2)
    for plane in planes:
        level = np.nan_to_num((plane - low) / (high - low)).clip(0, 1)
        pixels = (255 * level.T[::-1]).astype(np.uint8)
        picture = Image.fromarray(pixels.repeat(zoom, 0).repeat(zoom, 1)).convert("P")
        picture.putpalette(_colors(FIELD_MAP, 256).astype(int).ravel().tolist())
        yield picture


def _line_pictures(lines: np.ndarray) -> Iterator[Image.Image]:
    """Lines (t, x) as plots with one scale."""
    low, high = color_limits(lines)
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


def player_content(scene: Scene, channel: int = 0) -> dict[str, Any]:
    """What the page needs to play one channel of the rollout."""
    scene = scene.flat()
    is_line = scene.dims == 1
    worst = scene.error_limit(channel)
    low, high = scene.limits(channel) if is_line else color_limits(scene.truth[:, channel])
    frames = _PLAYED
    if not is_line:
        width = scene.picture(scene.truth[0, channel]).shape[1]
        frames = max(2, min(_PLAYED, _WIDEST // width))
    picked = scene.moments(frames)
    facts: dict[str, Any] = {"times": [f"{scene.times[i]:.4g}" for i in picked], "lines": None}
    content: dict[str, Any] = {
        "facts": facts,
        "kind": "lines" if is_line else "maps",
        "label": scene.label(channel),
        "low": f"{low:.3g}",
        "high": f"{high:.3g}",
        "worst": f"{worst:.2g}",
        "tallness": 1.0 if is_line else scene.tallness,
        "model": scene.model,
    }
    panels = dict(zip(("truth", "prediction", "error"), scene.panels(channel), strict=True))
    if is_line:
        ends = {"error": (-worst, worst)}
        facts["lines"] = {
            name: _heights(panel.values[picked], *ends.get(name, (low, high)))
            for name, panel in panels.items()
        }
    else:
        content["strips"] = {
            name: _strip([scene.picture(panel.values[i]) for i in picked], panel.colors)
            for name, panel in panels.items()
        }
    return content


def gradient(name: str) -> str:
    """A colour map as the stops of a CSS gradient."""
    return ", ".join(f"rgb({r:.0f} {g:.0f} {b:.0f})" for r, g, b in _colors(name, 12))


def _strip(pictures: list[np.ndarray], colors: dict[str, Any]) -> str:
    """Tiles side by side as a PNG with the map's own palette, as a data address."""
    low, high = colors["vmin"], colors["vmax"]
    values = np.nan_to_num(np.concatenate(pictures, axis=1), nan=high, posinf=high, neginf=low)
    index = np.clip((values - low) / (high - low) * 255, 0, 255).round().astype(np.uint8)
    image = Image.fromarray(index)
    image.putpalette(_colors(colors["cmap"], 256).astype(int).ravel().tolist())
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
