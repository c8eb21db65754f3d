"""Train FINO, score it next to baselines that need no learning, and roll it out."""

import tempfile

import fino

# A wave that comes around every five frames; 40 trajectories of 31 frames on 32 cells.
data = fino.generate("advection", 40, points=128, frames=31, duration=1.5, stride_space=4)

# History, boundary, scaling and depth come from the data; every choice can be overridden.
model = fino.build("fino", data, width=8, predict="linear")
print(f"{model.parameters_count} weights; it sees {model.locality.radius[0]} cells a step")

# A folder that can be resumed, read and shared.  Give it minutes for a real result.
run = fino.fit(model, data, steps=80, out=tempfile.mkdtemp() + "/wave")

scores = fino.evaluate(run)
print(scores)

# From ten frames to as many as you like: (t, c, *space).
sample = data.test[0]
u = fino.rollout(run, sample, steps=100)
print(f"rolled out {u.shape[0]} frames; the last has size {u[-1].square().mean().sqrt():.2f}")
