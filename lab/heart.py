"""`python -m lab heart RUN`: a heart model on a sheet four times as large as it was trained on.

Two questions.  Does a plane wave run as fast as the solver's?  And do as many spirals turn?  The
tip of a spiral is a place around which the phase of the excitation takes all values:

    φ = atan2( u(t − τ) − ½,  u(t) − ½ ),      Σ around four cells of Δφ = ±2π
"""

from __future__ import annotations

import json as text
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fino.cli.console import progress, say
from fino.data.generate import restrict
from fino.durable import write_json
from fino.grid import Grid
from fino.inference.rollout import rollout
from fino.pde.heart import Heart
from fino.training.run import Run, find_run
from lab.readme import fill
from lab.worth import ROOT

__all__ = ["count_tips", "front_speed", "heart", "measure", "words"]

RESULTS = ROOT / "lab" / "results" / "heart.json"
FIGURE = ROOT / "docs" / "figures" / "heart.png"
PAGE = ROOT / "docs" / "heart.md"

#: Between rest and peak, and the ms between the two values of a phase.
_HALF, _LAG = 0.4, 20.0
#: Width in cm of the strip that starts a plane wave, and ms that it runs before it is shown.
_STRIP, _BEFORE = 0.3, 40.0


def heart(run: str | None = None, *, samples: int = 2, seed: int = 7) -> None:
    """Speed of waves and number of spirals: `python -m lab heart runs/heart`.

    Parameters
    ----------
    run
        A run folder or the shipped model; without it the page is built again from what is kept.
    samples
        Sheets with broken waves, four times as large as those of the training.
    seed
        What their stimuli are drawn from.
    """
    if run is not None:
        measure(find_run(run), samples, seed)
    say(f"Written: {fill(PAGE, 'waves', words(text.loads(RESULTS.read_text())))}")


def measure(found: Run, samples: int, seed: int) -> None:
    """Run the large sheets and keep what is found."""
    settings: dict[str, Any] = found.data_card.parameters
    stride = found.data_card.stride_time
    small = Heart(**settings)
    large = small.changed(points=2 * small.points, side=2 * small.side)
    with progress("waves") as show:
        truth = plane_wave(large, found.data_card.refine)[::stride]
        frames = _predict(found, truth)
        dx, dt = large.grid.spacing[0], stride * float(np.diff(large.times)[0])
        lag = _frames_of_lag(dt)
        speeds = {n: front_speed(u[:, 0], dx, dt) for n, u in (("solver", truth), ("fino", frames))}
        show(0.2)
        tips, errors = [], []
        for sample in range(samples):
            truth = _solve(large, found.data_card.refine, seed, sample)[::stride]
            frames = _predict(found, truth)
            each = {"solver": truth, "fino": frames}
            tips.append({name: count_tips(u[:, 0], lag) for name, u in each.items()})
            error = np.sqrt(((frames - truth) ** 2).mean((1, 2, 3)) / (truth**2).mean((1, 2, 3)))
            errors.append([round(float(e), 4) for e in error])
            if sample == 0:
                draw(truth[:, 0], frames[:, 0], tips[0], dt, lag, FIGURE)
            show(0.2 + 0.8 * (sample + 1) / samples)
    result = {"cm_per_ms": speeds, "tips": tips, "nrmse": errors, "shown": found.model.history}
    write_json(RESULTS, {**result, "dt": dt, "points": large.points})


def _frames_of_lag(dt: float) -> int:
    return max(1, round(_LAG / dt))


def words(kept: dict[str, Any]) -> str:
    """What is kept as a table and a sentence."""
    solver, model = (kept["cm_per_ms"][name] for name in ("solver", "fino"))
    dt, shown, lag = kept["dt"], kept["shown"], _frames_of_lag(kept["dt"])
    last = len(kept["nrmse"][0]) - 1
    ahead = np.linspace(shown - 1, last, 5).astype(int)[1:]
    head = " | ".join(f"{(n - shown + 1) * dt:.0f} ms ahead" for n in ahead)
    lines = [f"| | {head} |", "| --- |" + " --- |" * len(ahead)]
    for number, (tips, error) in enumerate(zip(kept["tips"], kept["nrmse"], strict=True), start=1):
        counts = [[str(tips[name][n - lag]) for n in ahead] for name in ("solver", "fino")]
        both = " | ".join(f"{a} and {b}" for a, b in zip(*counts, strict=True))
        lines.append(f"| sheet {number}: tips, solver and FINO | {both} |")
        cells = " | ".join(f"{error[n]:.2f}" for n in ahead)
        lines.append(f"| sheet {number}: nRMSE | {cells} |")
    off = 100 * (model / solver - 1)
    sentence = (
        f"A plane wave runs at {solver:.4f} cm/ms in the solver and at {model:.4f} cm/ms in the "
        f"model, {abs(off):.1f} % {'faster' if off > 0 else 'slower'}."
    )
    return "\n".join([*lines, "", sentence])


