"""Random initial profiles: a few sine waves, now and then folded, and now and then windowed.

    u(x) = ± [ |·| with probability 0.1 ]  Σⱼ Aⱼ sin(kⱼ x + φⱼ)  [ · window ]

PDEBench's one-dimensional distribution with its quirks, because the data should be
comparable: two modes are picked with replacement and a mode picked twice has twice the
wavenumber; modes that are not picked stay as constants Aⱼ sin φⱼ; the wavelengths fit the
distance between the first and the last cell centre, not the domain; and a single number
decides both whether a profile is windowed and where, so the window is narrow in choice.

`draw_waves` gives our own samples, `draw_released_waves` those of PDEBench's files, row by row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from fino.grid import Grid
from fino.pde.problem import Array
from fino.pde.threefry import Key, chance, integers, key_of, split, uniform
from fino.streams import numpy_stream

__all__ = [
    "LINE",
    "REFERENCE_CELLS",
    "Family",
    "Modes",
    "Waves",
    "Window",
    "check_released",
    "draw_line_waves",
    "draw_released_waves",
    "draw_waves",
    "log_uniform",
]

#: The grid on which the distribution is defined.  Other grids sample the same profiles.
REFERENCE_CELLS = 1024

_PICKS, _FOLD = 2, 0.1

#: Between where the left and the right edge of a window lie, and how wide the edges are.
_EDGES, _EDGE_WIDTH = ((0.1, 0.45), (0.55, 0.9)), 0.01


@dataclass(frozen=True)
class Family:
    """What a problem chooses: how many modes there are, how often a window, and the domain."""

    modes: int
    window: float
    domain: tuple[float, float]


#: The family on the unit line, and the seed and the size of PDEBench's draw from it.
LINE = Family(modes=4, window=0.1, domain=(0.0, 1.0))
_LINE_SEED, _LINE_RELEASED = 2022, 10_000

# The settings of a family, for the problems that draw from it.
Modes = Annotated[int, Field(ge=1, description="Waves to pick two from; more are shorter.")]
Window = Annotated[float, Field(ge=0, le=1, description="Share of profiles that are windowed.")]


@dataclass(frozen=True)
class Waves:
    """A batch of profiles that can be evaluated anywhere.

    `picks` are (b, 2), `amplitude` and `phase` (b, modes), the others (b,); a phase is a share of
    a turn, and `place` says where between its outermost positions a window lies.
    """

    family: Family
    picks: Array
    amplitude: Array
    phase: Array
    folded: Array
    negative: Array
    windowed: Array
    place: Array

    @property
    def count(self) -> Array:
        """How often each mode was picked: (b, modes)."""
        return (self.picks[:, :, None] == np.arange(self.family.modes)).sum(1)

    @property
    def edges(self) -> tuple[Array, Array]:
        """The left and the right edge of each window."""
        left, right = (low + (high - low) * self.place for low, high in _EDGES)
        return left, right

    def on(self, grid: Grid) -> Array:
        """The profiles at the points of a grid: → (b, x)."""
        (x,), (low, high) = grid.coordinates(), self.family.domain
        length = (high - low) * (1 - 1 / REFERENCE_CELLS)
        count, phase = self.count, 2 * np.pi * self.phase
        still = self.amplitude * np.sin(phase) * (count == 0)
        u = np.repeat(still.sum(1, keepdims=True), x.size, axis=1)
        for j in range(self.family.modes):
            rows = count[:, j] > 0
            k = 2 * np.pi * (j + 1) * count[rows, j, None] / length
            u[rows] += self.amplitude[rows, j, None] * np.sin(k * x + phase[rows, j, None])
        u[self.folded] = np.abs(u[self.folded])
        left, right = (edge[self.windowed, None] for edge in self.edges)
        inside = np.tanh((x - left) / _EDGE_WIDTH) - np.tanh((x - right) / _EDGE_WIDTH)
        u[self.windowed] *= 0.5 * inside
        return u * np.where(self.negative, -1.0, 1.0)[:, None]

    def between_0_and_1(self, grid: Grid) -> Array:
        """The profiles, each scaled by its own extremes on the reference grid: → (b, x)."""
        u = self.on(grid)
        reference = Grid((REFERENCE_CELLS,), (self.family.domain,), grid.boundary)
        whole = u if grid == reference else self.on(reference)
        low, high = whole.min(1, keepdims=True), whole.max(1, keepdims=True)
        return (u - low) / (high - low)


def draw_waves(streams: Sequence[np.random.Generator], family: Family) -> Waves:
    """Profiles of our own, one from each stream."""
    fold, flip, place = np.stack([stream.random(3) for stream in streams], axis=1)
    picks = np.stack([stream.integers(family.modes, size=_PICKS) for stream in streams])
    amplitude, phase = (np.stack([s.random(family.modes) for s in streams]) for _ in range(2))
    return Waves(
        family, picks, amplitude, phase, fold < _FOLD, flip < 0.5, place < family.window, place
    )


def draw_released_waves(
    seed: int, size: int, rows: Sequence[int], family: Family
) -> tuple[Waves, Key]:
    """Rows of PDEBench's draw of `size` profiles, and the key for what is drawn after them."""
    at = np.asarray(rows, dtype=np.int64)
    modes = family.modes
    every_mode = at[:, None] * modes + np.arange(modes)
    first = key_of(seed)
    second = split(first)[0]
    third = split(second)[0]
    picks = integers(first, size * _PICKS, modes, at[:, None] * _PICKS + np.arange(_PICKS))
    waves = Waves(
        family,
        picks,
        uniform(first, size * modes, every_mode),
        uniform(second, size * modes, every_mode),
        chance(second, size, _FOLD, at),
        integers(second, size, 2, at) == 1,
        chance(third, size, family.window, at),
        uniform(third, size, at),
    )
    return waves, split(third)[0]


def draw_line_waves(
    modes: int, window: float, initial: str, seed: int, samples: Sequence[int]
) -> Waves:
    """The profiles that advection and 1D diffusion–reaction share, ours or PDEBench's."""
    family = Family(modes, window, LINE.domain)
    if initial == "ours":
        return draw_waves([numpy_stream(seed, "initial", i) for i in samples], family)
    if family != LINE:
        raise ValueError(
            f"initial='pdebench' was drawn with modes={LINE.modes} and window={LINE.window}: "
            "leave them out, or use initial='ours'."
        )
    check_released(seed, samples, _LINE_RELEASED)
    return draw_released_waves(_LINE_SEED, _LINE_RELEASED, samples, family)[0]


def check_released(seed: int, samples: Sequence[int], count: int) -> None:
    """Refuse samples that are in no released file, and a seed that would be ignored."""
    if seed != 0:
        raise ValueError(
            f"initial='pdebench' is one fixed set of samples, so seed should be 0, got {seed}: "
            "use initial='ours' for another seed."
        )
    if len(samples) and not (min(samples) >= 0 and max(samples) < count):
        raise ValueError(
            f"initial='pdebench' has {count:,} samples, got {max(samples)}: "
            "use fewer samples, or initial='ours'."
        )


def log_uniform(unit: Array, low: float, high: float) -> Array:
    """A number in [0, 1) spread evenly over the orders of magnitude between low and high."""
    return np.exp(np.log(low) + np.log(high / low) * unit)
