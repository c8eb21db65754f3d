"""A step that says how far it sees, and how it steps inside a window.

    window of tile + halo(k)   →   k frames of the tile

After each step the outermost cells of the window are wrong, because the network padded there
where the field went on; one step later so are `radius` more.  With a halo of k steps the wrong
cells never reach the tile.  Cells that can no longer matter are dropped between the steps.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from fino.given import Given
from fino.grid import Grid, boundary_per_axis
from fino.inference.boxes import Box, Domain, crop
from fino.inference.store import TrajectoryStore, open_store
from fino.locality import Locality
from fino.model.emulator import Emulator, position_channels
from fino.model.rollout import take_step
from fino.shapes import Field, expect

__all__ = [
    "LocalStep",
    "Past",
    "find_model",
    "like_weights",
    "local_network",
    "local_step",
    "open_history",
    "type_of_frames",
]

#: Reads the frames before a time from a window of a sample: (K, c, *window).
Past = Callable[[int, Box], Tensor]


@dataclass(frozen=True, eq=False)
class LocalStep:
    """One step of a local map over a domain, computable in any window of it.

    `known` is what it is given beside the history, over the whole domain.  `grid` says where the
    cells lie, if the step is told; positions are computed window by window, because those of a
    large domain do not fit in memory.
    """

    step: Any
    history: int
    locality: Locality
    domain: Domain
    grid: Grid | None = None
    known: Given | None = None

    def windows(self, box: Box, steps: int) -> list[Box]:
        """What each of the steps is computed from, the widest first, and the box at the end."""
        halos = [self.locality.halo(left) for left in range(steps, 0, -1)]
        return [*(self.domain.grow(box, halo) for halo in halos), box]

    def key(self, box: Box, steps: int) -> tuple[object, ...]:
        """Equal for boxes that can be computed side by side in one batch."""
        windows = self.windows(box, steps)
        if self.known is not None or (self.grid is not None and self.step.settings.coordinates):
            return windows[0], steps
        places = tuple(
            tuple((a - o, b - o) for (a, b), (o, _) in zip(window, box, strict=True))
            for window in windows
        )
        spans = zip(windows[0], self.domain.points, strict=True)
        return places, *((start == 0, stop == n) for (start, stop), n in spans)

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
        given = Given(history)
        if self.known is not None:
            beside = Given.join([self.known.row(sample) for sample, _ in pairs]).at(time)
            given = replace(beside.cut(partial(_take, box=windows[0])), history=history)
        if self.grid is not None:
            shown = self.step.settings
            where = position_channels(self.grid, shown.coordinates, shown.edges, windows[0])
            given = replace(given, positions=where)
        return like_weights(given, self.step)

    def frames(self, given: Given, box: Box, steps: int) -> Iterator[Field]:
        """The box's frames (b, c, *box) from what is given in its window for so many steps."""
        for done, (window, smaller) in enumerate(pairwise(self.windows(box, steps)), start=1):
            frame = take_step(self.step, given)
            yield crop(frame, box, window)
            if done < steps:
                given = given.step(frame).cut(partial(crop, box=smaller, window=window))


def type_of_frames(model: Any, history: torch.dtype) -> torch.dtype:
    """A type that holds the history and what the weights compute; warns where they differ."""
    weight = next(model.parameters(), None) if isinstance(model, nn.Module) else None
    if weight is None or weight.dtype == history:
        return history
    words = [str(dtype).removeprefix("torch.") for dtype in (history, weight.dtype)]
    warnings.warn(f"the history is {words[0]}, the model computes in {words[1]}.", stacklevel=4)
    return torch.promote_types(history, weight.dtype)


def like_weights(given: Given, step: Any) -> Given:
    """The same in the type and on the device of the step's weights, if it has any."""
    weight = next(step.parameters(), None) if isinstance(step, nn.Module) else None
    return given if weight is None else given.to(weight)


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
    store, alone = open_store(history, getattr(model, "grid", None))
    step = local_step(model, store.shape[3:], history)
    expect(store, "b t c *space", name="history", c=getattr(model, "channels", store.shape[2]))
    if store.shape[1] < step.history:
        raise ValueError(
            f"history should hold at least {step.history} frames, got {store.shape[1]}."
        )
    return step, store, alone


def local_step(model: Any, points: Sequence[int], given: Any = None) -> LocalStep:
    """A model on a domain of so many points, or one line that says why it cannot be cut.

    Windows take their part of what a sample or a `Given` holds beside its history.
    """
    given = getattr(given, "given", given)
    locality = _locality(model, ".locality and .grid", getattr(model, "grid", None) is not None)
    if isinstance(given, Given) and given.pace > 1:
        locality = model.reach(given.pace)
    points = tuple(int(n) for n in points)
    domain = Domain(points, model.grid.is_periodic, locality.stride)
    known = grid = None
    if isinstance(given, Given) and given.beside:
        known = given.last(0)
    if isinstance(model, Emulator) and (known is None or known.positions is None):
        model.check_space(points)
        grid = model.grid.with_points(points)
    return LocalStep(model, model.history, locality, domain, grid, known)


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
    return LocalStep(nn.Sequential(nn.Flatten(1, 2), network), 1, locality, domain)


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
