"""Trained on 64² cells, rolled out on 1024² cells, beside the solver's truth.

    python examples/long/larger_domain.py --minutes 5 --points 1024

A local model that is told nothing of where it is, but whether a wall is near, has learned the
equation and not the domain: a field 256 times as large is the same to it.
"""

import argparse
import time

import numpy as np

import fino
from fino.report.movie import movie
from fino.report.scene import Scene

ask = argparse.ArgumentParser()
ask.add_argument("--minutes", type=float, default=5.0)
ask.add_argument("--points", type=int, default=1024)
ask.add_argument("--samples", type=int, default=120)
ask.add_argument("--tile", type=int, default=256)
asked = ask.parse_args()

NAME, FRAMES, DURATION = "diffusion-reaction-2d", 41, 2.0


def nrmse(prediction: np.ndarray, truth: np.ndarray) -> float:
    return float(np.sqrt(((prediction - truth) ** 2).mean() / (truth**2).mean()))


# Cells of 1/64 everywhere: the large domain is wider, not finer.
small = fino.generate(
    NAME, asked.samples, seed=0, points=64, half_width=0.5, frames=FRAMES, duration=DURATION
)
model = fino.build("fino", small, width=16, levels=1, history=4, coordinates=False)
run = fino.fit(model, small, minutes=asked.minutes, noise=0.01, out="runs/larger-domain")
part = small.test.with_history(4)
near = [fino.rollout(run.model, s.history, len(s.future)).numpy() for s in part]
errors = [nrmse(u, s.future.numpy()) for u, s in zip(near, part, strict=True)]
print(f"64²: nRMSE {np.mean(errors):.4f}")

began = time.perf_counter()
half_width = asked.points / 128
large = fino.generate(
    NAME, 1, seed=1, points=asked.points, half_width=half_width, frames=FRAMES, duration=DURATION
)
solving = time.perf_counter() - began
truth = large.read([0])[0].numpy()
began = time.perf_counter()
predicted = fino.rollout(
    run.model, truth[:4], FRAMES - 4, tile=asked.tile, out="runs/larger-domain/large.npy"
)
print(f"{asked.points}²: nRMSE {nrmse(predicted, truth[4:]):.4f}", end=", ")
print(f"solver {solving:.1f} s, model {time.perf_counter() - began:.1f} s")

stride = max(1, asked.points // 256)
thin = (slice(None), slice(None), slice(None, None, stride), slice(None, None, stride))
scene = Scene(
    truth=truth[4:][thin],
    prediction=predicted[thin],
    times=large.dt * np.arange(4, FRAMES),
    grid=large.grid.strided(stride),
    fields=large.fields,
    model="FINO trained on 64²",
)
print(movie(scene, "runs/larger-domain/large.gif"))
