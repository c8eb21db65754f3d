"""Your own numbers: an array in, a trained model and its scores out."""

import tempfile
from pathlib import Path

import numpy as np

import fino
from fino.data.store import save

# Any array (sample, time, channel, *space) will do: here heat that spreads from random spots.
random = np.random.default_rng(0)
u = random.normal(size=(30, 1, 32, 32))
frames = []
for _ in range(24):
    for _ in range(4):
        around = sum(np.roll(u, step, axis) for step in (-1, 1) for axis in (2, 3))
        u = u + 0.1 * (around - 4 * u)
    frames.append(u)
array = np.stack(frames, axis=1)

# An array does not know its time step, its domain and its boundary: pass them.
data = fino.from_array(array, dt=0.4, extent=((0, 1), (0, 1)), boundary="periodic", name="heat")
print(data)

# From here on everything is as with generated data.
model = fino.build("fino", data, width=8, levels=0, history=1)
folder = Path(tempfile.mkdtemp())
run = fino.fit(model, data, steps=40, out=folder / "heat")
print(fino.evaluate(run))

# The same from the command line, with a page at the end: fino run --data heat.h5
save(data, folder / "heat.h5")
print(f"fino run --data {folder / 'heat.h5'}")
