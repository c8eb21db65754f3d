"""A rollout that moves: as a movie file, or inside a page with a slider.

    write_movie(scene, "out.gif")               truth, prediction and error: GIF or mp4
    write_rollout_movie(frames, "out.gif", …)   a rollout of any size and length: GIF
    player_content(scene)                       what a page needs to play it

All fields are shown, with axes, time and scales.

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
from fino.grid import Grid
from fino.report.look import ERROR_MAP, FIELD_MAP, INK, color_of, drawn
from fino.report.scene import Scene, color_limits, draw_line_rows, draw_rows

__all__ = ["gradient", "player_content", "write_movie", "write_rollout_movie"]

#: A prediction alone is shown with at most so many cells on a side, and frames.
_PIXELS = 512
_FRAMES = 150
#: A page plays so many frames, fewer where there are many fields; browsers draw strips up to this
#: width everywhere.
_PLAYED, _PLAYED_IN_ALL, _FEWEST_PLAYED = 60, 180, 20
_WIDEST = 8192


def write_movie(scene: Scene, path: str | Path, fps: int = 12) -> Path:
    """Write every field of the rollout as GIF or mp4; the ending of the name says how."""
    path = Path(path)
    if path.suffix not in (".gif", ".mp4"):
        raise ValueError(f"a movie should end in .gif or .mp4, got '{path.name}'.")
    if path.suffix == ".mp4" and shutil.which("ffmpeg") is None:
        raise ValueError("mp4 needs ffmpeg, which is not installed. Use a name ending in .gif.")
    path.parent.mkdir(parents=True, exist_ok=True)
    write = _write_gif if path.suffix == ".gif" else _write_mp4
    write(movie_frames(scene), path, fps)
    return path


def movie_frames(scene: Scene) -> Iterator[np.ndarray]:
    """The movie's pictures one by one, (height, width, 3) in bytes."""
    scene = scene.flat()
    panels = [scene.panels(channel) for channel in range(len(scene.fields))]
    width, height = _movie_size(scene, len(panels[0]))
    with drawn(width, height) as figure:
        canvas = FigureCanvasAgg(figure)
        figure.set_dpi(100)
        title = figure.suptitle(scene.title(0))
        draw = draw_line_rows if scene.dims == 1 else draw_rows
        artists = draw(figure, scene, panels)
        canvas.draw()
        # The layout is found once: axes that wander are hard to watch.  What does not move is drawn
        # once, too.
        figure.set_layout_engine("none")
        moving = [title, *(artist for row in artists for artist in row)]
        for artist in moving:
            artist.set_animated(True)
        canvas.draw()
        still = canvas.copy_from_bbox(figure.bbox)
        for frame in range(len(scene.times)):
            canvas.restore_region(still)
            title.set_text(scene.title(frame))
            for row, artists_of_row in zip(panels, artists, strict=True):
                for artist, panel in zip(artists_of_row, row, strict=True):
                    values = panel.values[frame]
                    is_line = scene.dims == 1
                    artist.set_ydata(values) if is_line else artist.set_data(scene.picture(values))
            for artist in moving:
                figure.draw_artist(artist)
            yield np.asarray(canvas.buffer_rgba())[..., :3].copy()


def _movie_size(scene: Scene, panels: int) -> tuple[float, float]:
    """Width and height in inches of a movie with so many pictures of each field side by side."""
    rows = len(scene.fields)
    if scene.dims == 1:
        return 7.2, 0.6 + rows * (3.6 if panels > 1 else 2.6)
    return 0.6 + 2.9 * panels, 0.6 + rows * 2.4 * scene.tallness


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


def write_rollout_movie(
    frames: Any,
    path: str | Path,
    grid: Grid,
    times: Sequence[float],
    fields: Sequence[str],
    truth: Any = None,
    fps: int = 12,
    *,
    mask: Any = None,
    axes: Sequence[str] = (),
    units: Sequence[str] = (),
    time_unit: str = "",
) -> Path:
    """Write frames (t, c, *space), an array or a tensor, as a GIF, beside the truth if it is known.

    The truth may end before the prediction does: then its picture is empty from there on.  Cells
    where the mask (1, *space) is zero are left blank; `axes` are the names of the axes of space,
    `units` those of the fields.
    """
    path = Path(path)
    if path.suffix != ".gif":
        raise ValueError(f"a movie of a rollout should end in .gif, got '{path.name}'.")
    if not len(frames):
        raise ValueError("a movie needs at least one frame. Use more steps.")
    shown = np.linspace(0, len(frames) - 1, min(len(frames), _FRAMES)).round().astype(int)
    small = np.stack([_thin(_inside(frames[int(i)], mask)) for i in shown])
    known = np.full_like(small, np.nan)
    for place, i in enumerate(shown):
        if truth is not None and i < len(truth):
            known[place] = _thin(_inside(truth[int(i)], mask))
    dims = small.ndim - 2
    coarse = Grid(small.shape[2:], grid.extent[:dims], grid.boundary[:dims])
    moments = np.asarray(times)[shown]
    scene = Scene(
        known,
        small,
        moments,
        coarse,
        tuple(fields),
        tuple(units),
        model="prediction",
        axis_names=tuple(axes)[:dims],
        time_unit=time_unit,
    )
    return write_movie(scene, path, fps)


