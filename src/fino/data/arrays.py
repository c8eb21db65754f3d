"""Your own numbers as a data set: any numpy array or torch tensor in fino's order of axes.

    fino.from_array(u, dt=0.01, extent=((0, 1),), boundary="periodic")

with u of shape (sample, time, channel, *space).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fino.data.card import Card
from fino.data.dataset import Dataset
from fino.data.frames import ArrayFrames
from fino.grid import Grid, boundary_per_axis

__all__ = ["from_array"]

_ORDER = "(sample, time, channel, *space)"


def from_array(
    u: Any,
    dt: float,
    extent: Sequence[Any],
    boundary: str | Sequence[str],
    *,
    fields: Sequence[str] | None = None,
    steady: bool = False,
    name: str = "array",
    **facts: Any,
) -> Dataset:
    """A data set from an array (sample, time, channel, *space), copied as float32.

    u           numpy array or torch tensor of real, finite numbers, with 1 to 3 axes of space
    dt          the time between two frames; 1 for steady data
    extent      the (low, high) edges of the domain for each axis, in units of length; one pair
                alone serves every axis.  Points are cell centres unless offset=(0, …) is given.
    boundary    what lies beyond the edges, one name or one for each axis: "periodic",
                "dirichlet" (zero), "neumann" (the edge cell again) or "reflect" (mirror image)
    fields      a name for each channel; "u", or "u0", "u1", … if not given
    steady      samples are (input, output) pairs: two frames instead of a course in time
    name        what the data are, for reports
    facts       anything else that a `Card` holds, such as units, parameters={"nu": 0.01},
                speed (of the fastest wave, if known), history (frames shown, ten by default),
                symmetries=("shift", "flip") and directions for training with augmentation
    """
    array = _as_numpy(u)
    _check_order(array, fields, steady)
    points = array.shape[3:]
    grid = Grid(
        points,
        _extent_per_axis(extent, len(points)),
        boundary_per_axis(boundary, len(points)),
        facts.pop("offset", ()),
    )
    _check_finite(array)
    names = tuple(fields) if fields else tuple(f"u{i}" for i in range(array.shape[2]))
    card = Card(
        name=name,
        fields=("u",) if fields is None and array.shape[2] == 1 else names,
        points=grid.points,
        extent=grid.extent,
        boundary=grid.boundary,
        offset=grid.offset,
        dt=dt,
        frames=array.shape[1],
        samples=array.shape[0],
        steady=steady,
        **facts,
    )
    return Dataset(card, ArrayFrames(array))


def _as_numpy(u: Any) -> np.ndarray:
    if hasattr(u, "detach"):
        u = u.detach().cpu().numpy()
    array = np.asarray(u)
    if array.dtype.kind not in "fiu":
        raise ValueError(f"the array should hold real numbers, got {array.dtype}.")
    with np.errstate(over="ignore"):
        single = np.ascontiguousarray(array, dtype=np.float32)
    return single.copy() if np.shares_memory(single, array) else single


def _check_order(array: np.ndarray, fields: Sequence[str] | None, steady: bool) -> None:
    shape = array.shape
    wanted = f"the array should be {_ORDER}, got {shape}"
    if array.ndim < 4:
        missing = {3: "u[:, :, None] adds the channel", 2: "u[None, :, None] adds sample, channel"}
        hint = missing.get(array.ndim, "it needs at least four axes")
        raise ValueError(f"{wanted}: {hint}.")
    if array.ndim > 6:
        raise ValueError(f"{wanted}: at most three axes of space are known here.")
    if 0 in shape:
        raise ValueError(f"{wanted}: it is empty.")
    if fields is not None and shape[2] != len(fields):
        at_end = shape[-1] == len(fields)
        hint = " They seem to be last: use np.moveaxis(u, -1, 2)." if at_end else ""
        raise ValueError(
            f"{wanted}: channel should be {len(fields)} ({', '.join(fields)}) "
            f"but is {shape[2]}.{hint}"
        )
    if fields is None and shape[-1] <= 4 < shape[2]:
        raise ValueError(
            f"{wanted}: the last axis looks like channels. Use np.moveaxis(u, -1, 2), "
            "or name the fields."
        )
    if steady and shape[1] != 2:
        raise ValueError(f"{wanted}: steady data should have time 2, the input and the output.")
    if not steady and shape[1] < 2:
        raise ValueError(f"{wanted}: a trajectory needs at least 2 frames.")


def _check_finite(array: np.ndarray) -> None:
    for sample, trajectory in enumerate(array):
        if not np.isfinite(trajectory).all():
            frames = np.isfinite(trajectory).reshape(len(trajectory), -1).all(axis=1)
            raise ValueError(
                f"sample {sample} has NaN or infinite values in float32, first in frame "
                f"{int(np.argmin(frames))}. Remove or repair it."
            )


def _extent_per_axis(extent: Any, dims: int) -> tuple[tuple[float, float], ...]:
    try:
        pairs = np.asarray(extent, dtype=float)
    except (TypeError, ValueError):
        pairs = np.empty(0)
    if pairs.shape == (2,):
        pairs = np.tile(pairs, (dims, 1))
    if pairs.shape != (dims, 2):
        raise ValueError(
            f"extent should be (low, high), or one such pair for each of {dims} axes, got {extent}."
        )
    return tuple((float(lo), float(hi)) for lo, hi in pairs)
