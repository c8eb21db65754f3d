"""How a model is given parameters, known fields, forcing and masks.

    channels    known fields, forcing at both ends of the step, and the mask are input channels;
                parameters θ too, constant over space (any model)
    film        parameters scale and shift FINO's stencils, gates and Δt instead (FiLM)

Both keep a local model strictly local.  Parameters are scaled by the training part, those that
span more than a factor of twenty by their logarithm.

Cells outside of the mask neither give nor take: what they hold is replaced before the step, by
zero (`dirichlet`) or by the cells next to them (`neumann`), and is zero after it.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from fino.data.conditions import CHANNEL
from fino.data.dataset import Dataset
from fino.given import Given
from fino.grid import Grid
from fino.model.convolution import pad
from fino.settings import Settings, did_you_mean

__all__ = ["EXTENDED", "Conditioning", "ConditioningSettings", "extend"]

#: A positive parameter that spans more than this factor is scaled by its logarithm.
_WIDE = 20.0
#: Cells that a field is continued into a mask.
EXTENDED = 2


class ConditioningSettings(Settings):
    """What a model is given beside the history, by name.

    parameters    scalars θ of a trajectory; `dt` is the last where steps differ in length
    steps         the lengths of a step that the model is trained on, where there are several
    logs          which of them, and of the signals after them, are scaled by their logarithm
    signals       scalars that vary in time
    known         fields that are constant in time
    forcing       fields that vary in time
    walls         what lies at the edge of a mask: `neumann` or `dirichlet`; None without a mask
    condition     `channels`, or `film` for models that can
    """

    parameters: tuple[str, ...] = ()
    steps: tuple[float, ...] = ()
    logs: tuple[bool, ...] = ()
    signals: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    forcing: tuple[str, ...] = ()
    walls: Literal["neumann", "dirichlet"] | None = None
    condition: Literal["channels", "film"] = "channels"

    @classmethod
    def of(
        cls, data: Dataset, condition: str, strides: tuple[int, ...] = (1,)
    ) -> ConditioningSettings:
        """What this data has, and the length of the step if there are several strides."""
        card, names, ranges = data.card, tuple(data.card.varying), [*data.parameters.values()]
        steps = tuple(data.dt * s for s in strides) if len(strides) > 1 else ()
        if steps and "dt" in names:
            raise ValueError("the data have a parameter 'dt', the name of the step's length.")
        return cls(
            parameters=(*names, "dt") if steps else names,
            steps=steps,
            logs=tuple(_spans_wide(values) for values in ranges + [np.array(steps)] * bool(steps)),
            signals=card.signals,
            known=card.known,
            forcing=card.forcing,
            walls=card.walls,  # type: ignore[arg-type]
            condition=condition,  # type: ignore[arg-type]
        )

    @property
    def scalars(self) -> int:
        """How many scalars a step is given: parameters, and signals at both its ends."""
        return len(self.parameters) + 2 * len(self.signals)

    @property
    def channels(self) -> int:
        """How many input channels they make."""
        scalars = self.scalars if self.condition == "channels" else 0
        return len(self.known) + 2 * len(self.forcing) + (self.walls is not None) + scalars


class Conditioning(nn.Module):
    """What is given beside the history, scaled: input channels, and θ for networks that take it."""

    theta_mean: Tensor
    theta_std: Tensor
    theta_low: Tensor
    theta_high: Tensor
    known_mean: Tensor
    known_std: Tensor
    forcing_mean: Tensor
    forcing_std: Tensor

    def __init__(self, settings: ConditioningSettings) -> None:
        super().__init__()
        self.settings = settings
        sizes = {
            "theta": settings.scalars,
            "known": len(settings.known),
            "forcing": len(settings.forcing),
        }
        for name, size in sizes.items():
            if size:
                self.register_buffer(f"{name}_mean", torch.zeros(size))
                self.register_buffer(f"{name}_std", torch.ones(size))
        if settings.scalars:
            self.register_buffer("theta_low", torch.zeros(settings.scalars))
            self.register_buffer("theta_high", torch.zeros(settings.scalars))

    @classmethod
    def of(
        cls, data: Dataset, condition: str = "channels", strides: tuple[int, ...] = (1,)
    ) -> Conditioning:
        """What this data has, scaled by its train part."""
        conditioning = cls(ConditioningSettings.of(data, condition, strides))
        conditioning.fit(data)
        return conditioning

    def check(self, given: Given) -> None:
        """Refuse what lacks something that the model was trained with, in words."""
        s, beside = self.settings, given.beside
        names = {"parameters": s.parameters, "signals": s.signals}
        names |= {"known": s.known, "forcing": s.forcing}
        for kind, wanted in names.items():
            have = beside[kind].shape[CHANNEL[kind]] if kind in beside else 0
            if have != len(wanted):
                raise ValueError(
                    f"this model is given {kind} {', '.join(wanted) or '(none)'}, but got {have} "
                    f"of them. Start from a sample of the data, or pass {kind}={{name: value}}."
                )
        if (s.walls is not None) != (given.mask is not None):
            word = "a mask" if s.walls is not None else "no mask"
            raise ValueError(f"this model was trained with {word}. Give it {word} as well.")
        for kind in ("signals", "forcing"):
            if kind in beside and beside[kind].shape[1] < 2:
                raise ValueError(
                    f"{kind} ends before the step does: it should be known at both ends of every "
                    f"step. Ask for fewer steps, or give more of it."
                )

    def with_dt(self, given: Given, dt: float | Tensor | None = None) -> Given:
        """With the length of the step among the parameters; the shortest if none is said."""
        steps, known = self.settings.steps, given.parameters
        there = 0 if known is None else known.shape[1]
        wanted = len(self.settings.parameters)
        if not steps or (dt is None and there == wanted):
            return given
        length = torch.as_tensor(steps[0] if dt is None else dt).to(given.history)
        column = length.view(-1, 1).expand(len(given.history), 1)
        others = [] if known is None else [known[:, : wanted - 1]]
        return replace(given, parameters=torch.cat([*others, column], dim=1))

    def near_steps(self, given: Given) -> Tensor:
        """How much each length of a step has of the given one, linearly between: (b, steps)."""
        assert given.parameters is not None
        nodes = torch.tensor(self.settings.steps).to(given.parameters)
        dt = given.parameters[:, -1:].clamp(nodes[0], nodes[-1])
        rise = (dt - nodes[:-1]) / nodes.diff()
        below = torch.cat([torch.ones_like(dt), rise], dim=1).clamp(0, 1)
        above = torch.cat([rise, torch.zeros_like(dt)], dim=1).clamp(0, 1)
        return below - above

    def theta(self, given: Given) -> Tensor | None:
        """The scalars of the step, scaled: (b, p)."""
        if not self.settings.scalars:
            return None
        parts = [] if given.parameters is None else [given.parameters]
        if given.signals is not None:
            parts += [given.signals[:, 0], given.signals[:, 1]]
        return (self._with_logs(torch.cat(parts, dim=1)) - self.theta_mean) / self.theta_std

    def unit(self, given: Given) -> Tensor | None:
        """The parameters from −1 to 1 over the range that was trained on: (b, p)."""
        count = len(self.settings.parameters)
        if not count or given.parameters is None:
            return None
        ends = self._with_logs(torch.stack([self.theta_low, self.theta_high]))[:, :count]
        middle, half = ends.mean(dim=0), ends.diff(dim=0)[0] / 2
        return (self._with_logs(given.parameters) - middle) / torch.where(half > 0, half, 1.0)

    def channels(self, given: Given, theta: Tensor | None) -> list[Tensor]:
        """Everything that is shown to the network as channels: (b, n, *space) each."""
        dims, space = len(given.space), given.space
        over = (-1, *[1] * dims)
        found = []
        if given.known is not None:
            found.append((given.known - self.known_mean.view(over)) / self.known_std.view(over))
        if given.forcing is not None:
            for end in (0, 1):
                now = given.forcing[:, end] - self.forcing_mean.view(over)
                found.append(now / self.forcing_std.view(over))
        if given.mask is not None:
            found.append(given.mask)
        if theta is not None and self.settings.condition == "channels":
            found.append(theta.view(*theta.shape, *[1] * dims).expand(*theta.shape, *space))
        return found

    def fit(self, data: Dataset) -> None:
        """Scale by the train part, and remember the range of the parameters."""
        if not (data.conditions or self.settings.steps):
            return
        task = data.task()
        given = data.train.beside(range(len(data.train)), task.shown - 1, task.steps + 1)
        for name in ("known", "forcing"):
            values = given.beside.get(name)
            if values is not None:
                self._scale(name, values.movedim(CHANNEL[name], 0).flatten(1))
        columns = [] if given.parameters is None else [*given.parameters.T]
        columns += [torch.tensor(self.settings.steps)] if self.settings.steps else []
        if given.signals is not None:
            columns += 2 * [*given.signals.movedim(2, 0).flatten(1)]
        for place, raw in enumerate(columns):
            self.theta_low[place], self.theta_high[place] = raw.amin(), raw.amax()
            logarithmic = place < len(self.settings.logs) and self.settings.logs[place]
            self._scale("theta", (raw.log() if logarithmic else raw)[None], place)

    def give(
        self,
        given: Given,
        steps: int,
        dt: float,
        parameters: Mapping[str, Any] | None = None,
        known: Mapping[str, Any] | None = None,
        forcing: Mapping[str, Any] | None = None,
        mask: Any = None,
    ) -> Given:
        """A start with other conditions, by name; those that are not named stay as they are."""
        s, batch, space = self.settings, len(given.history), given.space
        found: dict[str, Any] = {}
        times = dt * np.arange(steps + 1)
        kinds: dict[str, tuple[tuple[str, ...], Any, Any, tuple[int, ...]]] = {
            "parameters": (s.parameters, parameters, (), ()),
            "known": (s.known, known, (), space),
            "signals": (s.signals, forcing, times, ()),
            "forcing": (s.forcing, forcing, times, space),
        }
        for name in forcing or {}:
            _expect_name(name, (*s.signals, *s.forcing), "forcing")
        for kind, (names, values, moments, points) in kinds.items():
            if kind in ("parameters", "known"):
                for name in values or {}:
                    _expect_name(name, names, kind)
            if values and any(name in values for name in names):
                old = given.beside.get(kind)
                columns = [
                    _column(name, values.get(name), moments, points, batch, old, place)
                    for place, name in enumerate(names)
                ]
                found[kind] = torch.stack(columns, dim=2 if len(moments) else 1)
        if mask is not None:
            inside = ~torch.as_tensor(np.asarray(mask, dtype=bool))
            found["mask"] = inside.float().expand(batch, 1, *space)
        return replace(given, **found)

    def warn_outside(self, given: Given, strict: bool = False) -> None:
        """One line for parameters that the training never saw; an error if strict."""
        if given.parameters is None:
            return
        for place, name in enumerate(self.settings.parameters):
            values = given.parameters[:, place].detach()
            low, high = float(self.theta_low[place]), float(self.theta_high[place])
            slack = 1e-3 * max(abs(high - low), 1e-12)
            outside = values[(values < low - slack) | (values > high + slack)]
            if len(outside):
                line = (
                    f"{name} = {float(outside[0]):.4g} lies outside of the range that the model "
                    f"was trained on, {low:.4g} to {high:.4g}."
                )
                if strict:
                    raise ValueError(line)
                warnings.warn(line, stacklevel=3)

    def _scale(self, name: str, values: Tensor, first: int = 0) -> None:
        """Mean and deviation of (channel, values); a deviation of one where nothing varies."""
        values = values.double()
        mean, std = values.mean(dim=1), values.std(dim=1, unbiased=False)
        still = std <= 1e-7 * mean.abs().clamp_min(1e-30)
        place = slice(first, first + len(values))
        getattr(self, f"{name}_mean")[place] = mean
        getattr(self, f"{name}_std")[place] = torch.where(still, 1.0, std)

    def _with_logs(self, raw: Tensor) -> Tensor:
        if not any(self.settings.logs):
            return raw
        logs = [*self.settings.logs, *[False] * raw.shape[1]][: raw.shape[1]]
        which = torch.tensor(logs, device=raw.device)
        return torch.where(which, raw.clamp_min(1e-30).log(), raw)


def _expect_name(name: str, known: Sequence[str], kind: str) -> None:
    if name not in known:
        raise ValueError(
            f"this model is not given {kind} '{name}'. "
            + (did_you_mean(name, list(known)) if known else f"It takes no {kind}.")
        )


def _column(
    name: str,
    value: Any,
    times: Any,
    points: tuple[int, ...],
    batch: int,
    old: Tensor | None,
    place: int,
) -> Tensor:
    """One quantity for the whole batch: (b, [t,] *points); that of the sample if none is named."""
    if value is None:
        if old is None:
            raise ValueError(f"'{name}' is not given: name it as well.")
        return old.select(2 if len(times) else 1, place)
    if callable(value):
        value = np.stack([np.broadcast_to(value(float(t)), points) for t in times])
    # A tensor stays one: a rollout may be differentiated by it.
    is_tensor = isinstance(value, Tensor)
    array = value.float() if is_tensor else torch.as_tensor(np.asarray(value, dtype=np.float32))
    wanted = (*((len(times),) if len(times) else ()), *points)
    if len(times) and array.dim() >= len(wanted):
        axis = array.dim() - len(wanted)
        if array.shape[axis] < len(times):
            raise ValueError(
                f"'{name}' should be known at {len(times)} times for {len(times) - 1} steps, the "
                f"newest frame's and one after each step, got {array.shape[axis]}."
            )
        array = array.narrow(axis, 0, len(times))
    try:
        return (
            array.expand(batch, *wanted)
            if array.dim() <= len(wanted)
            else array.view(batch, *wanted)
        )
    except RuntimeError:
        pass
    if not points and not len(times) and array.shape == (batch,):
        return array
    raise ValueError(f"'{name}' should have the shape {wanted}, got {tuple(array.shape)}.")


def extend(u: Tensor, mask: Tensor, grid: Grid, walls: str, outside: Tensor) -> Tensor:
    """A field whose cells outside of the mask hold what lies at its walls: (b, c, *space).

    `dirichlet`: zero.  `neumann`: the mean of the cells next to them, continued for a few cells;
    farther in, `outside` (c, 1, …).
    """
    if walls == "dirichlet":
        return u * mask
    one = (1,) * grid.dims
    filled, inside = torch.where(mask > 0, u, outside), mask
    for _ in range(EXTENDED):
        total = _neighbours(pad(filled * inside, one, grid.boundary), grid.dims)
        count = _neighbours(pad(inside, one, grid.boundary), grid.dims)
        near = (inside == 0) & (count > 0)
        filled = torch.where(near, total / count.clamp_min(1.0), filled)
        inside = torch.where(near, torch.ones_like(inside), inside)
    return filled


def _neighbours(padded: Tensor, dims: int) -> Tensor:
    """The sum over the two neighbours along each axis of a field with one ghost cell around."""
    total: Any = 0.0
    for axis in range(padded.dim() - dims, padded.dim()):
        for start in (0, 2):
            part = padded
            for other in range(padded.dim() - dims, padded.dim()):
                first = start if other == axis else 1
                part = part.narrow(other, first, padded.shape[other] - 2)
            total = total + part
    return total


def _spans_wide(values: np.ndarray | Sequence[float]) -> bool:
    low, high = float(np.min(values)), float(np.max(values))
    return low > 0 and high / low > _WIDE
