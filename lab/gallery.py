"""`python -m lab gallery`: one sample of each problem in one picture, or a card for each.

A line is drawn as space over time, a plane as three of its frames, a steady problem as what is
given and what follows from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fino.cli.console import say
from fino.data.dataset import Dataset
from fino.data.generate import generate
from fino.pde import PROBLEMS
from fino.report.look import FIELD_MAP, drawn, save
from lab.readme import fill

__all__ = ["draw_gallery", "draw_problem", "gallery", "problem_cards"]

_DOCS = Path(__file__).parents[1] / "docs"
_PANELS = 3
_SHOWN = ("advection", "diffusion-reaction-1d", "compressible-1d")
_SHOWN_2D = ("shallow-water", "diffusion-reaction-2d", "darcy")


def gallery(
    out: Path = Path("problems.png"),
    *,
    seed: int = 0,
    overwrite: bool = False,
    cards: bool = False,
) -> None:
    """Solve one sample of each problem at full resolution and draw them all.

    Parameters
    ----------
    out
        A .png or .svg file; with `cards` a folder for one picture of each problem.
    seed
        Which samples.
    overwrite
        Replace files that exist.
    cards
        Draw every problem by itself, where it is not drawn yet, and write the cards of
        docs/problems.md.
    """
    if cards:
        out.mkdir(parents=True, exist_ok=True)
        for name in PROBLEMS:
            if overwrite or not (out / f"{name}.png").exists():
                say(f"Written: {save(draw_problem(name, seed), out / f'{name}.png')}")
        fill(Path("docs/problems.md"), "cards", problem_cards())
        return
    if out.exists() and not overwrite:
        raise ValueError(f"{out} exists already. Choose another name, or pass --overwrite.")
    say("Solving one sample of each of six problems, about a minute the first time.")
    say(f"Written: {save(draw_gallery(seed), out)}")


def draw_problem(name: str, seed: int = 0) -> Figure:
    """One sample of a problem by itself, solved as the problem recommends."""
    with drawn(8.4, 2.2) as figure:
        data = generate(name, samples=1, seed=seed)
        frames, axes = data.read([0])[0].numpy(), figure.subplots(1, _PANELS)
        (_line if data.grid.dims == 1 else _plane)(axes, data, frames)
    return figure


def problem_cards() -> str:
    """A card for each problem: its equation, its picture, what it is and what can be set."""
    lines = []
    for name, problem in PROBLEMS.items():
        settings = [f"`{key}`" for key in problem.model_fields]
        lines += [
            f"### {problem.title}",
            f"`fino generate {name} --samples 100`",
            "",
            "```text",
            problem.equation,
            "```",
            "",
            *_picture_of(name),
            f"{problem.description} Fields: {', '.join(problem.fields)}. Settings: "
            f"{', '.join(settings)}.",
            "",
        ]
    return "\n".join(lines)


def _picture_of(name: str) -> list[str]:
    """The line of a problem's picture, if it has been drawn."""
    there = (_DOCS / "figures" / "problems" / f"{name}.png").exists()
    return [f"![One sample of {name}](figures/problems/{name}.png)", ""] if there else []


def draw_gallery(seed: int = 0, sample: int = 1) -> Figure:
    """Solve one sample of each of the six problems and draw it."""
    names = (*_SHOWN, *_SHOWN_2D)
    with drawn(8.4, 2.2 * len(names)) as figure:
        rows: Any = figure.subfigures(len(names), 1)
        for name, row in zip(names, np.atleast_1d(rows), strict=True):
            problem = PROBLEMS[name]
            row.suptitle(f"{problem.title}:   {problem.equation}", x=0.01, ha="left", fontsize=9)
            data = generate(name, samples=sample + 1, seed=seed)
            frames = data.read([sample])[0].numpy()
            axes = row.subplots(1, _PANELS)
            if data.grid.dims == 1:
                _line(axes, data, frames)
            else:
                _plane(axes, data, frames)
    return figure


def _line(axes: Sequence[Axes], data: Dataset, frames: np.ndarray) -> None:
    """Each field over space and time; the first one also as profiles."""
    (lo, hi), end = data.grid.extent[0], data.dt * (data.frames - 1)
    shown = min(data.channels, _PANELS)
    for channel in range(shown):
        image = axes[channel].imshow(
            frames[:, channel],
            origin="lower",
            extent=(lo, hi, 0, end),
            aspect="auto",
            cmap=FIELD_MAP,
        )
        _finish(axes[channel], image, f"{data.fields[channel]}(x, t)", "x", "t")
    if shown < _PANELS:
        profile = axes[shown]
        (x,) = data.grid.coordinates()
        for frame in (0, data.frames // 2, data.frames - 1):
            profile.plot(x, frames[frame, 0], label=f"t = {frame * data.dt:.3g}", linewidth=1.2)
        profile.legend(loc="upper left", bbox_to_anchor=(1.02, 1.0), fontsize=8)
        profile.set(xlabel="x", ylabel=data.fields[0])
        profile.tick_params(labelsize=7)
    for empty in axes[shown + 1 :]:
        empty.set_visible(False)


def _plane(axes: Sequence[Axes], data: Dataset, frames: np.ndarray) -> None:
    """Three frames of the first field on one scale; input and output of a steady problem."""
    chosen = [0, 1] if data.steady else [0, data.frames // 3, data.frames - 1]
    (x0, x1), (y0, y1) = data.grid.extent
    low, high = np.quantile(frames[chosen[1:], 0], [0.0, 1.0])
    for place, frame in enumerate(chosen):
        own = data.steady or (place == 0 and np.ptp(frames[0, 0]) > 2 * (high - low))
        image = axes[place].imshow(
            frames[frame, 0].T,
            origin="lower",
            extent=(x0, x1, y0, y1),
            cmap=FIELD_MAP,
            vmin=None if own else low,
            vmax=None if own else high,
        )
        if data.steady:
            name = ("given: ν(x, y)", "follows: u(x, y)")[place]
        else:
            name = f"{data.fields[0]} at t = {frame * data.dt:.3g}"
        _finish(axes[place], image, name, "x", "y")
    for empty in axes[len(chosen) :]:
        empty.set_visible(False)


def _finish(axes: Axes, image: Any, name: str, x: str, y: str) -> None:
    bar = axes.figure.colorbar(image, ax=axes, shrink=1.0, pad=0.02)
    bar.ax.tick_params(labelsize=7)
    bar.set_label(name, fontsize=8)
    axes.set(xlabel=x, ylabel=y)
    axes.tick_params(labelsize=7)
