"""`python -m lab bench parameters`: one model over many θ beside models of a single θ.

For advection over β and Fisher's equation over (ν, ρ): one model is trained on trajectories that
each have parameters of their own, and one for each of five values at the same budget; all are
scored on the same test trajectories of those values, none of which the model over all was trained
on.  Values outside of the trained range are scored for the model over all alone.
"""

from __future__ import annotations

import json as text
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

import fino
from fino.cli.console import progress, say, say_json, table
from fino.data.dataset import Dataset
from fino.durable import write_json
from fino.metrics import nrmse
from fino.model.build import build
from fino.model.rollout import rollout
from fino.training.fit import fit
from fino.training.run import Run, find_run

__all__ = ["CASES", "draw_parameters", "measure_parameters", "parameters"]

RESULTS = Path(__file__).parent / "results" / "parameters.json"
FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "parameters.png"


@dataclass(frozen=True)
class Case:
    """A problem, the ranges that θ is drawn from, five values inside and some outside of them."""

    problem: str
    vary: dict[str, str]
    inside: tuple[tuple[float, ...], ...]
    outside: tuple[tuple[float, ...], ...]
    #: 128 cells, 41 or 21 frames.
    strides: tuple[int, int] = (8, 5)

    def at(self, values: Sequence[float]) -> dict[str, float]:
        return dict(zip(self.vary, values, strict=True))


CASES = {
    "advection": Case(
        "advection",
        {"beta": "0.1:4"},
        ((0.5,), (1.3,), (2.1,), (2.9,), (3.7,)),
        ((0.05,), (4.2,), (4.5,), (5.0,), (6.0,)),
    ),
    "fisher": Case(
        "diffusion-reaction-1d",
        {"nu": "log:1e-3:5e-2", "rho": "0.5:4"},
        ((0.002, 1.0), (0.005, 3.0), (0.01, 2.0), (0.02, 0.8), (0.04, 3.5)),
        ((0.0005, 2.0), (0.07, 2.0), (0.1, 2.0), (0.01, 0.25), (0.01, 5.0), (0.01, 7.0)),
    ),
}


def parameters(
    *cases: str,
    folder: Path = Path("data/parameters"),
    cpu_seconds: float = 180.0,
    samples: int = 1000,
    json: bool = False,
) -> None:
    """One model over many θ beside models of one: `python -m lab bench parameters advection`.

    Keeps the errors in lab/results/parameters.json and draws docs/figures/parameters.png.  What is
    in the folder already, data or trained runs, is taken from there.

    Parameters
    ----------
    cases
        advection, fisher; both if none is named.
    folder
        Where data and runs are kept.
    cpu_seconds
        The budget of each training.
    samples
        Trajectories of each data set.
    json
        Print the errors as JSON.
    """
    kept = text.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in cases or CASES:
        with progress(name, quiet=json) as show:
            kept[name] = measure_parameters(name, folder / name, cpu_seconds, samples, show)
        write_json(RESULTS, kept)
    draw_parameters(kept, FIGURE)
    if json:
        say_json(kept)
        return
    for name, found in kept.items():
        rows = [[*map(str, row["theta"]), *_errors(row)] for row in found["rows"]]
        table(name, [*CASES[name].vary, "one over all", "one of this θ", "ratio"], rows)
    say(f"Kept in {RESULTS}, drawn in {FIGURE}.")


def _errors(row: dict[str, Any]) -> list[str]:
    if row["single"] is None:
        return [f"{row['over_all']:.2g}", "outside", ""]
    ratio = row["over_all"] / row["single"]
    return [f"{row['over_all']:.2g}", f"{row['single']:.2g}", f"{ratio:.2f}"]


