"""Your own PDE: a class derived from `fino.pde.Problem`, here uₜ = ν uₓₓ."""

import numpy as np

import fino
from fino.pde import Duration, Frames, Points, Problem
from fino.streams import numpy_stream


class Heat(Problem):
    """Random waves that fade, solved exactly."""

    name, title, equation = "heat", "Heat on a ring", "uₜ = ν uₓₓ"
    fields, units, symmetries = ("u",), ("1",), ("shift", "flip", "sign")
    nu: float = 0.01
    """Diffusion in length² per time; try 0.001 to 0.1."""
    points: Points = 32
    frames: Frames = 21
    duration: Duration = 1.0

    @property
    def grid(self):
        return fino.Grid((self.points,), ((0, 1),), ("periodic",))

    @property
    def solver(self):
        return "exact, in Fourier space"

    def draw(self, grid, seed, samples):
        draws = [numpy_stream(seed, "heat", i).normal(size=(1, *grid.points)) for i in samples]
        return np.stack(draws)

    def integrate(self, grid, start, times):
        k = 2 * np.pi * np.fft.rfftfreq(*grid.points, *grid.spacing)
        fade = np.exp(-self.nu * times[:, None, None] * k**2)
        return np.fft.irfft(fade * np.fft.rfft(start)[:, None], *grid.points)


fino.PROBLEMS["heat"] = Heat
print(fino.generate("heat", samples=20, nu=0.005), "·", Heat().solver)
