"""An inverse problem: which diffusivity led to the frame that was observed?"""

import numpy as np
import torch

import fino

# Heat on a ring, uₜ = ν uₓₓ, exactly: u = Σ aₖ exp(−ν (2πk)² t) sin(2πkx + φₖ), for many ν.
draw, x, k = np.random.default_rng(0), np.arange(32) / 32, np.arange(1, 4)
nu = draw.uniform(0.02, 0.08, 64)
size, phase = draw.normal(size=(64, 1, 3, 1)), draw.uniform(0, 2 * np.pi, (64, 1, 3, 1))
decay = np.exp(-nu[:, None, None] * (2 * np.pi * k) ** 2 * 0.05 * np.arange(9)[:, None])
u = (size * decay[..., None] * np.sin(2 * np.pi * k[:, None] * x + phase)).sum(axis=2)
data = fino.from_array(u[:, :, None], 0.05, (0, 1), "periodic", parameters={"nu": nu}, history=1)
model = fino.build("fino", data, history=1, width=16, levels=1, blocks=1, activation="gelu")
run = fino.fit(model, data, steps=400, batch=16, out="runs/heat")

# Eight steps are differentiated as a whole by ν; a start is recovered in the same way.
sample, true = data.test[0], float(nu[data.test.samples[0]])
guess = torch.tensor(0.05, requires_grad=True)
optimizer = torch.optim.Adam([guess], lr=3e-3)
for _ in range(40):
    optimizer.zero_grad()
    frames = fino.rollout(run, sample, steps=8, parameters={"nu": guess}, gradient=True)
    (frames[-1] - sample.future[7]).square().mean().backward()
    optimizer.step()
print(f"nu: {guess.item():.4f}, and the truth is {true:.4f}")
