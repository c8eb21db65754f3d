"""One rollout beside its truth: names, units, times, places, and the pictures of it.

Fields are drawn at several times, and a line's whole history as one map.  Every function returns a
matplotlib `Figure`; `look.save` writes it, `look.inline` puts it on a page.  Truth and prediction
always share one colour scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fino.grid import Grid
from fino.report.look import ERROR_MAP, FIELD_MAP, INK, color_of, drawn, short

__all__ = ["Scene", "color_limits", "draw_fields", "draw_line_rows", "draw_rows", "draw_space_time"]


class Panel(NamedTuple):
    """A title, values (t, *space), their colours as `imshow` takes them, and a label for these."""

    name: str
    values: np.ndarray
    colors: dict[str, Any]
    label: str


def _goes_across(name: str) -> bool:
    """Whether an axis of that name is drawn from left to right: x, xc, lon, longitude, …"""
    return name.lower().startswith(("x", "lon"))


@dataclass(frozen=True)
class Scene:
    """Truth and prediction (t, c, *space) as numpy arrays.

    Steady data have one frame each; then `given` is the input (c, *space).  On a sphere the first
    axis is the latitude, and pictures have north at the top.  Cells outside of a mask are NaN, and
    so is a truth that is not known.
    """

    truth: np.ndarray
    prediction: np.ndarray
    times: np.ndarray
    grid: Grid
    fields: tuple[str, ...]
    units: tuple[str, ...] = ()
    given: np.ndarray | None = None
    steady: bool = False
    sphere: bool = False
    model: str = "model"
    sample: int = 0
    parameters: dict[str, float] = field(default_factory=dict)
    is_masked: bool = False
    axis_names: tuple[str, ...] = ()
    time_unit: str = ""

    def __post_init__(self) -> None:
        for name in ("truth", "prediction", "given"):
            if getattr(self, name) is not None:
                value = np.asarray(getattr(self, name), dtype=np.float64)
                object.__setattr__(self, name, value)
        if self.truth.shape != self.prediction.shape:
            raise ValueError(
                f"the prediction should have the shape of the truth, {self.truth.shape}, "
                f"got {self.prediction.shape}."
            )
        if self.truth.shape[2:] != self.grid.points or len(self.times) != len(self.truth):
            raise ValueError(
                f"a scene should be (t, c, *space) with {len(self.times)} times on a "
                f"{self.grid.points} grid, got {self.truth.shape}."
            )

    @property
    def dims(self) -> int:
        return self.grid.dims

    @property
    def error(self) -> np.ndarray:
        return self.prediction - self.truth

    def label(self, channel: int) -> str:
        """A field's name with its unit, for an axis."""
        unit = short(self.units[channel], 16) if self.units else ""
        name = short(self.fields[channel], 32)
        return f"{name} ({unit})" if unit not in ("", "1") else name

    def when(self, frame: int) -> str:
        """The time of a frame with its unit."""
        return f"{self.times[frame]:.4g} {short(self.time_unit, 12)}".rstrip()

    def title(self, frame: int) -> str:
        """What stands above a frame."""
        return "steady" if self.steady else f"t = {self.when(frame)}"

    def picture(self, values: np.ndarray) -> np.ndarray:
        """A plane as rows of pixels from the top: y upwards, or north."""
        if self.is_rows_first:
            south, north = self.grid.extent[0]
            return values[::-1] if south < north else values
        return values.T[::-1]

    @property
    def is_rows_first(self) -> bool:
        """Whether the first axis goes upwards: on a sphere, and where the names are (y, x)."""
        first, last = (self.names[0], self.names[-1])
        named = _goes_across(last) and not _goes_across(first)
        return self.sphere or (self.dims == 2 and bool(self.axis_names) and named)

    @property
    def names(self) -> tuple[str, ...]:
        """What the axes of space are called."""
        usual = ("latitude", "longitude") if self.sphere else ("x", "y", "z")[: self.dims]
        return tuple(short(name, 24) for name in self.axis_names or usual)

    @property
    def tallness(self) -> float:
        """Height over width of a picture, within reason."""
        size = [abs(high - low) for low, high in self.grid.extent[:2]]
        ratio = size[0] / size[1] if self.is_rows_first else size[1] / size[0]
        return float(np.clip(ratio, 0.5, 1.5))

    @property
    def place(self) -> str:
        """The domain in words: x ∈ [0, 1]."""
        return ", ".join(
            f"{name} ∈ [{low:g}, {high:g}]"
            for name, (low, high) in zip(self.names, self.grid.extent, strict=False)
        )

    @property
    def axes(self) -> tuple[tuple[str, float, float], tuple[str, float, float]]:
        """What a picture shows across and upwards: (name, low end, high end) of both."""
        ends = [(min(extent), max(extent)) for extent in self.grid.extent[:2]]
        names = self.names if self.dims > 1 else (self.names[0], "")
        pairs = list(zip(names[:2], (ends[0], ends[-1]), strict=True))
        (across, (left, right)), (up, (low, high)) = pairs[::-1] if self.is_rows_first else pairs
        return (across, left, right), (up, low, high)

    @property
    def has_truth(self) -> bool:
        return not np.isnan(self.truth).all()

    @property
    def scaled_by(self) -> np.ndarray:
        """What the scales follow: the truth, or the prediction where there is none."""
        return self.truth if self.has_truth else self.prediction

    def limits(self, channel: int) -> tuple[float, float]:
        """One scale for truth and prediction, both as lines: the truth's own range."""
        low, high = (float(f(self.scaled_by[:, channel])) for f in (np.nanmin, np.nanmax))
        return (low, high) if high > low else (low - 0.5, high + 0.5)

    def error_limit(self, channel: int) -> float:
        """The largest error, for a scale that is symmetric about zero."""
        error = np.abs(self.error[:, channel])
        finite = error[np.isfinite(error)]
        return float(finite.max()) if finite.size and finite.max() > 0 else 1.0

    def panels(self, channel: int) -> list[Panel]:
        """Truth, prediction and error of one channel, the first two in the same colours.

        A prediction without a truth is alone.
        """
        low, high = color_limits(self.scaled_by[:, channel])
        worst, label = self.error_limit(channel), self.label(channel)
        own = {"cmap": FIELD_MAP, "vmin": low, "vmax": high}
        error = {"cmap": ERROR_MAP, "vmin": -worst, "vmax": worst}
        prediction = Panel(short(self.model, 32), self.prediction[:, channel], own, label)
        if not self.has_truth:
            return [prediction]
        return [
            Panel("truth", self.truth[:, channel], own, label),
            prediction,
            Panel("error", self.error[:, channel], error, f"error of {label}"),
        ]

    def moments(self, count: int) -> list[int]:
        """Frames to show: evenly spread, the first and the last among them."""
        count = min(count, len(self.truth))
        return [int(i) for i in np.linspace(0, len(self.truth) - 1, count).round()]

    def flat(self) -> Scene:
        """The middle plane of a volume; planes and lines stay as they are."""
        if self.dims < 3:
            return self
        grid, middle = self.grid, self.grid.points[-1] // 2
        plane = Grid(grid.points[:2], grid.extent[:2], grid.boundary[:2], grid.offset[:2])
        given = None if self.given is None else self.given[..., middle]
        truth, prediction = self.truth[..., middle], self.prediction[..., middle]
        return replace(self, truth=truth, prediction=prediction, given=given, grid=plane)


