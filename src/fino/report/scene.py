"""One rollout beside its truth, with what is needed to draw it: names, units, times, places."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fino.grid import Grid

__all__ = ["Scene"]

_AXES = ("x", "y", "z")


@dataclass(frozen=True)
class Scene:
    """Truth and prediction (t, c, *space) as numpy arrays.

    Steady data have one frame each; then `given` is the input (c, *space).  On a sphere the first
    axis is the latitude, and pictures have north at the top.
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

    def __post_init__(self) -> None:
        for name in ("truth", "prediction", "given"):
            value: Any = getattr(self, name)
            if value is not None:
                value = value.detach().cpu().numpy() if hasattr(value, "detach") else value
                object.__setattr__(self, name, np.asarray(value, dtype=np.float64))
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
        unit = self.units[channel] if self.units else ""
        return f"{self.fields[channel]} ({unit})" if unit not in ("", "1") else self.fields[channel]

    def picture(self, values: np.ndarray) -> np.ndarray:
        """A plane (x, y) as rows of pixels from the top: y upwards, or north."""
        if self.sphere:
            south, north = self.grid.extent[0]
            return values[::-1] if south < north else values
        return values.T[::-1]

    @property
    def tallness(self) -> float:
        """Height over width of a picture, within reason."""
        size = [abs(high - low) for low, high in self.grid.extent[:2]]
        ratio = size[0] / size[1] if self.sphere else size[1] / size[0]
        return float(np.clip(ratio, 0.5, 1.5))

    @property
    def place(self) -> str:
        """The domain in words: x ∈ [0, 1]."""
        names = ("latitude", "longitude") if self.sphere else _AXES
        return ", ".join(
            f"{name} ∈ [{low:g}, {high:g}]"
            for name, (low, high) in zip(names, self.grid.extent, strict=False)
        )

    def axis_label(self, axis: int) -> str:
        return _AXES[axis]

    def limits(self, channel: int) -> tuple[float, float]:
        """One scale for truth and prediction, both as lines: the truth's own range."""
        low, high = float(self.truth[:, channel].min()), float(self.truth[:, channel].max())
        return (low, high) if high > low else (low - 0.5, high + 0.5)

    def color_limits(self, channel: int) -> tuple[float, float]:
        """The same for maps: all but the outermost few cells, which would take every colour."""
        low, high = np.quantile(self.truth[:, channel], (0.002, 0.998))
        return (float(low), float(high)) if high > low else self.limits(channel)

    def error_limit(self, channel: int) -> float:
        """The largest error, for a scale that is symmetric about zero."""
        error = np.abs(self.error[:, channel])
        finite = error[np.isfinite(error)]
        return float(finite.max()) if finite.size and finite.max() > 0 else 1.0

    def moments(self, count: int) -> list[int]:
        """Frames to show: evenly spread, the first and the last among them."""
        count = min(count, len(self.truth))
        return [int(i) for i in np.linspace(0, len(self.truth) - 1, count).round()]

    def flat(self) -> Scene:
        """The middle plane of a volume; planes and lines stay as they are."""
        if self.dims < 3:
            return self
        cut = (Ellipsis, self.grid.points[-1] // 2)
        grid = Grid(
            self.grid.points[:2], self.grid.extent[:2], self.grid.boundary[:2], self.grid.offset[:2]
        )
        return replace(
            self,
            truth=self.truth[cut],
            prediction=self.prediction[cut],
            given=None if self.given is None else self.given[cut],
            grid=grid,
        )
