"""What goes with a rollout: its start beside the training data, and a band around its frames.

Both are computed box by box, so that a field on disk costs the memory of a box.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fino.data.dataset import card_of
from fino.given import Given
from fino.inference.boxes import Box, Domain, crop, shape
from fino.inference.store import create_store, finish, open_store, read_frames
from fino.trust.bands import REACH, Bands
from fino.trust.equation import check_equation
from fino.trust.guards import Seen, describe_start

__all__ = ["Prediction", "add_band", "check_start"]

#: Cells of a frame that a band is computed for at a time.
_AT_ONCE = 2**22


class Prediction(NamedTuple):
    """Predicted frames and the band around them: (…, t, c, *space) each."""

    frames: Tensor | np.ndarray
    lower: Tensor | np.ndarray
    upper: Tensor | np.ndarray


def check_start(model: Any, history: Any, strict: bool) -> None:
    """Warn in one line of a start that is unlike the training data, or refuse it if strict.

    A sample also says which equation it was made with.  A domain that is larger than that of the
    training is looked at in parts of that size.
    """
    check_equation(model, card_of(history), strict, level=3)
    seen = Seen.of(model)
    if seen is None:
        if strict:
            raise ValueError(
                "strict needs to know what training saw, and this model does not say. Measure it "
                "with `fino calibrate RUN`."
            )
        return
    store, _ = open_store(history, model.grid)
    samples, known, _, *points = store.shape
    if known < seen.frames:
        return
    given, worst = _given_of(history), (0.0, "")
    plane = Domain(tuple(points), (False,) * len(points), (1,) * len(points))
    for box in plane.cut(plane.whole, _parts(points, model.grid.points), (0,) * len(points)):
        last = range(known - seen.frames, known)
        recent = torch.stack([read_frames(store, i, last, box) for i in range(samples)])
        part = Given(recent)
        if given is not None:
            beside = given.cut(partial(crop, box=box, window=plane.whole))
            part = replace(beside, history=recent)
        origin = [start for start, _ in box]
        worst = max(worst, describe_start(model, seen, part, origin, whole=box == plane.whole))
    if worst[0] > 1:
        if strict:
            raise ValueError(worst[1])
        warnings.warn(worst[1], stacklevel=4)


def _parts(points: Sequence[int], own: Sequence[int]) -> list[int]:
    """The size of parts like a model's own domain; a domain up to twice as large is one."""
    return [n if n < 2 * m else m for n, m in zip(points, own, strict=True)]


def _given_of(history: Any) -> Given | None:
    given = getattr(history, "given", history)
    return given if isinstance(given, Given) else None


def add_band(
    model: Any,
    bands: Bands,
    interval: float,
    frames: Any,
    history: Any,
    *,
    region: Box | None = None,
    out: str | Path | None = None,
    every: int = 1,
) -> Prediction:
    """The band around finished frames; it stands in files beside that named `out`.

    Frames of a `region` come with the cells around it that the band looks at, and are cut.
    """
    store, alone = open_store(frames, model.grid)
    points, given = open_store(history, model.grid)[0].shape[3:], _given_of(history)
    mask = None if given is None else given.mask
    halo = (REACH,) * len(points)
    domain = Domain(tuple(points), model.grid.is_periodic, (1,) * len(points))
    area = domain.whole if region is None else region
    around = area if region is None else domain.grow(area, halo)
    size = (*store.shape[:3], *shape(area))
    names = [None if out is None else _beside(out, end) for end in ("", "-lower", "-upper")]
    with ExitStack() as stack:
        rooms = [
            stack.enter_context(create_store(name, size, store.dtype, alone=alone))
            for name in (names if region else names[1:])
        ]
        for box in domain.cut(area, _tile(points), (0,) * len(points)):
            window = domain.grow(box, halo)
            spans = zip(domain.periodic, window, points, strict=True)
            wraps = [turn and stop - start == n for turn, (start, stop), n in spans]
            for sample, time in product(range(size[0]), range(size[1])):
                frame = store.read(sample, time, _counted_from(window, around))
                half = bands.width(frame[None], (time + 1) * every, interval, wraps)[0]
                if mask is not None:
                    half = half * _cells_of(mask[sample % len(mask)], window).to(half)
                frame, half = crop(frame, box, window), crop(half, box, window)
                three = [frame, frame - half, frame + half]
                for room, values in zip(rooms, three[3 - len(rooms) :], strict=True):
                    room.write(sample, time, _counted_from(box, area), values)
    kept = names[3 - len(rooms) :]
    done = [finish(room, name, alone) for room, name in zip(rooms, kept, strict=True)]
    return Prediction(*done) if region else Prediction(frames, *done)


def _beside(out: str | Path, end: str) -> Path:
    path = Path(out)
    return path.with_name(f"{path.stem}{end}{path.suffix}")


def _tile(points: Sequence[int]) -> list[int]:
    side = max(16, round(_AT_ONCE ** (1 / len(points))))
    return [min(n, side) for n in points]


def _counted_from(box: Box, start: Box) -> Box:
    return tuple((a - o, b - o) for (a, b), (o, _) in zip(box, start, strict=True))


def _cells_of(mask: Tensor, box: Box) -> Tensor:
    """The cells of a box that may wrap."""
    for axis, (start, stop) in enumerate(box, start=mask.dim() - len(box)):
        mask = mask.index_select(axis, torch.arange(start, stop) % mask.shape[axis])
    return mask
