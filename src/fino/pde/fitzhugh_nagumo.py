"""Two-dimensional diffusion–reaction: FitzHugh and Nagumo's excitable medium.

    uₜ = Dᵤ Δu + u − u³ − k − v
    vₜ = Dᵥ Δv + u − v              x, y ∈ [−1, 1], no flux through the edges

It starts from white noise, which diffusion smooths within a few frames and the reaction then
drives apart into patches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from pydantic import Field

from fino.grid import Grid
from fino.pde.initial import released_rows
from fino.pde.integrate import intervals, march
from fino.pde.problem import Array, Progress
from fino.settings import Settings
from fino.streams import numpy_stream

__all__ = ["RELEASED", "FitzHughNagumo", "FitzHughNagumoSettings"]

#: Trajectories in PDEBench's file.
RELEASED = 1000


class FitzHughNagumoSettings(Settings):
    """The medium, the grid and how exactly to solve."""

    points: int = Field(128, ge=4)
    half_width: float = Field(1.0, gt=0)
    duration: float = Field(5.0, gt=0)
    frames: int = Field(101, ge=2)
    diffusion_u: float = Field(1e-3, ge=0)
    diffusion_v: float = Field(5e-3, ge=0)
    k: float = 5e-3
    #: "pdebench" repeats the noise of the released file.
    initial: Literal["ours", "pdebench"] = "ours"
    #: The most that one step may be wrong, relative to 1 + |u|, in the root mean square.
    tolerance: float = Field(1e-7, ge=1e-12, le=1e-2)


class FitzHughNagumo:
    """An excitable medium that starts from white noise: activator u and inhibitor v."""

    name = "diffusion-reaction-2d"
    title = "Diffusion–reaction in two dimensions, FitzHugh–Nagumo"
    equation = "uₜ = Dᵤ Δu + u − u³ − k − v,  vₜ = Dᵥ Δv + u − v"
    fields: tuple[str, ...] = ("u", "v")
    units: tuple[str, ...] = ("1", "1")
    symmetries: tuple[str, ...] = ("flip", "rotate")
    steady = False
    settings: type[Settings] = FitzHughNagumoSettings

    def grid(self, settings: Any) -> Grid:
        edge = (-settings.half_width, settings.half_width)
        return Grid((settings.points,) * 2, (edge, edge), ("neumann", "neumann"))

    def times(self, settings: Any) -> Array:
        return np.linspace(0.0, settings.duration, settings.frames)

    def draw(self, settings: Any, grid: Grid, seed: int, samples: Sequence[int]) -> Array:
        """A standard normal number in every cell, u first: (b, 2, *space)."""
        shape = (2, *grid.points)
        if settings.initial == "pdebench":
            released_rows(seed, samples, RELEASED)
            # the file was made with numpy's old generator, seeded with the sample's number
            rows = [np.random.RandomState(int(i)).standard_normal(shape) for i in samples]
        else:
            rows = [numpy_stream(seed, self.name, int(i)).standard_normal(shape) for i in samples]
        return np.stack(rows) if rows else np.empty((0, *shape))

    def solve(
        self,
        settings: Any,
        grid: Grid,
        initial: Array,
        times: Array,
        progress: Progress | None = None,
    ) -> Array:
        if grid.boundary != ("neumann", "neumann"):
            raise ValueError(
                "The diffusion–reaction solver needs closed edges, boundary 'neumann' on both "
                f"axes, got {grid.boundary}."
            )
        intervals(times)
        from fino.pde.excitable import evolve

        state = np.ascontiguousarray(initial, dtype=np.float64)
        when = np.ascontiguousarray(times, dtype=np.float64)
        frames = np.full((len(state), len(when), 2, *grid.points), np.nan)
        diffusion = np.array([settings.diffusion_u, settings.diffusion_v])
        spread = diffusion[:, None] / np.square(grid.spacing)
        decay = 4 * spread.sum(1).max() + 2

        def one(row: int) -> None:
            fastest = decay + 3 * np.abs(state[row]).max() ** 2
            k, tolerance = settings.k, settings.tolerance
            evolve(state[row], when, spread, k, fastest, tolerance, frames[row])

        march(one, len(state), progress)
        return frames

    def state(self, settings: Any, grid: Grid, frame: Array) -> Array | None:
        return frame

    def speed(self, settings: Any) -> float | None:
        """None: diffusion has no fastest wave."""
        return None

    def solver(self, settings: Any) -> str:
        return (
            "five-point Laplacian without flux through the edges, Dormand–Prince 5(4) with "
            f"error control at {settings.tolerance:g}, float64"
        )

    def flaws(self, settings: Any) -> tuple[str, ...]:
        return (
            "White noise has no limit on finer grids: the same seed at other resolutions is "
            "another sample.",
            "PDEBench's solver works at a tolerance of 1e-3 a step, which puts its values about "
            "5e-6 (at most 4e-5) from those of a tight solution, such as these at 1e-7.",
        )
