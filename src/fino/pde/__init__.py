"""The truth: problems, their initial conditions and their solvers."""

from __future__ import annotations

from fino.pde.advection import Advection
from fino.pde.compressible import Compressible
from fino.pde.darcy import Darcy
from fino.pde.fisher import Fisher
from fino.pde.fitzhugh_nagumo import FitzHughNagumo
from fino.pde.problem import Problem
from fino.pde.shallow_water import ShallowWater

__all__ = ["PROBLEMS", "Problem"]

#: Every problem by name.  To add one: a file, an import and a line here.
PROBLEMS: dict[str, Problem] = {
    "darcy": Darcy(),
    "darcy-pdebench": Darcy(relaxing=True),
    "advection": Advection(),
    "diffusion-reaction-1d": Fisher(),
    "compressible-1d": Compressible(),
    "diffusion-reaction-2d": FitzHughNagumo(),
    "shallow-water": ShallowWater(),
    "shallow-water-momenta": ShallowWater(momenta=True),
}
