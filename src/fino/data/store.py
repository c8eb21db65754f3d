"""The native file: HDF5 in The Well's layout, contiguous, read through a memory map.

    /                     dataset_name, n_trajectories, …; card (JSON), hash, labels, seal (SHA-256)
    /dimensions           time, x, y, z
    /boundary_conditions  one group for each axis
    /scalars              the numeric parameters
    /t0_fields            one array (sample, time, *space) in float32 for each channel
    /fino/sample_sha256   a checksum for each trajectory

The same data always give the same bytes: nothing in the file knows the hour or the machine.
Each trajectory is checked against its checksum when it is first read, so a flipped bit is an
error and not a surprise.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from fino.data.card import Card
from fino.data.conditions import CHANNEL, Conditions
from fino.data.dataset import Dataset, sample_digest
from fino.data.frames import FieldFrames, Frames, View, check_whole, open_array
from fino.durable import whole_file, write_whole

__all__ = ["is_native", "read_native", "save", "tell_full_disk", "write_cards", "write_native"]

_AXES = ("x", "y", "z")

#: Trajectories (b, t, c, *space), and the SHA-256 of each if it is known.
Block = tuple[np.ndarray, Sequence[bytes] | None]

#: Our four boundaries in The Well's three words.
_WELL_BOUNDARY = {"periodic": "PERIODIC", "dirichlet": "WALL", "neumann": "OPEN", "reflect": "WALL"}

#: The file's first words, before HDF5 begins: readers skip them, and they tell whose file it is.
_GREETING = b"fino data set: HDF5 in The Well's layout, described by the attribute 'card'.\n"
_GREETING_ROOM = 512

#: Rises when an older reader could no longer make sense of the file.
_LAYOUT = 1

_TEXT = h5py.string_dtype()

#: What is said of a disk that is full or has no room for a user.
_FULL = ("No space left on device", "File too large", "Disk quota exceeded")

#: Bytes that are copied at a time.
_BLOCK = 2**24


def save(data: Dataset, path: str | Path, overwrite: bool = False) -> Dataset:
    """Write any data set as a file of fino (HDF5, which The Well's loader reads too) and open it.

    The card goes beside it as PATH.card.json and PATH.card.md; `overwrite` replaces a file that
    exists.
    """
    target = Path(path)
    if target.exists() and not overwrite:
        raise ValueError(f"{target} exists already. Choose another name, or allow overwriting.")
    each = 4 * int(np.prod(data.shape[1:], dtype=object))
    size = max(1, _BLOCK // each)
    blocks = (
        (data.read(range(start, min(start + size, len(data)))).numpy(), None)
        for start in range(0, len(data), size)
    )
    target.parent.mkdir(parents=True, exist_ok=True)
    with (
        tell_full_disk(target, "Make room, or choose another place"),
        whole_file(target) as temporary,
    ):
        write_native(temporary, data.card, blocks, data.labels, data.kept_conditions())
    write_cards(target, data.card)
    return read_native(target)


@contextmanager
def tell_full_disk(path: Path, hint: str) -> Iterator[None]:
    """What the system and HDF5 say of a full disk, the latter at length, in one line."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        why = next((words for words in _FULL if words in str(error)), None)
        if why is None:
            raise
        raise OSError(f"{path} could not be written ({why}). {hint}.") from error


def write_cards(path: Path, card: Card) -> None:
    """The card beside the file, for machines and for people, with its cost."""
    write_whole(path.with_name(path.name + ".card.json"), card.to_json().encode())
    write_whole(path.with_name(path.name + ".card.md"), card.markdown().encode())


def write_native(
    path: Path,
    card: Card,
    blocks: Iterable[Block],
    labels: tuple[str, ...] = (),
    conditions: Conditions | None = None,
) -> str:
    """Write blocks (b, t, c, *space) of consecutive samples as one file; returns its hash.

    A block comes with the checksums of its samples, or with None if they are not known yet.
    The newer file format guards the file's own structure with checksums; only the card and the
    arrays are needed to read it back.
    """
    card, conditions = card.changed(cost=None), conditions or Conditions()
    digests = np.zeros((card.samples, 32), dtype=np.uint8)
    with h5py.File(path, "w", libver=("v110", "v110"), userblock_size=_GREETING_ROOM) as file:
        _write_frame(file, card)
        _write_conditions(file, card, conditions)
        inputs, outputs = _create_fields(file, card)
        filled = 0
        for block, known in blocks:
            place = slice(filled, filled + len(block))
            for channel, array in enumerate(outputs):
                array[place] = block[:, 1:, channel] if card.steady else block[:, :, channel]
            for channel, array in enumerate(inputs):
                array[place] = block[:, 0, channel]
            if conditions or known is None:
                known = [
                    sample_digest(sample, *conditions.digest_arrays(filled + row))
                    for row, sample in enumerate(block)
                ]
            digests[place] = np.frombuffer(b"".join(known), dtype=np.uint8).reshape(-1, 32)
            filled += len(block)
        if filled != card.samples:
            raise ValueError(f"{card.samples} samples were promised but {filled} were written.")
        recorded = hashlib.sha256(digests.tobytes()).hexdigest()
        _array(file.require_group("fino"), "sample_sha256", digests)
        words = {"card": card.to_json(), "hash": recorded, "labels": json.dumps(labels)}
        file.attrs["layout"] = _LAYOUT
        for name, text in {**words, "seal": _seal(words)}.items():
            file.attrs[name] = np.frombuffer(text.encode(), dtype=np.uint8)
    with path.open("r+b") as begin:
        begin.write(_GREETING)
    return recorded


def _write_frame(file: h5py.File, card: Card) -> None:
    """Everything around the numbers that The Well's readers look for."""
    numbers = {
        key: float(value)
        for key, value in card.parameters.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    file.attrs["dataset_name"] = card.name
    file.attrs["grid_type"] = "spherical" if card.area_weighted else "cartesian"
    file.attrs["n_spatial_dims"] = len(card.points)
    file.attrs["n_trajectories"] = card.samples
    _texts(file, "simulation_parameters", list(numbers))
    for key, value in numbers.items():
        if key not in file.attrs:
            file.attrs[key] = value
    _write_dimensions(file.create_group("dimensions"), card)
    _write_boundaries(file.create_group("boundary_conditions"), card)
    _write_scalars(file.create_group("scalars"), card, numbers)


def _write_conditions(file: h5py.File, card: Card, conditions: Conditions) -> None:
    """Parameters and known fields where The Well's readers look for them, the rest beside."""
    scalars, fields = file["scalars"], file.require_group("t0_fields")
    for name, (kind, place) in _places(card).items():
        array = getattr(conditions, kind)
        if array is None:
            raise ValueError(f"the card names {kind} that the data do not have.")
        if place is None:
            _array(file.require_group("fino"), name, array.astype(array.dtype.newbyteorder("<")))
            continue
        values = np.take(array, place, axis=CHANNEL[kind]).astype("<f4")
        group = scalars if kind in ("parameters", "signals") else fields
        moves = kind in ("signals", "forcing")
        _array(group, name, values, sample_varying=len(values) > 1, time_varying=moves)
    if conditions.lengths is not None:
        _array(file.require_group("fino"), "lengths", conditions.lengths.astype("<i8"))


def _places(card: Card) -> dict[str, tuple[str, int | None]]:
    """Where everything beside the fields goes: name → (kind, place among its kind)."""
    found: dict[str, tuple[str, int | None]] = {}
    for kind, names in card.given_names.items():
        found |= {name: (kind, place) for place, name in enumerate(names)}
    if card.walls is not None:
        found["mask"] = ("mask", None)
    return found


def _read_conditions(file: h5py.File, card: Card) -> Conditions:
    """The way back from `_write_conditions`."""
    found: dict[str, Any] = {}
    columns: dict[str, list[np.ndarray]] = {}
    for name, (kind, place) in _places(card).items():
        if place is None:
            found[kind] = np.asarray(file["fino"][name]).astype(bool)
            continue
        group = file["scalars"] if kind in ("parameters", "signals") else file["t0_fields"]
        columns.setdefault(kind, []).append(np.asarray(group[name]))
    for kind, arrays in columns.items():
        found[kind] = np.stack(arrays, axis=CHANNEL[kind])
    if "lengths" in file["fino"]:
        found["lengths"] = np.asarray(file["fino"]["lengths"])
    return Conditions(**found)


def _write_dimensions(group: Any, card: Card) -> None:
    axes = _AXES[: len(card.points)]
    _texts(group, "spatial_dims", axes)
    times = card.times[-1:] if card.steady else card.times
    _array(group, "time", times.astype(np.float32), sample_varying=False)
    for axis, coordinates in zip(axes, card.grid.coordinates(), strict=True):
        values = coordinates.astype(np.float32)
        _array(group, axis, values, sample_varying=False, time_varying=False)


def _write_boundaries(group: Any, card: Card) -> None:
    for axis, points, boundary in zip(_AXES, card.points, card.boundary, strict=False):
        edge = group.create_group(f"{axis}_{boundary}")
        _texts(edge, "associated_dims", [axis])
        _texts(edge, "associated_fields", [])
        edge.attrs["bc_type"] = _WELL_BOUNDARY[boundary]
        edge.attrs["sample_varying"] = False
        edge.attrs["time_varying"] = False
        mask = np.zeros(points, dtype=bool)
        mask[[0, -1]] = True
        _array(edge, "mask", mask)
        _array(edge, "values", np.zeros(int(mask.sum()), dtype=np.float32))


def _write_scalars(group: Any, card: Card, numbers: dict[str, float]) -> None:
    # The Well's loader keeps scalars and fields under one roof: names must differ.
    taken = {*card.fields, *card.inputs}
    names = {key: f"{key}_parameter" if key in taken else key for key in numbers}
    _texts(group, "field_names", [*names.values(), *card.varying, *card.signals])
    for key, name in names.items():
        _array(group, name, np.float32(numbers[key]), sample_varying=False, time_varying=False)


def _create_fields(file: h5py.File, card: Card) -> tuple[list[Any], list[Any]]:
    """Empty arrays for every channel, laid out at once: inputs (steady data only), outputs."""
    group = file.require_group("t0_fields")
    inputs = _input_names(card) if card.steady else ()
    _texts(group, "field_names", [*inputs, *card.fields, *card.known, *card.forcing])
    frames = 1 if card.steady else card.frames
    constants = [_room(group, name, (card.samples, *card.points), False) for name in inputs]
    shape = (card.samples, frames, *card.points)
    varying = [_room(group, name, shape, True) for name in card.fields]
    for order in ("t1_fields", "t2_fields"):
        _texts(file.create_group(order), "field_names", [])
    return constants, varying


def _input_names(card: Card) -> tuple[str, ...]:
    names = card.inputs or tuple(f"input_{name}" for name in card.fields)
    return tuple(f"input_{name}" if name in card.fields else name for name in names)


def _texts(owner: Any, name: str, words: Sequence[str]) -> None:
    owner.attrs.create(name, np.array(list(words), dtype=object), dtype=_TEXT)


def _array(group: Any, name: str, values: Any, **attributes: bool) -> None:
    array = group.create_dataset(name, data=values, track_times=False)
    for key, value in attributes.items():
        array.attrs[key] = value


def _room(group: Any, name: str, shape: tuple[int, ...], moves: bool) -> Any:
    """A field whose place in the file is fixed before anything is written to it."""
    creation = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    creation.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    creation.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    creation.set_obj_track_times(False)
    space = h5py.h5s.create_simple(shape)
    kind = h5py.h5t.IEEE_F32LE
    array = h5py.Dataset(h5py.h5d.create(group.id, name.encode(), kind, space, dcpl=creation))
    dims = (True,) * (len(shape) - 1 - moves)
    array.attrs.update(dim_varying=dims, sample_varying=True, time_varying=moves)
    return array


def is_native(path: Path) -> bool:
    """Whether a file is one of ours, by its first words."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_GREETING)) == _GREETING


def read_native(path: str | Path) -> Dataset:
    """Open a native file: the card is read, the arrays are mapped, nothing is loaded."""
    source = Path(path)
    with h5py.File(source, "r") as file:
        layout = int(file.attrs.get("layout", 1))  # the first one carried no number
        if layout != _LAYOUT:
            raise ValueError(
                f"it has layout {layout} and this fino reads layout {_LAYOUT}. Open it with the "
                "fino that wrote it, or generate it again."
            )
        words = {name: _words(file.attrs[name]) for name in ("card", "hash", "labels")}
        if _words(file.attrs["seal"]) != _seal(words):
            raise ValueError("its card is damaged.")
        card, recorded = Card.from_json(words["card"]), words["hash"]
        digests = np.asarray(file["fino/sample_sha256"])
        if digests.shape != (card.samples, 32) or digests.dtype != np.uint8:
            raise ValueError("its checksums do not fit its card.")
        if hashlib.sha256(digests.tobytes()).hexdigest() != recorded:
            raise ValueError("its checksums are damaged.")
        space = "xyz"[: len(card.points)]
        time, axes = (1, ("s", 0, *space)) if card.steady else (card.frames, ("s", "t", *space))
        outputs = _views(file, source, card.fields, (card.samples, time, *card.points), axes)
        inputs = _input_names(card) if card.steady else ()
        questions = _views(file, source, inputs, (card.samples, *card.points), ("s", *space))
        conditions = _read_conditions(file, card)
    return Dataset(
        _with_cost(card, source),
        _CheckedFrames(
            FieldFrames(outputs, questions), digests, source, conditions, source.stat().st_size
        ),
        path=source,
        labels=tuple(json.loads(words["labels"])),
        recorded_hash=recorded,
        conditions=conditions,
    )


def _views(
    file: h5py.File, path: Path, names: Sequence[str], shape: tuple[int, ...], axes: Sequence[Any]
) -> tuple[View, ...]:
    """The arrays of some channels, mapped read-only after their bounds are checked."""
    arrays = [file["t0_fields"][name] for name in names]
    for array in arrays:
        if not isinstance(array, h5py.Dataset) or (array.shape, array.dtype) != (shape, "<f4"):
            raise ValueError(f"its array is not float32 of shape {shape}.")
    return tuple(View(open_array(array, path), axes) for array in arrays)


def _words(attribute: Any) -> str:
    values = np.asarray(attribute)
    if values.dtype != np.uint8:
        raise ValueError("its card is not text.")
    return values.tobytes().decode("utf-8", "replace")


def _seal(words: dict[str, str]) -> str:
    """One checksum over everything that is said about the numbers."""
    return hashlib.sha256("\0".join(words[key] for key in sorted(words)).encode()).hexdigest()


def _with_cost(card: Card, path: Path) -> Card:
    """What solving the data cost stands only in the card beside the file, if that is there."""
    beside = path.with_name(path.name + ".card.json")
    with suppress(OSError, ValueError):
        return card.changed(cost=Card.from_json(beside.read_bytes()).cost)
    return card


@dataclass(frozen=True, eq=False)
class _CheckedFrames:
    """Frames whose every trajectory is compared with its checksum when it is first touched."""

    frames: Frames
    digests: np.ndarray
    path: Path
    conditions: Conditions
    size: int
    seen: set[int] = field(default_factory=set)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.frames.shape

    def read(self, samples: Sequence[int], times: slice, space: tuple[slice, ...]) -> np.ndarray:
        check_whole(self.path, self.size)
        for i in samples:
            if i not in self.seen:
                self._check(i)
                self.seen.add(i)
        return self.frames.read(samples, times, space)

    def _check(self, sample: int) -> None:
        everything = (slice(None),) * (len(self.shape) - 3)
        whole = self.frames.read([sample], slice(None), everything)[0]
        beside = self.conditions.digest_arrays(sample)
        if sample_digest(whole, *beside) != self.digests[sample].tobytes():
            raise ValueError(
                f"{self.path} is damaged: sample {sample} does not match its checksum. "
                "Make or fetch the file again."
            )
