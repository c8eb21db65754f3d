"""Problems: equations with their parameters, initial conditions and classical solvers.

from fino.pde import Advection
u = Advection(beta=2.0).solve()            # (1, t, c, x), on its own grid at its own times
"""

from __future__ import annotations

from fino.pde.advection import Advection
from fino.pde.compressible import Compressible
from fino.pde.darcy import Darcy, RelaxingDarcy
from fino.pde.euler import Euler
from fino.pde.fisher import Fisher
from fino.pde.fitzhugh_nagumo import FitzHughNagumo
from fino.pde.gray_scott import GrayScott
from fino.pde.heart import Heart
from fino.pde.mp_pde import MpPde
from fino.pde.problem import Duration, Frames, Points, Problem
from fino.pde.shallow_water import ShallowWater, ShallowWaterDams, ShallowWaterMomenta
from fino.settings import did_you_mean

__all__ = [
    "PROBLEMS",
    "Advection",
    "Compressible",
    "Darcy",
    "Duration",
    "Euler",
    "Fisher",
    "FitzHughNagumo",
    "Frames",
    "GrayScott",
    "Heart",
    "MpPde",
    "Points",
    "Problem",
    "RelaxingDarcy",
    "ShallowWater",
    "ShallowWaterDams",
    "ShallowWaterMomenta",
    "find_problem",
]

#: Every problem by name.  To add one: a file, an import and a line here.
PROBLEMS: dict[str, type[Problem]] = {
    "darcy": Darcy,
    "darcy-pdebench": RelaxingDarcy,
    "advection": Advection,
    "diffusion-reaction-1d": Fisher,
    "compressible-1d": Compressible,
    "diffusion-reaction-2d": FitzHughNagumo,
    "shallow-water": ShallowWater,
    "shallow-water-momenta": ShallowWaterMomenta,
    "gray-scott": GrayScott,
    "mp-pde": MpPde,
    "euler-2d": Euler,
    "shallow-water-dams": ShallowWaterDams,
    "heart": Heart,
}


def find_problem(name: str) -> type[Problem]:
    """The problem of that name, or one line with the nearest name there is."""
    if name not in PROBLEMS:
        raise ValueError(f"Unknown problem '{name}'. {did_you_mean(name, list(PROBLEMS))}")
    return PROBLEMS[name]
