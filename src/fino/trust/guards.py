"""A rollout that leaves all bounds stops, and says where and when.

Every frame is looked at once, right after it is computed: the least and the largest value of each
field show a NaN, an infinity or a runaway at the cost of reading the frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

__all__ = ["Diverged", "Watch"]

#: (sample, the (start, stop) of its cells on each axis)
Place = tuple[int, Sequence[tuple[int, int]]]


class Diverged(ValueError):
    """A rollout that is no longer finite, or far outside of anything that training saw.

    `field`, `sample`, `cell` and `step` say where and when; steps count from 1.  `frames` are
    those before it, unless they are in a file.
    """

    def __init__(
        self, value: float, field: str, sample: int, cell: tuple[int, ...], step: int, steps: int
    ) -> None:
        super().__init__(value, field, sample, cell, step, steps)
        self.value, self.field, self.sample, self.cell = value, field, sample, cell
        self.step, self.steps = step, steps
        self.frames: Any = None
        self.kept = ""

    def __str__(self) -> str:
        where = f"cell ({', '.join(map(str, self.cell))}) of sample {self.sample}"
        found = f"{self.field} is {self.value:.3g} at {where}"
        return f"The rollout diverged in step {self.step} of {self.steps}: {found}. {self.kept}"

    def keep(self, frames: Any, count: int, place: object = None) -> None:
        """Remember what was computed before, or the file that holds it."""
        self.frames = frames
        where = "`.frames` of this error" if place is None else str(place)
        self.kept = f"The {count} frames kept before it are in {where}."


class Watch:
    """Looks at predicted frames and stops a rollout with `Diverged`."""

    def __init__(self, model: Any, steps: int, points: Sequence[int]) -> None:
        self.fields = getattr(getattr(model, "settings", None), "fields", ())
        self.steps, self.points = steps, points

    def __call__(self, frames: Tensor, time: int, places: Sequence[Place]) -> None:
        """Look at the cells (n, c, *box) of some places in the frame `time`, counted from 0."""
        low, high = torch.aminmax(frames.movedim(1, 0).flatten(1), dim=1)
        if not bool(torch.isfinite(high - low).all()):
            self._stop(frames, time, places, ~torch.isfinite(frames))

    def _stop(self, frames: Tensor, time: int, places: Sequence[Place], bad: Tensor) -> None:
        row, channel, *cell = (int(i) for i in bad.nonzero()[0])
        sample, box = places[row]
        spans = zip(box, cell, self.points, strict=True)
        where = tuple((start + i) % n for (start, _), i, n in spans)
        name = self.fields[channel] if self.fields else f"channel {channel}"
        value = float(frames[(row, channel, *cell)])
        raise Diverged(value, name, sample, where, time + 1, self.steps)
