"""A field larger than the memory: the same numbers, a tile at a time."""

import tempfile
from pathlib import Path

import numpy as np
import torch

import fino

# Any array is data.  A model that is not told coordinates runs on a domain of any size.
waves = np.random.default_rng(0).normal(size=(8, 6, 1, 32, 32)).astype(np.float32)
data = fino.from_array(waves, dt=0.1, extent=(0, 1), boundary="periodic")
model = fino.build("fino", data, width=8, levels=1, history=2, coordinates=False)
print(f"The model sees {model.locality.radius[0]} cells a step.")

folder = Path(tempfile.mkdtemp())
large = torch.randn(2, 1, 256, 256)
np.save(folder / "start.npy", large.numpy())

# From file to file in tiles of 64², with a halo; nothing larger is ever in memory.
tiled = fino.rollout(model, folder / "start.npy", steps=5, tile=64, out=folder / "end.npy")
whole = fino.rollout(model, large, steps=5)
print(f"tiled − whole: {np.abs(tiled - whole.numpy()).max():.1e}")

# A few cells only: their light cone is computed, nothing else.
corner = fino.rollout(model, large, steps=5, region=((0, 16), (-8, 8)))
print(f"a region of {tuple(corner.shape[2:])} cells")

# After an edit, only what can have changed is computed again.
edited = large.clone()
edited[-1, :, 100:104, 50:54] = 0
after = fino.update(model, edited, whole, patch=((100, 104), (50, 54)))
print(after)
