"""Your own PDE: a class that keeps the promise of `fino.pde.Problem`, here uₜ = ν uₓₓ."""

import numpy as np

import fino
from fino.settings import Settings
from fino.streams import numpy_stream


class HeatSettings(Settings):
    nu: float = 0.01
    points: int = 32


class Heat:
    """Random waves that fade, solved exactly."""

    name, title, equation = "heat", "Heat on a ring", "uₜ = ν uₓₓ"
    fields, units, symmetries, steady = ("u",), ("1",), ("shift", "flip", "sign"), False
    settings = HeatSettings
    grid = staticmethod(lambda settings: fino.Grid((settings.points,), ((0, 1),), ("periodic",)))
    times = staticmethod(lambda settings: np.linspace(0, 1, 21))
    state = staticmethod(lambda settings, grid, frame: frame)
    speed = staticmethod(lambda settings: None)
    solver = staticmethod(lambda settings: "exact, in Fourier space")
    flaws = staticmethod(lambda settings: ())

    def draw(self, settings, grid, seed, samples):
        draws = [numpy_stream(seed, "heat", i).normal(size=(1, *grid.points)) for i in samples]
        return np.stack(draws)

    def solve(self, settings, grid, initial, times, progress=None):
        k = 2 * np.pi * np.fft.rfftfreq(*grid.points, *grid.spacing)
        fade = np.exp(-settings.nu * np.asarray(times)[:, None, None] * k**2)
        return np.fft.irfft(fade * np.fft.rfft(initial)[:, None], *grid.points)


fino.PROBLEMS["heat"] = Heat()
data = fino.generate("heat", samples=20, nu=0.005)
print(data, "·", data.card.solver)
