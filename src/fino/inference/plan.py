"""How to cut the work, and why: steps a halo and tiles at once, chosen by what they cost.

A wider halo is read once for k steps: fewer bytes are moved and more cells computed.  Tiles in a
batch share the fixed cost of a call.

    seconds(k)  =  ( Σ_tiles Σ_{j ≤ k} call/batch + cell · window_j   +   byte · moved(k) ) / k
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fino.inference.costs import Costs
from fino.inference.local import LocalStep
from fino.inference.tiles import cells, shape

__all__ = ["Choice", "Plan", "counted", "make_plan"]

_STEPS_PER_HALO = (1, 2, 3, 4, 6, 8, 12, 16)
#: A wider halo may make a window this many times as large as that of a single step.
_MEMORY = 1.5
#: A batch is large enough when the fixed cost of a call is this share of its computation…
_CALL_SHARE = 0.05
#: …and never holds more cells than this, or tiles would not save memory.
_BATCH_CELLS = 2**16


def counted(number: int, thing: str) -> str:
    """1 tile, 2 tiles."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


@dataclass(frozen=True)
class Choice:
    """What k steps a halo would cost a step, and of what that consists."""

    steps_per_halo: int
    seconds: float
    computing: float
    moving: float
    extra: float

    def __str__(self) -> str:
        return (
            f"{counted(self.steps_per_halo, 'step')} a halo: {self.seconds:.3g} s a step, "
            f"{self.moving / self.seconds:.0%} of it moving data; {self.extra:.0%} more cells "
            f"are computed than kept"
        )


@dataclass(frozen=True)
class Plan:
    """Tiles, steps a halo, tiles at once; `reasons` says what spoke for them."""

    tile: tuple[int, ...]
    steps_per_halo: int = 1
    batch: int = 1
    tiles: int = 0
    halo: tuple[int, ...] = ()
    choices: tuple[Choice, ...] = ()
    call_share: float = 0.0

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why this plan, a sentence each, the costs as the model sees them."""
        if not self.choices:
            return ("The plan was given, not chosen.",)
        best = next(c for c in self.choices if c.steps_per_halo == self.steps_per_halo)
        size, halo = " × ".join(map(str, self.tile)), " × ".join(map(str, self.halo))
        lines = [
            f"{counted(self.tiles, 'tile')} of up to {size} cells with a halo of {halo}.",
            f"{best}.",
            *(
                f"{choice}: {choice.seconds / best.seconds:.2f} times as long."
                for choice in self.choices
                if choice is not best
            ),
            f"{counted(self.batch, 'tile')} at once: the fixed cost of a call is "
            f"{self.call_share:.1%} of its work.",
        ]
        return tuple(lines)


def make_plan(
    step: LocalStep,
    tile: tuple[int, ...],
    costs: Costs,
    *,
    steps: int,
    channels: int,
    samples: int = 1,
    steps_per_halo: int | None = None,
) -> Plan:
    """The cheapest way to march so many steps in tiles of this size."""
    if steps_per_halo is not None and steps_per_halo < 1:
        raise ValueError(f"steps_per_halo should be at least 1, got {steps_per_halo}.")
    options = [steps_per_halo] if steps_per_halo else _affordable(step, tile, steps)
    choices = [_choice(step, tile, k, costs, channels) for k in options]
    best = min(choices, key=lambda choice: choice.seconds)
    k = best.steps_per_halo
    tiles = step.domain.tiles(step.domain.whole, tile, step.locality.halo(k))
    largest = _largest_window(step, tile, k)
    wanted = -(-costs.call // (_CALL_SHARE * costs.cell * largest))
    batch = int(max(1, min(wanted, _BATCH_CELLS // largest, samples * len(tiles))))
    work = costs.cell * largest * batch
    return Plan(
        tile=tuple(max(n) for n in zip(*(shape(box) for box in tiles), strict=True)),
        steps_per_halo=k,
        batch=batch,
        tiles=len(tiles),
        halo=step.locality.halo(k),
        choices=tuple(choices),
        call_share=costs.call / (costs.call + work),
    )


def _affordable(step: LocalStep, tile: tuple[int, ...], steps: int) -> list[int]:
    """Steps a halo that leave the memory of a tile within reason of what one step needs."""
    least = _largest_window(step, tile, 1)
    return [
        k
        for k in _STEPS_PER_HALO
        if k == 1 or (k <= steps and _largest_window(step, tile, k) <= _MEMORY * least)
    ]


def _largest_window(step: LocalStep, tile: tuple[int, ...], k: int) -> int:
    tiles = step.domain.tiles(step.domain.whole, tile, step.locality.halo(k))
    return max(cells(step.windows(box, k)[0]) for box in tiles)


def _choice(step: LocalStep, tile: tuple[int, ...], k: int, costs: Costs, channels: int) -> Choice:
    tiles = step.domain.tiles(step.domain.whole, tile, step.locality.halo(k))
    windows = [step.windows(box, k) for box in tiles]
    counts = [cells(window) for chain in windows for window in chain[:-1]]
    itemsize = torch.finfo(torch.float32).bits // 8
    read = sum(cells(chain[0]) for chain in windows) * step.history
    written = k * cells(step.domain.whole)
    computing = costs.compute(counts) / k
    moving = costs.byte * (read + written) * channels * itemsize / k
    extra = sum(counts) / (k * cells(step.domain.whole)) - 1
    return Choice(k, computing + moving, computing, moving, extra)
