"""Electric waves in heart tissue: Fenton and Karma's three variables, of which one is seen.

    uₜ = D Δu − I(u, v, w),  vₜ = …,  wₜ = …        no flux through the edges, cm and ms

u is the voltage between rest (0) and peak (1); the gates v and w, which close and open the
currents, are not saved.  The currents are in `fenton_karma`: F. Fenton, A. Karma, Chaos 8 (1998)
20; the constants are the sets 3 and 6 of F. H. Fenton et al., Chaos 12 (2002) 852.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import Field

from fino.grid import Grid
from fino.pde.problem import (
    Array,
    Duration,
    Frames,
    Points,
    Problem,
    check_boundary,
    on_all_cores,
)
from fino.streams import numpy_stream

if TYPE_CHECKING:
    from fino.pde.fenton_karma import Tissue

__all__ = ["Heart"]

#: The constants of `Tissue`, in its order: τ_d, τ_r, τ_si, τ_0, τ_v⁺, τ_v1, τ_v2, τ_w⁺, τ_w⁻, k,
#: u_c, u_v, u_si; and the tail of a plane wave in it: ms until it leaves, and cm per ms.
_TISSUES = {
    "set3": ((0.25, 33.33, 29, 12.5, 3.33, 19.6, 1250, 870, 41, 10, 0.13, 0.04, 0.85), 245, 0.042),
    "set6": ((0.395, 33.33, 29, 9, 3.33, 9, 8, 250, 60, 15, 0.13, 0.04, 0.5), 120, 0.03),
}

#: Width in cm of the strip that starts the first wave, and area in cm² to one more stimulus.
_STRIP, _AREA = 0.3, 20.0

#: Where something is stimulated, and how many ms later the next thing happens.
Stimulus = tuple[Array, float]


class Heart(Problem):
    """A sheet of heart tissue in which stimuli across each other have made broken waves."""

    name = "heart"
    title = "Electric waves in heart tissue (Fenton–Karma)"
    equation = "uₜ = D Δu − I(u, v, w),  vₜ = g(u, v),  wₜ = h(u, w)"
    fields: ClassVar[tuple[str, ...]] = ("u",)
    units: ClassVar[tuple[str, ...]] = ("1",)
    symmetries = ("flip", "rotate")
    coefficients = ("tissue", "diffusion")
    variants = ({"step": 0.1}, {"step": 0.2}, {"step": 0.3})

    tissue: Literal["set3", "set6"] = "set6"
    """Constants of the currents: 'set6' has stable spirals, 'set3' ones that wander and break."""
    diffusion: float = Field(0.001, gt=0, allow_inf_nan=False)
    """D in cm² per ms."""
    side: float = Field(6.4, gt=0, allow_inf_nan=False)
    """Side of the square sheet in cm; a tenth of a millimetre to a millimetre for each point."""
    points: Points = 64
    frames: Frames = 51
    duration: Duration = 500.0
    step: float = Field(0.05, gt=0, allow_inf_nan=False)
    """Largest time step in ms; 0.05 is good, 0.2 fast and rough."""

    @property
    def grid(self) -> Grid:
        return Grid((self.points,) * 2, ((0.0, self.side),) * 2, ("neumann", "neumann"))

    @property
    def refinement(self) -> int:
        return 4

    def draw(self, grid: Grid, seed: int, samples: Sequence[int]) -> Array:
        """Voltage and gates after the stimuli: (b, 3, *space).

        A wave starts at one side; across its tail, where the tissue is about to recover, a
        rectangle is stimulated, whose wave can run to one side only and curls up.  Discs at random
        places and times follow, more of them on a larger sheet.
        """
        state = np.empty((len(samples), 3, *grid.points))

        def prepare(row: int) -> None:
            state[row] = np.array([0.0, 1.0, 1.0])[:, None, None]
            stream = numpy_stream(seed, self.name, int(samples[row]))
            for place, wait in self._stimuli(grid, stream):
                state[row, 0][place] = 1.0
                self._march(grid, state[row], np.array([0.0, wait]))

        on_all_cores(prepare, range(len(samples)))
        return state

    def _stimuli(self, grid: Grid, stream: np.random.Generator) -> Iterator[Stimulus]:
        x, y = (np.abs(axis) for axis in grid.mesh())
        swap, flip_x, flip_y = stream.random(3) < 0.5
        x, y = (y, x) if swap else (x, y)
        x, y = (self.side - x if flip_x else x), (self.side - y if flip_y else y)
        _, leaves, speed = _TISSUES[self.tissue]
        wait = leaves + stream.uniform(30.0, 100.0)
        tail = speed * (wait - leaves)
        yield x < max(_STRIP, grid.spacing[0]), wait
        far, wide = tail + stream.uniform(0.5, 2.0), self.side * stream.uniform(0.3, 0.7)
        yield (x < far) & (y < wide), stream.uniform(60.0, 120.0)
        for _ in range(stream.integers(0, max(1, round(self.side**2 / _AREA)), endpoint=True)):
            (at_x, at_y), radius = self.side * stream.random(2), stream.uniform(0.3, 0.8)
            yield (x - at_x) ** 2 + (y - at_y) ** 2 < radius**2, stream.uniform(10.0, 60.0)

    def integrate(self, grid: Grid, start: Array, times: Array) -> Array:
        check_boundary(grid, "neumann", "The heart solver needs closed edges")
        return np.stack([self._march(grid, state, times) for state in start])

    def _march(self, grid: Grid, state: Array, times: Array) -> Array:
        from fino.pde.fenton_karma import excite

        frames = np.empty((len(times), len(self.fields), *grid.points))
        spread = (self.diffusion / grid.spacing[0] ** 2, self.diffusion / grid.spacing[1] ** 2)
        if not excite(state, times, spread, self._constants(), self.step, frames):
            raise FloatingPointError("numbers grow without bound, choose a smaller step")
        return frames

    def _constants(self) -> Tissue:
        from fino.pde.fenton_karma import Tissue

        return Tissue(*map(float, _TISSUES[self.tissue][0]))

    def state(self, grid: Grid, frame: Array) -> Array | None:
        """The frame itself if it has the gates; a voltage does not tell them."""
        return frame if frame.shape[1] == 3 else None

    @property
    def whole(self) -> Problem:
        return _HeartWithGates(**self.model_dump())

    @property
    def solver(self) -> str:
        return (
            "fourth-order Laplacian without flux through the edges, Heun's method with steps of "
            f"at most {self.step:g} ms, float64"
        )

    @property
    def flaws(self) -> tuple[str, ...]:
        return (
            "The distribution of stimuli is our own.  Frames begin after the last of them; now and "
            "then no wave survives, and the sheet comes to rest.",
            "Only the voltage is saved; one frame does not determine the next.",
        )


class _HeartWithGates(Heart):
    """The same, saved with its gates."""

    fields = ("u", "v", "w")
    units = ("1", "1", "1")
