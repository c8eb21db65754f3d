"""`fino.inspect(model, data)`: how far it sees, what it learned, how it grows errors, in numbers.

A model alone shows its reach, its stencils, its Δt and its amplification factors.  With data, its
gates and its stability are measured too.  A run knows its data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from fino.data.dataset import Dataset
from fino.durable import plain
from fino.given import Given
from fino.inspection.amplification import Amplification, step_amplification
from fino.inspection.growth import over_space
from fino.inspection.held import Theta, average_conditions, theta_at, time_steps, time_steps_over
from fino.inspection.layers import (
    GateReport,
    LayerReport,
    PriorReport,
    gate_reports,
    layer_reports,
    prior_report,
)
from fino.inspection.reach import Reach, reach
from fino.inspection.stability import Stability, StabilityPlan, held_out, stability
from fino.machine import threads
from fino.model.emulator import Emulator
from fino.model.store import check_finite
from fino.streams import torch_stream
from fino.training.run import Run, find_run
from fino.training.run_data import check_fit

__all__ = ["Inspection", "inspect"]

#: Histories of held-out trajectories that show what the layers do.
_LOOKED_AT = 4


@dataclass(frozen=True, eq=False)
class Inspection:
    """What was found, in numbers; `fino inspect` and the report say them in sentences.

    `notes` says in a word, by part, why a part is missing: "stability" is "steady" or "no data",
    "amplification" "not equivariant".  "data" holds why a run's data could not be opened.
    `time_steps`, `layers` and `amplification` are those at `theta`.
    """

    model: str
    parameters: int
    history: int
    fields: tuple[str, ...]
    is_local: bool
    data: str | None
    dt: float
    reach: Reach
    prior: PriorReport
    layers: list[LayerReport]
    theta: Theta
    time_steps: dict[str, float]
    time_steps_over: dict[str, Any]
    gates: list[GateReport]
    amplification: Amplification | None
    stability: Stability | None
    notes: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """The main numbers as a table of two columns."""
        rows: dict[str, Any] = {
            "model": self.model,
            "parameters": self.parameters,
            "data": self.data,
            "cells that it sees": self.reach.radius,
            "cells that the data move": self.reach.needed,
            "stencil layers": len(self.layers),
            "of them near the textbooks": sum(layer.is_classical for layer in self.layers),
        }
        if self.amplification is not None:
            rows["largest |λ| of a wave"] = self.amplification.radius
        if self.stability is not None:
            bound, run = self.stability.bound, self.stability.bounded
            rows["worst error of a step, ε"] = bound.epsilon
            rows["Lipschitz constant, C"] = bound.constant
            rows["steps that the bound is useful"] = bound.useful_steps
            rows["rollouts that stayed in range"] = f"{run.stayed} of {run.trajectories}"
        known = ((name, value) for name, value in rows.items() if value is not None)
        return "\n".join(f"{name:<30}  {_short(value)}" for name, value in known)

    def to_dict(self) -> dict[str, Any]:
        """The same for a machine: numbers in plain JSON types."""
        content: dict[str, Any] = plain(self)
        content["predict"] = self.prior.kind
        content["base"] = {"predict": self.prior.kind, **content.pop("prior")}
        if self.stability is not None:
            content["stability"]["bound"]["useful_steps"] = self.stability.bound.useful_steps
        return content


@threads(1)  # the fields are small: more threads would mostly wait for one another
def inspect(
    model: Any,
    data: Dataset | str | Path | None = None,
    *,
    parameters: Mapping[str, float] | None = None,
    plan: StabilityPlan | None = None,
    progress: Callable[[float], None] | None = None,
) -> Inspection:
    """Look inside a run, a model, the folder of either, or a shipped model by its name.

    `data` are the run's own if not given; a model alone needs them for gates and stability.
    `parameters` are those that Δt, stencils and waves are looked at with, as {"nu": 0.03}; those
    that are not named are in the middle of the trained range.
    `plan` says how much is measured; its defaults take some seconds on a plane of 64 × 64 cells.
    """
    plan = plan or StabilityPlan()
    run = find_run(model, data)
    emulator = run.model
    if not isinstance(emulator, Emulator):
        raise ValueError(
            f"inspect should be given a model of fino.build or fino.load, or a run with one, "
            f"got {type(emulator).__name__}."
        )
    check_finite(emulator)
    emulator.eval()
    theta = theta_at(emulator, parameters)
    opened, notes = (run.data, {}) if data is not None else _own_data(run, plan.trajectories)
    if opened is not None:
        check_fit(emulator, opened)
    given = _some_given(emulator, opened, theta)
    at_theta = emulator.conditioning.give(
        given, 1, emulator.settings.dt, parameters=theta.values or None
    )
    gates = gate_reports(emulator, given) if opened is not None else []
    stable, factors = None, None
    if emulator.settings.steady:
        notes["stability"] = "steady"
    elif opened is None:
        notes["stability"] = "no data"
    else:
        largest = {gate.block: (gate.largest, gate.sensitivity) for gate in gates}
        stable = stability(emulator, opened, plan, largest, theta, progress)
    if not emulator.settings.steady:
        points = (emulator if opened is None else opened).grid.points
        state = emulator.input_mean.detach().clone()
        factors = step_amplification(emulator, state, points, theta)
        if factors is None:
            notes["amplification"] = "not equivariant"
    return Inspection(
        model=emulator.settings.model,
        parameters=emulator.parameters_count,
        history=emulator.history,
        fields=emulator.settings.fields,
        is_local=emulator.locality.is_local,
        data=None if opened is None else opened.card.name,
        dt=emulator.settings.dt,
        reach=reach(emulator, opened),
        prior=prior_report(emulator),
        layers=layer_reports(emulator, at_theta),
        theta=theta,
        time_steps={name: values[0] for name, values in time_steps(emulator, at_theta).items()},
        time_steps_over=time_steps_over(emulator, theta, at_theta.row(0)),
        gates=gates,
        amplification=factors,
        stability=stable,
        notes=notes,
    )


def _own_data(run: Run, samples: int) -> tuple[Dataset | None, dict[str, str]]:
    """The data of a run where they can be had, or a note why not; nothing for a model alone."""
    if not run.has_data:
        return None, {}
    try:
        data = run.test_data(samples + 1)
    except ValueError as reason:
        return None, {"data": str(reason)}
    if not len(data.train):  # solved again; the last sample lends its state to the true step
        data = data.with_split(test=range(len(data) - 1), train=[len(data) - 1])
    return data, {}


def _some_given(emulator: Emulator, data: Dataset | None, theta: Theta) -> Given:
    """A little to look at the layers with: held-out data, or noise of the trained spread."""
    if data is not None:
        part, history = held_out(data), emulator.history
        some = range(min(_LOOKED_AT, len(part)))
        last = 0 if data.steady else max(0, int(data.lengths.min()) - history - 1)
        windows = [part.window(some, t, history, 1)[0] for t in sorted({0, last})]
        return Given.join([window.for_one_step() for window in windows])
    shape = (2, emulator.history, emulator.channels, *emulator.grid.points)
    noise = torch.randn(shape, generator=torch_stream(0, "inspect")).to(emulator.input_std)
    noise = noise * over_space(emulator.input_std, noise) + over_space(emulator.input_mean, noise)
    return average_conditions(emulator, theta, emulator.grid.points).with_history(noise)


def _short(value: Any) -> str:
    if isinstance(value, tuple):
        return " × ".join(_short(part) for part in value)
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
