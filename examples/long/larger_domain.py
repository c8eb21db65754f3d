"""Trained on 64² cells, rolled out on 1024² cells, beside the solver's truth.

    python examples/long/larger_domain.py --minutes 5 --points 1024

A local model that is told nothing of where it is, but whether a wall is near, has learned the
equation and not the domain: a field 256 times as large is the same to it.  Ten frames are shown,
in which the noise of the start dies down, and the rest is predicted.
"""

import argparse
import time
from pathlib import Path

import numpy as np

import fino
from fino.report.movie import write_movie
from fino.report.scene import Scene

ask = argparse.ArgumentParser()
ask.add_argument("--minutes", type=float, default=5.0)
ask.add_argument("--points", type=int, default=1024)
ask.add_argument("--samples", type=int, default=120)
ask.add_argument("--tile", type=int, default=256)
ask.add_argument("--out", type=Path, default=Path("runs/larger-domain"))
asked = ask.parse_args()

NAME, SHOWN, FRAMES, DURATION = "diffusion-reaction-2d", 10, 41, 2.0


def nrmse(prediction: np.ndarray, truth: np.ndarray) -> float:
    return float(np.sqrt(((prediction - truth) ** 2).mean() / (truth**2).mean()))


# Cells of 1/64 everywhere: the large domain is wider, not finer.
small = fino.generate(
    NAME, asked.samples, seed=0, points=64, half_width=0.5, frames=FRAMES, duration=DURATION
)
if not (asked.out / "model").exists():
    model = fino.build("fino", small, width=16, levels=1, history=4, coordinates=False)
    fino.fit(model, small, minutes=asked.minutes, noise=0.01, out=asked.out)
model = fino.load(asked.out / "model")
parts = [(s.history, s.future) for s in small.with_history(SHOWN).test]
errors = [nrmse(fino.rollout(model, h, len(f)).numpy(), f.numpy()) for h, f in parts]
print(f"64²: nRMSE {np.mean(errors):.4f} over {len(errors)} test samples")

began = time.perf_counter()
half_width = asked.points / 128
large = fino.generate(
    NAME, 1, seed=1, points=asked.points, half_width=half_width, frames=FRAMES, duration=DURATION
)
solving = time.perf_counter() - began
truth = large.read([0])[0].numpy()
began = time.perf_counter()
predicted = fino.rollout(
    model, truth[:SHOWN], FRAMES - SHOWN, tile=asked.tile, out=asked.out / "large.npy"
)
print(f"{asked.points}²: nRMSE {nrmse(predicted, truth[SHOWN:]):.4f}", end=", ")
print(f"solver {solving:.1f} s, model {time.perf_counter() - began:.1f} s")

stride = max(1, asked.points // 256)
thin = (slice(None), slice(None), slice(None, None, stride), slice(None, None, stride))
scene = Scene(
    truth=truth[SHOWN:][thin],
    prediction=predicted[thin],
    times=large.dt * np.arange(SHOWN, FRAMES),
    grid=large.grid.strided(stride),
    fields=large.fields,
    model="FINO trained on 64²",
)
print(write_movie(scene, asked.out / "large.gif"))