def _inside(frame: Any, mask: Any) -> Any:
    """Fields (c, *space), NaN where the mask is zero."""
    return frame if mask is None else np.where(np.asarray(mask) > 0, np.asarray(frame), np.nan)


def _thin(frame: Any) -> np.ndarray:
    """Fields (c, *space) as lines or planes that are small enough to show."""
    if len(frame.shape) == 4:
        frame = frame[..., frame.shape[-1] // 2]
    stride = max(1, -(-max(frame.shape[1:]) // _PIXELS))
    part = frame[(slice(None), *(slice(None, None, stride) for _ in frame.shape[1:]))]
    array = part.detach().cpu().numpy() if hasattr(part, "detach") else part
    return np.array(array, dtype=np.float64)


def player_content(scene: Scene) -> dict[str, Any]:
    """What the page needs to play the rollout, field by field."""
    scene = scene.flat()
    is_line = scene.dims == 1
    frames = max(_FEWEST_PLAYED, min(_PLAYED, _PLAYED_IN_ALL // len(scene.fields)))
    if not is_line:
        width = scene.picture(scene.truth[0, 0]).shape[1]
        frames = max(2, min(frames, _WIDEST // width))
    picked = scene.moments(frames)
    across, up = scene.axes
    return {
        "kind": "lines" if is_line else "maps",
        "model": scene.model,
        "tallness": 1.0 if is_line else scene.tallness,
        "across": [across[0], *(f"{end:.4g}" for end in across[1:])],
        "up": [up[0], *(f"{end:.4g}" for end in up[1:])],
        "facts": {
            "times": [scene.when(i) for i in picked],
            "fields": [_played_field(scene, c, picked) for c in range(len(scene.fields))],
        },
    }


def _played_field(scene: Scene, channel: int, picked: list[int]) -> dict[str, Any]:
    """One field: its name, the ends of its scales, and its pictures or lines."""
    is_line, worst = scene.dims == 1, scene.error_limit(channel)
    low, high = scene.limits(channel) if is_line else color_limits(scene.truth[:, channel])
    field: dict[str, Any] = {"label": scene.label(channel), "worst": f"{worst:.2g}"}
    field |= {"low": f"{low:.3g}", "high": f"{high:.3g}"}
    panels = dict(zip(("truth", "prediction", "error"), scene.panels(channel), strict=True))
    if is_line:
        ends = {"error": (-worst, worst)}
        field["lines"] = {
            name: _heights(panel.values[picked], *ends.get(name, (low, high)))
            for name, panel in panels.items()
        }
    else:
        field["strips"] = {
            name: _strip([scene.picture(panel.values[i]) for i in picked], panel.colors)
            for name, panel in panels.items()
        }
    return field


def gradient(name: str) -> str:
    """A colour map as the stops of a CSS gradient."""
    return ", ".join(f"rgb({r:.0f} {g:.0f} {b:.0f})" for r, g, b in _colors(name, 12))


def _strip(pictures: list[np.ndarray], colors: dict[str, Any]) -> str:
    """Tiles side by side as a PNG with the map's own palette, as a data address."""
    low, high = colors["vmin"], colors["vmax"]
    values = np.concatenate(pictures, axis=1)
    blank = np.isnan(values)
    values = np.nan_to_num(values, nan=high, posinf=high, neginf=low)
    # The last of the 256 colours is left for cells without a value, which the page shines through.
    index = np.clip((values - low) / (high - low) * 254, 0, 254).round().astype(np.uint8)
    index[blank] = 255
    image = Image.fromarray(index)
    image.putpalette([*_colors(colors["cmap"], 255).astype(int).ravel().tolist(), 0, 0, 0])
    buffer = io.BytesIO()
    image.save(buffer, format="PNG", optimize=True, transparency=255)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def _heights(values: np.ndarray, bottom: float, top: float) -> list[list[float]]:
    """Heights from the top of a box of 100: (t, n) numbers, thinned to what a screen can show."""
    margin = 0.06 * (top - bottom)
    values = values[:, :: max(1, values.shape[1] // 512)]
    share = (values - bottom + margin) / (top - bottom + 2 * margin)
    shown = np.nan_to_num(100 * (1 - share), nan=-50.0, posinf=-50.0, neginf=150.0)
    return [[round(float(v), 2) for v in line] for line in np.clip(shown, -50, 150)]
