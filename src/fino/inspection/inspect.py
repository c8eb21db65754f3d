"""`fino.inspect(model, data)`: how far it sees, what it learned, how it grows errors.

A model alone shows its reach, its stencils, its Δt and its amplification factors.  With data, its
gates and its stability are measured too.  A run knows its data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from fino.data.dataset import Dataset
from fino.inspection.amplification import Amplification
from fino.inspection.gates import GateReport, gate_reports
from fino.inspection.layers import LayerReport, layer_reports
from fino.inspection.plain import plain
from fino.inspection.reach import Reach, reach
from fino.inspection.scheme import BaseReport, base_report
from fino.inspection.stability import (
    Stability,
    StabilityPlan,
    held_out,
    stability,
    step_amplification,
)
from fino.model.emulator import Emulator
from fino.shapes import Trajectory
from fino.streams import torch_stream
from fino.training.run import Run, find_run
from fino.training.run_data import check_fit

__all__ = ["Inspection", "inspect"]

#: Test samples of a pretrained model that are solved again to look at it.
_SOLVED = 9


@dataclass(frozen=True, eq=False)
class Inspection:
    """What was found; print it to read it.

    `notes` says, by part, why a part is missing.
    """

    model: str
    parameters: int
    history: int
    predict: str
    is_local: bool
    data: str | None
    dt: float
    reach: Reach
    base: BaseReport
    layers: list[LayerReport]
    time_steps: dict[str, float]
    gates: list[GateReport]
    amplification: Amplification | None
    stability: Stability | None
    notes: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        from fino.inspection.words import page

        return page(self)

    def to_dict(self) -> dict[str, Any]:
        """The same for a machine: numbers in plain JSON types."""
        content: dict[str, Any] = plain(self)
        if self.stability is not None:
            content["stability"]["bound"]["verdict"] = self.stability.bound.verdict
            content["stability"]["bound"]["useful_steps"] = self.stability.bound.useful_steps
        return content


def inspect(
    model: Any,
    data: Dataset | str | Path | None = None,
    *,
    plan: StabilityPlan | None = None,
    progress: Callable[[float], None] | None = None,
) -> Inspection:
    """Look inside a run, a model, the folder of either, or a shipped model by its name."""
    run = find_run(model, data)
    emulator = run.model
    if not isinstance(emulator, Emulator):
        raise ValueError(
            f"inspect should be given a model of fino.build or fino.load, or a run with one, "
            f"got {type(emulator).__name__}."
        )
    emulator.eval()
    opened, notes = (run.data, {}) if data is not None else _own_data(run)
    if opened is not None:
        check_fit(emulator, opened)
    history = _histories(emulator, opened)
    gates = gate_reports(emulator.network, emulator, history) if opened is not None else []
    stable, factors = _stability(emulator, opened, plan, gates, notes, progress)
    layers = layer_reports(emulator.network, emulator.grid, emulator, history)
    if not layers:
        notes["stencils"] = "this model has no stencils: it mixes cells in another way"
    if not gates:
        notes["gates"] = "there are no gates" if opened is not None else "gates need data to open"
    steps = _time_steps(emulator.network)
    if not steps:
        notes["time steps"] = "no block has a learned time step"
    return Inspection(
        model=emulator.settings.model,
        parameters=emulator.parameters_count,
        history=emulator.history,
        predict=emulator.settings.predict,
        is_local=emulator.locality.is_local,
        data=None if opened is None else opened.card.name,
        dt=emulator.settings.dt,
        reach=reach(emulator, opened),
        base=base_report(emulator),
        layers=layers,
        time_steps=steps,
        gates=gates,
        amplification=factors,
        stability=stable,
        notes=notes,
    )


def _own_data(run: Run) -> tuple[Dataset | None, dict[str, str]]:
    """The data of a run where they can be had, or a note why not; nothing for a model alone."""
    if not run.has_data:
        return None, {}
    try:
        data = run.test_data(_SOLVED)
    except ValueError as reason:
        return None, {"data": str(reason)}
    if not len(data.train):  # solved again; the last sample lends its state to the true step
        data = data.with_split(test=range(len(data) - 1), train=[len(data) - 1])
    return data, {}


def _stability(
    emulator: Emulator,
    data: Dataset | None,
    plan: StabilityPlan | None,
    gates: list[GateReport],
    notes: dict[str, str],
    progress: Callable[[float], None] | None,
) -> tuple[Stability | None, Amplification | None]:
    """The stability report; without data at least the factors about the trained mean."""
    if emulator.settings.steady:
        notes["stability"] = "a steady problem is answered in one step: nothing is rolled out"
        return None, None
    if data is None:
        notes["stability"] = "errors and their growth are measured on data: pass data"
        state = emulator.input_mean.detach().clone()
        factors, why = step_amplification(emulator, state, emulator.grid.points)
        if factors is None:
            notes["amplification"] = why
        return None, factors
    largest = {gate.block: (gate.largest, gate.sensitivity) for gate in gates}
    found = stability(emulator, data, plan, largest, progress)
    return found, found.amplification


def _histories(emulator: Emulator, data: Dataset | None) -> Trajectory:
    """A few histories to look at the layers with: held-out data, or noise of the trained spread."""
    if data is not None:
        part = held_out(data)
        some = range(min(4, len(part)))
        last = max(0, data.frames - emulator.history - 1) if not data.steady else 0
        both = [part.read(some, start, emulator.history) for start in sorted({0, last})]
        return torch.cat(both)
    shape = (2, emulator.history, emulator.channels, *emulator.grid.points)
    noise = torch.randn(shape, generator=torch_stream(0, "inspect"))
    over_space = (-1, *[1] * emulator.grid.dims)
    mean, std = emulator.input_mean.view(over_space), emulator.input_std.view(over_space)
    return noise.to(std) * std + mean


def _time_steps(network: Any) -> dict[str, float]:
    """Δt of every block that has one."""
    with torch.no_grad():
        return {
            name: float(module.dt())
            for name, module in network.named_modules()
            if hasattr(module, "dt") and callable(module.dt)
        }
