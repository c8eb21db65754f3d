"""A rollout that moves: truth, prediction and error side by side, as GIF or mp4.

    movie(scene, "out.gif")

GIF needs nothing but Pillow, which matplotlib brings; mp4 needs `ffmpeg` on the path.
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

__all__ = ["movie", "pictures"]


def movie(scene: Scene, path: str | Path, channel: int = 0, fps: int = 12) -> Path:
    """Write the rollout as a film; the ending of the name says how."""
    path = Path(path)
    if path.suffix not in (".gif", ".mp4"):
        raise ValueError(f"a movie should end in .gif or .mp4, got '{path.name}'.")
    if path.suffix == ".mp4" and shutil.which("ffmpeg") is None:
        raise ValueError("mp4 needs ffmpeg, which is not installed. Use a name ending in .gif.")
    path.parent.mkdir(parents=True, exist_ok=True)
    frames = pictures(scene, channel)
    if path.suffix == ".gif":
        _write_gif(frames, path, fps)
    else:
        _write_mp4(frames, path, fps)
    return path


def pictures(scene: Scene, channel: int = 0) -> Iterator[np.ndarray]:
    """The film's pictures one by one, (height, width, 3) in bytes."""
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
                # The layout is found once; a film whose axes wander is hard to watch.
                figure.set_layout_engine("none")
            yield np.asarray(canvas.buffer_rgba())[..., :3].copy()


def _maps(figure: Any, scene: Scene, channel: int) -> Any:
    figure.set_layout_engine("compressed")
    axes = figure.subplots(1, 3)
    worst = scene.error_limit(channel)
    parts = (("truth", scene.truth), (scene.model, scene.prediction), ("error", scene.error))
    images = []
    for panel, (name, values) in zip(axes, parts, strict=True):
        is_error = name == "error"
        image = panel.imshow(
            scene.picture(values[0, channel]),
            aspect="auto",
            cmap=ERROR_MAP if is_error else FIELD_MAP,
        )
        panel.set_box_aspect(scene.tallness)
        image.set_clim(*((-worst, worst) if is_error else scene.color_limits(channel)))
        panel.set_title(name, loc="center")
        panel.set_axis_off()
        if name != "truth":
            bar = figure.colorbar(image, ax=[panel], aspect=24, pad=0.02, shrink=0.9)
            bar.outline.set_visible(False)
            bar.set_label(f"{'error of ' if is_error else ''}{scene.label(channel)}")
        images.append((image, values))

    def update(frame: int) -> None:
        for image, values in images:
            image.set_data(scene.picture(values[frame, channel]))

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
    duration = [round(1000 / fps)] * len(small)
    duration[-1] = 1200
    small[0].save(path, save_all=True, append_images=small[1:], duration=duration, loop=0)


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
        _, complaint = process.communicate(content)
    if process.returncode:
        raise ValueError(f"ffmpeg could not write {path}: {complaint.decode().strip()}")
