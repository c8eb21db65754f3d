"""What one training step looks at: a pure function of (seed, step), whoever computes it.

    windows     which stretch of which trajectory
    augment     symmetries that the card declares, drawn anew every step
    noise       on the history, in units of the fields' own spread
    crop        a piece of the domain and the halo that makes its loss exact

All are drawn for the whole batch; a process among many then takes its rows.  So the same step
sees the same numbers in one process or in many, in one session or after a restart.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from fino.data.card import Card
from fino.data.dataset import Dataset, Part
from fino.data.symmetry import directions_of, draw_moves, move_each
from fino.given import Given
from fino.grid import Grid
from fino.locality import Locality
from fino.model.emulator import Emulator
from fino.model.network import one_each
from fino.model.prior import MovingFrame
from fino.shapes import Trajectory
from fino.streams import numpy_stream, torch_stream
from fino.training.settings import TrainingSettings

__all__ = ["Batch", "Crop", "augment", "draw_batch", "validation_part", "windows"]


@dataclass(frozen=True)
class Batch:
    """What a model is given, the future (b, H, c, *space) it should predict, and their origin.

    `samples` are numbers of the data set, `starts` the first frames of the windows; `inner` are
    the cells of a crop that count, without its halo; `facing` (b, dims) is −1 along the axes that
    were mirrored, else 1.
    """

    given: Given
    future: Trajectory
    samples: tuple[int, ...]
    starts: tuple[int, ...]
    inner: tuple[slice, ...] = ()
    facing: Tensor | None = None

    def to(self, device: str) -> Batch:
        if device == "cpu":
            return self
        facing = None if self.facing is None else self.facing.to(device)
        given, future = self.given.to(device), self.future.to(device)
        return replace(self, given=given, future=future, facing=facing)


def validation_part(data: Dataset) -> Part:
    """What models are chosen by; the training part itself where there is no validation part."""
    return data.validation if len(data.validation) else data.train


def draw_batch(
    part: Part,
    emulator: Emulator,
    settings: TrainingSettings,
    step: int,
    horizon: int,
    rows: slice = slice(None),
) -> Batch:
    """The batch of one step; `rows` are those that this process computes."""
    seed, batch, length = settings.seed, settings.batch or 1, emulator.history + horizon
    first = part.data.task(emulator.history).start
    samples, starts = windows(seed, step, batch, len(part), part.frames - first, length)
    own = part.data.lengths[[part.samples[i] for i in samples]] - first
    strides = _strides(emulator, seed, step, own, length)
    # Windows of shorter trajectories and of longer strides begin earlier.
    starts = starts % (own - (length - 1) * strides)
    starts = starts + first if settings.windows == "random" else np.full_like(starts, first)
    pairs = list(zip(samples.tolist(), starts.tolist(), strict=True))
    given, future = _read(part, pairs, strides.tolist(), emulator.history, horizon)
    given = emulator.conditioning.with_dt(given, torch.from_numpy(strides * emulator.settings.dt))
    facing = None
    if settings.augment and part.data.card.symmetries:
        moves = draw_moves(part.data.card, given.space, len(future), seed, step)
        if isinstance(emulator.prior, MovingFrame):  # it knows a motion along each axis
            moves = [replace(move, swapped=False) for move in moves]
            facing = torch.stack([move.facing(len(given.space)) for move in moves])
        given, future = move_each(given, future, directions_of(part.data.card), moves)
    if settings.noise:
        size = settings.noise * emulator.input_std.cpu().view(-1, *[1] * part.data.grid.dims)
        noise = torch.randn(given.history.shape, generator=torch_stream(seed, "noise", step))
        given = replace(given, history=given.history + size * noise)
    inner: tuple[slice, ...] = ()
    if settings.crop is not None:
        given = replace(given, positions=emulator.positions())
        crop = choose_crop(given, part.data.grid, emulator.locality, settings, horizon, step)
        given, future, inner = given.cut(crop.cut), crop.cut(future), crop.inner
        if not settings.halo:
            given, future = close_edges(given, future)
    chosen = pairs[rows]
    return Batch(
        given.rows(rows),
        future[rows],
        tuple(part.samples[i] for i, _ in chosen),
        tuple(start for _, start in chosen),
        inner,
        None if facing is None else facing[rows],
    )


def _read(
    part: Part, pairs: list[tuple[int, int]], strides: list[int], history: int, horizon: int
) -> tuple[Given, Trajectory]:
    """Each sample's window; those that begin at the same frame are read at once.

    On small grids most of a step's time would go into reading them one by one.
    """
    together: dict[tuple[int, int], list[int]] = {}
    for row, ((_, at), stride) in enumerate(zip(pairs, strides, strict=True)):
        together.setdefault((at, stride), []).append(row)
    cut = [
        part.window([pairs[row][0] for row in rows], at, history, horizon, stride)
        for (at, stride), rows in together.items()
    ]
    given, future = Given.join([given for given, _ in cut]), torch.cat([ahead for _, ahead in cut])
    order = torch.tensor([row for rows in together.values() for row in rows]).argsort()
    return given.rows(order), future[order]


def _strides(emulator: Emulator, seed: int, step: int, own: np.ndarray, length: int) -> np.ndarray:
    """The frames between two of each window, drawn among those that leave it in its trajectory."""
    strides = np.array(emulator.strides)
    if len(strides) == 1:
        return np.ones(len(own), dtype=int)
    draw = numpy_stream(seed, "strides", step)
    fit = [strides[(length - 1) * strides < frames] for frames in own]
    return np.array([draw.choice(some) for some in fit])


def windows(
    seed: int, step: int, batch: int, samples: int, frames: int, length: int
) -> tuple[np.ndarray, np.ndarray]:
    """The samples and first frames of one batch: two whole-number arrays (batch,).

    Every sample is met once before any is met again, in an order drawn anew for each pass; the
    first frame of every window is drawn evenly.  Any step can be replayed without those before it.
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


