"""Marching many samples at once: each on its own, as many side by side as there are cores.

A kernel solves one sample and releases the interpreter's lock, so plain threads do; nothing
is shared, and a sample's numbers do not depend on its neighbours in the batch.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed

import numpy as np

from fino.pde.problem import Array, Progress

__all__ = ["MOST_STEPS", "cores", "intervals", "march", "steps_between"]

#: More steps than this between two saved frames is a mistake in the settings, not a problem.
MOST_STEPS = 10_000_000


def cores() -> int:
    """How many samples to solve side by side; OMP_NUM_THREADS lowers it."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(available or 1, int(asked) if asked.isdigit() else 1024))


def intervals(times: Array) -> Array:
    """The time between one saved frame and the next."""
    gaps = np.diff(np.asarray(times, dtype=np.float64))
    if not (np.isfinite(gaps).all() and (gaps > 0).all()):
        raise ValueError("saved times should grow from frame to frame.")
    return gaps


def steps_between(interval: float, largest: float) -> int:
    """The fewest steps of at most `largest` that fill an interval."""
    steps = interval / largest if largest > 0 else math.inf
    if not steps <= MOST_STEPS:
        raise ValueError(
            f"a step of {largest:.1e} takes over {MOST_STEPS:,} steps to the next frame: "
            "choose slower waves, fewer points or frames that are closer together."
        )
    # A quotient a rounding error above a whole number is that number.
    return max(1, math.ceil(steps * (1 - 1e-12)))


def march(kernel: Callable[[int], object], samples: int, progress: Progress | None = None) -> None:
    """Call kernel(i) for every sample i, on all cores, and tell how far it is."""
    with ThreadPoolExecutor(min(cores(), max(1, samples))) as pool:
        running = [pool.submit(kernel, i) for i in range(samples)]
        try:
            for done, future in enumerate(as_completed(running), 1):
                future.result()
                if progress is not None:
                    progress(done / samples)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
