"""Two-dimensional diffusion–reaction: FitzHugh and Nagumo's excitable medium.

    uₜ = Dᵤ Δu + u − u³ − k − v
    vₜ = Dᵥ Δv + u − v              x, y ∈ [−1, 1], no flux through the edges

It starts from white noise, which diffusion smooths within a few frames and the reaction then
drives apart into patches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from fino.grid import Grid
from fino.pde.initial import check_released
from fino.pde.problem import (
    Array,
    Duration,
    Frames,
    Initial,
    Points,
    Problem,
    check_boundary,
    diffused,
)
from fino.streams import numpy_stream

__all__ = ["FitzHughNagumo"]

#: Trajectories in PDEBench's file.
_RELEASED = 1000


class FitzHughNagumo(Problem):
    """An excitable medium that starts from white noise: activator u and inhibitor v."""

    name = "diffusion-reaction-2d"
    title = "Diffusion–reaction in two dimensions, FitzHugh–Nagumo"
    equation = "uₜ = Dᵤ Δu + u − u³ − k − v,  vₜ = Dᵥ Δv + u − v"
    fields = ("u", "v")
    units = ("1", "1")
    symmetries = ("flip", "rotate")
    coefficients = ("diffusion_u", "diffusion_v", "k")
    variants = (
        {"order": 4, "tolerance": 1e-4},
        {"order": 4, "tolerance": 1e-2},
        {"order": 2, "tolerance": 1e-4},
    )

    points: Points = 128
    half_width: float = Field(1.0, gt=0)
    """Half the side of the square, a length."""
    duration: Duration = 5.0
    frames: Frames = 101
    diffusion_u: float = Field(1e-3, ge=0)
    """Dᵤ in length² per time."""
    diffusion_v: float = Field(5e-3, ge=0)
    """Dᵥ in length² per time; patches: Dᵥ > Dᵤ."""
    k: float = 5e-3
    """Constant drive k; small against 1."""
    initial: Initial = "ours"
    tolerance: float = Field(1e-7, ge=1e-12, le=1e-2)
    """RMS error of one step relative to 1 + |u|; 1e-4 is fast, 1e-7 exact."""
    order: Literal[2, 4] = 2
    """Order of the Laplacian: 2 as in PDEBench, 4 better on coarse cells."""

    @property
    def grid(self) -> Grid:
        edge = (-self.half_width, self.half_width)
        return Grid((self.points,) * 2, (edge, edge), ("neumann", "neumann"))

    def draw(self, grid: Grid, seed: int, samples: Sequence[int]) -> Array:
        """A standard normal number in every cell, u first: (b, 2, *space)."""
        shape = (2, *grid.points)
        if self.initial == "pdebench":
            check_released(seed, samples, _RELEASED)
            # the file was made with numpy's old generator, seeded with the sample's number
            rows = [np.random.RandomState(int(i)).standard_normal(shape) for i in samples]
        else:
            rows = [numpy_stream(seed, self.name, int(i)).standard_normal(shape) for i in samples]
        return np.stack(rows) if rows else np.empty((0, *shape))

    def integrate(self, grid: Grid, start: Array, times: Array) -> Array:
        check_boundary(grid, "neumann", "The diffusion–reaction solver needs closed edges")
        from fino.pde.excitable import evolve

        frames = np.full((len(start), len(times), 2, *grid.points), np.nan)
        diffusion = np.array([self.diffusion_u, self.diffusion_v])
        spread = diffusion[:, None] / np.square(grid.spacing)
        far = 0.0 if self.order == 2 else -1 / 12
        decay = 4 * spread.sum(1).max() + 2
        for state, saved in zip(start, frames, strict=True):
            fastest = decay + 3 * np.abs(state).max() ** 2
            evolve(state, times, spread, self.k, fastest, self.tolerance, far, saved)
        return frames

    def reach(self, time: float, frames: Array) -> float:
        return diffused(max(self.diffusion_u, self.diffusion_v), time)

    @property
    def solver(self) -> str:
        return (
            f"Laplacian of order {self.order} without flux through the edges, Dormand–Prince 5(4) "
            f"with error control at {self.tolerance:g}, float64"
        )

    @property
    def flaws(self) -> tuple[str, ...]:
        return (
            "White noise has no limit on finer grids: the same seed at other resolutions is "
            "another sample.",
            "PDEBench's solver works at a tolerance of 1e-3 a step, which puts its values about "
            "5e-6 (at most 4e-5) from those of a tight solution, such as these at 1e-7.",
        )