def color_limits(values: np.ndarray) -> tuple[float, float]:
    """A scale for maps: all but the outermost few cells, which would take every colour."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return 0.0, 1.0
    low, high = np.quantile(finite, (0.002, 0.998))
    if low == high:
        low, high = finite.min(), finite.max()
    return (float(low), float(high)) if high > low else (float(low) - 0.5, float(low) + 0.5)


def draw_fields(scene: Scene, channel: int = 0, count: int = 4) -> Figure:
    """Truth, prediction and error at several times, as maps or as lines."""
    scene = scene.flat()
    return _maps(scene, channel, count) if scene.dims == 2 else _lines(scene, channel, count)


def _maps(scene: Scene, channel: int, count: int) -> Figure:
    if scene.steady:
        return _steady_maps(scene, channel)
    moments = scene.moments(count)
    with drawn(2.0 * len(moments) + 1.1, 3 * 2.0 * scene.tallness + 0.5) as figure:
        figure.set_layout_engine("compressed")
        axes = figure.subplots(3, len(moments), squeeze=False)
        for row, panel in enumerate(scene.panels(channel)):
            for column, frame in enumerate(moments):
                image = _map(axes[row, column], scene, panel.values[frame], panel.colors)
                if row == 0:
                    axes[row, column].set_title(scene.title(frame), loc="center")
            axes[row, 0].set_ylabel(panel.name, fontsize=11)
            if row > 0:
                beside = axes[:2, :] if row == 1 else axes[2, :]
                ends = _ends(scene, channel) if row == 1 else "neither"
                _color_bar(figure, image, beside, panel.label, shrink=0.9, aspect=22, extend=ends)
        figure.supxlabel(scene.place, fontsize=9)
        return figure


def _steady_maps(scene: Scene, channel: int) -> Figure:
    """A steady problem in one row: what was given, the truth, the prediction, the error."""
    panels = scene.panels(channel)
    if scene.given is not None:
        panels = [Panel("input", scene.given[None, channel], {"cmap": FIELD_MAP}, ""), *panels]
    with drawn(2.6 * len(panels), 2.5 * scene.tallness + 0.3) as figure:
        draw_row(figure, scene, panels, channel)
        figure.supxlabel(scene.place, fontsize=9)
        return figure


def draw_row(
    figure: Figure, scene: Scene, panels: Sequence[Panel], channel: int, row: Any = None
) -> list[Any]:
    """The first frame of each panel as a map; the images, to be moved on.

    `row` are axes to draw into, with numbers; else there is one row of new ones without.
    """
    figure.set_layout_engine("compressed")
    images, numbers = [], row is not None
    row = figure.subplots(1, len(panels), squeeze=False)[0] if row is None else row
    for axes, panel in zip(row, panels, strict=True):
        images.append(_map(axes, scene, panel.values[0], panel.colors, numbers))
        axes.set_title(panel.name, loc="center")
        if panel.name != "truth":
            ends = "neither" if panel.name in ("input", "error") else _ends(scene, channel)
            _color_bar(figure, images[-1], axes, panel.label, shrink=0.9, aspect=22, extend=ends)
    return images


def draw_rows(
    figure: Figure, scene: Scene, panels: Sequence[Sequence[Panel]]
) -> list[Sequence[Any]]:
    """A row of maps for each field, with numbers on the axes; the images of each row."""
    figure.set_layout_engine("compressed")
    axes = figure.subplots(len(panels), len(panels[0]), squeeze=False)
    for place in axes[:, 0]:
        place.set_ylabel(scene.axes[1][0], labelpad=-4)
    for place in axes[-1]:
        place.set_xlabel(scene.axes[0][0], labelpad=-6)
    for place in axes[:, 1:].flat:
        place.tick_params(labelleft=False)
    return [draw_row(figure, scene, p, c, axes[c]) for c, p in enumerate(panels)]


def _map(
    axes: Axes, scene: Scene, values: np.ndarray, colors: dict[str, Any], numbers: bool = False
) -> Any:
    across, up = scene.axes
    box = (*across[1:], *up[1:])
    image = axes.imshow(scene.picture(values), aspect="auto", extent=box, **colors)
    axes.set_box_aspect(scene.tallness)
    axes.set(xticks=across[1:] if numbers else [], yticks=up[1:] if numbers else [])
    axes.tick_params(length=0, labelsize=8)
    axes.spines[:].set_visible(False)
    return image


def _color_bar(figure: Figure, image: Any, beside: Any, label: str, **look: Any) -> None:
    """A bar of colours beside some axes; `look` is for `Figure.colorbar`."""
    bar = figure.colorbar(image, ax=beside, pad=0.02, **look)
    bar.outline.set_visible(False)
    bar.set_label(label)


def _ends(scene: Scene, channel: int) -> str:
    """Arrows on the colour bar where truth or prediction leave the scale."""
    low, high = color_limits(scene.truth[:, channel])
    slack = 1e-3 * (high - low)
    both = np.stack([scene.truth[:, channel], scene.prediction[:, channel]])
    below, above = np.nanmin(both) < low - slack, np.nanmax(both) > high + slack
    return (("neither", "max"), ("min", "both"))[int(below)][int(above)]


def _lines(scene: Scene, channel: int, count: int) -> Figure:
    moments = scene.moments(count)
    with drawn(2.3 * len(moments) + 0.9, 3.9) as figure:
        lines = draw_lines(figure, scene, moments, channel)
        for (truth, *_), frame in zip(lines, moments, strict=True):
            truth.axes.set_title(scene.title(frame), loc="center")
        return figure


def draw_lines(
    figure: Figure, scene: Scene, moments: Sequence[int], channel: int
) -> list[tuple[Any, Any, Any]]:
    """Truth and prediction at some frames, the error below; the three lines of each frame."""
    shared: dict[str, Any] = {"sharex": True, "sharey": "row", "height_ratios": (2, 1)}
    axes = figure.subplots(2, len(moments), squeeze=False, **shared)
    lines = [
        _truth_and_error(scene, frame, channel, above, below)
        for above, below, frame in zip(*axes, moments, strict=True)
    ]
    for above, below in axes.T[1:]:
        above.set_ylabel("")
        below.set_ylabel("")
    _name_lines(figure, scene, lines[0])
    return lines


def draw_line_rows(
    figure: Figure, scene: Scene, panels: Sequence[Sequence[Panel]]
) -> list[Sequence[Any]]:
    """The first frame of every field, truth and prediction with the error below; the lines."""
    if scene.has_truth:
        axes = figure.subplots(2 * len(panels), 1, sharex=True, height_ratios=(2, 1) * len(panels))
        pairs = zip(axes[::2], axes[1::2], strict=True)
        lines = [_truth_and_error(scene, 0, c, *pair) for c, pair in enumerate(pairs)]
        for below in axes[1:-1:2]:
            below.set_xlabel("")
        _name_lines(figure, scene, lines[0])
        return list(lines)
    axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    (x,) = scene.grid.coordinates()
    alone: list[Sequence[Any]] = []
    for channel, place in enumerate(axes):
        alone.append(place.plot(x, scene.prediction[0, channel], color=color_of(0), linewidth=1.4))
        _scale(scene, channel, place)
    axes[-1].set_xlabel(scene.names[0])
    return alone


def _truth_and_error(
    scene: Scene, frame: int, channel: int, above: Axes, below: Axes
) -> tuple[Any, Any, Any]:
    """One frame of a field: truth and prediction above, the error below; the three lines."""
    (x,) = scene.grid.coordinates()
    worst = 1.08 * scene.error_limit(channel)
    broad: dict[str, Any] = {"color": INK, "linewidth": 3.2, "alpha": 0.35}
    (truth,) = above.plot(x, scene.truth[frame, channel], **broad)
    (guess,) = above.plot(x, scene.prediction[frame, channel], color=color_of(0), linewidth=1.4)
    below.axhline(0.0, color=INK, linewidth=0.6, alpha=0.4)
    (error,) = below.plot(x, scene.error[frame, channel], color=color_of(1), linewidth=1.2)
    _scale(scene, channel, above)
    below.set(ylim=(-worst, worst), ylabel="error", xlabel=scene.names[0])
    return truth, guess, error


def _scale(scene: Scene, channel: int, axes: Axes) -> None:
    low, high = scene.limits(channel)
    margin = 0.08 * (high - low)
    axes.set(ylim=(low - margin, high + margin), ylabel=scene.label(channel))
    axes.set_xlim(*sorted(scene.grid.extent[0]))


def _name_lines(figure: Figure, scene: Scene, lines: Sequence[Any]) -> None:
    names = ["truth", short(scene.model, 32)]
    figure.legend(lines[:2], names, loc="outside upper right", ncols=2)


def draw_space_time(scene: Scene, channel: int = 0) -> Figure:
    """A line's whole history as a map: space to the right, time upwards."""
    if scene.dims != 1:
        raise ValueError(f"space and time fit in one map for a line, not in {scene.dims}D.")
    times = scene.times
    step = float(times[1] - times[0]) if len(times) > 1 else 1.0
    box = (*scene.grid.extent[0], float(times[0]) - step / 2, float(times[-1]) + step / 2)
    with drawn(8.6, 3.6) as figure:
        axes = figure.subplots(1, 3, sharey=True)
        for place, panel in zip(axes, scene.panels(channel), strict=True):
            look = {"origin": "lower", "extent": box, "aspect": "auto", **panel.colors}
            image = place.imshow(panel.values, **look)
            place.set_title(panel.name, loc="center")
            place.set_xlabel(scene.names[0])
            if panel.name != "truth":
                beside = [place] if panel.name == "error" else list(axes[:2])
                _color_bar(figure, image, beside, panel.label, aspect=28)
        axes[0].set_ylabel("time")
        return figure
