"""Where the numbers of a data set come from: memory, or arrays mapped from a file.

    frames.read(samples, times, space)  →  (b, t, c, *space) in float32

Times and space are slices, so a stride is applied while reading and never later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

__all__ = ["ArrayFrames", "FieldFrames", "Frames", "PairFrames"]


class Frames(Protocol):
    """Anything that can hand out frames of numbered samples."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(sample, time, channel, *space)"""

    def read(self, samples: Sequence[int], times: slice, space: tuple[slice, ...]) -> np.ndarray:
        """(b, t, c, *space) in float32"""


@dataclass(frozen=True, eq=False)
class ArrayFrames:
    """One array (sample, time, channel, *space) in memory."""

    array: Any

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    def read(self, samples: Sequence[int], times: slice, space: tuple[slice, ...]) -> np.ndarray:
        parts = [self.array[(i, times, slice(None), *space)] for i in samples]
        return _stacked(parts)


@dataclass(frozen=True, eq=False)
class FieldFrames:
    """One array (sample, time, *space) for each channel, such as the data sets of a file."""

    fields: tuple[Any, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        samples, times, *space = self.fields[0].shape
        return (samples, times, len(self.fields), *space)

    def read(self, samples: Sequence[int], times: slice, space: tuple[slice, ...]) -> np.ndarray:
        return np.stack(
            [_stacked([field[(i, times, *space)] for i in samples]) for field in self.fields],
            axis=2,
        )


@dataclass(frozen=True, eq=False)
class PairFrames:
    """Steady data: inputs and outputs (sample, *space) for each channel, as two frames."""

    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        samples, *space = self.outputs[0].shape
        return (samples, 2, len(self.outputs), *space)

    def read(self, samples: Sequence[int], times: slice, space: tuple[slice, ...]) -> np.ndarray:
        sides = [self.inputs, self.outputs][times]
        channels = [
            [_stacked([field[(i, *space)] for i in samples]) for field in side] for side in sides
        ]
        return np.stack([np.stack(side, axis=1) for side in channels], axis=1)


def _stacked(parts: list[np.ndarray]) -> np.ndarray:
    """A fresh float32 array of the parts, never a view of the file."""
    out = np.empty((len(parts), *parts[0].shape), dtype=np.float32)
    for row, part in zip(out, parts, strict=True):
        row[...] = part
    return out
