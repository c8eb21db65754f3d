"""The card that travels with every data set: what it is, where it came from, what is wrong with it.

A card is plain facts.  It is written as JSON inside the file and, together with what solving the
data cost, as JSON and Markdown beside it; the same facts always give the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from pydantic import Field, field_validator, model_validator

from fino.data.split import Split
from fino.grid import Grid
from fino.settings import Settings, did_you_mean

__all__ = ["Card", "Cost"]

#: What can be done to every trajectory without leaving the data's own distribution.
SYMMETRIES = ("shift", "flip", "sign", "rotate")

#: What may lie beyond the edge of a mask.
WALLS = ("neumann", "dirichlet")

#: Facts that are written only where there are any, so that older files keep their bytes.
_CONDITIONS = (
    *("varying", "vary", "signals", "known", "forcing", "walls", "turning", "guesses"),
    "time_unit",
)


class Cost(Settings):
    """What solving the data took, on which machine."""

    seconds: float
    """Wall-clock time in seconds."""
    machine: str = ""
    """Processor, operating system and Python version."""
    truth_error: float | None = None
    """How far the first sample is from itself solved on cells half as wide, as nRMSE over the
    frames after the first; None: not measured, or the start has no limit on finer cells."""


class Card(Settings):
    """Everything that a reader needs to use the numbers, and to know their limits.

    Only `name`, `fields`, `points`, `extent`, `boundary`, `frames` and `samples` must be given.
    """

    name: str
    """What the data are, such as "shallow-water"; a name of `PROBLEMS` if fino can solve it."""
    title: str = ""
    """The heading of the card's page."""
    equation: str = ""
    """The equation in plain Unicode, one or more lines."""
    description: str = ""
    """A sentence or two for the card's page."""
    fields: tuple[str, ...]
    """A name for each channel, such as ("density", "pressure", "Vx")."""
    units: tuple[str, ...] = ()
    """The unit of each field, such as "kg/m³"; "1" without unit; () if unknown."""
    inputs: tuple[str, ...] = ()
    """Steady data: a name for each channel of the input frame, at most as many as fields; the
    input's further channels are zero.  Inputs that have no room there are known fields."""
    axes: tuple[str, ...] = ()
    """What the axes of space are called, such as ("latitude", "longitude"); () for x, y, z."""
    points: tuple[int, ...]
    """Cells along each axis of space."""
    extent: tuple[tuple[float, float], ...]
    """The (low, high) edges of the domain along each axis, in units of length."""
    boundary: tuple[str, ...]
    """What lies beyond the edges of each axis: one of `fino.grid.BOUNDARIES`."""
    offset: tuple[float, ...] = ()
    """Where points lie in their cells, for each axis: 0.5 the centre (default), 0 the low edge."""
    start: float = 0.0
    """The time of the first frame."""
    dt: float = 1.0
    """The time between two frames, in the unit of `speed`; of no meaning for steady data."""
    time_unit: str = ""
    """What time is counted in, such as "s" or "days"; "" if unknown."""
    frames: int
    """Frames in each trajectory; 2 for steady data, the input and the output."""
    samples: int
    """How many trajectories there are."""
    steady: bool = False
    """Whether a sample is an (input, output) pair instead of a course in time."""
    history: int | None = None
    """Frames that are shown before a model is scored; None: ten, or half of fewer than twenty."""
    parameters: dict[str, bool | int | float | str | tuple[float, ...] | None] = Field(
        default_factory=dict
    )
    """The settings of the problem, the same for all samples, such as {"beta": 4.0}."""
    varying: dict[str, str] = Field(default_factory=dict)
    """Parameters θ that differ from trajectory to trajectory, and their units ("" if unknown)."""
    vary: dict[str, str] = Field(default_factory=dict)
    """How those parameters were drawn, such as {"beta": "0.1:4"} or {"nu": "log:1e-3:1"}."""
    signals: tuple[str, ...] = ()
    """Scalars that vary in time and are known in advance, by name."""
    known: tuple[str, ...] = ()
    """Fields that are constant in time and known, such as a depth, by name."""
    forcing: tuple[str, ...] = ()
    """Fields that vary in time and are known in advance, by name."""
    walls: str | None = None
    """What lies beyond the edge of the mask: "neumann" (no flux) or "dirichlet" (zero); None
    where every cell is part of the domain."""
    turning: dict[str, int] = Field(default_factory=dict)
    """Parameters, signals, known fields and forcing that point along an axis, and which: a mirror
    changes their sign."""
    symmetries: tuple[str, ...] = ()
    """What maps the data to data of the same kind, of `SYMMETRIES`; training augments with them."""
    directions: tuple[int | None, ...] = ()
    """The axis along which each field points, None for a scalar; () if all are scalars.  A mirror
    changes the sign of what points across it, a swap of axes swaps what points along them."""
    speed: float | None = None
    """The fastest wave, in length per time; None if unknown, then it is estimated when needed."""
    seed: int | None = None
    """The seed of the initial conditions; None if the data were not solved here."""
    solver: str = ""
    """The numerical method, in a few words."""
    initial: str = ""
    """The kind of initial conditions: "ours" or "pdebench"."""
    version: str = ""
    """The version of fino that solved the data."""
    cost: Cost | None = None
    """What solving took; it stands in the card beside the file, never inside it."""
    flaws: tuple[str, ...] = ()
    """What users of the data should beware of, a sentence each."""
    guesses: tuple[str, ...] = ()
    """What the file did not say and was taken for granted, with the option that says otherwise."""
    area_weighted: bool = False
    """Whether axis 0 is latitude in degrees, so that errors are weighted with its cosine."""
    refine: int = 1
    """How many times finer along each axis than its cells the data were solved; a number is then
    the mean over the finer cells."""
    stride_space: tuple[int, ...] = ()
    """How many cells of the full solution one kept cell stands for, along each axis."""
    stride_time: int = 1
    """How many frames of the full solution one kept frame stands for."""
    split: Split | None = None
    """Which samples are for training, validation and test; None: the first tenth is the test."""

    @field_validator("symmetries")
    @classmethod
    def _check_symmetries(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name not in SYMMETRIES:
                raise ValueError(f"Unknown symmetry '{name}'. {did_you_mean(name, SYMMETRIES)}")
        return names

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, values: Any) -> Any:
        if isinstance(values, dict) and isinstance(values.get("points"), tuple | list):
            dims = len(values["points"])
            values = {**values}
            values["stride_space"] = tuple(values.get("stride_space") or (1,) * dims)
            values["offset"] = tuple(values.get("offset") or (0.5,) * dims)
        return values

    @model_validator(mode="after")
    def _check_facts(self) -> Card:
        if not self.fields:
            raise ValueError("a card should name at least one field.")
        for name in (*self.fields, *self.inputs):
            if not name.strip(" .") or "/" in name:
                raise ValueError(f"a field needs a name without '/', got '{name}'.")
        if len(set(self.fields)) < len(self.fields) or len(set(self.inputs)) < len(self.inputs):
            raise ValueError(f"fields should differ in name, got {', '.join(self.fields)}.")
        if len(self.units) not in (0, len(self.fields)) or len(self.inputs) > len(self.fields):
            raise ValueError(
                f"units should be one for each of {len(self.fields)} fields and inputs at most as "
                f"many, got {len(self.units)} and {len(self.inputs)}."
            )
        if min(self.frames, self.samples + 1, self.stride_time, self.refine) < 1:
            raise ValueError("frames, samples and strides on a card should be positive.")
        if not (np.isfinite(self.dt) and self.dt > 0):
            raise ValueError(f"dt should be a positive time, got {self.dt}.")
        if self.steady and self.frames != 2:
            raise ValueError(
                f"steady data should have 2 frames (input, output), got {self.frames}."
            )
        if self.history is not None and (self.steady or not 0 < self.history < self.frames):
            raise ValueError(
                f"history should be between 1 and {self.frames - 1} of {self.frames} frames of "
                f"data that move in time, got {self.history}."
            )
        if len(self.stride_space) != len(self.grid.points):
            raise ValueError("stride_space on a card should have one number for each axis.")
        self._check_conditions()
        self._check_directions()
        return self

    def _check_conditions(self) -> None:
        names = [*self.varying, *self.signals, *self.known, *self.forcing]
        if len({*names, *self.fields}) < len(names) + len(self.fields):
            raise ValueError(
                f"fields, parameters, known fields and forcing should differ in name, got "
                f"{', '.join([*self.fields, *names])}."
            )
        if self.walls not in (None, *WALLS):
            raise ValueError(f"Unknown walls '{self.walls}'. {did_you_mean(self.walls, WALLS)}")
        for name, axis in self.turning.items():
            if name not in names or not 0 <= axis < len(self.points):
                raise ValueError(
                    f"turning should name a parameter, known field or forcing and its axis, got "
                    f"'{name}' along {axis}."
                )

    def _check_directions(self) -> None:
        if not self.directions:
            return
        if self.steady or len(self.directions) != len(self.fields):
            raise ValueError(
                f"directions should be one axis (or None) for each of {len(self.fields)} fields of "
                f"data that move in time, got {self.directions}."
            )
        axes = [axis for axis in self.directions if axis is not None]
        if any(not 0 <= axis < len(self.points) for axis in axes):
            raise ValueError(
                f"directions should be axes below {len(self.points)}, got {self.directions}."
            )
        if "rotate" in self.symmetries and axes.count(0) != axes.count(1):
            raise ValueError(
                "fields that can be rotated should point along both axes alike, "
                f"got directions {self.directions}."
            )

    @cached_property
    def grid(self) -> Grid:
        """The grid that points, extent, boundary and offset describe."""
        return Grid(self.points, self.extent, self.boundary, self.offset)

    @property
    def given_names(self) -> dict[str, tuple[str, ...]]:
        """What models are given beside the fields, by kind, in the order of its channels."""
        return {
            "parameters": tuple(self.varying),
            "signals": self.signals,
            "known": self.known,
            "forcing": self.forcing,
        }

    @property
    def times(self) -> np.ndarray:
        """The time of every frame."""
        return self.start + self.dt * np.arange(self.frames)

    @property
    def shape(self) -> tuple[int, ...]:
        """(sample, time, channel, *space)"""
        return (self.samples, self.frames, len(self.fields), *self.points)

    def strided(self, space: int | Sequence[int], time: int) -> Card:
        """The card of the data that `array[:, ::time, :, ::space]` keeps.

        Keeping every s-th cell makes the two edges of a bounded axis unlike: the first kept cell
        lies at the edge, the last one s − 1 cells away from it.  The mirror image is then no
        sample of the same distribution, so such data lose "flip".
        """
        dims, periodic = len(self.points), self.grid.is_periodic
        strides = (space,) * dims if isinstance(space, int) else tuple(int(s) for s in space)
        if len(strides) != dims or min(strides) < 1 or time < 1:
            raise ValueError(
                f"strides should be positive whole numbers, one for time and one for each of "
                f"{dims} axes, got space {space} and time {time}."
            )
        if self.steady and time != 1:
            raise ValueError(f"{self.name} is steady: it has no time to stride over.")
        moves = "shift" in self.symmetries
        lost = set()
        if any(s > 1 and not (p and moves) for s, p in zip(strides, periodic, strict=True)):
            lost.add("flip")
        if len(set(strides)) > 1:
            lost.add("rotate")
        frames, grid = -(-self.frames // time), self.grid.strided(strides)
        return self.changed(
            points=grid.points,
            extent=grid.extent,
            offset=grid.offset,
            dt=self.dt * time,
            frames=frames,
            history=None if self.history is None else max(1, min(self.history, frames - 1)),
            stride_space=tuple(a * b for a, b in zip(self.stride_space, strides, strict=True)),
            stride_time=self.stride_time * time,
            symmetries=tuple(name for name in self.symmetries if name not in lost),
        )

    def to_json(self) -> str:
        """One deterministic line of JSON for each fact."""
        unused = {name for name in _CONDITIONS if not getattr(self, name)}
        unused |= {"refine"} if self.refine == 1 else set()
        facts = self.model_dump(mode="json", exclude=unused)
        return json.dumps(facts, indent=1, sort_keys=True, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> Card:
        try:
            values = json.loads(text)
        except (ValueError, RecursionError):
            raise ValueError("the data card is not JSON.") from None
        if not isinstance(values, dict):
            raise ValueError("the data card should be a JSON object.")
        return cls(**values)

    def facts(self) -> dict[str, str]:
        """What is known about the data, line by line, for people."""
        names = [f"{name}: " for name in self.axes] or [""] * len(self.points)
        axes = [
            f"{name}{n} points on [{lo:g}, {hi:g}], {boundary}"
            for name, n, (lo, hi), boundary in zip(
                names, self.points, self.extent, self.boundary, strict=True
            )
        ]
        units = self.units or ("",) * len(self.fields)
        fields = [f + (f" ({u})" if u else "") for f, u in zip(self.fields, units, strict=True)]
        shown = ", ".join(fields)
        if self.steady:
            shown = f"{', '.join(self.inputs) or 'input'} → {shown}"
        rows = {
            "fields": shown,
            "samples": f"{self.samples}",
            "grid": "; ".join(axes),
            "time": "steady"
            if self.steady
            else f"{self.frames} frames from {self.start:g}, Δt = {self.dt:g}"
            + (f" {self.time_unit}" if self.time_unit else "")
            + ("" if self.history is None else f"; the first {self.history} are shown"),
            "solved on": f"cells {self.refine} times finer, averaged" if self.refine > 1 else "",
            "error of the truth": f"{self.cost.truth_error:.2g} (nRMSE of the first sample against "
            "itself solved on cells half as wide)"
            if self.cost and self.cost.truth_error is not None
            else "",
            "strides": f"space {list(self.stride_space)}, time {self.stride_time}",
            "parameters": ", ".join(f"{k} = {v}" for k, v in self.parameters.items()),
            "varying parameters": ", ".join(
                name + (f" ({unit})" if unit else "") for name, unit in self.varying.items()
            ),
            "known fields": ", ".join(self.known),
            "forcing": ", ".join((*self.forcing, *self.signals)),
            "mask": "" if self.walls is None else f"cells left out, {self.walls} at their edge",
            "fastest wave": "" if self.speed is None else f"{self.speed:g}",
            "symmetries": ", ".join(self.symmetries) or "none",
            "vectors": ", ".join(
                f"{self.fields[channel]} along axis {axis}"
                for channel, axis in enumerate(self.directions)
                if axis is not None
            ),
            "solver": self.solver,
            "initial conditions": self.initial,
            "seed": "" if self.seed is None else f"{self.seed}",
            "split": self.split.describe() if self.split else "",
            "guessed": "; ".join(self.guesses),
            "made with": f"fino {self.version}" if self.version else "",
            "cost": f"{self.cost.seconds:.1f} s, {self.cost.machine}" if self.cost else "",
        }
        return {name: value for name, value in rows.items() if value}

    def markdown(self) -> str:
        """The card as a page for people."""
        lines = [f"# {self.title or self.name}", ""]
        lines += [f"    {line}" for line in self.equation.splitlines()] + [""]
        lines += [self.description, ""] if self.description else []
        lines += ["| | |", "| --- | --- |"]
        lines += [f"| {name} | {fact.replace('|', '/')} |" for name, fact in self.facts().items()]
        lines += ["", "## Known flaws", ""]
        lines += [f"* {flaw}" for flaw in self.flaws] or ["None known."]
        return "\n".join(lines) + "\n"
