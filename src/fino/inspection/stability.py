"""Will it stay stable?  What can be measured about a learned step, and what follows from it.

Everything here is evidence from some states and some trajectories.  None of it is a proof.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fino.data.dataset import Dataset, Part
from fino.inspection.amplification import Amplification, amplification, is_equivariant
from fino.inspection.bound import ErrorBound, judge
from fino.inspection.growth import growth_of_errors
from fino.inspection.lipschitz import lipschitz
from fino.inspection.operator_norm import Gates, LayerBound, layer_bound
from fino.inspection.rollouts import (
    Bounded,
    bounded_rollout,
    rollout_errors,
    spread_of,
    visited_buffers,
)
from fino.inspection.step import BufferStep, periodic_twin, scale_of, stride_of
from fino.inspection.truth import TrueStep, true_step
from fino.model.emulator import Emulator
from fino.model.rollout import AnyStepper
from fino.shapes import Field, Trajectory

__all__ = ["Stability", "StabilityPlan", "stability", "step_amplification"]

Progress = Callable[[float], None]


@dataclass(frozen=True)
class StabilityPlan:
    """How much is measured: trajectories, buffers along one, iterations, and how far ahead.

    `looks` are the numbers of steps over which the worst change is searched for.
    `longer` is the length of the boundedness run in units of what the data let a model predict.
    """

    trajectories: int = 4
    buffers: int = 4
    iterations: int = 20
    looks: tuple[int, ...] = (1, 4)
    longer: int = 10


@dataclass(frozen=True, eq=False)
class Stability:
    """The measurements, in units of each channel's spread.

    `epsilon` is the worst and `epsilon_mean` the mean one-step error on held-out data;
    `constants` are the Lipschitz constants of the learned step at several buffers; `growth` is
    how much an error in the newest frame grew over 0, 1, 2 … steps.  Where a part does
    not apply, `notes` says why.
    """

    epsilon: float
    epsilon_mean: float
    constants: tuple[float, ...]
    growth: np.ndarray
    bound: ErrorBound
    bounded: Bounded
    part: str
    layers: LayerBound | None = None
    true_constant: float | None = None
    amplification: Amplification | None = None
    true_amplification: Amplification | None = None
    notes: dict[str, str] = field(default_factory=dict)

    @property
    def constant(self) -> float:
        """The largest Lipschitz constant that was met."""
        return max(self.constants)


def stability(
    stepper: AnyStepper,
    data: Dataset,
    plan: StabilityPlan | None = None,
    gates: Gates | None = None,
    progress: Progress | None = None,
) -> Stability:
    """Measure a stepper on the held-out part of its data."""
    plan, tell = plan or StabilityPlan(), progress or (lambda share: None)
    part, scale = held_out(data), scale_of(stepper, data.channels)
    history = int(getattr(stepper, "history", part.history))
    truth = part.read(range(min(plan.trajectories, len(part))))
    errors = rollout_errors(stepper, truth, history, scale)
    worst = float(errors.single.max())
    tell(0.1)
    buffers = visited_buffers(stepper, truth, history, plan.buffers)
    constants, directions = _constants(BufferStep(stepper, scale), buffers, plan.iterations)
    tell(0.4)
    growth = growth_of_errors(
        *(stepper, scale, buffers[:2], errors.examples),
        *(max(worst, 1e-4), errors.rolled.shape[1], plan.looks),
    )
    tell(0.6)
    spread = spread_of(stepper, truth, scale)
    bounded = bounded_rollout(stepper, truth, history, plan.longer)
    tell(0.8)
    return Stability(
        epsilon=worst,
        epsilon_mean=float(errors.single.mean()),
        constants=constants,
        growth=growth,
        bound=judge(worst, max(constants), errors.rolled, spread, growth),
        bounded=bounded,
        part=part.name,
        **_where_known(stepper, data, (buffers[:, -1], directions[:, -1]), gates, scale),
    )


def _where_known(
    stepper: AnyStepper,
    data: Dataset,
    frames: tuple[Field, Field],
    gates: Gates | None,
    scale: Tensor,
) -> dict[str, Any]:
    """The parts that need a known solver, a known network or a step that commutes with shifts."""
    notes: dict[str, str] = {}
    known, why = true_step(data, scale)
    if known is None:
        notes["true_constant"] = why
    factors, true_factors = _factors(stepper, data, known, notes)
    layers = layer_bound(stepper, gates) if isinstance(stepper, Emulator) else None
    if layers is None:
        notes["layers"] = "a bound from layer norms is known for FINO and U-Net only"
    return {
        "layers": layers,
        "true_constant": None if known is None else known.stretch(*frames),
        "amplification": factors,
        "true_amplification": true_factors,
        "notes": notes,
    }


def held_out(data: Dataset) -> Part:
    """The test part, or the next best if it is empty."""
    return next((p for p in (data.test, data.validation, data.train) if len(p)), data.train)


def step_amplification(
    stepper: AnyStepper, state: Tensor, points: tuple[int, ...]
) -> tuple[Amplification | None, str]:
    """The factors of a stepper far from any wall, or None and the reason."""
    twin = periodic_twin(stepper)
    stride, history = stride_of(stepper, len(points)), int(getattr(stepper, "history", 1))
    points = tuple(-(-n // s) * s for n, s in zip(points, stride, strict=True))
    if not is_equivariant(twin, state, points, history, stride):
        return None, (
            "the step does not commute with shifts of the grid, so waves are not its eigenvectors"
        )
    return amplification(twin, state, points, history, stride), ""


def _factors(
    stepper: AnyStepper, data: Dataset, known: TrueStep | None, notes: dict[str, str]
) -> tuple[Amplification | None, Amplification | None]:
    """Amplification of the learned and of the true step about the mean state of the data."""
    mean = getattr(stepper, "input_mean", None)
    state = held_out(data).read([0]).transpose(1, 2).flatten(3).mean(dim=(0, 2, 3))
    state = state if mean is None else mean.detach().clone()
    found, why = step_amplification(stepper, state, data.grid.points)
    if found is None:
        notes["amplification"] = why
    return found, None if known is None else known.amplification(state)


def _constants(
    step: BufferStep, buffers: Trajectory, iterations: int
) -> tuple[tuple[float, ...], Trajectory]:
    values, directions = [], []
    for some in step.scaled(buffers).split(2):
        found = lipschitz(step, some, iterations)
        values += found.values.tolist()
        directions.append(found.directions.detach())
    return tuple(values), torch.cat(directions)