def augment(
    given: Given, future: Trajectory, card: Card, seed: int, step: int
) -> tuple[Given, Trajectory]:
    """Each trajectory of a batch moved by symmetries of its own (`fino.data.symmetry`)."""
    if not card.symmetries:
        return given, future
    moves = draw_moves(card, given.space, len(future), seed, step)
    return move_each(given, future, directions_of(card), moves)


@dataclass(frozen=True)
class Crop:
    """Which cells of each axis are read, and which of those count in the loss.

    A local model that is run on the crop plus its halo gives, inside the crop, the numbers that it
    gives on the whole domain; so the loss there is the full-domain loss restricted to the crop.
    Across a periodic edge the halo comes from the other side; at a wall there is none, because
    the model's own boundary is right there.
    """

    cells: tuple[Tensor, ...]
    inner: tuple[slice, ...]

    def cut(self, u: Tensor) -> Tensor:
        """The crop with its halo: (…, *space) → (…, *cells)."""
        for axis, cells in enumerate(self.cells, start=u.dim() - len(self.cells)):
            u = u.index_select(axis, cells.to(u.device))
        return u


def crop_sizes(crop: int | tuple[int, ...], grid: Grid, locality: Locality) -> tuple[int, ...]:
    """The crop's size on each axis, refused where the model cannot be cut that way."""
    if not locality.is_local:
        raise ValueError(
            "This model sees the whole field (radius inf), so it cannot be trained on crops. "
            "Use a local model, or leave crop unset."
        )
    sizes = one_each(crop, grid.dims)
    if len(sizes) != grid.dims or min(sizes) < 1:
        raise ValueError(f"crop should be one size for each of {grid.dims} axes, got {crop}.")
    for size, stride in zip(sizes, locality.stride, strict=True):
        if size % stride:
            raise ValueError(
                f"crop {size} should be a multiple of the model's stride {stride}. "
                f"Try {max(1, round(size / stride)) * stride}."
            )
    return tuple(min(size, n) for size, n in zip(sizes, grid.points, strict=True))


#: Places that are drawn until one has at least half of its cells inside of the mask.
_TRIES = 8


def choose_crop(
    given: Given,
    grid: Grid,
    locality: Locality,
    settings: TrainingSettings,
    horizon: int,
    step: int,
) -> Crop:
    """A crop with the halo that `horizon` steps need, or without one inside of a mask."""
    assert settings.crop is not None
    sizes = crop_sizes(settings.crop, grid, locality)
    if settings.halo:
        return draw_crop(sizes, grid, locality, horizon, settings.seed, step)
    if given.mask is None:
        raise ValueError(
            "halo=False takes a crop's edge for the edge of a mask, and these data have no mask. "
            "Leave halo on, or give the data a mask."
        )
    best, most = None, -1.0
    for attempt in range(_TRIES):
        crop = draw_crop(sizes, grid, locality, 0, settings.seed, _TRIES * step + attempt)
        share = float(crop.cut(given.mask).mean())
        if share > most:
            best, most = crop, share
        if most >= 0.5:
            break
    assert best is not None
    return best


def close_edges(given: Given, future: Trajectory) -> tuple[Given, Trajectory]:
    """The outermost cells of a crop put outside of the mask, as if no one had looked farther."""
    assert given.mask is not None
    inside = torch.zeros_like(given.mask)
    inside[(slice(None), slice(None), *[slice(1, -1)] * (inside.dim() - 2))] = 1.0
    mask = given.mask * inside
    over_time = mask.unsqueeze(1)
    return replace(given, mask=mask, history=given.history * over_time), future * over_time


def draw_crop(
    sizes: tuple[int, ...], grid: Grid, locality: Locality, horizon: int, seed: int, step: int
) -> Crop:
    """A crop somewhere on the model's stride, with the halo that `horizon` steps need."""
    draw = numpy_stream(seed, "crop", step)
    cells, inner = [], []
    for axis, halo in enumerate(locality.halo(horizon)):
        n, size, stride = grid.points[axis], sizes[axis], locality.stride[axis]
        if grid.is_periodic[axis] and size + 2 * halo < n:
            start = stride * int(draw.integers(n // stride))
            low, high = start - halo, start + size + halo
        else:
            start = stride * int(draw.integers((n - size) // stride + 1))
            whole = grid.is_periodic[axis]
            low = 0 if whole else max(0, start - halo)
            high = n if whole else min(n, start + size + halo)
        cells.append(torch.arange(low, high) % n)
        inner.append(slice(start - low, start - low + size))
    return Crop(tuple(cells), tuple(inner))
