"""Will it stay stable?  What can be measured about a learned step, and what follows from it.

Proposition 1 as a measuring tool: does the error bound say anything?

    e_K ≤ ε (C^K − 1)/(C − 1),     K ε for C = 1

The proof compares Ψ (learned) and Φ (true) in one of two orders.  With Ψ in the middle,

    Ψ(u_k) − Φ(ũ_k) = [Ψ(u_k) − Ψ(ũ_k)] + [Ψ(ũ_k) − Φ(ũ_k)],

ε is the learned step's error on *true* states, which held-out data measure, and C belongs to the
*learned* step.  The paper's order needs ε on the model's own states, which nobody measures.

Everything here is evidence from some states and some trajectories.  None of it is a proof.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fino.data.dataset import Dataset, Part
from fino.given import Given
from fino.inspection.amplification import Amplification
from fino.inspection.growth import BufferStep, growth_of_errors, lipschitz, over_space, size
from fino.inspection.held import Held, Theta
from fino.inspection.operator_norm import Gates, LayerBound, layer_bound
from fino.inspection.true_step import true_step
from fino.model.emulator import Emulator
from fino.model.rollout import AnyStepper, frames, rollout, take_step
from fino.shapes import Field, Trajectory

__all__ = ["Bounded", "ErrorBound", "Stability", "StabilityPlan", "held_out", "stability"]

#: Single steps from the true histories of a trajectory, spread from its first to its last.
_SINGLE_STEPS = 24


@dataclass(frozen=True)
class StabilityPlan:
    """How much is measured; more makes every number surer and takes longer.

    trajectories     held-out trajectories that errors are measured on
    buffers          states along the first of them at which C is measured
    iterations       of the search for C at each state, at most
    looks            numbers of steps over which the worst change is searched for
    long_rollouts    trajectories that are rolled out far beyond the data
    longer           how far, in units of what the data let a model predict
    furthest         steps at which they end, if that is farther than the data go
    """

    trajectories: int = 4
    buffers: int = 2
    iterations: int = 9
    looks: tuple[int, ...] = (1, 4)
    long_rollouts: int = 1
    longer: int = 10
    furthest: int = 200


@dataclass(frozen=True, eq=False)
class ErrorBound:
    """The bound beside the measured error over the steps of a rollout.

    All in units of the channels' own spread; `measured` is the worst held-out trajectory,
    `typical` the mean one.  `grown` replaces C^j by the measured growth over j steps.  A bound
    is useful while it is smaller than the spread of the data: beyond that, a constant guess
    satisfies it as well.
    """

    epsilon: float
    constant: float
    bound: np.ndarray
    measured: np.ndarray
    typical: np.ndarray
    spread: float
    grown: np.ndarray

    @property
    def useful_steps(self) -> int:
        """How many steps the bound stays below the data's own spread."""
        return _steps_below(self.bound, self.spread)

    @property
    def grown_useful_steps(self) -> int:
        return _steps_below(self.grown, self.spread)

    @property
    def is_useful(self) -> bool:
        """Whether it says something to the end of the held-out trajectories."""
        return self.useful_steps == len(self.bound)


@dataclass(frozen=True)
class Bounded:
    """How far rollouts stayed within twice the range of the data.

    `first_left` is the step at which the first trajectory left it, None if none did.
    """

    steps: int
    horizon: int
    first_left: int | None
    trajectories: int
    stayed: int
    excess: float


@dataclass(frozen=True, eq=False)
class Stability:
    """The measurements, in units of each channel's spread.

    `epsilon` is the worst and `epsilon_mean` the mean one-step error over `single_steps` steps
    from true histories of `trajectories` held-out trajectories; `constants` are the Lipschitz
    constants of the learned step at several buffers; `growth` is how much an error in the newest
    frame grew over 0, 1, 2 … steps.  Where a part does not apply, `notes` says why in a word.
    """

    epsilon: float
    epsilon_mean: float
    constants: tuple[float, ...]
    growth: np.ndarray
    bound: ErrorBound
    bounded: Bounded
    part: str
    trajectories: int
    single_steps: int
    layers: LayerBound | None = None
    true_constant: float | None = None
    true_amplification: Amplification | None = None
    notes: dict[str, str] = field(default_factory=dict)

    @property
    def constant(self) -> float:
        """The largest Lipschitz constant that was met."""
        return max(self.constants)


