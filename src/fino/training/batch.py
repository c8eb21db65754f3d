"""What one training step looks at: a pure function of (seed, step), whoever computes it.

Windows in time, symmetries, noise and crops are drawn for the whole batch; a process among many
then takes its rows.  So the same step sees the same numbers in one process or in many, in one
sitting or after a restart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fino.data.dataset import Dataset, Part
from fino.data.windows import windows
from fino.model.emulator import Emulator
from fino.shapes import Trajectory
from fino.streams import torch_stream
from fino.training.augment import augment
from fino.training.crops import crop_sizes, draw_crop
from fino.training.settings import TrainingSettings

__all__ = ["Batch", "draw_batch", "frames_skipped", "judging_part"]


@dataclass(frozen=True)
class Batch:
    """Windows cut in two, and where they come from.

    history (b, K, c, *space), future (b, H, c, *space); `samples` are numbers of the data set.
    """

    history: Trajectory
    future: Trajectory
    samples: tuple[int, ...]
    starts: tuple[int, ...]
    static: Tensor | None = None
    inner: tuple[slice, ...] = ()

    def to(self, device: str) -> Batch:
        if device == "cpu":
            return self
        static = None if self.static is None else self.static.to(device)
        history, future = self.history.to(device), self.future.to(device)
        return Batch(history, future, self.samples, self.starts, static, self.inner)


def frames_skipped(emulator: Emulator, data: Dataset) -> int:
    """The first frames that are given but that a model with a short history does not look at.

    The task begins after the frames that are given, so what is learned is what is judged.
    """
    return max(0, data.history - emulator.history)


def judging_part(data: Dataset) -> Part:
    """What models are chosen by; the training part itself where there is no validation part."""
    return data.validation if len(data.validation) else data.train


def draw_batch(
    part: Part,
    emulator: Emulator,
    settings: TrainingSettings,
    step: int,
    horizon: int,
    rows: slice = slice(None),
) -> Batch:
    """The batch of one step; `rows` are those that this process computes."""
    seed, batch, length = settings.seed, settings.batch or 1, emulator.history + horizon
    skipped = frames_skipped(emulator, part.data)
    samples, starts = windows(seed, step, batch, len(part), part.frames - skipped, length)
    starts = starts + skipped if settings.windows == "random" else np.full_like(starts, skipped)
    pairs = list(zip(samples.tolist(), starts.tolist(), strict=True))
    window = torch.cat([part.read([i], start, length) for i, start in pairs])
    grid, dims = part.data.grid, part.data.grid.dims
    if settings.augment:
        window = augment(window, part.data.card, seed, step)
    history, future = window[:, : emulator.history], window[:, emulator.history :]
    if settings.noise:
        size = settings.noise * emulator.input_std.cpu().view(-1, *[1] * dims)
        noise = torch.randn(history.shape, generator=torch_stream(seed, "noise", step))
        history = history + size * noise
    static: Tensor | None = None
    inner: tuple[slice, ...] = ()
    if settings.crop is not None:
        sizes = crop_sizes(settings.crop, grid, emulator.locality)
        crop = draw_crop(sizes, grid, emulator.locality, horizon, seed, step)
        history, future, inner = crop.cut(history), crop.cut(future), crop.inner
        static = crop.cut(emulator.static())
    chosen = pairs[rows]
    return Batch(
        history[rows],
        future[rows],
        tuple(part.samples[i] for i, _ in chosen),
        tuple(start for _, start in chosen),
        static,
        inner,
    )
