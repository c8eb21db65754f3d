"""What a given input says about its answer without a network: looked up, or by a straight line.

    analogue      û(a) = the mean answer of the k training inputs nearest to a
    regression    û(a) = ū + Σ_j w_j ⟨p_j, a − ā⟩      p_j the strongest patterns of the inputs

For steady data, where one frame is given and one asked for.  Both see the whole field.  How many
neighbours or patterns are used is chosen on training samples that the guess has not seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from scipy.linalg import eigh
from torch import Tensor

from fino.data.dataset import Dataset, Part
from fino.grid import Grid
from fino.shapes import Field, Trajectory

__all__ = ["Analogue", "Regression"]

#: Training samples that are looked at; the eigenvectors of the regression cost their cube.
_LOOKED_UP = 4096
_REGRESSED = 2048

#: Neighbours and patterns that are tried, and training samples that judge the neighbours.
_NEIGHBOURS = (1, 2, 4, 8, 16, 32, 64)
_PATTERNS = 128
_JUDGES = 256

#: Patterns weaker than this share of the strongest are rounding.
_FAINTEST = 1e-10


@dataclass(frozen=True, eq=False)
class Analogue:
    """The mean answer of the training inputs that are most alike."""

    title: ClassVar[str] = "the mean answer of the most similar training inputs"
    grid: Grid
    inputs: Tensor
    answers: Tensor
    neighbours: int
    history: int = 1

    @classmethod
    def fit(cls, data: Dataset, history: int) -> Analogue | None:
        """As many neighbours as predict training samples best that are not their own neighbour."""
        if not data.steady or len(data.train) < 2:
            return None
        inputs, answers = _pairs(data.train, _LOOKED_UP)
        judges = _spread(len(inputs), _JUDGES)
        apart = torch.cdist(inputs[judges], inputs)
        apart[torch.arange(len(judges)), judges] = torch.inf
        tried = [k for k in _NEIGHBOURS if k < len(inputs)]
        near = apart.topk(tried[-1], largest=False).indices
        errors = [
            _error(_means(answers, near[:, :k]).flatten(1), answers[judges].flatten(1))
            for k in tried
        ]
        return cls(data.grid, inputs, answers, tried[errors.index(min(errors))])

    def __call__(self, history: Trajectory) -> Field:
        apart = torch.cdist(history[:, -1].flatten(1), self.inputs.to(history))
        near = apart.topk(self.neighbours, largest=False).indices
        return _means(self.answers.to(history), near)

    def trajectory(self, history: Trajectory, steps: int) -> Trajectory:
        """(b, 1, c, *space) → (b, steps, c, *space)"""
        return _repeated(self(history), steps)


@dataclass(frozen=True, eq=False)
class Regression:
    """The least-squares map from the strongest patterns of the input to the answer."""

    title: ClassVar[str] = "linear regression on the principal components of the input"
    grid: Grid
    mean_input: Tensor
    mean_answer: Tensor
    patterns: Tensor
    weights: Tensor
    history: int = 1

    @classmethod
    def fit(cls, data: Dataset, history: int) -> Regression | None:
        """As many patterns as predict every fifth training sample best from the others."""
        if not data.steady or len(data.train) < 10:
            return None
        inputs, answers = (u.flatten(1).double() for u in _pairs(data.train, _REGRESSED))
        held = torch.arange(len(inputs)) % 5 == 4
        count = _best_count(inputs[~held], answers[~held], inputs[held], answers[held])
        patterns, weights = _regressed(inputs, answers, count)
        return cls(
            grid=data.grid,
            mean_input=inputs.mean(dim=0).float(),
            mean_answer=answers.mean(dim=0).float(),
            patterns=patterns.float(),
            weights=weights.float(),
        )

    def __call__(self, history: Trajectory) -> Field:
        given = history[:, -1].flatten(1) - self.mean_input.to(history)
        scores = given @ self.patterns.to(history)
        answer = self.mean_answer.to(history) + scores @ self.weights.to(history)
        return answer.unflatten(1, history.shape[2:])

    def trajectory(self, history: Trajectory, steps: int) -> Trajectory:
        """(b, 1, c, *space) → (b, steps, c, *space)"""
        return _repeated(self(history), steps)


def _pairs(part: Part, most: int) -> tuple[Tensor, Tensor]:
    """Given and asked for, of evenly spaced samples: inputs (n, cells), answers (n, c, *space)."""
    frames = part.read(_spread(len(part), most).tolist())
    return frames[:, 0].flatten(1), frames[:, -1]


def _spread(count: int, most: int) -> Tensor:
    return torch.linspace(0, count - 1, min(count, most)).long()


def _means(answers: Tensor, near: Tensor) -> Tensor:
    """(n, c, *space), (b, k) → (b, c, *space)"""
    return torch.stack([answers[chosen].mean(dim=0) for chosen in near])


def _error(predicted: Tensor, truth: Tensor) -> float:
    """The mean error relative to the truth's own size: (b, n) ×2."""
    return float(((predicted - truth).norm(dim=1) / truth.norm(dim=1).clamp_min(1e-30)).mean())


def _best_count(inputs: Tensor, answers: Tensor, asked: Tensor, wanted: Tensor) -> int:
    """How many patterns predict best what was not fitted."""
    patterns, weights = _regressed(inputs, answers, _PATTERNS)
    scores = (asked - inputs.mean(dim=0)) @ patterns
    guess = answers.mean(dim=0).expand_as(wanted).clone()
    errors = [_error(guess, wanted)]
    for score, weight in zip(scores.T, weights, strict=True):
        guess += score[:, None] * weight
        errors.append(_error(guess, wanted))
    return errors.index(min(errors))


def _regressed(inputs: Tensor, answers: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The strongest patterns (cells, m) of the inputs, and the answer to each: (m, cells)."""
    given, asked = inputs - inputs.mean(dim=0), answers - answers.mean(dim=0)
    count = min(count, len(given))
    if not count:
        return given.new_zeros(given.shape[1], 0), asked.new_zeros(0, asked.shape[1])
    # Σ = X Xᵀ = U Λ Uᵀ is the smaller problem: samples are fewer than cells, or about as many.
    strongest = (len(given) - count, len(given) - 1)
    values, vectors = eigh((given @ given.T).numpy(), subset_by_index=strongest)
    values, vectors = torch.from_numpy(values).flip(0), torch.from_numpy(vectors).flip(1)
    clear = values > _FAINTEST * values[0].clamp_min(1e-300)
    values, vectors = values[clear], vectors[:, clear]
    patterns = given.T @ vectors / values.sqrt()
    return patterns, (vectors / values.sqrt()).T @ asked


def _repeated(answer: Field, steps: int) -> Trajectory:
    return answer[:, None].expand(-1, steps, *answer.shape[1:])