def stability(
    emulator: Emulator,
    data: Dataset,
    plan: StabilityPlan,
    gates: Gates,
    theta: Theta,
    progress: Callable[[float], None] | None = None,
) -> Stability:
    """Measure a model on the held-out part of its data, each trajectory with its own conditions.

    The solver's waves are those at `theta`.
    """
    show = progress or (lambda share: None)
    part, scale, history = held_out(data), emulator.input_std.detach(), emulator.history
    some = range(min(plan.trajectories, len(part)))
    start, future = part.window(some, 0, history, int(data.lengths.min()) - history)
    truth = torch.cat([start.history, future], dim=1)
    errors = rollout_errors(emulator, truth, history, scale, start)
    worst = float(errors.single.max())
    show(0.2)
    own = torch.cat([start.history, errors.predicted], dim=1)
    buffers = _visited_buffers(truth, own, history, plan.buffers, start)
    stretches = []
    for first in range(0, len(buffers.history), 2):
        two = buffers.rows(slice(first, first + 2))
        step = BufferStep(Held(emulator, two), scale)
        stretches.append(lipschitz(step, step.scaled(two.history), plan.iterations))
    constants = tuple(value for found in stretches for value in found.values.tolist())
    show(0.4)
    state, steps = buffers.row(min(1, len(buffers.history) - 1)), errors.rolled.shape[1]
    growth = growth_of_errors(
        Held(emulator, state), scale, state.history, max(worst, 1e-4), steps, plan.looks
    )
    show(0.6)
    # what is known in advance ends with the data, and so do rollouts that need it
    ends = 0 if _runs_in_time(start) else min(plan.longer * steps, plan.furthest)
    few = own[: plan.long_rollouts]
    bounded = bounded_rollout(emulator, truth, few, history, max(steps, ends), start)
    show(0.8)
    away = (truth - over_space(emulator.input_mean, truth)) / over_space(scale, truth)
    spread = float(away.square().mean().sqrt())
    directions = torch.cat([found.directions[:, -1] for found in stretches]).detach()
    return Stability(
        epsilon=worst,
        epsilon_mean=float(errors.single.mean()),
        constants=constants,
        growth=growth,
        bound=bound_errors(worst, max(constants), errors.rolled, spread, growth),
        bounded=bounded,
        part=part.name,
        trajectories=len(truth),
        single_steps=errors.single.size,
        **_where_known(emulator, data, buffers, directions, gates, theta),
    )


def _where_known(
    emulator: Emulator,
    data: Dataset,
    buffers: Given,
    directions: Field,
    gates: Gates,
    theta: Theta,
) -> dict[str, Any]:
    """The parts that need a known solver or a known network."""
    notes: dict[str, str] = {}
    known, why = true_step(data, emulator.input_std.detach())
    stretch, waves = None, None
    if known is None:
        notes["true_constant"] = why
    else:
        rows = [buffers.row(i) for i in range(len(buffers.history))]
        own = [[] if row.parameters is None else row.parameters[0].tolist() for row in rows]
        stretch = max(
            known.at(parameters).stretch(row.history[:, -1], directions[i : i + 1])
            for i, (row, parameters) in enumerate(zip(rows, own, strict=True))
        )
        waves = known.at(list(theta.values.values())).amplification(emulator.input_mean)
    layers = layer_bound(emulator, gates, buffers)
    if layers is None:
        is_walled = emulator.settings.given.walls == "neumann"
        notes["layers"] = "walls of a mask" if is_walled else "unknown network"
    found = {"layers": layers, "true_constant": stretch, "true_amplification": waves}
    return {**found, "notes": notes}


def held_out(data: Dataset) -> Part:
    """The test part, or the next best if it is empty."""
    return next((p for p in (data.test, data.validation, data.train) if len(p)), data.train)


@dataclass(frozen=True, eq=False)
class Errors:
    """Errors of the rollout (b, t − K) and of single steps from true histories, in spreads.

    `predicted` (b, t − K, c, *space) is the rollout.
    """

    rolled: np.ndarray
    single: np.ndarray
    predicted: Trajectory


