"""A step held at fixed conditions, so that it is a map of the history alone.

Questions about the step itself (Δt, stencils, waves) are asked at one θ: the one that is wanted,
else the middle of the trained range; known fields and forcing are then what they were on average,
and no cell is masked.  What is measured on data has the conditions of each trajectory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fino.given import Given
from fino.model.emulator import Emulator
from fino.model.fino import Film, FinoBlock
from fino.shapes import Field, Trajectory

__all__ = [
    "Held",
    "Theta",
    "average_conditions",
    "modulations",
    "theta_at",
    "time_steps",
    "time_steps_over",
]

#: Values of a parameter, from one end of the trained range to the other, that Δt is shown at.
_VALUES = 9


@dataclass(frozen=True)
class Theta:
    """Parameters that a step is looked at with, and the range that each was trained on."""

    values: dict[str, float]
    trained: dict[str, tuple[float, float]]


@dataclass(frozen=True, eq=False)
class Held:
    """A stepper of histories (b, K, c, *space) whose conditions stay as they are."""

    stepper: Any
    given: Given

    @property
    def history(self) -> int:
        return int(self.stepper.history)

    def __call__(self, history: Trajectory) -> Field:
        frame: Field = self.stepper(self.given.with_history(history))
        return frame


def theta_at(emulator: Emulator, parameters: Mapping[str, float] | None = None) -> Theta:
    """The parameters asked for; those that are not named are in the middle of their range."""
    conditioning, names = emulator.conditioning, emulator.settings.given.parameters
    trained, middle = {}, []
    for place, name in enumerate(names):
        low, high = (float(end[place]) for end in (conditioning.theta_low, conditioning.theta_high))
        trained[name] = (low, high)
        middle.append(_between(low, high, 3, emulator.settings.given.logs[place])[1])
    start = Given(torch.empty(1, 0, emulator.channels, *emulator.grid.points))
    if names:
        start = Given(start.history, parameters=torch.tensor([middle]))
    chosen = conditioning.give(start, 1, emulator.settings.dt, parameters=parameters)
    conditioning.warn_outside(chosen)
    values = [] if chosen.parameters is None else chosen.parameters[0].tolist()
    return Theta(dict(zip(names, values, strict=True)), trained)


def average_conditions(emulator: Emulator, theta: Theta, points: Sequence[int]) -> Given:
    """What a step is given beside a history of any length, at θ, the same in every cell."""
    wanted, found = emulator.settings.given, emulator.conditioning
    dims = len(points)
    parts: dict[str, Any] = {}
    if wanted.parameters:
        parts["parameters"] = torch.tensor([list(theta.values.values())])
    if wanted.signals:
        some = slice(len(wanted.parameters), len(wanted.parameters) + len(wanted.signals))
        parts["signals"] = ((found.theta_low + found.theta_high)[some] / 2).expand(1, 2, -1)
    if wanted.known:
        parts["known"] = found.known_mean.view(1, -1, *[1] * dims).expand(1, -1, *points)
    if wanted.forcing:
        parts["forcing"] = found.forcing_mean.view(1, 1, -1, *[1] * dims).expand(1, 2, -1, *points)
    if wanted.walls is not None:
        parts["mask"] = torch.ones(1, 1, *points)
    return Given(torch.empty(1, 0, emulator.channels, *points), **parts)


def modulations(emulator: Emulator, given: Given) -> dict[str, Film]:
    """What θ does to every block that it modulates, by the block's name: one for each row."""
    network: Any = emulator.network
    theta = emulator.modulation(given)
    if theta is None or getattr(network, "embed", None) is None:
        return {}
    with torch.no_grad():
        embedded = network.embed(theta)
        return {
            name: block.film(embedded)
            for name, block in network.named_modules()
            if isinstance(block, FinoBlock) and block.film is not None
        }


def time_steps(emulator: Emulator, given: Given) -> dict[str, list[float]]:
    """Δt of every block for each row of what is given; one value where it has no conditions."""
    network: Any = emulator.network
    found, changed = {}, modulations(emulator, given)
    with torch.no_grad():
        for name, block in network.named_modules():
            if isinstance(block, FinoBlock):
                change: Tensor | None = changed[name].dt if name in changed else None
                found[name] = block.dt(change).flatten().tolist()
    return found


def time_steps_over(emulator: Emulator, theta: Theta, given: Given) -> dict[str, Any]:
    """Δt of every block over the trained range of each parameter, the others held at θ."""
    content: dict[str, Any] = {}
    for place, (name, ends) in enumerate(theta.trained.items()):
        values = _between(*ends, _VALUES, emulator.settings.given.logs[place])
        assert given.parameters is not None
        rows = given.parameters.repeat(_VALUES, 1)
        rows[:, place] = torch.tensor(values)
        moved = Given(given.history, parameters=rows, signals=given.signals)
        moved = moved.with_history(given.history.expand(_VALUES, *given.history.shape[1:]))
        steps = time_steps(emulator, moved)
        if all(len(block) == _VALUES for block in steps.values()) and steps:
            content[name] = {"values": values, "time_steps": steps}
    return content


def _between(low: float, high: float, count: int, log: bool) -> list[float]:
    """Evenly spaced values, or evenly spaced logarithms."""
    if log:
        return [low * (high / low) ** (i / (count - 1)) for i in range(count)]
    return [low + (high - low) * i / (count - 1) for i in range(count)]
