"""The true solver's own numbers: how much does the exact step stretch a small change?

    C_true ≥ max over small changes δ of ‖Φ(u + δ) − Φ(u)‖ / ‖δ‖

A solver has no backward pass here, so this is a search among waves, noise and the learned step's
own worst direction: a number from below.  It needs the solver's state, which a saved frame may
not hold: shallow water saves the depth, not the flow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from fino.data.dataset import Dataset
from fino.given import Given
from fino.inspection.amplification import Amplification
from fino.inspection.growth import cosine_waves, size
from fino.model.baselines import Solver
from fino.model.rollout import take_step
from fino.shapes import Field
from fino.streams import torch_stream

__all__ = ["true_step"]

#: A change this large, in units of a channel's spread, is small to the equation and large to
#: the solver's own tolerance.
_AMPLITUDE = 1e-3
_WAVES = 12
_NOISES = 4
#: An answer that is further than this share of what went in from a wave is none.
_NO_WAVE = 0.05


@dataclass(frozen=True, eq=False)
class TrueStep:
    """The problem's own solver as a map of frames, on the data's grid."""

    solver: Solver
    scale: Tensor

    def at(self, theta: Sequence[float]) -> TrueStep:
        """The same for a trajectory with these parameters, where they vary."""
        own = dict(zip(self.solver.varying, theta, strict=True))
        if not own:
            return self
        problem = self.solver.problem.changed(**own)
        return replace(self, solver=replace(self.solver, problem=problem, varying=()))

    def stretch(self, frames: Field, directions: Field | None = None) -> float:
        """The largest growth found at some frames (b, c, *space): C is at least this."""
        largest = 0.0
        for i, frame in enumerate(frames.double()):
            waves = [
                cosine_waves(frame, _wavenumbers(n), axis) for axis, n in enumerate(frame.shape[1:])
            ]
            noise = torch.randn(_NOISES, *frame.shape, generator=torch_stream(0, "shake"))
            changes = torch.cat([*waves, noise.double()])
            if directions is not None:
                changes = torch.cat([changes, directions[i : i + 1].double()])
            grown = size(self._answer(frame, changes)) / size(changes)
            largest = max(largest, float(grown.max()))
        return largest

    def amplification(self, state: Tensor) -> Amplification | None:
        """Factors of waves along the first axis about a constant state.

        A wave of each channel goes in, the same wave of every channel comes out: the eigenvalues
        of that small matrix are the factors.  Between walls, waves that are even about both ends
        serve; those that do not come back as waves are left out.
        """
        grid, channels = self.solver.grid, len(state)
        frame = state.double().view(-1, *[1] * grid.dims).expand(channels, *grid.points)
        waves, modes = [], []
        for k in _wavenumbers(grid.points[0], whole=grid.is_periodic[0]):
            matrix = self._wave_matrix(frame, k)
            if matrix is not None:
                values = np.linalg.eigvals(matrix)
                waves.append((k, *[0] * (grid.dims - 1)))
                modes.append(values[np.argsort(-np.abs(values))])
        if not waves:
            return None
        return Amplification(np.array(waves), tuple(modes), grid.points, tuple(state.tolist()))

    def _wave_matrix(self, frame: Field, k: int) -> np.ndarray | None:
        """The answer of every channel to a wave in each, (out, in); None if it is no wave."""
        grid, channels = self.solver.grid, len(frame)
        n = grid.points[0]
        x = (torch.arange(n).double() + (0.0 if grid.is_periodic[0] else 0.5)) / n
        wave = torch.exp(2j * math.pi * k * x)
        in_channel = torch.eye(channels).double().view(channels, channels, *[1] * grid.dims)
        changes = in_channel * wave.real.view(-1, *[1] * (grid.dims - 1)).expand(grid.points)
        answer = self._answer(frame, changes).unsqueeze(-1).flatten(3).mean(dim=3)
        share = (answer * wave.conj()).mean(dim=2) / wave.real.square().mean()
        left = answer - (share[..., None] * wave).real
        if float(left.abs().max()) > _NO_WAVE * max(1.0, float(answer.abs().max())):
            return None
        return np.asarray(share.numpy().T)

    def _answer(self, frame: Field, changes: Field) -> Field:
        """(Φ(u + aδ) − Φ(u)) / a for each change, all in units of the scale."""
        scale = self.scale.double().view(-1, *[1] * (frame.dim() - 1))
        amplitude = (_AMPLITUDE / size(changes).clamp_min(1e-30)).view(-1, *[1] * frame.dim())
        together = torch.cat([frame[None], frame + amplitude * changes * scale])
        after = take_step(self.solver, Given(together[:, None])).double()
        return (after[1:] - after[:1]) / scale / amplitude


def true_step(data: Dataset, scale: Tensor) -> tuple[TrueStep | None, str]:
    """The true step of the data, or None and why: "no solver" or "state not in frames"."""
    solver = Solver.fit(data, data.history)
    if solver is None:
        return None, "no solver"
    known = TrueStep(solver, scale)
    first = [float(values[data.train.samples[0]]) for values in data.parameters.values()]
    try:
        take_step(known.at(first).solver, Given(data.train.read([0], 0, 1)))
    except ValueError:
        return None, "state not in frames"
    return known, ""


def _wavenumbers(points: int, whole: bool = True) -> list[int]:
    """The constant, and a dozen wavenumbers from the longest wave to the shortest.

    Between walls the shortest wave of the grid vanishes at every cell and is left out.
    """
    shortest = points // 2 if whole else max(1, points // 2 - 1)
    spaced = np.unique(np.round(np.geomspace(1, shortest, _WAVES)).astype(int))
    return [0, *(int(k) for k in spaced)]
