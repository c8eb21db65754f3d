"""What every problem promises: initial conditions, a solver, and the facts about both.

A problem is one file with one final class and one line in `PROBLEMS`.  The solver takes any
grid, so the same code makes the reference data and, on the data's own coarse grid, the
classical baseline that a learned model has to beat.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from fino.grid import Grid
from fino.settings import Settings

__all__ = ["Array", "Problem", "Progress"]

Array = np.ndarray

#: Called with the share of the work that is done, between 0 and 1.
Progress = Callable[[float], None]


class Problem(Protocol):
    """A PDE with its data distribution, its solver and what is known about them.

    `state` is everything that the solver needs to go on, `fields` are the channels that are
    saved: shallow water steps (h, hu, hv) and saves h.  `symmetries` hold for the equation;
    "shift" among them means on a periodic grid, whatever the boundary setting allows.  A problem
    with vectors among its fields has `directions` too: the axis of each, None for a scalar.
    """

    name: str
    title: str
    equation: str
    fields: tuple[str, ...]
    units: tuple[str, ...]
    symmetries: tuple[str, ...]
    steady: bool
    settings: type[Settings]

    def grid(self, settings: Any) -> Grid:
        """The grid that the reference data live on."""

    def times(self, settings: Any) -> Array:
        """The saved times, the first of them the initial one."""

    def draw(self, settings: Any, grid: Grid, seed: int, samples: Sequence[int]) -> Array:
        """Initial states (b, s, *space) in float64, each a pure function of (seed, sample)."""

    def solve(
        self,
        settings: Any,
        grid: Grid,
        initial: Array,
        times: Array,
        progress: Progress | None = None,
    ) -> Array:
        """Solutions at the given times, saved fields only: (b, s, *space) → (b, t, c, *space)."""

    def state(self, settings: Any, grid: Grid, frame: Array) -> Array | None:
        """The state to go on from a saved frame (b, c, *space), or None if it cannot be known."""

    def speed(self, settings: Any) -> float | None:
        """The fastest wave in units of length per time; None where there is none."""

    def solver(self, settings: Any) -> str:
        """The method in a few words, for the card."""

    def flaws(self, settings: Any) -> tuple[str, ...]:
        """What a user of the data should know."""
