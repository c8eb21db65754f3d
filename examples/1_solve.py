"""Solve a PDE: data with a card that says what they are, from a solver that is verified."""

import numpy as np

import fino

# A profile that travels around a periodic line, solved for four initial conditions.
data = fino.generate("advection", samples=4, seed=0, points=128, frames=21, duration=1.0, beta=1.0)
print(data)
print(f"{data.card.title}: {data.card.equation}, solved by {data.card.solver}.")

# After one turn the exact solution is the start again; what differs is the scheme's diffusion.
u = data.read(range(4)).numpy()[:, :, 0]
error = np.sqrt(np.mean((u[:, -1] - u[:, 0]) ** 2) / np.mean(u[:, 0] ** 2))
print(f"After one turn the solver is {100 * error:.2g} % away from the exact solution.")

# A finer grid costs more and errs less: the solver says of itself how good the data are.
finer = fino.generate("advection", samples=4, seed=0, points=512, frames=2, duration=1.0, beta=1.0)
v = finer.read(range(4)).numpy()[:, :, 0]
smaller = np.sqrt(np.mean((v[:, -1] - v[:, 0]) ** 2) / np.mean(v[:, 0] ** 2))
print(f"On four times as many cells it is {100 * smaller:.2g} %.")
assert smaller < error

# What a model is given and what it has to predict: the first ten frames, and the rest.
sample = data.test[0]
print(f"given {tuple(sample.history.shape)}, to predict {tuple(sample.future.shape)}")
