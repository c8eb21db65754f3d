"""Which stretch of which trajectory a training step looks at: a pure function of (seed, step).

Every sample is met once before any is met again, in an order drawn anew for each pass; the first
frame of every window is drawn evenly.  Any step can be replayed without the steps before it.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from fino.streams import numpy_stream

__all__ = ["windows"]


def windows(
    seed: int, step: int, batch: int, samples: int, frames: int, length: int
) -> tuple[np.ndarray, np.ndarray]:
    """The samples and first frames of one batch: two whole-number arrays (batch,).

    `length` counts history and horizon together, so starts run from 0 to frames − length.
    """
    if samples < 1 or batch < 1 or step < 0:
        raise ValueError(
            f"windows need samples and a batch to draw from, got {samples} samples, batch {batch}, "
            f"step {step}."
        )
    if not 1 <= length <= frames:
        raise ValueError(
            f"a window of {length} frames does not fit in a trajectory of {frames}. "
            "Use a shorter history or horizon."
        )
    positions = np.arange(step * batch, (step + 1) * batch)
    passes, places = np.divmod(positions, samples)
    chosen = np.array(
        [_order(seed, int(p), samples)[i] for p, i in zip(passes, places, strict=True)]
    )
    starts = numpy_stream(seed, "window starts", step).integers(0, frames - length + 1, batch)
    return chosen, starts


@lru_cache(maxsize=8)
def _order(seed: int, times_through: int, samples: int) -> np.ndarray:
    order = numpy_stream(seed, "window order", times_through).permutation(samples)
    order.setflags(write=False)
    return order
