"""A step that says how far it sees, and how it steps inside a window.

    window of tile + halo(k)   →   k frames of the tile

After each step the outermost cells of the window are wrong, because the network padded there
where the field went on; one step later so are `radius` more.  With a halo of k steps the wrong
cells never reach the tile.  Cells that can no longer matter are dropped between the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from fino.given import Given
from fino.grid import boundary_per_axis
from fino.inference.boxes import Box, Domain, crop, shape
from fino.inference.store import TrajectoryStore, open_store
from fino.locality import Locality
from fino.model.emulator import Emulator
from fino.model.features import position_channels
from fino.model.rollout import frames
from fino.shapes import Field, Trajectory

__all__ = [
    "LocalStep",
    "Past",
    "count_dims",
    "find_model",
    "like_weights",
    "local_network",
    "local_step",
    "open_history",
    "whole_frames",
]

#: Reads the frames before a time from a window of a sample: (K, c, *window).
Past = Callable[[int, Box], Tensor]

T = TypeVar("T", Tensor, Given)


@dataclass(frozen=True, eq=False)
class LocalStep:
    """One step of a local map over a domain, computable in any window of it.

    `known` holds what the step is given beside the history, over the whole domain, without frames.
    """

    step: Any
    history: int
    locality: Locality
    domain: Domain
    positions: Positions | None = None
    known: Given | None = None

    def windows(self, box: Box, steps: int) -> list[Box]:
        """What each of the steps is computed from, the widest first, and the box at the end."""
        halos = [self.locality.halo(left) for left in range(steps, 0, -1)]
        return [*(self.domain.grow(box, halo) for halo in halos), box]

    def key(self, box: Box, steps: int) -> tuple[object, ...]:
        """Equal for boxes that can be computed side by side in one batch."""
        windows = self.windows(box, steps)
        if self.known is not None:
            return windows[0], steps
        places = tuple(
            tuple((a - o, b - o) for (a, b), (o, _) in zip(window, box, strict=True))
            for window in windows
        )
        return places, self.positions.key(windows[0]) if self.positions else ()

    def given(
        self, pairs: Sequence[tuple[int, Box]], steps: int, past: Past, time: int = 0
    ) -> Given:
        """What the step may look at in the windows of (sample, tile) pairs of one key.

        The one place where it is put together for tiles and for ranks: whatever else a step is
        given, for each sample or varying in time, is cut here.  `time` is that of the first frame
        to predict, counted from the end of the history.
        """
        windows = [self.windows(tile, steps)[0] for _, tile in pairs]
        history = torch.stack(
            [past(sample, window) for (sample, _), window in zip(pairs, windows, strict=True)]
        )
        if self.known is not None:
            given = replace(self.known.cut(partial(_take, box=windows[0])), history=history)
        else:
            positions = self.positions(windows[0]) if self.positions else None
            given = Given(history, positions)
        return like_weights(given, self.step)

    def frames(self, given: Given, box: Box, steps: int) -> Iterator[Field]:
        """The box's frames (b, c, *box) from what is given in its window for so many steps."""
        for done, (window, smaller) in enumerate(pairwise(self.windows(box, steps)), start=1):
            frame = _call(self.step, given)
            yield crop(frame, box, window)
            if done < steps:
                given = given.step(frame).cut(partial(crop, box=smaller, window=window))


def _call(step: Any, given: Given) -> Field:
    """The next frame of a window."""
    if isinstance(step, Emulator):
        return step(given.history, given.positions)
    return step(given.history)


def like_weights(thing: T, step: Any) -> T:
    """The same in the type and on the device of the step's weights, if it has any."""
    weight = next(step.parameters(), None) if isinstance(step, nn.Module) else None
    return thing if weight is None else thing.to(weight)


def whole_frames(model: Any, history: Any, store: TrajectoryStore, steps: int) -> Iterator[Field]:
    """Frames of the whole domain one after another, for any stepper, from an opened history."""
    whole = tuple((0, n) for n in store.shape[3:])
    recent = torch.stack(
        [
            torch.stack([store.read(sample, time, whole) for time in range(store.shape[1])])
            for sample in range(store.shape[0])
        ]
    )
    given = replace(history, history=recent) if isinstance(history, Given) else Given(recent)
    given = like_weights(given, model)
    return frames(_Shown(model, given), given.history, steps)


@dataclass(frozen=True, eq=False)
class _Shown:
    """A stepper of a history alone, shown all that is given beside it."""

    model: Any
    given: Given

    @property
    def history(self) -> int:
        return getattr(self.model, "history", self.given.history.shape[1])

    def __call__(self, history: Trajectory, /) -> Field:
        return _call(self.model, replace(self.given, history=history))