def _solve(problem: Heart, refine: int, seed: int, sample: int) -> np.ndarray:
    """One trajectory of voltages: (t, 1, *space)."""
    fine = problem.grid.refined([n * refine for n in problem.grid.points])
    start = problem.draw(fine, seed, [sample])
    return restrict(problem.solve(fine, start, problem.times), refine, 2)[0]


def plane_wave(problem: Heart, refine: int) -> np.ndarray:
    """A wave that runs along the first axis, from a strip at the edge: (t, 1, *space).

    It is one wave on a narrow strip of tissue, repeated across the sheet.
    """
    points = problem.grid.points[0]
    extent = (problem.grid.extent[0], (0.0, 4 * problem.grid.spacing[1]))
    strip = Grid((points, 4), extent, problem.grid.boundary)
    fine = strip.refined([n * refine for n in strip.points])
    start = np.zeros((1, 3, *fine.points))
    start[:, 1:] = 1.0
    start[:, 0, fine.coordinates()[0] < _STRIP] = 1.0
    dt = float(np.diff(problem.times)[0])
    first = round(_BEFORE / dt)
    times = dt * np.arange(first + len(problem.times))
    frames = restrict(problem.solve(fine, start, times), refine, 2)[0, first:]
    return np.repeat(frames[..., :1], points, axis=-1)


def _predict(run: Run, truth: np.ndarray) -> np.ndarray:
    """The truth's shown frames and what the model makes of them: (t, 1, *space)."""
    shown = run.model.history
    start = torch.from_numpy(truth[None, :shown]).float()
    made = rollout(run, start, steps=len(truth) - shown)
    return np.concatenate([truth[:shown], np.asarray(made)[0]])


def front_speed(u: np.ndarray, dx: float, dt: float, level: float = _HALF) -> float:
    """Length per time of the foremost crossing of a level along the first axis, (t, x, y).

    A straight line through the places, where the front is well inside.
    """
    times, places = [], []
    for frame, line in enumerate(u.mean(axis=2)):
        above = np.flatnonzero(line > level)
        if not len(above) or not 4 <= above[-1] < len(line) - 4:
            continue
        cell = above[-1]
        part = (line[cell] - level) / (line[cell] - line[cell + 1])
        times.append(frame * dt)
        places.append((cell + 0.5 + part) * dx)
    if len(times) < 3:
        raise ValueError("there is no front inside of the sheet: is this a plane wave?")
    return float(np.polyfit(times, places, 1)[0])


def count_tips(u: np.ndarray, lag: int = 2) -> list[int]:
    """Spiral tips at each time from `lag` on: (t, x, y) → counts."""
    phase = np.arctan2(u[:-lag] - _HALF, u[lag:] - _HALF)
    corners = [phase[:, :-1, :-1], phase[:, 1:, :-1], phase[:, 1:, 1:], phase[:, :-1, 1:]]
    turn = np.zeros_like(corners[0])
    for here, after in zip(corners, [*corners[1:], corners[0]], strict=True):
        turn += (after - here + np.pi) % (2 * np.pi) - np.pi
    return (np.abs(turn) > np.pi).sum(axis=(1, 2)).tolist()


def draw(
    truth: np.ndarray,
    frames: np.ndarray,
    tips: dict[str, list[int]],
    dt: float,
    lag: int,
    path: Path,
) -> None:
    """Voltages of solver and model side by side, and their tips over time."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.5, 4.6), layout="constrained")
    grid = figure.add_gridspec(2, 5, width_ratios=[1, 1, 1, 1, 1.6])
    chosen = np.linspace(0, len(truth) - 1, 5).astype(int)[1:]
    panels: dict[str, Any] = {"solver": truth, "fino": frames}
    for row, (name, u) in enumerate(panels.items()):
        for column, frame in enumerate(chosen):
            axes = figure.add_subplot(grid[row, column])
            axes.imshow(u[frame].T, origin="lower", vmin=0, vmax=1, cmap="magma")
            axes.set(xticks=[], yticks=[])
            if row == 0:
                axes.set_title(f"{frame * dt:.0f} ms", fontsize=9)
            if column == 0:
                axes.set_ylabel({"fino": "FINO"}.get(name, name))
    axes = figure.add_subplot(grid[:, 4])
    for name, counts in tips.items():
        times = dt * (np.arange(len(counts)) + lag)
        style = {"color": "0.5", "lw": 3} if name == "solver" else {"color": "C0"}
        axes.step(times, counts, where="mid", label={"fino": "FINO"}.get(name, name), **style)
    axes.set(xlabel="ms", ylabel="spiral tips", ylim=(0, None))
    axes.legend(frameon=False)
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=110)
