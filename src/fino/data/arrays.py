"""Your own numbers as a data set: any numpy array or torch tensor in fino's order of axes.

    fino.from_array(u, dt=0.01, extent=((0, 1),), boundary="periodic")

with u of shape (sample, time, channel, *space); or, for a steady problem,

    fino.from_array(u, inputs=a, extent=(0, 1), boundary="dirichlet")

with a and u of shape (sample, channel, *space) and any number of channels each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fino.data.card import Card
from fino.data.conditions import gather_conditions, plain
from fino.data.dataset import Dataset
from fino.data.frames import ArrayFrames, Frames, find_broken
from fino.grid import Grid, boundary_per_axis

__all__ = ["check_rounding", "from_array", "hold", "make_dataset", "make_grid", "read_names"]

_ORDER = "(sample, time, channel, *space)"

#: The share of a field's own variation that rounding to single precision may cost.
_ROUNDING = 1e-3


def from_array(
    u: Any,
    dt: float | None = None,
    extent: Sequence[Any] | None = None,
    boundary: str | Sequence[str] | None = None,
    *,
    inputs: Any = None,
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
    dt          the time between two frames; steady data have none
    extent      the (low, high) edges of the domain for each axis, in units of length; one pair
                alone serves every axis.  Points are cell centres unless offset=(0, …) is given.
    boundary    what lies beyond the edges, one name or one for each axis: "periodic",
                "dirichlet" (zero), "neumann" (the edge cell again) or "reflect" (mirror image)
    inputs      for a steady problem: what u, then (sample, channel, *space), is the answer to, in
                the same order of axes, with any number of channels of its own
    fields      a name for each channel; "u", or "u0", "u1", … if not given
    parameters  scalars θ by name: one number for all trajectories, or one for each, such as
                {"nu": array of (sample,)}; models are given those that differ
    known       fields that are constant in time, by name: (*space) or (sample, *space)
    forcing     what varies in time and is known in advance, by name: scalars (time,) or
                (sample, time), fields (time, *space) or (sample, time, *space)
    mask        cells that are not part of the domain: True there, (*space) or (sample, *space)
    walls       what lies at the edge of such cells: "neumann" (no flux) or "dirichlet" (zero)
    steady      u is (sample, 2, channel, *space) with the input and the output as two frames;
                `inputs` is the easier way
    name        what the data are, for reports
    facts       anything else that a `Card` holds, such as units, varying={"nu": "m²/s"} for the
                units of parameters, turning={"wind": 0} for what points along an axis, speed
                (of the fastest wave, if known), history (frames shown, ten by default),
                symmetries=("shift", "flip") and directions for training with augmentation
    """
    if inputs is not None:
        u, more, given = _pair(u, inputs, facts.get("inputs"))
        known, steady, facts = {**more, **(known or {})}, True, {**facts, "inputs": given}
    array, outside, lengths = hold(u, mask, fields, steady)
    broken = find_broken(array)
    if broken:
        raise ValueError(
            f"sample {broken[0]} has NaN or infinite values in float32, first in frame "
            f"{broken[1]}. Remove or repair it."
        )
    return make_dataset(
        ArrayFrames(array),
        {"parameters": parameters or {}, "known": known or {}, "forcing": forcing or {}},
        outside,
        lengths,
        name=name,
        fields=fields,
        dt=dt,
        extent=extent,
        boundary=boundary,
        walls=walls,
        steady=steady,
        **facts,
    )