@dataclass(frozen=True, eq=False)
class Positions:
    """The position channels of any box, computed for that box alone.

    Every channel varies along one axis only, so a line (axis, values along it) for each says it
    all: the channels of a domain that does not fit in memory are never built.
    """

    lines: tuple[tuple[int, Tensor], ...] = ()

    @classmethod
    def of(cls, model: Emulator, points: tuple[int, ...]) -> Positions:
        """The lines of a model on a domain of so many points."""
        settings, grid = model.settings, model.grid
        if settings.coordinates and points != grid.points:
            raise ValueError(
                f"This model was given coordinates of a {grid.points} grid and cannot run on "
                f"{points}. Build it with coordinates=False to run on other sizes."
            )
        grid = grid.with_points(points)
        axes = [*range(grid.dims)] if settings.coordinates else []
        if settings.edges:
            axes += [a for a, wraps in enumerate(grid.is_periodic) if not wraps for _ in range(2)]
        lines = []
        for channel, axis in enumerate(axes):
            thin = grid.refined([n if a == axis else 1 for a, n in enumerate(points)])
            channels = position_channels(thin, settings.coordinates, settings.edges)
            lines.append((axis, channels[channel].flatten()))
        return cls(tuple(lines))

    def key(self, box: Box) -> tuple[bytes, ...]:
        """Equal for two boxes of one shape if they have equal position channels."""
        return tuple(_take(line, (box[axis],)).numpy().tobytes() for axis, line in self.lines)

    def __call__(self, box: Box) -> Tensor:
        """The channels of a box: (p, *box)."""
        channels = []
        for axis, line in self.lines:
            along = [-1 if a == axis else 1 for a in range(len(box))]
            channels.append(_take(line, (box[axis],)).view(along).expand(shape(box)))
        return torch.stack(channels) if channels else torch.zeros(0, *shape(box))


def _take(u: Tensor, box: Box) -> Tensor:
    """The cells of a box that may wrap: (…, *domain) → (…, *box)."""
    for axis, (start, stop) in enumerate(box, start=u.dim() - len(box)):
        cells = torch.arange(start, stop, device=u.device) % u.shape[axis]
        u = u.index_select(axis, cells)
    return u


def find_model(thing: Any) -> Any:
    """The stepper of a run, or the stepper itself."""
    return thing if callable(thing) else getattr(thing, "model", thing)


def open_history(model: Any, history: Any) -> tuple[LocalStep, TrajectoryStore, bool]:
    """A model on the domain of a history, the history, and whether it came without a batch.

    Refuses, in words, a model that cannot be cut and a history that it cannot start from.
    """
    store, alone = open_store(history, count_dims(model, history))
    step = local_step(model, store.shape[3:], history)
    channels = getattr(model, "channels", store.shape[2])
    if store.shape[2] != channels:
        raise ValueError(
            f"history should be (b, t, c, *space), got {store.shape}: c should be {channels} but "
            f"is {store.shape[2]}."
        )
    if store.shape[1] < step.history:
        raise ValueError(
            f"history should hold at least {step.history} frames, got {store.shape[1]}."
        )
    return step, store, alone


def local_step(model: Any, points: Sequence[int], given: Any = None) -> LocalStep:
    """A model on a domain of so many points, or one line that says why it cannot be cut.

    Where `given` is a `Given` that holds more than a history, windows take their part of it.
    """
    locality = _locality(model, ".locality and .grid", getattr(model, "grid", None) is not None)
    points = tuple(int(n) for n in points)
    domain = Domain(points, model.grid.is_periodic, locality.stride)
    known = positions = None
    if isinstance(given, Given) and given.positions is not None:
        known = given.last(0)
    elif isinstance(model, Emulator):
        positions = Positions.of(model, points)
    return LocalStep(model, model.history, locality, domain, positions, known)


def local_network(
    network: Any, points: Sequence[int], boundary: str | Sequence[str] | None = None
) -> LocalStep:
    """A bare network (b, inputs, *space) → (b, outputs, *space) as a step without a history."""
    locality = _locality(network, ".locality")
    boundary = boundary or getattr(getattr(network, "settings", None), "boundary", None)
    if boundary is None:
        raise ValueError(
            f"{_name(network)} does not say its boundary. Pass boundary='periodic', or one name "
            f"for each axis."
        )
    periodic = tuple(name == "periodic" for name in boundary_per_axis(boundary, locality.dims))
    domain = Domain(tuple(int(n) for n in points), periodic, locality.stride)
    return LocalStep(_OfLastFrame(network), 1, locality, domain)


class _OfLastFrame(nn.Module):
    """A network as a step: it is shown the newest frame."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network

    def forward(self, history: Tensor) -> Tensor:
        return self.network(history[:, -1])


def count_dims(model: Any, history: Any) -> int:
    """Axes of space: those of the model's grid, else what the history has beyond (b, t, c).

    A sample has no batch.
    """
    grid = getattr(model, "grid", None)
    if grid is not None:
        return grid.dims
    lead = 2 if hasattr(history, "history") and not isinstance(history, Given) else 3
    return len(getattr(getattr(history, "history", history), "shape", (0,) * 4)) - lead


def _locality(model: Any, needed: str, is_complete: bool = True) -> Locality:
    locality = getattr(model, "locality", None)
    if not isinstance(locality, Locality) or not is_complete:
        raise ValueError(
            f"{_name(model)} does not say how far it sees, so it cannot run in tiles. "
            f"It needs {needed}."
        )
    if not locality.is_local:
        raise ValueError(
            f"{_name(model)} sees the whole field (radius inf), so it cannot run in tiles. "
            f"Use a local model, or infer without tiles."
        )
    return locality


def _name(model: Any) -> str:
    return type(getattr(model, "network", model)).__name__
