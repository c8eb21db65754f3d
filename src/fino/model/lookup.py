"""Baselines that look the answer up in the training part, or draw a straight line through it.

    best-lag            what was `lag` steps ago comes again; the lag that fits the training data
    climatology         the mean of the training part in every cell, whatever the time
    training-mean       the mean of the training trajectories at the same time
    analogue            steady: the mean answer of the k training inputs nearest to the input
    regression          steady: û(a) = ū + Σ_j w_j ⟨p_j, a − ā⟩, p_j the inputs' strongest patterns
    nearest-trajectory  the future of the training trajectory nearest to the frames shown
    blended-trajectories  Σ_i w_i · the futures of the k nearest, Σ_i w_i = 1, the weights that
                        blend their first frames into the frames shown

The last four see the whole field.  How many neighbours or patterns are used is chosen on training
samples that the guess has not seen.  Data of few degrees of freedom are solved by these: look here
before believing that a model has learned an equation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from fino.data.dataset import Dataset, Part
from fino.grid import Grid
from fino.shapes import Field, Trajectory

__all__ = [
    "Analogue",
    "Baseline",
    "BestLag",
    "BlendedTrajectories",
    "Climatology",
    "NearestTrajectory",
    "Regression",
    "TrainingMean",
]

#: Training trajectories that the search for the best lag looks at.
_LAG_SAMPLES = 256

#: Training samples that are looked at; the eigenvectors of the regression cost their cube.
_LOOKED_UP = 4096
_REGRESSED = 2048

#: Neighbours and patterns that are tried, and training samples that choose their number.
_NEIGHBOURS = (1, 2, 4, 8, 16, 32, 64)
_PATTERNS = 128
_TRIALS = 256

#: Values of the frames shown that trajectories are compared by, neighbours that are blended, and
#: the ridge that keeps the weights of like neighbours small.
_COMPARED = 8192
_BLENDED = (2, 3, 4, 6, 8, 12, 16)
_RIDGE = 1e-6

#: Patterns weaker than this share of the strongest are rounding.
_FAINTEST = 1e-10


class Baseline:
    """A stepper without weights, history → next frame; every one has `trajectory` as well.

    `fit` gives None where the baseline makes no sense.
    """

    title: ClassVar[str]
    grid: Grid
    history: Any

    @classmethod
    def fit(cls, data: Dataset, history: int) -> Baseline | None:
        """The baseline of the training part, for models that are shown `history` frames."""
        raise NotImplementedError

    def __call__(self, history: Trajectory) -> Field:
        return self.trajectory(history, 1)[:, 0]

    def trajectory(self, history: Trajectory, steps: int) -> Trajectory:
        """(b, K, c, *space) from the first frame on → (b, steps, c, *space)"""
        raise NotImplementedError


@dataclass(frozen=True)
class BestLag(Baseline):
    """What was `lag` steps ago comes again, as for a wave that returns."""

    title: ClassVar[str] = "the frame of a fixed number of steps ago, fitted on the training part"
    grid: Grid
    lag: int = 1

    @property
    def history(self) -> int:
        return self.lag

    @classmethod
    def fit(cls, data: Dataset, history: int) -> BestLag | None:
        """The lag within the history whose copies are nearest to the training futures."""
        if data.steady:
            return None
        shown = min(history, data.frames - 1)
        errors = torch.zeros(shown, dtype=torch.float64)
        for sample in _spread(len(data.train), _LAG_SAMPLES).tolist():
            frames = data.train.read([sample])[0].double().flatten(1)
            past, future = frames[:shown], frames[shown:]
            # |p − f|² = |p|² + |f|² − 2 p·f of every past with every future frame, at once.
            apart = past.square().sum(1)[:, None] + future.square().sum(1) - 2 * past @ future.T
            steps = torch.arange(len(future))
            for lag in range(1, shown + 1):
                errors[lag - 1] += apart[shown - lag + steps % lag, steps].mean()
        return cls(data.grid, int(errors.argmin()) + 1)

    def trajectory(self, history: Trajectory, steps: int) -> Trajectory:
        last = history[:, history.shape[1] - self.lag :]
        return last[:, torch.arange(steps) % self.lag]


@dataclass(frozen=True)
class Climatology(Baseline):
    """The mean of all training frames in every cell, at any time."""

    title: ClassVar[str] = "the mean of the training frames in every cell"
    grid: Grid
    mean: Tensor
    history: int = 1

    @classmethod
    def fit(cls, data: Dataset, history: int) -> Climatology | None:
        return None if data.steady else cls(data.grid, _mean_trajectory(data).mean(dim=0))

    def trajectory(self, history: Trajectory, steps: int) -> Trajectory:
        return self.mean.to(history).expand(len(history), steps, *self.mean.shape)


@dataclass(frozen=True)
class TrainingMean(Baseline):
    """The mean of the training trajectories at the same time; of the answers if steady."""

    title: ClassVar[str] = "the mean of the training trajectories at the same time"
    grid: Grid
    means: Tensor
    history: int

    @classmethod
    def fit(cls, data: Dataset, history: int) -> TrainingMean:
        return cls(data.grid, _mean_trajectory(data), history)

    def trajectory(self, history: Trajectory, steps: int) -> Trajectory:
        first, known = history.shape[1], len(self.means)
        if first + steps > known:
            raise ValueError(
                f"The training mean knows {known} frames and cannot predict {steps} steps after "
                f"the first {first}. Ask for at most {known - first}."
            )
        means = self.means[first : first + steps].to(history)
        return means.expand(len(history), *means.shape)


@dataclass(frozen=True, eq=False)
class Analogue(Baseline):
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
        trials = _spread(len(inputs), _TRIALS)
        apart = torch.cdist(inputs[trials], inputs)
        apart[torch.arange(len(trials)), trials] = torch.inf
        tried = [k for k in _NEIGHBOURS if k < len(inputs)]
        near = apart.topk(tried[-1], largest=False).indices
        errors = [
            _error(_means(answers, near[:, :k]).flatten(1), answers[trials].flatten(1))
            for k in tried
        ]
        return cls(data.grid, inputs, answers, tried[errors.index(min(errors))])

    def trajectory(self, history: Trajectory, steps: int) -> Trajectory:
        apart = torch.cdist(history[:, -1].flatten(1), self.inputs.to(history))
        near = apart.topk(self.neighbours, largest=False).indices
        return _repeated(_means(self.answers.to(history), near), steps)


@dataclass(frozen=True, eq=False)
class Regression(Baseline):
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

    def trajectory(self, history: Trajectory, steps: int) -> Trajectory:
        given = history[:, -1].flatten(1) - self.mean_input.to(history)
        scores = given @ self.patterns.to(history)
        answer = self.mean_answer.to(history) + scores @ self.weights.to(history)
        return _repeated(answer.unflatten(1, history.shape[2:]), steps)


@dataclass(frozen=True, eq=False)
class Library:
    """Training trajectories by the frames that are shown, and how to read their futures.

    `features` are some values of the shown frames (n, values), each field in its own spread.
    """

    part: Part
    samples: tuple[int, ...]
    shown: int
    scale: Tensor
    features: Tensor

    @classmethod
    def of(cls, data: Dataset, history: int) -> Library | None:
        """The library of the train part; None where there is none to look into."""
        if data.steady or len(data.train) < 2:
            return None
        shown = data.task(history).shown
        samples = tuple(_spread(len(data.train), _LOOKED_UP).tolist())
        first = data.train.read(samples[:16], 0, shown)
        over = (0, 1, *range(3, first.dim()))
        scale = first.std(dim=over).clamp_min(1e-30).view(-1, *[1] * data.grid.dims)
        features = [_thinned(data.train.read([i], 0, shown) / scale, _COMPARED) for i in samples]
        return cls(data.train, samples, shown, scale, torch.cat(features))

    def describe(self, history: Trajectory) -> Tensor:
        """The features of a history from the first frame on: (b, K, c, *space) → (b, values)."""
        if history.shape[1] < self.shown:
            raise ValueError(
                f"A lookup compares the first {self.shown} frames, got {history.shape[1]}."
            )
        return _thinned(history[:, : self.shown] / self.scale.to(history), _COMPARED)

    def futures(self, chosen: Tensor, start: int, steps: int) -> Trajectory:
        """Frames start … start + steps of some of the trajectories: (k, steps, c, *space)."""
        frames = self.part.frames
        if start + steps > frames:
            raise ValueError(
                f"The training trajectories have {frames} frames and cannot be looked up for "
                f"{steps} steps after the first {start}. Ask for at most {frames - start}."
            )
        return self.part.read([self.samples[i] for i in chosen.tolist()], start, steps)


@dataclass(frozen=True, eq=False)
class NearestTrajectory(Baseline):
    """The future of the training trajectory that began most alike."""

    title: ClassVar[str] = "the future of the nearest training trajectory"
    grid: Grid
    library: Library
    history: int
    neighbours: int = 1

    @classmethod
    def fit(cls, data: Dataset, history: int) -> NearestTrajectory | None:
        library = Library.of(data, history)
        return None if library is None else cls(data.grid, library, library.shown)

    def trajectory(self, history: Trajectory, steps: int) -> Trajectory:
        features = self.library.features.to(history)
        answers = []
        for own in self.library.describe(history):
            near = (features - own).norm(dim=1).topk(self.neighbours, largest=False).indices
            weights = _blend(own, features[near])
            futures = self.library.futures(near, history.shape[1], steps).to(history)
            answers.append(torch.tensordot(weights.to(futures), futures, dims=1))
        return torch.stack(answers)


@dataclass(frozen=True, eq=False)
class BlendedTrajectories(NearestTrajectory):
    """The futures of the trajectories that began most alike, blended as their pasts are."""

    title: ClassVar[str] = "the futures of the nearest training trajectories, blended"

    @classmethod
    def fit(cls, data: Dataset, history: int) -> BlendedTrajectories | None:
        """As many neighbours as predict the last frame of other training trajectories best."""
        library = Library.of(data, history)
        if library is None or len(library.samples) <= _BLENDED[0]:
            return None
        tried = [k for k in _BLENDED if k < len(library.samples)]
        trials = _spread(len(library.samples), min(_TRIALS, 48))
        last = data.frames - 1
        errors = torch.zeros(len(tried), dtype=torch.float64)
        for i in trials.tolist():
            apart = (library.features - library.features[i]).norm(dim=1)
            apart[i] = torch.inf
            near = apart.topk(tried[-1], largest=False).indices
            truth = library.futures(torch.tensor([i]), last, 1).flatten(1)
            ends = library.futures(near, last, 1).flatten(1)
            for place, k in enumerate(tried):
                weights = _blend(library.features[i], library.features[near[:k]])
                errors[place] += _error((weights.to(ends) @ ends[:k])[None], truth)
        return cls(data.grid, library, library.shown, tried[int(errors.argmin())])


def _blend(own: Tensor, others: Tensor) -> Tensor:
    """The weights that blend k others into one's own features, their sum one: (k,).

    min_w ‖ x − Σ w_i x_i ‖² + ridge · mean distance² · |w|²        Σ w_i = 1
    """
    apart = (others - own).double()
    gram = apart @ apart.T
    size = float(gram.diagonal().mean())
    if size == 0:  # all of them are the same
        return torch.full((len(gram),), 1 / len(gram), dtype=gram.dtype)
    held = gram / size + _RIDGE * torch.eye(len(gram), dtype=gram.dtype)
    weights = torch.linalg.solve(held, torch.ones(len(gram), dtype=gram.dtype))
    return weights / weights.sum()


def _thinned(u: Tensor, most: int) -> Tensor:
    """At most so many values of each sample, spread evenly: (b, …) → (b, values)."""
    flat = u.flatten(1)
    # Never a multiple of two, or the values would stand in columns.
    return flat[:, :: max(1, -(-flat.shape[1] // most)) | 1]


def _mean_trajectory(data: Dataset) -> Tensor:
    """The mean over the training part, read one trajectory at a time: (t, c, *space)."""
    total = torch.zeros(data.shape[1:], dtype=torch.float64)
    for sample in range(len(data.train)):
        total += data.train.read([sample])[0]
    return (total / max(1, len(data.train))).float()


def _pairs(part: Part, most: int) -> tuple[Tensor, Tensor]:
    """Given and asked for, of evenly spaced samples: inputs (n, cells), answers (n, c, *space)."""
    frames = part.read(_spread(len(part), most).tolist())
    return frames[:, 0].flatten(1), frames[:, -1]


def _spread(count: int, most: int) -> Tensor:
    """At most so many of the numbers 0 … count − 1, spread evenly."""
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
    from scipy.linalg import eigh

    values, vectors = eigh((given @ given.T).numpy(), subset_by_index=strongest)
    values, vectors = torch.from_numpy(values).flip(0), torch.from_numpy(vectors).flip(1)
    clear = values > _FAINTEST * values[0].clamp_min(1e-300)
    values, vectors = values[clear], vectors[:, clear]
    patterns = given.T @ vectors / values.sqrt()
    return patterns, (vectors / values.sqrt()).T @ asked


def _repeated(answer: Field, steps: int) -> Trajectory:
    return answer[:, None].expand(-1, steps, *answer.shape[1:])
