"""What else is known about each trajectory: parameters, known fields, forcing, a mask, its length.

    parameters    (n, p)                scalars θ of the trajectory, such as a viscosity
    signals       (n, t, s)             scalars that vary in time and are known in advance
    known         (n, k, *space)        fields constant in time: depth, conductivity
    forcing       (n, t, f, *space)     fields that vary in time and are known in advance
    mask          (n, *space)           True in the cells that are part of the domain
    lengths       (n,)                  frames of each trajectory, where they differ

What is the same for every trajectory may have n = 1.  Names and units are on the data's card.
None of it is ever predicted or scored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from fino.given import Given

__all__ = ["CHANNEL", "Conditions", "gather_conditions", "plain"]

#: The axis that the names of a kind count, in `Conditions` and in `Given`.
CHANNEL = {"parameters": 1, "signals": 2, "known": 1, "forcing": 2}


@dataclass(frozen=True, eq=False)
class Conditions:
    """Arrays beside the trajectories, each None where there is none of its kind."""

    parameters: np.ndarray | None = None
    signals: np.ndarray | None = None
    known: np.ndarray | None = None
    forcing: np.ndarray | None = None
    mask: np.ndarray | None = None
    lengths: np.ndarray | None = None

    def __bool__(self) -> bool:
        return any(True for _ in self.arrays())

    def arrays(self) -> Iterator[tuple[str, np.ndarray]]:
        """The arrays that are there, by name."""
        for field in fields(self):
            array = getattr(self, field.name)
            if array is not None:
                yield field.name, array

    def check(self, samples: int, frames: int, points: Sequence[int]) -> None:
        """Refuse arrays that do not fit the trajectories, one line each."""
        wanted: dict[str, tuple[Any, ...]] = {
            "parameters": ("p",),
            "signals": (frames, "s"),
            "known": ("k", *points),
            "forcing": (frames, "f", *points),
            "mask": tuple(points),
            "lengths": (),
        }
        for name, array in self.arrays():
            shape, rest = array.shape, wanted[name]
            alike = len(shape) == 1 + len(rest) and all(
                isinstance(want, str) or want == got
                for want, got in zip(rest, shape[1:], strict=True)
            )
            if not alike or shape[0] not in (1, samples):
                words = ", ".join(str(n) for n in (samples, *rest))
                raise ValueError(f"{name} should be ({words}), or the same with 1, got {shape}.")
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise ValueError(f"{name} should hold finite numbers.")
        if self.mask is not None and not self.mask.reshape(len(self.mask), -1).any(axis=1).all():
            raise ValueError("the mask covers every cell of a trajectory: nothing is left.")

    def digest_arrays(self, sample: int) -> list[np.ndarray]:
        """One sample's share of every array, for its checksum."""
        return [array[_row(array, sample)] for _, array in self.arrays()]

    def kept(
        self, samples: Sequence[int], stride_time: int, space: tuple[slice, ...]
    ) -> Conditions:
        """The conditions of some samples of the source, strided as they are."""
        cut, found = _places(slice(None, None, stride_time), space), {}
        for name, array in self.arrays():
            rows = array if len(array) == 1 else array[list(samples)]
            found[name] = np.ascontiguousarray(rows[(slice(None), *cut[name])])
        if "lengths" in found:
            found["lengths"] = -(-found["lengths"] // stride_time)
        return Conditions(**found)

    def length(self, sample: int, frames: int) -> int:
        """Frames of one trajectory of the source."""
        return frames if self.lengths is None else int(self.lengths[_row(self.lengths, sample)])

    def give(
        self, given: Given, samples: Sequence[int], times: slice, space: tuple[slice, ...]
    ) -> Given:
        """Put one's share of everything beside a history.

        `times` begins with the newest frame of the history: forcing and signals are given from
        then on.
        """
        import torch

        def take(array: np.ndarray, *place: Any) -> torch.Tensor:
            rows = [array[(_row(array, i), *place)] for i in samples]
            return torch.from_numpy(np.stack(rows).astype(np.float32))

        places = _places(times, space)
        found: dict[str, Any] = {n: take(a, *places[n]) for n, a in self.arrays() if n != "lengths"}
        if "mask" in found:
            found["mask"] = found["mask"].unsqueeze(1)
        return replace(given, **found) if found else given


def _places(times: slice, space: tuple[slice, ...]) -> dict[str, tuple[slice, ...]]:
    """Where some times and cells lie in one sample's share of each array."""
    return {
        "parameters": (),
        "signals": (times,),
        "known": (slice(None), *space),
        "forcing": (times, slice(None), *space),
        "mask": space,
        "lengths": (),
    }


def _row(array: np.ndarray, sample: int) -> int:
    return sample if len(array) > 1 else 0


def gather_conditions(
    shape: Sequence[int],
    parameters: Mapping[str, Any],
    known: Mapping[str, Any],
    forcing: Mapping[str, Any],
) -> tuple[dict[str, Any], Conditions, dict[str, Any]]:
    """Constants for the card, arrays for the models, and the names of the latter for the card.

    `shape` is (sample, time, channel, *space) of the trajectories.
    """
    samples, frames, _, *points = shape
    constant, columns = {}, {}
    for name, value in parameters.items():
        values = np.asarray(plain(value))
        if isinstance(value, str | tuple) or values.ndim == 0:
            constant[name] = value
        elif values.shape != (samples,):
            raise ValueError(
                f"parameter '{name}' should be one number, or one for each of {samples} "
                f"trajectories, got shape {values.shape}."
            )
        else:
            columns[name] = values.astype(float)
    fields = {n: _shaped(n, v, [tuple(points)], samples) for n, v in known.items()}
    moving = {n: _shaped(n, v, [(frames,), (frames, *points)], samples) for n, v in forcing.items()}
    signals = {n: v for n, v in moving.items() if v.ndim == 2}
    driving = {n: v for n, v in moving.items() if v.ndim > 2}
    conditions = Conditions(
        parameters=np.stack(list(columns.values()), axis=1) if columns else None,
        signals=_stacked(signals, 2),
        known=_stacked(fields, 1),
        forcing=_stacked(driving, 2),
    )
    names = {"signals": tuple(signals), "known": tuple(fields), "forcing": tuple(driving)}
    return constant, conditions, {"varying": dict.fromkeys(columns, ""), **names}


def _shaped(name: str, value: Any, shapes: list[tuple[int, ...]], samples: int) -> np.ndarray:
    """An array that is the same for all trajectories (1, …) or has one for each (sample, …)."""
    array = np.asarray(plain(value), dtype=np.float32)
    for shape in shapes:
        if array.shape == shape:
            return array[None]
        if array.shape == (samples, *shape):
            return array
    wanted = " or ".join(str(s) for shape in shapes for s in (shape, (samples, *shape)))
    raise ValueError(f"'{name}' should have the shape {wanted}, got {array.shape}.")


def _stacked(table: Mapping[str, np.ndarray], axis: int) -> np.ndarray | None:
    if not table:
        return None
    samples = max(len(array) for array in table.values())
    rows = [np.broadcast_to(a, (samples, *a.shape[1:])) for a in table.values()]
    return np.stack(rows, axis=axis)


def plain(value: Any) -> Any:
    """A torch tensor as a numpy array, anything else as it is."""
    return value.detach().cpu().numpy() if hasattr(value, "detach") else value