def rollout_errors(
    stepper: AnyStepper,
    truth: Trajectory,
    history: int,
    scale: Tensor,
    beside: Given | None = None,
) -> Errors:
    """Roll out from the first history, and step once from true ones from beginning to end.

    `beside` holds what is given beside the first history.
    """
    scale = over_space(scale, truth)
    steps = truth.shape[1] - history
    start = (beside or Given(truth)).with_history(truth[:, :history])
    predicted = rollout(stepper, start, steps)
    exact = truth[:, history:]
    rolled = torch.stack([size(wrong) for wrong in ((predicted - exact) / scale).unbind(1)], dim=1)
    single = []
    with torch.no_grad():
        for t in np.unique(np.linspace(0, steps - 1, _SINGLE_STEPS).round().astype(int)):
            one_step = take_step(stepper, replace(start.at(t), history=truth[:, t : t + history]))
            single.append(size((one_step - exact[:, t]) / scale).double().numpy())
    errors = rolled.double().numpy()
    finite = np.where(np.isfinite(errors), errors, np.inf)
    return Errors(finite, np.stack(single, axis=1), predicted)


def bounded_rollout(
    stepper: AnyStepper,
    truth: Trajectory,
    own: Trajectory,
    history: int,
    steps: int,
    beside: Given | None = None,
) -> Bounded:
    """Go on with rollouts far beyond the data and watch their range.

    `own` (b, t, c, *space) begins with the first true history; what follows is the rollout.
    `beside` holds what is given beside the first history.
    """
    horizon = truth.shape[1] - history
    values = truth.transpose(1, 2).flatten(3).movedim(1, 0).flatten(1)
    low, high = (over_space(end, truth) for end in (values.amin(dim=1), values.amax(dim=1)))
    middle, half = (high + low) / 2, ((high - low) / 2).clamp_min(1e-12)
    known = own[:, history:].unbind(dim=1)
    left, excess = torch.full((len(own),), steps + 1), 0.0
    with torch.no_grad():
        given = (beside or Given(own)).rows(slice(len(own))).at(len(known))
        given = given.with_history(own[:, own.shape[1] - history :])
        ahead = frames(stepper, given, steps - len(known))
        for t, frame in enumerate(chain(known, ahead), start=1):
            away = ((frame - middle).abs() / half).flatten(1).amax(dim=1)
            left = torch.where(~(away <= 2.0) & (left > steps), t, left)
            if bool(torch.isfinite(away).all()):
                excess = float(away.max())
            if bool((left <= steps).all()):
                break
    first, stayed = int(left.min()), int((left > steps).sum())
    return Bounded(steps, horizon, None if first > steps else first, len(own), stayed, excess)


def bound_errors(
    epsilon: float, constant: float, errors: np.ndarray, spread: float, growth: np.ndarray
) -> ErrorBound:
    """The bound for measured ε and C beside measured errors (trajectories, steps).

    `growth` (steps,) is what becomes of an error after 0, 1, 2 … steps.
    """
    bound = epsilon * geometric_sum(constant, errors.shape[1])
    grown = epsilon * np.cumsum(growth[: errors.shape[1]])
    measured, typical = errors.max(axis=0), errors.mean(axis=0)
    return ErrorBound(epsilon, constant, bound, measured, typical, spread, grown)


def geometric_sum(constant: float, steps: int) -> np.ndarray:
    """(C^K − 1)/(C − 1) for K = 1 … steps, without cancellation near C = 1; inf past the floats."""
    with np.errstate(over="ignore"):
        return np.cumsum(np.power(float(constant), np.arange(steps)))


def _visited_buffers(
    truth: Trajectory, own: Trajectory, history: int, count: int, start: Given
) -> Given:
    """True histories from the beginning to the end, and the model's own at the end."""
    last = truth.shape[1] - history - _runs_in_time(start)
    starts = np.unique(np.linspace(0, last, count).round().astype(int))
    visited = [(truth, 0, t) for t in starts]
    visited += [(truth, i, starts[i % len(starts)]) for i in range(1, len(truth))]
    if bool(torch.isfinite(own[:1]).all()):
        visited.append((own, 0, last))
    return Given.join(
        [
            replace(start.row(i).at(t).for_one_step(), history=u[i : i + 1, t : t + history])
            for u, i, t in visited
        ]
    )


def _runs_in_time(given: Given) -> bool:
    return given.forcing is not None or given.signals is not None


def _steps_below(bound: np.ndarray, limit: float) -> int:
    above = ~(bound < limit)
    return int(np.argmax(above)) if above.any() else len(bound)