def measure_parameters(
    name: str,
    folder: Path,
    cpu_seconds: float,
    samples: int,
    show: Callable[[float], None] | None = None,
) -> dict[str, Any]:
    """nRMSE of rollouts at every value: {"cpu_seconds", "rows": [{theta, over_all, single}]}."""
    case = CASES[name]
    data = _data(case, folder / "all.h5", samples, vary=case.vary)
    over_all = _trained(data, folder / "all", cpu_seconds)
    rows: list[dict[str, Any]] = []
    every = [*case.inside, *case.outside]
    for done, values in enumerate(every, start=1):
        theta, single = case.at(values), None
        label = "-".join(f"{v:g}" for v in values)
        inside = values in case.inside
        data = _data(case, folder / f"{label}.h5", samples if inside else 100, **theta)
        if inside:
            single = _error(_trained(data, folder / label, cpu_seconds), data, {})
        error = _error(over_all, data, theta)
        rows.append({"theta": list(values), "over_all": error, "single": single})
        if show is not None:
            show(done / len(every))
    weights = over_all.model.parameters_count
    facts = {"cpu_seconds": cpu_seconds, "samples": samples, "weights": weights}
    return {**facts, "ranges": case.vary, "rows": rows}


def _data(case: Case, path: Path, samples: int, **settings: Any) -> Dataset:
    if path.exists():
        return fino.open(path)
    space, time = case.strides
    strides = {"stride_space": space, "stride_time": time}
    return fino.generate(case.problem, samples, out=path, **strides, **settings)


def _trained(data: Dataset, folder: Path, cpu_seconds: float) -> Run:
    """The finished run of a folder, or a new one with what `build` chooses by itself."""
    if (folder / "model").exists():
        return find_run(folder)
    return fit(build("fino", data), data, out=folder, cpu_seconds=cpu_seconds, threads=1)


def _error(run: Run, data: Dataset, theta: dict[str, float]) -> float:
    """The mean nRMSE over at most 100 test trajectories, all of one θ, given if there is one."""
    model = run.model
    part = data.test if len(data.test) >= 50 else data.everything
    given, truth = part.begin(range(min(100, len(part))), model.history)
    if theta:
        row = torch.tensor([[theta[n] for n in model.settings.given.parameters]])
        given = replace(given, parameters=row.expand(len(truth), -1))
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # values outside of the range are what is asked for
        return float(nrmse(rollout(model, given, truth.shape[1]), truth).mean())


def draw_parameters(kept: dict[str, Any], path: Path) -> None:
    """Error over θ, the trained range shaded: a panel for each parameter."""
    from matplotlib.figure import Figure

    panels = [(name, i) for name in kept for i in range(len(CASES[name].vary))]
    figure = Figure(figsize=(3.6 * len(panels), 3.2), layout="constrained")
    row = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (name, place) in zip(row, panels, strict=True):
        words = list(CASES[name].vary.values())[place].split(":")
        low, high = float(words[-2]), float(words[-1])
        axes.axvspan(low, high, color="0.92", lw=0, label="trained range")
        rows = kept[name]["rows"]
        middle = [r for r in rows if r["single"] is not None or _only(r, place, name)]
        middle.sort(key=lambda r: r["theta"][place])
        x = [r["theta"][place] for r in middle]
        axes.plot(x, [r["over_all"] for r in middle], "o-", ms=4, label="one model over all")
        single = [r for r in middle if r["single"] is not None]
        ends = [r["theta"][place] for r in single], [r["single"] for r in single]
        axes.plot(*ends, "s", ms=4, label="one model for each")
        axes.set_yscale("log")
        if words[0] == "log":
            axes.set_xscale("log")
        axes.set_xlabel(list(CASES[name].vary)[place])
        axes.set_title(CASES[name].problem, fontsize=10)
    figure.axes[0].set_ylabel("nRMSE of rollouts")
    figure.axes[0].legend(fontsize=8, frameon=False)
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=120)


def _only(row: dict[str, Any], place: int, name: str) -> bool:
    """Whether a value outside of the range is so because of this parameter alone."""
    words = [w.split(":")[-2:] for w in CASES[name].vary.values()]
    out = [not float(a) <= v <= float(b) for v, (a, b) in zip(row["theta"], words, strict=True)]
    return out[place] and sum(out) == 1
