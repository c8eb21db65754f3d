"""Your own numbers as a data set: any numpy array or torch tensor in fino's order of axes.

    fino.from_array(u, dt=0.01, extent=((0, 1),), boundary="periodic")

with u of shape (sample, time, channel, *space).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fino.data.card import Card
from fino.data.conditions import gather_conditions, plain
from fino.data.dataset import Dataset
from fino.data.frames import ArrayFrames, find_broken
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
    parameters: Mapping[str, Any] | None = None,
    known: Mapping[str, Any] | None = None,
    forcing: Mapping[str, Any] | None = None,
    mask: Any = None,
    walls: str = "neumann",
    steady: bool = False,
    name: str = "array",
    **facts: Any,
) -> Dataset:
    """A data set from an array (sample, time, channel, *space), copied as float32.

    u           numpy array or torch tensor of real, finite numbers, with 1 to 3 axes of space; or
                a list of arrays (time, channel, *space) of unequal length.  Cells that are NaN at
                all times, and cells that a numpy.ma array masks, are left out like `mask`.
    dt          the time between two frames; 1 for steady data
    extent      the (low, high) edges of the domain for each axis, in units of length; one pair
                alone serves every axis.  Points are cell centres unless offset=(0, …) is given.
    boundary    what lies beyond the edges, one name or one for each axis: "periodic",
                "dirichlet" (zero), "neumann" (the edge cell again) or "reflect" (mirror image)
    fields      a name for each channel; "u", or "u0", "u1", … if not given
    parameters  scalars θ by name: one number for all trajectories, or one for each, such as
                {"nu": array of (sample,)}; models are given those that differ
    known       fields that are constant in time, by name: (*space) or (sample, *space)
    forcing     what varies in time and is known in advance, by name: scalars (time,) or
                (sample, time), fields (time, *space) or (sample, time, *space)
    mask        cells that are not part of the domain: True there, (*space) or (sample, *space)
    walls       what lies at the edge of such cells: "neumann" (no flux) or "dirichlet" (zero)
    steady      samples are (input, output) pairs: two frames instead of a course in time
    name        what the data are, for reports
    facts       anything else that a `Card` holds, such as units, varying={"nu": "m²/s"} for the
                units of parameters, turning={"wind": 0} for what points along an axis, speed
                (of the fastest wave, if known), history (frames shown, ten by default),
                symmetries=("shift", "flip") and directions for training with augmentation
    """
    array, outside, lengths = _as_trajectories(u)
    _check_order(array, fields, steady)
    points = array.shape[3:]
    outside = _joined_mask(outside, mask, array)
    grid = Grid(
        points,
        _extent_per_axis(extent, len(points)),
        boundary_per_axis(boundary, len(points)),
        facts.pop("offset", ()),
    )
    if outside is not None:
        array[np.broadcast_to(outside[:, None, None], array.shape)] = 0.0
    broken = find_broken(array)
    if broken:
        raise ValueError(
            f"sample {broken[0]} has NaN or infinite values in float32, first in frame "
            f"{broken[1]}. Remove or repair it."
        )
    constant, conditions, told = gather_conditions(
        array.shape, parameters or {}, known or {}, forcing or {}
    )
    conditions = replace(conditions, mask=None if outside is None else ~outside, lengths=lengths)
    told["varying"] |= {n: u for n, u in facts.pop("varying", {}).items() if n in told["varying"]}
    names = tuple(fields) if fields else tuple(f"u{i}" for i in range(array.shape[2]))
    card = Card(
        name=name,
        fields=("u",) if fields is None and array.shape[2] == 1 else names,
        **vars(grid),
        dt=dt,
        frames=array.shape[1],
        samples=array.shape[0],
        steady=steady,
        parameters=constant,
        walls=None if outside is None else walls,
        **told,
        **facts,
    )
    return Dataset(card, ArrayFrames(array), conditions=conditions)


def _as_trajectories(u: Any) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
    """(sample, time, channel, *space), the cells left out (sample, *space), frames of each."""
    if not isinstance(u, list | tuple):
        array, outside = _without_masked(u)
        return array, outside, None
    if not u:
        raise ValueError("the list of trajectories is empty.")
    found = [
        _without_masked(one[None] if hasattr(one, "shape") else np.asarray(one)[None]) for one in u
    ]
    each = [(array[0], None if mask is None else mask[0]) for array, mask in found]
    shapes = {array.shape[1:] for array, _ in each}
    if len(shapes) > 1:
        raise ValueError(
            f"trajectories in a list should be (time, channel, *space) with one shape of channel "
            f"and space, got {' and '.join(map(str, sorted(shapes)))}."
        )
    lengths = np.array([len(array) for array, _ in each])
    longest = int(lengths.max())
    padded = [np.concatenate([a, np.repeat(a[-1:], longest - len(a), axis=0)]) for a, _ in each]
    hidden = [mask for _, mask in each]
    outside = None
    if any(mask is not None for mask in hidden):
        none = np.zeros(padded[0].shape[2:], dtype=bool)
        outside = np.stack([none if mask is None else mask for mask in hidden])
    return np.stack(padded), outside, lengths if len(set(lengths.tolist())) > 1 else None


def _without_masked(u: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """The numbers, and the cells of each sample that are masked or NaN in every frame.

    u is (sample, time, channel, *space).
    Those that come and go are damage, not a mask: they are left for `find_broken` to name.
    """
    array = _as_numpy(u)
    if np.ma.isMaskedArray(u):
        array[np.ma.getmaskarray(u)] = np.nan
    hidden = np.isnan(array)
    if array.ndim < 4 or not hidden.any():
        return array, None
    always = hidden.all(axis=(1, 2))
    return array, always if always.any() else None


def _joined_mask(outside: np.ndarray | None, mask: Any, array: np.ndarray) -> np.ndarray | None:
    """Cells left out by the array itself or by the mask given beside it: (sample | 1, *space)."""
    if mask is None:
        return outside
    given = np.asarray(mask)
    points = array.shape[3:]
    if given.dtype != bool or given.shape not in (points, (len(array), *points)):
        raise ValueError(
            f"mask should be True or False for each cell, {points} or {(len(array), *points)}, "
            f"got {given.dtype} of shape {given.shape}."
        )
    given = given[None] if given.ndim == len(points) else given
    return given if outside is None else outside | given


def _as_numpy(u: Any) -> np.ndarray:
    array = np.asarray(plain(u))
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
