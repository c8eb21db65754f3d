"""Predictions that need no learning: the baselines that a model has to beat.

    persistence     nothing changes
    solver          the problem's own classical solver on the data's own coarse grid
    others          fitted on the training part: a lag, means, lookups, a regression (`lookup`)

A baseline is a stepper, history → next frame.  Some need more than the last few frames: the mean
at a time needs the time, the solver of shallow water needs the start, where the water was at rest.
So every baseline also has `trajectory(history, steps)`, where the history begins with
the first frame of the trajectory; evaluation uses that.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from fino.data.dataset import Dataset
from fino.grid import Grid
from fino.model.lookup import (
    Analogue,
    Baseline,
    BestLag,
    BlendedTrajectories,
    Climatology,
    NearestTrajectory,
    Regression,
    TrainingMean,
)
from fino.pde import PROBLEMS, Problem
from fino.shapes import Field, Trajectory

__all__ = [
    "BASELINES",
    "Baseline",
    "BestLag",
    "Climatology",
    "Persistence",
    "Solver",
    "TrainingMean",
    "baselines_for",
]

#: Problems that start from something unseen and at random: their solver starts from its mean.
_HIDDEN_STARTS = ("darcy-pdebench",)

#: Training samples whose starts are drawn again, to see what they have in common.
_STARTS = 64


def baselines_for(data: Dataset, history: int | None = None) -> dict[str, Baseline]:
    """Every baseline that makes sense for this data, fitted on its training part."""
    shown = data.history if history is None else history
    fitted = {name: baseline.fit(data, shown) for name, baseline in BASELINES.items()}
    return {name: baseline for name, baseline in fitted.items() if baseline is not None}


@dataclass(frozen=True)
class Persistence(BestLag):
    """Nothing changes: what was one step ago comes again."""

    title: ClassVar[str] = "nothing changes: the last frame again"

    @classmethod
    def fit(cls, data: Dataset, history: int) -> Persistence | None:
        return None if data.steady else cls(data.grid)


@dataclass
class Solver(Baseline):
    """The problem's own classical solver, started from the data on the data's own grid.

    On coarser cells than the data were solved on it takes the settings that the problem names
    first among those that are efficient there.
    `varying` names the parameters that differ from trajectory to trajectory.  `seconds` is the
    wall time that one predicted frame of one trajectory took, known after the first prediction.
    """

    title: ClassVar[str] = "the problem's own solver on the data's grid"
    grid: Grid
    problem: Problem
    dt: float
    start: float
    steady: bool
    seed: int
    others: tuple[int, ...]
    varying: tuple[str, ...] = ()
    history: int = 1
    seconds: float | None = field(default=None, compare=False)
    _warm: bool = field(default=False, repr=False, compare=False)

    @classmethod
    def fit(cls, data: Dataset, history: int) -> Solver | None:
        card = data.card
        if card.name not in PROBLEMS:
            return None
        kind = PROBLEMS[card.name]
        coarse = max(card.refine, *card.stride_space) > 1
        efficient = kind.variants[0] if coarse else {}
        try:
            baseline = cls(
                grid=data.grid,
                problem=kind(**{**card.parameters, **efficient}),
                dt=card.dt,
                start=card.start,
                steady=data.steady,
                seed=card.seed or 0,
                others=data.train.samples[:_STARTS],
                varying=tuple(card.varying),
            )
            baseline.first_state(_numbers(data.train.read([0], 0, 1)[:, 0]))
        except ValueError:
            # A card of others' making, or a state that its frames do not show.
            return None
        return baseline

    def __call__(self, history: Trajectory) -> Field:
        frame = _numbers(history[:, -1])
        if self.problem.state(self.grid, frame) is None:
            raise ValueError(
                f"A frame of {self.problem.name} does not hold all that its solver needs. "
                f"Use trajectory(history, steps) with a history from the first frame on."
            )
        return self.trajectory(history[:, -1:], 1)[:, 0]

    def trajectory(
        self,
        history: Trajectory,
        steps: int,
        parameters: Tensor | None = None,
        forcing: Tensor | None = None,
    ) -> Trajectory:
        """(b, K, c, *space) from the first frame on → (b, steps, c, *space)

        `parameters` (b, p) are those of each trajectory, where they differ; `forcing`
        (b, steps + 1, f, *space) begins with the last frame of the history.
        """
        needed = {self.varying: parameters, self.problem.forces: forcing}
        for names, there in needed.items():
            if names and there is None:
                raise ValueError(f"The solver needs {', '.join(names)} of each trajectory.")
        drive = None if forcing is None else _numbers(forcing)[:, : steps + 1]
        if not self.varying or parameters is None:
            return self._solve(history, steps, drive)
        rows = []
        for i, theta in enumerate(parameters.tolist()):
            own = dict(zip(self.varying, theta, strict=True))
            solver = replace(self, problem=self.problem.changed(**own), varying=())
            one = slice(i, i + 1)
            rows.append(solver._solve(history[one], steps, None if drive is None else drive[one]))
            self.seconds = solver.seconds
        return torch.cat(rows)

    def _solve(self, history: Trajectory, steps: int, forcing: np.ndarray | None) -> Trajectory:
        shown = history.shape[1]
        state = self.problem.state(self.grid, _numbers(history[:, -1]))
        repeated = 0
        if state is None:
            state, repeated = self.first_state(_numbers(history[:, 0])), shown - 1
        times = self._times(shown - 1 - repeated, repeated + steps)
        if not self._warm:
            # The first call compiles; its time says nothing about the method.
            drive = None if forcing is None else forcing[:1, :2]
            self.problem.solve(self.grid, state[:1], times[:2], forcing=drive)
            self._warm = True
        began = time.perf_counter()
        frames = self.problem.solve(self.grid, state, times, forcing=forcing)
        elapsed = time.perf_counter() - began
        self.seconds = elapsed / max(1, (len(times) - 1) * len(state))
        return torch.from_numpy(frames[:, 1 + repeated :]).to(history)

    def _times(self, first: int, steps: int) -> np.ndarray:
        if self.steady:
            return np.asarray(self.problem.times, dtype=float)
        return self.start + self.dt * np.arange(first, first + steps + 1)

    @cached_property
    def _starts(self) -> np.ndarray:
        """The initial states of some training samples, drawn once: (n, c, *space)."""
        return self.problem.draw(self.grid, self.seed, self.others)

    def first_state(self, frame: np.ndarray) -> np.ndarray:
        """The state at the start: what is saved, and what all initial states have in common.

        Where they have nothing in common but a mean, and are known to, the mean.
        """
        state = self.problem.state(self.grid, frame)
        if state is not None:
            return state
        channels = frame.shape[1]
        hidden = self._starts[:, channels:]
        alike = (hidden == hidden[:1]).all() or self.problem.name in _HIDDEN_STARTS
        if self._starts.shape[1] < channels or not alike:
            raise ValueError(
                f"The first frame of {self.problem.name} does not hold all that its solver needs, "
                f"so there is no classical baseline for it."
            )
        mean = hidden.mean(axis=0)
        rest = np.broadcast_to(mean, (len(frame), *mean.shape))
        return np.concatenate([frame, rest], axis=1)


#: Every baseline by name.
BASELINES: dict[str, type[Baseline]] = {
    "persistence": Persistence,
    "best-lag": BestLag,
    "climatology": Climatology,
    "training-mean": TrainingMean,
    "nearest-trajectory": NearestTrajectory,
    "blended-trajectories": BlendedTrajectories,
    "analogue": Analogue,
    "regression": Regression,
    "solver": Solver,
}


def _numbers(frame: Field) -> np.ndarray:
    return frame.detach().cpu().numpy().astype(np.float64)