def hold(
    u: Any, mask: Any, fields: Sequence[str] | None, steady: bool
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
    """The numbers in float32, the cells left out (sample, *space), the frames of each trajectory.

    Cells left out are zero; what else is not finite is left as it is.
    """
    array, outside, lengths = _as_trajectories(u)
    _check_order(array, fields, steady)
    outside = _joined_mask(outside, mask, array)
    if outside is not None:
        array[np.broadcast_to(outside[:, None, None], array.shape)] = 0.0
    return array, outside, lengths


def make_dataset(
    frames: Frames,
    beside: Mapping[str, Mapping[str, Any]],
    outside: np.ndarray | None = None,
    lengths: np.ndarray | None = None,
    *,
    name: str,
    fields: Sequence[str] | None,
    dt: float | None,
    extent: Any,
    boundary: Any,
    walls: str = "neumann",
    steady: bool = False,
    path: Path | None = None,
    **facts: Any,
) -> Dataset:
    """A data set of frames and what is beside them: parameters, known fields and forcing."""
    samples, count, channels, *points = frames.shape
    told = {"dt": 1.0 if steady else dt, "extent": extent, "boundary": boundary}
    missing = [key for key, value in told.items() if value is None]
    if missing:
        raise ValueError(f"{' and '.join(missing)} should be given: what the numbers cannot say.")
    grid = make_grid(points, extent, boundary, facts.pop("offset", ()))
    constant, conditions, names = gather_conditions(frames.shape, **beside)
    units = facts.pop("varying", {})
    names["varying"] |= {key: unit for key, unit in units.items() if key in names["varying"]}
    usual = ("u",) if channels == 1 else tuple(f"u{i}" for i in range(channels))
    card = Card(
        name=name,
        fields=tuple(fields) if fields else usual,
        **vars(grid),
        dt=told["dt"],
        frames=count,
        samples=samples,
        steady=steady,
        parameters=constant,
        walls=None if outside is None else walls,
        **names,
        **facts,
    )
    conditions = replace(conditions, mask=None if outside is None else ~outside, lengths=lengths)
    return Dataset(card, frames, path=path, conditions=conditions)


def _pair(
    u: Any, inputs: Any, names: Sequence[str] | None
) -> tuple[np.ndarray, dict[str, np.ndarray], tuple[str, ...]]:
    """Input and output as two frames, the inputs that have no room there, and names of the others.

    A frame has as many channels as the output: further inputs are known fields, missing ones zero.
    """
    answer, asked = np.asarray(plain(u)), np.asarray(plain(inputs))
    shapes = f"got {asked.shape} → {answer.shape}"
    if asked.ndim != answer.ndim or asked.ndim < 3 or asked.shape[2:] != answer.shape[2:]:
        raise ValueError(f"inputs and u should both be (sample, channel, *space), {shapes}.")
    if len(asked) != len(answer):
        raise ValueError(f"inputs and u should have the same number of samples, {shapes}.")
    width, count = answer.shape[1], asked.shape[1]
    usual = ("input",) if count == 1 else tuple(f"input{i}" for i in range(count))
    names = tuple(names or usual)
    if len(names) != count:
        raise ValueError(f"inputs should have {count} names, got {len(names)}.")
    frame = np.zeros(answer.shape, np.result_type(asked, answer))
    frame[:, : min(width, count)] = asked[:, :width]
    more = {name: asked[:, width + i] for i, name in enumerate(names[width:])}
    return np.stack([frame, answer], axis=1), more, names[:width]


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
    Those that come and go, and samples without any number, are damage and not a mask: they are
    left for `find_broken` to name.
    """
    array = _as_numpy(u)
    if np.ma.isMaskedArray(u):
        array[np.ma.getmaskarray(u)] = np.nan
    hidden = np.isnan(array)
    if array.ndim < 4 or not hidden.any():
        return array, None
    always = hidden.all(axis=(1, 2))
    always[always.reshape(len(always), -1).all(axis=1)] = False
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
    if array.dtype.kind not in "fiub":
        raise ValueError(f"the array should hold real numbers, got {array.dtype}.")
    with np.errstate(over="ignore"):
        single = np.ascontiguousarray(array, dtype=np.float32)
    if array.ndim > 2:
        check_rounding(array, single)
    return single.copy() if np.shares_memory(single, array) else single


def check_rounding(array: np.ndarray, single: np.ndarray) -> None:
    """Refuse channels (axis 2) that vary less than single precision can tell apart."""
    if array.dtype.itemsize <= 4:
        return
    for channel in range(array.shape[2]):
        exact = np.ma.masked_invalid(array[:, :, channel])
        if exact.count() == 0:
            continue
        lost = float(np.abs(single[:, :, channel] - exact).max())
        spread, middle = float(exact.std()), float(exact.mean())
        if lost > _ROUNDING * spread > 0:
            raise ValueError(
                f"channel {channel} varies by {spread:.3g} around {middle:.6g}, which single "
                "precision cannot tell apart. Subtract a constant from it first."
            )


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


def make_grid(
    points: Sequence[int], extent: Any, boundary: Any, offset: Sequence[float] = ()
) -> Grid:
    """A grid from what a user says: (0, 1) or "0:1,0:2", "periodic" or "periodic,neumann"."""
    dims, pairs = len(points), extent
    try:
        if isinstance(extent, str):
            pairs = [part.split(":") for part in read_names(extent)]
        pairs = np.asarray(pairs, dtype=float)
    except (TypeError, ValueError):
        pairs = np.empty(0)
    if pairs.shape in ((2,), (1, 2)):
        pairs = np.tile(pairs.reshape(2), (dims, 1))
    if pairs.shape != (dims, 2):
        raise ValueError(
            f"extent should be (low, high), or one such pair for each of {dims} axes, got {extent}."
        )
    names = read_names(boundary)
    edges = tuple((float(low), float(high)) for low, high in pairs)
    return Grid(
        tuple(points),
        edges,
        boundary_per_axis(names if len(names) > 1 else names[0], dims),
        tuple(offset),
    )


def read_names(value: Any) -> list[str]:
    """'u, v' or ('u', 'v') → ['u', 'v']; None, and what is no name, is nothing."""
    if isinstance(value, str):
        return [word.strip() for word in value.split(",") if word.strip()]
    if isinstance(value, list | tuple) and all(isinstance(word, str) for word in value):
        return [word for part in value for word in read_names(part)]
    return []
