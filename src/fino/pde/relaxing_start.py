"""Where PDEBench's Darcy flow relaxes from: a uniform level with ripples on it.

    u(x, y, 0) = level + depth · ripples(x, y) [ · window(x, y), every other time ]

The ripples are sine waves of up to four periods along both axes, |k|^(−½) high, with random
phases; their mean height is one.  By the time that the file was saved hardly anything of them
is left, but of the level something is.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from fino.grid import Grid
from fino.pde.initial import EDGE_WIDTH, LEFT_EDGE, RIGHT_EDGE
from fino.pde.problem import Array
from fino.pde.threefry import chance, key_of, split, uniform

__all__ = ["drawn_start", "released_start"]

MOST_PERIODS = 4
WINDOWED = 0.5
REFERENCE = Grid((128, 128), ((0.0, 1.0), (0.0, 1.0)), ("dirichlet", "dirichlet"))

#: From where to where a number is drawn.
Range = tuple[float, float]


def drawn_start(grid: Grid, stream: np.random.Generator, level: Range, depth: Range) -> Array:
    """A start of our own: → (*space)."""
    height, amplitude = stream.uniform(*level), stream.uniform(*depth)
    windowed, left, low = stream.random(3)
    periods = 2 * MOST_PERIODS + 1
    waves = _coefficients(stream.random((periods, periods)))
    ripples = amplitude * _ripples(grid, waves) / np.abs(_ripples(REFERENCE, waves)).mean()
    return height + ripples * (_window(grid, left, low) if windowed < WINDOWED else 1.0)


def released_start(grid: Grid, seed: int, size: int, row: int, level: Range, depth: Range) -> Array:
    """One of the `size` starts of a seed of PDEBench; all of them have the same phases."""
    keys = [key_of(seed)]
    for _ in range(3):
        keys.append(split(keys[-1])[0])
    height = uniform(keys[0], size, [row], *level)[0]
    amplitude = uniform(keys[1], size, [row], *depth)[0]
    ripples = amplitude * _released_ripples(grid, seed)
    if chance(keys[2], size, WINDOWED, [row])[0]:
        left, low = (uniform(key, size, [row])[0] for key in keys[2:])
        ripples = ripples * _window(grid, left, low)
    return height + ripples


@lru_cache(maxsize=4)
def _released_ripples(grid: Grid, seed: int) -> Array:
    """Ripples of mean height one with a seed's own phases."""
    periods = range(-MOST_PERIODS, MOST_PERIODS + 1)
    phases, key = np.zeros((len(periods), len(periods))), key_of(seed)
    for column, along_y in enumerate(periods):
        for row, along_x in enumerate(periods):
            if along_x and along_y:  # one key after the other, for waves along both axes only
                key = split(key)[0]
                phases[row, column] = uniform(key, 1)[0]
    waves = _coefficients(phases)
    return _ripples(grid, waves) / np.abs(_ripples(REFERENCE, waves)).mean()


def _coefficients(phases: Array) -> Array:
    """|k|^(−½) e^(2πi·phase), none for waves along one axis alone: (9, 9) → (9, 9)."""
    k = 2 * np.pi * np.arange(-MOST_PERIODS, MOST_PERIODS + 1)
    both = np.outer(k, k) != 0
    length = np.sqrt(np.where(both, np.hypot(k[:, None], k[None, :]), 1.0))
    return both * np.exp(2j * np.pi * phases) / length


def _ripples(grid: Grid, waves: Array) -> Array:
    """Σ sin(k·x + phase) with the waves' heights: (9, 9) → (*space)."""
    k = 2j * np.pi * np.arange(-MOST_PERIODS, MOST_PERIODS + 1)
    x, y = (np.exp(np.outer(along, k)) for along in grid.coordinates())
    return (x @ waves @ y.T).imag


def _window(grid: Grid, left: float, low: float) -> Array:
    """One inside a square of side 0.45, zero outside, with soft edges."""
    sides = []
    for along, place in zip(grid.coordinates(), (left, low), strict=True):
        rise, fall = (a + (b - a) * place for a, b in (LEFT_EDGE, RIGHT_EDGE))
        edges = np.tanh((along - rise) / EDGE_WIDTH) - np.tanh((along - fall) / EDGE_WIDTH)
        sides.append(0.5 * edges)
    return np.outer(*sides)
