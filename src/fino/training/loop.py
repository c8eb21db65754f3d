"""The training loop, in the order things happen.

for happened in train(state, data, settings):
    …                                            # log it, draw it, save the state, or stop

Between two yields the state is whole: saving it there and going on later from what was saved
gives the same weights as never having stopped.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fino.data.dataset import Dataset
from fino.given import Given
from fino.model.emulator import Emulator
from fino.training.batch import draw_batch, validation_part
from fino.training.guards import check_batch, check_gradient, check_loss, check_update
from fino.training.loss import Unroll, Validation, validate
from fino.training.optimizers import Optimizers, make_optimizer
from fino.training.processes import ALONE, Processes
from fino.training.schedule import Clock, horizon_at, learning_rate_at, share_spent, steps_allowed
from fino.training.settings import (
    VALIDATION_SAMPLES,
    VALIDATION_SHARE,
    VALIDATIONS,
    TrainingSettings,
)

__all__ = ["Happened", "State", "begin", "train"]


@dataclass
class State:
    """Everything that a run is between two steps; a checkpoint holds exactly this."""

    emulator: Emulator
    optimizer: Optimizers
    averaged: Emulator | None = None
    step: int = 0
    clock: Clock = field(default_factory=Clock)
    loss: float = math.nan
    best: float = math.inf
    best_step: int = 0
    best_weights: dict[str, Tensor] = field(default_factory=dict)
    stale: int = 0
    validated: tuple[float, ...] = ()

    @property
    def candidate(self) -> Emulator:
        """The model that would be kept if it proves best: the averaged one where there is one."""
        return self.averaged or self.emulator


@dataclass(frozen=True)
class Happened:
    """What one step did.  `loss` is smoothed over the last steps, `validation` mostly absent."""

    step: int
    share: float
    loss: float
    learning_rate: float
    horizon: int
    gradient: float
    cpu_seconds: float
    wall_seconds: float
    validation: Validation | None = None
    improved: bool = False


def begin(emulator: Emulator, settings: TrainingSettings) -> State:
    """The state before the first step."""
    emulator = emulator.to(settings.device).train()
    averaged = deepcopy(emulator) if settings.average else None
    return State(emulator, make_optimizer(emulator.network, settings), averaged)


def train(
    state: State, data: Dataset, settings: TrainingSettings, processes: Processes = ALONE
) -> Iterator[Happened]:
    """Train until the budget is spent or validation no longer improves, step by step."""
    emulator, part = state.emulator, data.train
    ahead = data.task(emulator.history).steps
    longest = min(settings.horizon or ahead, ahead)
    steps = steps_allowed(settings, len(part), settings.batch or 1)
    rows = processes.rows(settings.batch or 1)
    unroll = Unroll(emulator, settings)
    trajectories = _validation_trajectories(emulator, data, settings)
    # A step of training goes forward and twice as far back, a validation only forward.
    per_step = sum(len(f) * f.shape[1] for _, f in trajectories) / (3 * (settings.batch or 1))
    state.clock.resume()
    share = _share(state, settings, steps, processes)
    often = settings.validations or VALIDATIONS
    validations = int(share * often)
    while share < 1 and not _is_stale(state, settings):
        learning_rate = learning_rate_at(share, settings)
        horizon = horizon_at(share, longest, settings.grow_from)

        batch = draw_batch(part, emulator, settings, state.step, horizon, rows)
        processes.stop_on(check_batch(batch, state.step))
        batch = batch.to(settings.device)

        state.optimizer.zero_grad()
        with emulator.prior.mirrored(batch.facing):
            with torch.autocast("cuda", torch.bfloat16, enabled=settings.mixed):
                loss = unroll(batch.given, batch.future, batch.inner)
            processes.stop_on(check_loss(loss, batch, emulator, state.step))
            loss.backward()
        processes.average_gradients(emulator)
        norm = _clip(emulator, settings.clip)
        processes.stop_on(check_gradient(norm, batch, emulator, state.step))
        state.optimizer.step(learning_rate)
        processes.stop_on(check_update(emulator, state.step))
        _average(state, settings.average)

        state.step += 1
        state.loss = _smooth(state.loss, processes.total(loss.item()) / processes.world)
        share = _share(state, settings, steps, processes)
        validation, improved = None, False
        if int(share * often) > validations and (
            share >= 1 or _is_affordable(state, settings, per_step)
        ):
            validations = int(share * often)
            validation = _validate(state.candidate.eval(), trajectories)
            improved = _keep_if_best(state, validation, settings, processes)
            before, share = share, _share(state, settings, steps, processes)
            state.validated = (*state.validated, share - before)
        yield Happened(
            step=state.step,
            share=share,
            loss=state.loss,
            learning_rate=learning_rate,
            horizon=horizon,
            gradient=float(norm),
            cpu_seconds=state.clock.cpu,
            wall_seconds=state.clock.wall,
            validation=validation,
            improved=improved,
        )


def _is_affordable(state: State, settings: TrainingSettings, steps: float) -> bool:
    """Whether this validation and the last one, which always happens, are within their share.

    The first one is taken to cost as much as so many steps, later ones as much as the longest.
    """
    a_step = share_spent(settings, 0, None, state.clock) / state.step
    expected = max(state.validated, default=a_step * steps)
    return sum(state.validated) + 2 * expected <= (settings.validation_share or VALIDATION_SHARE)


def _share(
    state: State, settings: TrainingSettings, steps: int | None, processes: Processes
) -> float:
    """The share of the budget spent, the same in every process."""
    state.clock.tick(processes)
    return processes.from_first(share_spent(settings, state.step, steps, state.clock))


def _validation_trajectories(
    emulator: Emulator, data: Dataset, settings: TrainingSettings
) -> list[tuple[Given, Tensor]]:
    """What models are chosen by: whole trajectories, as many as the settings say.

    A model of several strides is validated on the shortest and on the longest.
    """
    part = validation_part(data)
    count = min(len(part), settings.validation_samples or VALIDATION_SAMPLES)
    given, future = part.begin(range(count), emulator.history)
    given, future = given.to(settings.device), future.to(settings.device)
    ends = sorted({emulator.strides[0], emulator.strides[-1]})
    return [(emulator.at_stride(given, s), future[:, s - 1 :: s]) for s in ends]


def _validate(emulator: Emulator, trajectories: list[tuple[Given, Tensor]]) -> Validation:
    """The mean over the strides."""
    found = [validate(emulator, given, future) for given, future in trajectories]
    diverged = next((v.diverged for v in found if v.diverged is not None), None)
    full, nrmse = sum(v.full for v in found), sum(v.nrmse for v in found)
    return Validation(full / len(found), nrmse / len(found), diverged)


def _keep_if_best(
    state: State, validation: Validation, settings: TrainingSettings, processes: Processes
) -> bool:
    """Keep the weights if they are the best so far."""
    state.emulator.train()
    error = validation.full if settings.choose_by == "full" else validation.nrmse
    improved = processes.from_first(error) < state.best
    if improved:
        state.best, state.best_step, state.stale = error, state.step, 0
        weights = state.candidate.state_dict()
        state.best_weights = {name: value.detach().clone() for name, value in weights.items()}
    else:
        state.stale += 1
    return improved


def _is_stale(state: State, settings: TrainingSettings) -> bool:
    return settings.patience is not None and state.stale >= settings.patience


def _clip(emulator: Emulator, limit: float | None) -> Tensor:
    """The size of the gradient before it is cut to the limit."""
    weights = [p for p in emulator.parameters() if p.grad is not None]
    return torch.nn.utils.clip_grad_norm_(weights, math.inf if limit is None else limit)


@torch.no_grad()
def _average(state: State, decay: float) -> None:
    """Move the averaged weights a little towards the present ones."""
    if state.averaged is not None:
        # Early on the average is over the steps there have been, not over a memory of the start.
        weight = max(1 - decay, 1 / (state.step + 1))
        for old, new in zip(state.averaged.parameters(), state.emulator.parameters(), strict=True):
            old.lerp_(new, weight)


def _smooth(old: float, new: float) -> float:
    return new if math.isnan(old) else 0.95 * old + 0.05 * new
