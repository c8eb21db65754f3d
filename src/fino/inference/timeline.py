"""What was, what is being computed and what is kept, addressed by time.

Time 0 is the first predicted frame; the history lies before it.  A rollout that keeps every
frame of the whole domain reads its past from its own result.  Any other keeps the few frames
that later steps read in a ring, and what was asked for beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fino.inference.films import Film
from fino.inference.local import cropped
from fino.inference.tiles import Box, overlaps

__all__ = ["Timeline"]


@dataclass(frozen=True, eq=False)
class Timeline:
    """Frames by time: `history` before 0, `recent` as a ring, `result` as asked for.

    `result` holds every `every`-th frame of the box `region`.  Without it, `recent` is the result.
    """

    history: Film
    recent: Film
    result: Film | None = None
    region: Box = ()
    every: int = 1

    @property
    def samples(self) -> range:
        return range(self.history.shape[0])

    def past(self, sample: int, time: int, count: int, window: Box) -> Tensor:
        """The `count` frames before `time`: (count, c, *window)."""
        known, slots = self.history.shape[1], self.recent.shape[1]
        return torch.stack(
            [
                self.history.read(sample, known + t, window)
                if t < 0
                else self.recent.read(sample, t % slots, window)
                for t in range(time - count, time)
            ]
        )

    def write(self, sample: int, time: int, box: Box, values: Tensor, needed: bool) -> None:
        """Keep a tile of a frame; `needed` says whether a later step reads it."""
        if needed or self.result is None:
            self.recent.write(sample, time % self.recent.shape[1], box, values)
        if self.result is not None and (time + 1) % self.every == 0:
            for part, place in overlaps(box, self.region, self.recent.shape[3:]):
                kept = cropped(values, part, ((0, 0),) * len(box))
                self.result.write(sample, (time + 1) // self.every - 1, place, kept)
