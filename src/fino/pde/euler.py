"""Compressible flow in the plane: shocks, contacts and vortices from a patchwork of states.

    ρₜ + ∇·(ρu) = 0,  (ρu)ₜ + ∇·(ρu⊗u + p I) = 0,  Eₜ + ∇·((E + p) u) = 0
    E = p/(γ−1) + ½ρ|u|²                                  x, y ∈ [0, 1), periodic

After the multi-quadrants of The Well (Ohana et al. 2024): both axes are cut at random places, and
every patch between the cuts has a state of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from fino.grid import Grid
from fino.pde.initial import log_uniform
from fino.pde.problem import Array, Duration, Frames, Points, Problem, check_boundary
from fino.streams import numpy_stream

__all__ = ["Euler"]

#: The ratios of heat capacities of The Well's gases.
_GAMMAS = (1.13, 1.22, 1.3, 1.33, 1.365, 1.4, 1.404, 1.453, 1.597, 1.76)

#: What the states of the patches are drawn from.
_DENSITY, _PRESSURE, _VELOCITY = (0.25, 2.0), (0.2, 2.0), 0.6

#: Cuts along each axis, and the least distance between two of them.
_CUTS, _APART = (2, 3), 0.15


class Euler(Problem):
    """Gas on a periodic square that starts from rectangles of constant state."""

    name = "euler-2d"
    title = "Compressible flow in the plane, from quadrants"
    equation = "ρₜ + ∇·(ρu) = 0,  (ρu)ₜ + ∇·(ρu⊗u + p I) = 0,  Eₜ + ∇·((E + p) u) = 0"
    fields = ("density", "energy", "momentum_x", "momentum_y")
    units = ("1", "1", "1", "1")
    symmetries = ("shift", "flip", "rotate")
    coefficients = ("gamma",)
    directions = (None, None, 0, 1)
    variants = ({"courant": 0.9},)
    shown = 1

    gamma: float = Field(1.4, gt=1, allow_inf_nan=False)
    """Ratio of heat capacities γ, where gas is 'own'."""
    gas: Literal["all", "own"] = "all"
    """'all' draws γ for every trajectory from The Well's ten gases; 'own': γ as set."""
    points: Points = 64
    frames: Frames = 31
    duration: Duration = 1.5
    courant: float = Field(0.8, gt=0, le=1)
    """Cells that waves cross in a step, both axes together; 0.5 to 0.9 are good."""

    @property
    def grid(self) -> Grid:
        return Grid((self.points,) * 2, ((0.0, 1.0),) * 2, ("periodic", "periodic"))

    @property
    def refinement(self) -> int:
        return 4

    def draw_parameters(self, seed: int, samples: Sequence[int]) -> dict[str, Array]:
        if self.gas == "own":
            return {}
        streams = [numpy_stream(seed, self.name, "gamma", int(i)) for i in samples]
        return {"gamma": np.array([_GAMMAS[stream.integers(len(_GAMMAS))] for stream in streams])}

    def draw(self, grid: Grid, seed: int, samples: Sequence[int]) -> Array:
        """Averages over cells of density, energy and momenta: (b, 4, *space)."""
        state = np.empty((len(samples), 4, *grid.points))
        for row, sample in zip(state, samples, strict=True):
            stream = numpy_stream(seed, self.name, int(sample))
            shares = [_shares(grid, axis, _draw_cuts(stream)) for axis in (0, 1)]
            patches = (len(shares[0]), len(shares[1]))
            rho = log_uniform(stream.random(patches), *_DENSITY)
            p = log_uniform(stream.random(patches), *_PRESSURE)
            u, v = _VELOCITY * (2 * stream.random((2, *patches)) - 1)
            energy = p / (self.gamma - 1) + 0.5 * rho * (u**2 + v**2)
            patchwork = np.stack([rho, energy, rho * u, rho * v])
            row[...] = np.einsum("ai,cab,bj->cij", shares[0], patchwork, shares[1])
        return state

    def integrate(self, grid: Grid, start: Array, times: Array) -> Array:
        check_boundary(grid, "periodic", "The gas solver needs a torus")
        from fino.pde.gas import flow

        frames = np.empty((len(start), len(times), 4, *grid.points))
        spacing = (grid.spacing[0], grid.spacing[1])
        for state, saved in zip(start, frames, strict=True):
            if not flow(state, times, spacing, self.gamma, self.courant, saved):
                raise FloatingPointError("use more points, a smaller courant or a milder start.")
        return frames

    @property
    def solver(self) -> str:
        return (
            "finite volumes, MUSCL–Hancock with monotonised central slopes of density, pressure "
            f"and velocities, HLLC flux, unsplit, Courant number {self.courant:g}, float64"
        )

    @property
    def flaws(self) -> tuple[str, ...]:
        return (
            "Equation, gases and times are those of The Well's euler_multi_quadrants; its "
            "distribution of starts is not published.  Ours: two or three cuts along each axis, "
            f"density {_DENSITY[0]:g} to {_DENSITY[1]:g}, pressure {_PRESSURE[0]:g} to "
            f"{_PRESSURE[1]:g}, each velocity within ±{_VELOCITY:g}.",
            "Contacts roll up into vortices at the scale of the solver's own cells: there the "
            "solution of the equations without viscosity does not converge.",
        )


def _draw_cuts(stream: np.random.Generator) -> Array:
    """Places of the cuts along a periodic axis of length one, none too near to the next."""
    count = int(stream.integers(*_CUTS, endpoint=True))
    gaps = stream.random(count)
    gaps = _APART + (1 - count * _APART) * gaps / gaps.sum()
    return np.sort((stream.random() + np.cumsum(gaps)) % 1.0)


def _shares(grid: Grid, axis: int, cuts: Array) -> Array:
    """The share of every cell along an axis that each piece between two cuts covers: (k, n)."""
    (low, _), width = grid.extent[axis], grid.spacing[axis]
    edges = grid.coordinates()[axis] - low + width * (0.5 - grid.offset[axis])
    left, right = edges - width / 2, edges + width / 2
    pieces = []
    for begin, end in zip(cuts, np.append(cuts[1:], cuts[0] + 1), strict=True):
        inside = [
            np.clip(np.minimum(right, end - turn) - np.maximum(left, begin - turn), 0, None)
            for turn in (0, 1)
        ]
        pieces.append(sum(inside) / width)
    return np.stack(pieces)
