"""A stepper that says how far it sees, and how it steps inside a window.

    window of tile + halo(k)   →   k frames of the tile

After each step the outermost cells of the window are wrong, because the network padded there
where the field went on; one step later so are `radius` more.  With a halo of k steps the wrong
cells never reach the tile.  Cells that can no longer matter are dropped between the steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from fino.given import Given
from fino.grid import boundary_per_axis
from fino.inference.films import Film
from fino.inference.positions import Positions
from fino.inference.tiles import Box, Domain
from fino.locality import Locality
from fino.model.emulator import Emulator
from fino.shapes import Field, Trajectory

__all__ = ["LocalStep", "check_history", "cropped", "local_network", "local_stepper"]


def cropped(u: Tensor, box: Box, window: Box) -> Tensor:
    """The part of a window's values that lies in the box: (…, *window) → (…, *box)."""
    for axis, ((start, stop), (first, _)) in enumerate(zip(box, window, strict=True)):
        u = u.narrow(u.dim() - len(box) + axis, start - first, stop - start)
    return u


@dataclass(frozen=True, eq=False)
class LocalStep:
    """One step of a local map over a domain, computable in any window of it."""

    step: Any
    history: int
    locality: Locality
    domain: Domain
    positions: Positions | None = None
    model: nn.Module | None = None

    @property
    def weights(self) -> int:
        """How many numbers the model has learned."""
        return sum(p.numel() for p in self.model.parameters()) if self.model else 0

    def brought(self, history: Trajectory) -> Trajectory:
        """The history in the type and on the device of the weights."""
        weight = next(self.model.parameters(), None) if self.model else None
        return history if weight is None else history.to(weight)

    def windows(self, box: Box, steps: int) -> list[Box]:
        """What each of the steps is computed from, the widest first, and the box at the end."""
        return [
            self.domain.grown(box, self.locality.halo(left)) for left in range(steps, 0, -1)
        ] + [box]

    def frames(self, history: Trajectory, box: Box, steps: int) -> Iterator[Field]:
        """Frames of the box from its window's history: (b, K, c, *window) → (b, c, *box) each."""
        for left, (window, smaller) in zip(
            range(steps - 1, -1, -1), pairwise(self.windows(box, steps)), strict=True
        ):
            frame = self(history, window)
            yield cropped(frame, box, window)
            if left:
                recent = torch.cat([history[:, 1:], frame.unsqueeze(1)], dim=1)
                history = cropped(recent, smaller, window)

    def __call__(self, history: Trajectory, window: Box) -> Field:
        if self.positions is None:
            return self.step(history)
        return self.step(Given(history, self.positions(window)))

    def key(self, box: Box, steps: int) -> tuple[object, ...]:
        """Equal for boxes that can be computed side by side in one batch."""
        windows = self.windows(box, steps)
        places = tuple(
            tuple((a - o, b - o) for (a, b), (o, _) in zip(window, box, strict=True))
            for window in windows
        )
        return places, self.positions.key(windows[0]) if self.positions else ()


def local_stepper(stepper: Any, points: Sequence[int]) -> LocalStep:
    """A model on a domain of so many points, or one line that says why it cannot be cut."""
    locality = getattr(stepper, "locality", None)
    grid = getattr(stepper, "grid", None)
    if not isinstance(locality, Locality) or grid is None:
        raise ValueError(
            f"{_name(stepper)} does not say how far it sees, so it cannot run in tiles. "
            f"It needs .locality and .grid."
        )
    _refuse_global(stepper, locality)
    points = tuple(int(n) for n in points)
    domain = Domain(points, grid.is_periodic, locality.stride)
    positions = Positions.of(stepper, points) if isinstance(stepper, Emulator) else None
    return LocalStep(stepper, stepper.history, locality, domain, positions, _module(stepper))


def local_network(
    network: Any, points: Sequence[int], boundary: str | Sequence[str] | None = None
) -> LocalStep:
    """A bare network (b, inputs, *space) → (b, outputs, *space) as a step without a history."""
    locality = getattr(network, "locality", None)
    if not isinstance(locality, Locality):
        raise ValueError(
            f"{_name(network)} does not say how far it sees, so it cannot run in tiles. "
            f"It needs .locality."
        )
    _refuse_global(network, locality)
    boundary = boundary or getattr(getattr(network, "settings", None), "boundary", None)
    if boundary is None:
        raise ValueError(
            f"{_name(network)} does not say its boundary. Pass boundary='periodic', or one name "
            f"for each axis."
        )
    periodic = tuple(name == "periodic" for name in boundary_per_axis(boundary, locality.dims))
    domain = Domain(tuple(int(n) for n in points), periodic, locality.stride)

    def step(history: Tensor) -> Tensor:
        return network(history[:, -1])

    return LocalStep(step, 1, locality, domain, model=_module(network))


def check_history(step: LocalStep, film: Film, stepper: Any) -> None:
    """Refuse a history of other channels or of too few frames, in words."""
    channels = getattr(stepper, "channels", film.shape[2])
    if film.shape[2] != channels:
        raise ValueError(
            f"history should be (b, t, c, *space), got {film.shape}: c should be {channels} but "
            f"is {film.shape[2]}."
        )
    if film.shape[1] < step.history:
        raise ValueError(
            f"history should hold at least {step.history} frames, got {film.shape[1]}."
        )


def _refuse_global(model: Any, locality: Locality) -> None:
    if not locality.is_local:
        raise ValueError(
            f"{_name(model)} sees the whole field (radius inf), so it cannot run in tiles. "
            f"Use a local model, or infer without tiles."
        )


def _module(model: Any) -> nn.Module | None:
    return model if isinstance(model, nn.Module) else None


def _name(model: Any) -> str:
    return type(getattr(model, "network", model)).__name__
