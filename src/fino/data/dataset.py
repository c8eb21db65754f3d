"""A data set: its card, its trajectories, and three parts that never overlap.

    data.read([0, 3], start=10, length=6)    →  (2, 6, c, *space)
    data.test[0].history, data.test[0].future
    data.strided(space=8, time=5)             as PDEBench's loader keeps every 8th cell

Nothing is read before it is asked for: samples, strides and parts are views of one source of
frames.  `Part.window` is the one place where numbers of a source become what a model is given.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from fino.data.card import Card
from fino.data.conditions import Conditions
from fino.data.frames import Frames, WindowFrames
from fino.data.split import Split, split_by_rule, split_by_share, split_in_time
from fino.display import html_table
from fino.grid import Grid

if TYPE_CHECKING:
    from torch import Tensor

    from fino.given import Given

__all__ = ["Dataset", "Part", "Sample", "Task", "card_of"]

#: Past this many bytes the hash of a file that is not ours is taken from evenly spaced samples.
_HASH_LIMIT = 2**30
_HASH_SAMPLES = 64


@dataclass(frozen=True)
class Task:
    """Which frames of a trajectory are shown to a model and which it has to predict.

    `shown` frames are given; the model takes the last `history` of them, from frame `start` on,
    and predicts the `steps` frames that follow.
    """

    start: int
    shown: int
    steps: int


@dataclass(frozen=True, eq=False)
class Sample:
    """One trajectory cut in two: what a model is given, as a batch of one, and what follows.

    history (k, c, *space), future (t − k, c, *space); `index` is its number in the data set, whose
    `card` it carries.
    """

    given: Given
    future: Tensor
    index: int
    card: Card | None = None

    @property
    def history(self) -> Tensor:
        """The frames that are shown: (k, c, *space)."""
        return self.given.history[0]


def card_of(start: Any) -> Card | None:
    """The card of what a rollout starts from; samples alone carry one."""
    return getattr(start, "card", None)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Trajectories (sample, time, channel, *space) with their card.

    `fino.generate`, `fino.open` and `fino.from_array` return one.

    card             the facts: names, grid, time step, split, …
    source           where the numbers are read from
    path             the file or folder they came from; None if in memory
    labels           a name for each sample where there is one, such as the day of a weather map
    recorded_hash    the hash as the file has it; None: it is computed when needed
    samples          the numbers of the samples within the source; None: all of them
    stride_time      every n-th frame of the source is kept
    stride_space     every n-th cell of the source is kept, for each axis; (): all
    conditions       parameters, known fields, forcing, masks of the source's samples
    opened           what `fino.open` was called with, to open the same again; {} if it was not
    """

    card: Card
    source: Frames
    path: Path | None = None
    labels: tuple[str, ...] = ()
    recorded_hash: str | None = None
    samples: tuple[int, ...] | None = None
    stride_time: int = 1
    stride_space: tuple[int, ...] = ()
    conditions: Conditions = field(default_factory=Conditions)
    opened: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.stride_space:
            object.__setattr__(self, "stride_space", (1,) * len(self.card.points))
        if self.samples is None:
            object.__setattr__(self, "samples", tuple(range(self.source.shape[0])))
        if self.labels and len(self.labels) != len(self):
            raise ValueError(f"labels should be one for each of {len(self)} samples.")
        split = self.card.split or split_by_rule(len(self))
        if split.stop > len(self):
            raise ValueError(
                f"the split names sample {split.stop - 1} but there are {len(self)} samples."
            )
        object.__setattr__(self, "card", self.card.changed(split=split, samples=len(self)))
        self._check_shape()

    def __len__(self) -> int:
        return len(self._chosen)

    def __repr__(self) -> str:
        place = f", {self.path}" if self.path else ""
        return f"Dataset({self.card.name}: {' × '.join(map(str, self.shape))}{place})"

    def __str__(self) -> str:
        facts = "\n".join(f"  {name:<20} {fact}" for name, fact in self.card.facts().items())
        return f"{self!r}\n{facts}"

    def _repr_html_(self) -> str:
        return html_table(self.card.title or self.card.name, (), self.card.facts().items())

    def _check_shape(self) -> None:
        samples, frames, channels, *points = self.source.shape
        self.conditions.check(samples, frames, points)
        strides = (self.stride_time, 1, *self.stride_space)
        kept = tuple(-(-n // s) for n, s in zip((frames, channels, *points), strides, strict=True))
        if kept != self.shape[1:]:
            raise ValueError(
                f"the numbers are {kept} (time, channel, *space) for each sample, but the card "
                f"says {self.shape[1:]}."
            )

    @property
    def _chosen(self) -> tuple[int, ...]:
        assert self.samples is not None
        return self.samples

    @property
    def grid(self) -> Grid:
        """Points, extent and boundary of every axis of space."""
        return self.card.grid

    @property
    def dt(self) -> float:
        """The time between two frames."""
        return self.card.dt

    @property
    def fields(self) -> tuple[str, ...]:
        """A name for each channel."""
        return self.card.fields

    @property
    def channels(self) -> int:
        return len(self.card.fields)

    @property
    def steady(self) -> bool:
        """Whether samples are (input, output) pairs instead of trajectories in time."""
        return self.card.steady

    @property
    def split(self) -> Split:
        """Which samples are in which part."""
        assert self.card.split is not None
        return self.card.split

    @property
    def frames(self) -> int:
        """Frames in each trajectory."""
        return self.card.frames

    @property
    def shape(self) -> tuple[int, ...]:
        """(sample, time, channel, *space)"""
        return (len(self), self.card.frames, self.channels, *self.card.points)

    @property
    def history(self) -> int:
        """Frames shown to a model: what the card says; else ten, or half of few, one if steady."""
        return self.card.history or (1 if self.steady else max(1, min(10, self.frames // 2)))

    @property
    def shortest(self) -> int:
        """Frames of the shortest trajectory."""
        return int(self.lengths.min(initial=self.frames))

    def task(self, history: int | None = None) -> Task:
        """Where the task begins for a model that looks at `history` frames; the data's if None.

        The frames that the data show are shown to every model, so that all are scored on the same
        future; a model with a longer history is shown as many frames as it needs.
        """
        needed = self.history if history is None else history
        shown, shortest = max(needed, self.history), self.shortest
        if needed < 1 or shown >= shortest:
            raise ValueError(
                f"history {needed} leaves nothing to predict in trajectories of {shortest} "
                f"frames. Use a history between 1 and {shortest - 1}."
            )
        return Task(shown - needed, shown, shortest - shown)

    def read(
        self, samples: Sequence[int] | Tensor, start: int = 0, length: int | None = None
    ) -> Tensor:
        """Frames of some trajectories: (b, length, c, *space) in float32.

        samples    numbers of trajectories from 0; negative ones count from the end
        start      the first frame to read
        length     how many frames; None: all that follow
        """
        import torch

        return torch.from_numpy(self.source.read(*self._place(samples, start, length)))

    def _place(
        self, samples: Sequence[int] | Tensor, start: int, length: int | None
    ) -> tuple[list[int], slice, tuple[slice, ...]]:
        """Where samples and frames lie in the source: its samples, times and cells."""
        wanted = self._in_range([int(i) for i in samples])
        length = self.frames - start if length is None else length
        if start < 0 or length < 1 or start + length > self.frames:
            raise ValueError(
                f"frames {start} to {start + length} were asked for, but {self.card.name} has "
                f"frames 0 to {self.frames}."
            )
        step = self.stride_time
        times = slice(start * step, (start + length - 1) * step + 1, step)
        return wanted, times, self._cells

    @property
    def _cells(self) -> tuple[slice, ...]:
        """Where the kept cells lie in the source."""
        return tuple(slice(None, None, s) for s in self.stride_space)

    def _in_range(self, samples: list[int]) -> list[int]:
        count = len(self)
        if not samples:
            raise ValueError("read should be given at least one sample number.")
        for i in samples:
            if not -count <= i < count:
                raise ValueError(
                    f"sample {i} was asked for, but {self.card.name} has samples 0 to {count - 1}."
                )
        return [self._chosen[i] for i in samples]

    @cached_property
    def train(self) -> Part:
        """The samples that models are fitted to."""
        return Part(self, "train", self.split.samples("train"))

    @cached_property
    def validation(self) -> Part:
        """The samples that models are chosen by."""
        return Part(self, "validation", self.split.samples("validation"))

    @cached_property
    def test(self) -> Part:
        """The samples that models are scored on."""
        return Part(self, "test", self.split.samples("test"))

    @property
    def everything(self) -> Part:
        """All samples, whatever part they are in."""
        return Part(self, "all", tuple(range(len(self))))

    def with_split(
        self,
        rule: str | Split | None = None,
        *,
        train: int | float | Iterable[int] | None = None,
        validation: int | float | Iterable[int] | None = None,
        test: int | float | Iterable[int] | None = None,
    ) -> Dataset:
        """The same data with other parts, by a rule or by the size or content of each part.

        rule                       "first": the first tenth is the test part, a tenth of the rest
                                   for validation; "last": the last tenth; or a `Split`
        train, validation, test    a count (80), a share (0.8) or sample numbers ([0, 1, 5]).
                                   Counts and shares are laid out in the order test, validation,
                                   train.  A part that is not given is empty; train takes the rest.
        """
        if isinstance(rule, Split):
            split = rule
        elif rule is not None:
            split = split_by_rule(len(self), rule)
        else:
            split = split_by_share(len(self), train=train, validation=validation, test=test)
        return replace(self, card=self.card.changed(split=split))

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """The parameters θ of every trajectory by name: (samples,) each."""
        table = self.conditions.parameters
        if table is None:
            return {}
        rows = table[[0] * len(self)] if len(table) == 1 else table[list(self._chosen)]
        return dict(zip(self.card.varying, rows.T, strict=True))

    def kept_conditions(self) -> Conditions:
        """The conditions of these samples, on this grid and at these times."""
        return self.conditions.kept(self._chosen, self.stride_time, self._cells)

    @cached_property
    def lengths(self) -> np.ndarray:
        """Frames of each trajectory; shorter ones are filled up to `frames`: (samples,)."""
        whole = self.source.shape[1]
        each = [self.conditions.length(i, whole) for i in self._chosen]
        return -(-np.array(each) // self.stride_time)

    def with_history(self, history: int | None) -> Dataset:
        """The same data with another number of frames shown before a model is scored.

        history    1 … frames − 1; None: ten, or half of the frames where there are fewer than 20
        """
        return replace(self, card=self.card.changed(history=history))

    def windows(
        self, frames: int, *, test: int | float | None = None, validation: int | float | None = None
    ) -> Dataset:
        """Long trajectories cut into stretches of so many frames, one from every frame on.

        frames              of each stretch: those shown and those to predict, such as 4 + 12
        test, validation    for a single trajectory: how many frames (30), or what share (0.3), at
                            its end are only predicted for the test, and how many before those
                            only for validation; a tenth each if not given.  Stretches of several
                            trajectories stay in the parts of their trajectories.

        What is predicted for the test is after everything that training and validation look at.
        """
        self._check_windows(frames)
        chosen, labels = self._chosen, self.labels
        firsts = [range(int(length) - frames + 1) for length in self.lengths]
        places = tuple((i, first) for i in range(len(self)) for first in firsts[i])
        if len(self) == 1:
            shown = self.card.history or max(1, min(10, frames // 2))
            split = split_in_time(self.frames, frames, shown, test, validation)
        elif test is None and validation is None:
            split = self.split.chosen([i for i, _ in places])
        else:
            raise ValueError(
                f"test and validation cut a single trajectory in time; there are {len(self)} "
                "trajectories, whose stretches stay in their parts."
            )
        rows = [chosen[i] for i, _ in places]
        beside = {n: a for n, a in self.conditions.arrays() if n != "lengths"}
        beside = {n: a if len(a) == 1 else a[rows] for n, a in beside.items()}
        flaw = "Stretches overlap, so intervals over them are narrower than they should be."
        return Dataset(
            self.card.changed(
                frames=frames, samples=len(places), split=split, flaws=(*self.card.flaws, flaw)
            ),
            WindowFrames(self.source, tuple((chosen[i], first) for i, first in places), frames),
            path=self.path,
            labels=tuple(f"{labels[i]} + {first}" for i, first in places) if labels else (),
            conditions=Conditions(**beside),
        )

    def _check_windows(self, frames: int) -> None:
        if self.steady or self.stride_time > 1 or max(self.stride_space) > 1:
            raise ValueError("windows are cut from trajectories in time, before they are strided.")
        if self.conditions.forcing is not None or self.conditions.signals is not None:
            raise ValueError("windows cannot be cut from data with forcing yet: cut the arrays.")
        shortest = self.shortest
        if not 2 <= frames <= shortest:
            raise ValueError(
                f"a window should have 2 to {shortest} frames, as the shortest trajectory, got "
                f"{frames}."
            )

    def strided(self, space: int | Sequence[int] = 1, time: int = 1) -> Dataset:
        """The same data on a coarser grid and with larger steps; nothing is averaged.

        space    keep every n-th cell, one number for all axes or one for each
        time     keep every n-th frame; `dt` grows with it.  1 for steady data.
        """
        card = self.card.strided(space, time)
        strides = (space,) * self.grid.dims if isinstance(space, int) else tuple(space)
        return replace(
            self,
            card=card,
            recorded_hash=self.recorded_hash if max(strides) == time == 1 else None,
            stride_space=tuple(int(a * b) for a, b in zip(self.stride_space, strides, strict=True)),
            stride_time=self.stride_time * time,
        )

    def select(self, samples: Iterable[int]) -> Dataset:
        """Some of the samples, renumbered in the order given; each stays in its part."""
        numbers = [int(i) for i in samples]
        chosen = self._in_range(numbers)
        numbers = [i % len(self) for i in numbers]
        if len(set(numbers)) != len(numbers):
            raise ValueError("select should be given each sample number once.")
        return replace(
            self,
            card=self.card.changed(samples=len(numbers), split=self.split.chosen(numbers)),
            recorded_hash=None,
            samples=tuple(chosen),
            labels=tuple(self.labels[i] for i in numbers) if self.labels else (),
        )

    @cached_property
    def hash(self) -> str:
        """The SHA-256 of the numbers: as recorded in our own files, else computed once.

        It is taken over one SHA-256 for each sample.  A foreign file that is larger
        than a gigabyte is known by evenly spaced samples, and its hash begins with "sampled:".
        """
        if self.recorded_hash:
            return self.recorded_hash
        size = 4 * int(np.prod(self.shape, dtype=object))
        whole = self.path is None or size <= _HASH_LIMIT
        numbers = np.arange(len(self))
        if not whole:
            numbers = np.unique(np.linspace(0, len(self) - 1, _HASH_SAMPLES).astype(int))
        digest, conditions = hashlib.sha256(), self.kept_conditions()
        for i in numbers:
            beside = conditions.digest_arrays(int(i))
            digest.update(sample_digest(self.read([int(i)]).numpy()[0], *beside))
        return ("" if whole else "sampled:") + digest.hexdigest()


def sample_digest(*arrays: np.ndarray) -> bytes:
    """The SHA-256 of one sample: its arrays as little-endian float32, one after another."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array, dtype="<f4").data)
    return digest.digest()


@dataclass(frozen=True, eq=False)
class Part:
    """A view of some samples of a data set: train, validation or test.

    part[i] is a `Sample`, part[3:5] a part of it; len(part) counts them.  `samples` are their
    numbers in the data set.
    """

    data: Dataset
    name: str
    samples: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.samples)

    def __repr__(self) -> str:
        return f"Part({self.name} of {self.data.card.name}: {len(self)} samples)"

    @overload
    def __getitem__(self, i: int) -> Sample: ...

    @overload
    def __getitem__(self, i: slice) -> Part: ...

    def __getitem__(self, i: int | slice) -> Sample | Part:
        if isinstance(i, slice):
            return replace(self, samples=self.samples[i])
        if not -len(self) <= i < len(self):
            raise IndexError(f"the {self.name} part has {len(self)} samples, not a sample {i}.")
        given, future = self.begin([i])
        return Sample(given, future[0], self.samples[i], self.data.card)

    def __iter__(self) -> Iterator[Sample]:
        return (self[i] for i in range(len(self)))

    @property
    def shape(self) -> tuple[int, ...]:
        """(sample, time, channel, *space)"""
        return (len(self), *self.data.shape[1:])

    @property
    def frames(self) -> int:
        """Frames in each trajectory."""
        return self.data.frames

    def read(
        self, samples: Sequence[int] | Tensor, start: int = 0, length: int | None = None
    ) -> Tensor:
        """Frames of the part's own samples, numbered from 0: as `Dataset.read`."""
        if not self.samples:
            raise ValueError(
                f"the {self.name} part of {self.data.card.name} is empty ({len(self.data)} samples "
                "in all). Use more samples, or data.with_split(…)."
            )
        for i in samples:
            if not -len(self) <= i < len(self):
                raise ValueError(f"the {self.name} part has {len(self)} samples, not a sample {i}.")
        return self.data.read([self.samples[int(i)] for i in samples], start, length)

    def begin(
        self, samples: Sequence[int] | Tensor, history: int | None = None
    ) -> tuple[Given, Tensor]:
        """What a model is given where the task begins, and the future that it has to predict.

        `history` is how many frames the model looks at; the future is (b, t, c, *space).
        """
        task = self.data.task(history)
        return self.window(samples, task.start, task.shown - task.start, task.steps)

    def window(
        self,
        samples: Sequence[int] | Tensor,
        start: int,
        history: int,
        steps: int | None = None,
        stride: int = 1,
    ) -> tuple[Given, Tensor]:
        """What a model is given if its history begins at frame `start`, and the `steps` after it.

        `history` counts frames; without `steps` the future is all that follows.  With a `stride`
        every so many frames are taken.
        """
        from fino.given import Given

        length = None if steps is None else (history + steps - 1) * stride + 1
        frames = self.read(samples, start, length)[:, ::stride]
        shown, future = frames[:, :history], frames[:, history:]
        if not self.data.conditions:
            return Given(shown), future
        newest = start + (history - 1) * stride
        given = self.beside(samples, newest, future.shape[1] * stride + 1).every(stride)
        return replace(given, history=shown), future

    def beside(self, samples: Sequence[int] | Tensor, newest: int, length: int) -> Given:
        """All that is given but the history, of which nothing is read: (b, 0, c, *space).

        What runs in time is given for `length` times from the frame `newest` on.
        """
        import torch

        from fino.given import Given

        numbers = [self.samples[int(i)] for i in samples]
        empty = Given(torch.empty(len(numbers), 0, *self.data.shape[2:]))
        return self.data.conditions.give(empty, *self.data._place(numbers, newest, length))

    def trajectory(self, sample: int, start: int = 0, length: int | None = None) -> Tensor:
        """One trajectory from frame `start` on, as long as it is: (t, c, *space)."""
        if length is None:
            length = int(self.data.lengths[self.samples[sample]]) - start
        return self.read([sample], start, length)[0]

    def mask(self, sample: int) -> Tensor | None:
        """The cells of a sample that are part of the domain: (*space) of truths; None if all."""
        import torch

        data, mask = self.data, self.data.conditions.mask
        if mask is None:
            return None
        row = data._chosen[self.samples[sample]] if len(mask) > 1 else 0
        return torch.from_numpy(mask[row][data._cells])

    def all(self, start: int = 0, length: int | None = None) -> Tensor:
        """Every trajectory of the part at once: (b, t, c, *space)."""
        return self.read(range(len(self)), start, length)
