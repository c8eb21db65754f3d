"""A rollout that moves: truth, prediction and error side by side, or a prediction alone.

    write_movie(scene, "out.gif")               GIF or mp4
    write_prediction_movie(frames, "out.gif")   no truth beside it: GIF

GIF needs nothing but Pillow, which matplotlib brings; mp4 needs `ffmpeg` on the path.  Predictions
may be of any size: what does not fit on a screen is thinned to every n-th cell, and long rollouts
to evenly spaced frames, so that a large file is never read whole.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from PIL import Image

from fino.report.look import ERROR_MAP, FIELD_MAP, INK, color_of, drawn
from fino.report.scene import Scene

__all__ = ["write_movie", "write_prediction_movie"]

#: A prediction alone is shown with at most so many cells on a side, and frames.
_PIXELS = 512
_FRAMES = 150


def write_movie(scene: Scene, path: str | Path, channel: int = 0, fps: int = 12) -> Path:
    """Write one channel of the rollout as GIF or mp4; the ending of the name says how."""
    path = Path(path)
    if path.suffix not in (".gif", ".mp4"):
        raise ValueError(f"a movie should end in .gif or .mp4, got '{path.name}'.")
    if path.suffix == ".mp4" and shutil.which("ffmpeg") is None:
        raise ValueError("mp4 needs ffmpeg, which is not installed. Use a name ending in .gif.")
    path.parent.mkdir(parents=True, exist_ok=True)
    frames = movie_frames(scene, channel)
    if path.suffix == ".gif":
        _write_gif(frames, path, fps)
    else:
        _write_mp4(frames, path, fps)
    return path


def movie_frames(scene: Scene, channel: int = 0) -> Iterator[np.ndarray]:
    """The movie's pictures one by one, (height, width, 3) in bytes."""
    scene = scene.flat()
    with drawn(9.0, 3.3) if scene.dims == 2 else drawn(7.2, 4.2) as figure:
        canvas = FigureCanvasAgg(figure)
        figure.set_dpi(100)
        update = (
            _maps(figure, scene, channel) if scene.dims == 2 else _lines(figure, scene, channel)
        )
        for frame, time in enumerate(scene.times):
            update(frame)
            figure.suptitle("steady" if scene.steady else f"t = {time:.3f}", fontsize=11)
            canvas.draw()
            if frame == 0:
                # The layout is found once; a movie whose axes wander is hard to watch.
                figure.set_layout_engine("none")
            yield np.asarray(canvas.buffer_rgba())[..., :3].copy()


def _maps(figure: Any, scene: Scene, channel: int) -> Any:
    figure.set_layout_engine("compressed")
    images = []
    for place, panel in zip(figure.subplots(1, 3), scene.panels(channel), strict=True):
        image = place.imshow(scene.picture(panel.values[0]), aspect="auto", **panel.colors)
        place.set_box_aspect(scene.tallness)
        place.set_title(panel.name, loc="center")
        place.set_axis_off()
        if panel.name != "truth":
            bar = figure.colorbar(image, ax=[place], aspect=24, pad=0.02, shrink=0.9)
            bar.outline.set_visible(False)
            bar.set_label(panel.label)
        images.append((image, panel.values))

    def update(frame: int) -> None:
        for image, values in images:
            image.set_data(scene.picture(values[frame]))

    return update


def _lines(figure: Any, scene: Scene, channel: int) -> Any:
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    (x,) = scene.grid.coordinates()
    low, high = scene.limits(channel)
    margin, worst = 0.08 * (high - low), 1.08 * scene.error_limit(channel)
    (truth,) = above.plot(x, x, color=INK, linewidth=4, alpha=0.35, label="truth")
    (guess,) = above.plot(x, x, color=color_of(0), linewidth=1.8, label=scene.model)
    (error,) = below.plot(x, x, color=color_of(1), linewidth=1.5)
    below.axhline(0.0, color=INK, linewidth=0.6, alpha=0.4)
    above.set(ylim=(low - margin, high + margin), ylabel=scene.label(channel))
    above.set_xlim(*sorted(scene.grid.extent[0]))
    below.set(ylim=(-worst, worst), ylabel="error", xlabel=scene.axis_label(0))
    figure.legend(loc="outside upper right", ncols=2)

    def update(frame: int) -> None:
        truth.set_ydata(scene.truth[frame, channel])
        guess.set_ydata(scene.prediction[frame, channel])
        error.set_ydata(scene.error[frame, channel])

    return update


def _write_gif(frames: Iterator[np.ndarray], path: Path, fps: int) -> None:
    palette = Image.new("P", (1, 1))
    palette.putpalette(_palette())
    small = [
        Image.fromarray(frame).quantize(palette=palette, dither=Image.Dither.NONE)
        for frame in frames
    ]
    _save_gif(small, path, fps)


def _save_gif(pictures: list[Image.Image], path: Path, fps: int) -> None:
    duration = [round(1000 / fps)] * len(pictures)
    duration[-1] = 1200
    pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=duration, loop=0)


def _palette() -> list[int]:
    """256 colours: both maps and the ink on white.  One palette for all, or colours flicker."""
    maps = [colormaps[name](np.linspace(0, 1, 104))[:, :3] for name in (FIELD_MAP, ERROR_MAP)]
    white = np.ones(3)
    lines = [(color, 16) for color in (INK, color_of(0), color_of(1))]
    ramps = [
        white + (np.array(to_rgb(color)) - white) * np.linspace(0, 1, n)[:, None]
        for color, n in lines
    ]
    return [round(255 * float(part)) for part in np.concatenate([*maps, *ramps]).ravel()]


def _write_mp4(frames: Iterator[np.ndarray], path: Path, fps: int) -> None:
    first = next(frames)
    height, width = (n - n % 2 for n in first.shape[:2])
    command = ["ffmpeg", "-y", "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", "rgb24"]
    command += ["-s", f"{width}x{height}", "-r", str(fps), "-i", "-"]
    command += ["-pix_fmt", "yuv420p", "-threads", "1", str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        content = b"".join(
            np.ascontiguousarray(frame[:height, :width]).tobytes() for frame in (first, *frames)
        )
        _, message = process.communicate(content)
    if process.returncode:
        raise ValueError(f"ffmpeg could not write {path}: {message.decode().strip()}")


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


def _limits(values: np.ndarray) -> tuple[float, float]:
    finite = values[np.isfinite(values)]
    if not finite.size:
        return 0.0, 1.0
    low, high = np.quantile(finite, (0.002, 0.998))
    return (float(low), float(high)) if high > low else (float(low) - 0.5, float(low) + 0.5)


def _map_pictures(planes: np.ndarray) -> Iterator[Image.Image]:
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


def _line_pictures(lines: np.ndarray) -> Iterator[Image.Image]:
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
