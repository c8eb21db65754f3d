"""Whether generated code computes what torch computes: one step on random numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from fino.export.program import Program
from fino.given import Given
from fino.model.emulator import Emulator
from fino.shapes import Field

__all__ = ["TOLERANCE", "random_start", "worst_difference"]

#: How far generated code may be from torch, relative to the largest value of each field.
TOLERANCE = 1e-5
#: Cells along each axis of the field that is stepped.
_TRIAL = {1: 72, 2: 40, 3: 20}


def worst_difference(step: Callable[[Given], Field], model: Emulator, start: Given) -> float:
    """How far a step is from the model's, from the same start."""
    weight = next(model.network.parameters())
    with torch.no_grad():
        expected = model(start.to(weight)).to("cpu", torch.float32)
    return relative_difference(step(start), expected)


def relative_difference(got: Tensor, expected: Tensor) -> float:
    """The largest difference, relative to the largest value of each field: (b, c, *space) ×2."""
    over = (0, *range(2, expected.dim()))
    size = expected.abs().amax(over).clamp_min(1e-30)
    return float(((got - expected).abs().amax(over) / size).max())


def random_start(
    program: Program, batch: int = 2, space: tuple[int, ...] | None = None, seed: int = 0
) -> Given:
    """Long waves of the size of the training data, with everything that the step takes.

    White noise would be far from anything that the model saw, and many a model answers it with
    numbers so large that rounding shows.
    """
    space = trial_space(program) if space is None else space
    draw = torch.Generator().manual_seed(seed)

    def waves(frames: int, channels: int, kind: str) -> Tensor:
        """(b, frames, n, *space), scaled as the channels of a kind are."""
        size = (batch, frames, channels, *space)
        u = sum(_wave(size, draw) for _ in range(4)) / 2 + 0.01 * torch.randn(size, generator=draw)
        scaling = {c.index[-1]: (c.mean, c.std) for c in program.channels if c.kind == kind}
        over = (channels, *[1] * len(space))
        mean, std = torch.tensor([scaling[i] for i in range(channels)]).T
        return mean.view(over) + std.view(over) * u

    found: dict[str, Any] = {}
    span = torch.tensor([[s.low, s.high] for s in program.scalars]).reshape(-1, 2)
    drawn = torch.rand(batch, len(span), generator=draw)
    values = span[:, 0] + drawn * (span[:, 1] - span[:, 0])
    parameters, signals = len(program.parameters), len(program.signals)
    if parameters:
        found["parameters"] = values[:, :parameters]
    if signals:
        found["signals"] = values[:, parameters:].reshape(batch, 2, signals)
    if program.known:
        found["known"] = waves(1, len(program.known), "known")[:, 0]
    if program.forcing:
        found["forcing"] = waves(2, len(program.forcing), "forcing")
    if program.walls:
        found["mask"] = (torch.rand(batch, 1, *space, generator=draw) > 0.2).float()
    return Given(waves(program.history, len(program.fields), "history"), **found)


def _wave(size: tuple[int, ...], draw: torch.Generator) -> Tensor:
    """One plane wave for each sample and channel that moves a little from frame to frame."""
    batch, frames, channels, *space = size
    angle = 6.283 * torch.rand(batch, 1, channels, generator=draw)
    angle = angle + 0.05 * torch.arange(frames).view(1, -1, 1)
    angle = angle.view(batch, frames, channels, *[1] * len(space))
    for axis, n in enumerate(space):
        number = torch.randint(-2, 3, (batch, 1, channels), generator=draw)
        along = [-1 if a == axis else 1 for a in range(len(space))]
        place = (6.283 / n * torch.arange(n)).view(along)
        angle = angle + number.view(batch, 1, channels, *[1] * len(space)) * place
    return angle.sin()


def trial_space(program: Program) -> tuple[int, ...]:
    """A small domain that the step runs on, with rows that are not whole blocks."""
    if program.fixed:
        return program.grid.points
    least = _TRIAL[program.dims]
    return tuple(
        max(n, -(-least // s) * s)
        for n, s in zip(program.smallest, program.locality.stride, strict=True)
    )
