"""`python -m lab worth`: what a model costs beside the classical solver of the same error.

Every shipped model whose equation is known, and any run, is measured on its test trajectories by
`fino.evaluation.worth`; the figures are kept in lab/results/worth.json, and docs/worth.md and its
figure are built from them.  Times are only worth keeping from an otherwise idle machine.
"""

from __future__ import annotations

import json as text
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from fino.cli.console import progress, say, say_json
from fino.durable import write_json, write_whole
from fino.evaluation.worth import measure_worth
from fino.export.library import find_compiler
from fino.machine import describe_machine
from fino.pde import PROBLEMS
from fino.report.curves import solver_lines
from fino.report.tables import table_of
from fino.training.run import PRETRAINED, Run, find_run
from lab.readme import fill

__all__ = ["draw_worth", "headline", "measure", "worth", "worth_page"]

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "lab" / "results" / "worth.json"
PAGE = ROOT / "docs" / "worth.md"
FIGURE = ROOT / "docs" / "figures" / "worth.png"
#: Ratios closer to one than this count as even.
_EVEN = 1.15
#: Test trajectories that model and solvers are measured on.
_ON_A_LINE, _IN_A_PLANE = 100, 8


def worth(
    *runs: str,
    samples: int | None = None,
    budget: float = 60.0,
    only_page: bool = False,
    json: bool = False,
) -> None:
    """Measure against the error-matched solver: `python -m lab worth` (about ten minutes).

    Parameters
    ----------
    runs
        Names of pretrained models or run folders; every pretrained model if none is named.
    samples
        Test trajectories; 8, or on a line, where they are cheap, 100.
    budget
        CPU-seconds of solving for each model.
    only_page
        Build the page from the figures that are kept.
    json
        Print the figures as JSON.
    """
    kept: dict[str, Any] = text.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in () if only_page else runs or tuple(PRETRAINED):
        run = find_run(name)
        if run.data_card.name not in PROBLEMS:
            say(f"{name}: no classical solver to compare with.")
            continue
        with progress(name, quiet=json) as show:
            few = samples or (_ON_A_LINE if len(run.data_card.points) == 1 else _IN_A_PLANE)
            found = measure(run, few, budget)
            show(1.0)
        if found is None:
            say(f"{name}: its starts cannot be drawn again, so no solver is compared.")
            continue
        kept[Path(name).name] = found
        write_json(RESULTS, kept)
    write_whole(PAGE, worth_page(kept).encode())
    draw_worth(kept, FIGURE)
    fill(ROOT / "README.md", "worth", headline(kept))
    if json:
        say_json(kept)
    else:
        say(f"{PAGE} and {FIGURE} are built from {len(kept)} models.")


def measure(run: Run, samples: int, budget: float) -> dict[str, Any] | None:
    """{"torch": …, "c": …, "load", "machine"}: one model by both engines, None without solver."""
    run = run.with_data(run.test_data(samples))
    part, task = run.data.test, run.data.task(run.model.history)
    found = {}
    for engine in ("torch", "c") if find_compiler() is not None else ("torch",):
        # Solvers from the same start are the same for both engines.
        first = engine == "torch"
        one = measure_worth(
            *(run, part, task), samples=samples, budget=budget, engine=engine, same_start=first
        )
        if one is None:
            return None
        cost = run.card.get("cost", {}) if run.is_shipped else {}
        if one.training is None and "cpu_minutes" in cost:
            one = replace(one, training=60.0 * cost["cpu_minutes"])
        data = run.data_card.cost
        if one.data is None and data is not None:
            one = replace(one, data=data.seconds + (cost.get("earlier_data_seconds") or 0.0))
        found[engine] = one.to_dict()
    title = run.data.card.title or run.data.card.name
    facts: dict[str, Any] = {
        "title": title,
        "load": os.getloadavg()[0],
        "machine": f"{describe_machine()}, {torch.backends.cpu.get_cpu_capability()}",
        "points": [*run.data.grid.points],
        "refine": run.data.card.refine,
    }
    return {**found, **facts}


def worth_page(kept: dict[str, Any]) -> str:
    """docs/worth.md: the table, a verdict for each model, how it was measured."""
    columns = (
        *("model", "nRMSE", "matched at", "solver of that error", "ms a trajectory"),
        *("FINO, torch", "FINO, C", "speed-up, one", "speed-up, 16 at once", "pays off after"),
    )
    verdicts = "\n".join(f"* **{name}**: {_verdict(found)}" for name, found in kept.items())
    busy = max((found["load"] for found in kept.values()), default=0.0)
    ordered = sorted(kept.items(), key=_speed_up, reverse=True)
    rows = [_row(name, found) for name, found in ordered]
    factors = table_of(
        "Speed-up = cells × cost of a cell",
        ("model", "FINO's cells", "solver's cells", "cells", "a cell's cost", "speed-up"),
        [row for name, found in ordered if (row := _factors(name, found))],
    )
    blind = table_of(
        "One trajectory at a time, from the start on the model's cells",
        ("model", "nRMSE", "FINO, ms", "solver of that error, ms", "speed-up"),
        [row for name, found in ordered if (row := _same_start(name, found))],
    )
    table = table_of("Cost of a trajectory at equal error", columns, rows).markdown().strip()
    return f"""# Is it worth it?
Whoever has the equation can also run the classical solver, so the question is what a model costs
beside the cheapest solver **of the same error**. Built by `python -m lab worth` from
lab/results/worth.json; nothing here is written by hand.

{table}

Milliseconds of processor time for a trajectory on one thread, one at a time. The speed-up is the
solver's cost over that of the faster engine (torch, or the compiled C code that `fino.rollout`
takes by itself where it is faster), one trajectory at a time and sixteen at once. *Pays off after*
counts the trajectories until training is paid for; the cost of the data comes on top where it is
not known. The largest load of the machine when a measurement ended was {busy:.1f}; the measurement
itself is one process. {_machines(kept)}

**The processor decides, too.** The compiled network gains more from wide vectors than the solvers
do: on a processor with AVX-512, a step of the C code compiled for AVX2 alone takes 1.9 times as
long (a network of 16 to 128 channels on 64 × 64 cells). `fino evaluate` measures the comparison on
the machine that it runs on.

![Error against processor time: solvers as lines, models as dots](figures/worth.png)

## In words
{verdicts}

## How the solver is matched
* The problem's own method is run on coarser and finer cells and in every variant that the problem
  names (order, limiter, Courant number), on the same test trajectories. The cheapest one that
  reaches the model's error is the match; between two grids cost is taken as a power of the error.
* The solver is treated well: it starts from the true state at the last frame that the model is
  shown, hidden fields included, averaged over its own cells; walls stay where they are; it steps
  only as far as the frames that are asked for; its answer is read at the data's points in the best
  of several ways.
* On a line {_ON_A_LINE} test trajectories are solved, in the plane {_IN_A_PLANE}. Gains may be off
  by a fifth or so there: on `compressible-1d-long` 8 trajectories gave 7.4 times, 32 gave 9.1.
* A model that is nearer to its data than the data are to the equation's solution is matched at the
  data's own error (*matched at*), because a smaller one says nothing.
* Model and solvers run in turn in one thread, whose processor time counts; the first run of each is
  not counted.

## Where the gain comes from
    S = (cost of a solver's cell and step / the network's) · rᵈ · (network's cells a step · r / CFL)

The solver needs cells r times as fine for the same error, in d dimensions, and shorter steps on
them. *Cells* is rᵈ. *A cell's cost* is what a cell costs over the whole trajectory, the solver's
over the network's: how many solver's steps a network's step replaces, and how dear they are. The
product of the two is the speed-up with sixteen trajectories at once.

{factors.markdown().strip()}

On the paper's tasks a step moves the data by a fraction of a cell, so a network's step replaces
about one of the solver's and costs more. Long steps make that gain; a truth that is far finer than
the model's cells makes the other. What a lower error would bring depends on how fast the solver
converges: on `heart` its error falls steeply from 128 × 128 cells on, so the model's cost decides;
on `euler-2d` it falls like the cells along an axis to the power of −0.4, while its cost rises like
their power of 2.7, so a tenth less error nearly doubles the gain.

## From the same start
The solver is told the true start on its own cells, however fine they are, and the model on its own
cells alone. Whoever has a formula for the start can do that; whoever has measured it on the model's
cells cannot. What the comparison is when both know the start on the model's cells, for the models
whose truth is finer than these:

{blind.markdown().strip()}

On `shallow-water-dams` the solver of the truth itself, 256 × 256 cells, is wrong by 0.057 after one
step if it begins with the means over 32 × 32 cells, and by 0.055 after five; from 64 × 64 cells it
is wrong by 0.023. On `euler-2d` these are 0.076 and 0.15, and 0.021 and 0.058 (six trajectories
each). The models are near what their cells know of the start. Networks on 64 × 64 cells were tried
for both and gain no more: errors on finer cells are larger, because fronts are sharper there, and a
step costs two and a half times as much. With patches (`patch=2`) it costs 1.4 times as much, but
after 45 CPU-minutes the dams had 0.079 there, 3.9 times cheaper than the solver ([log](log.md)).

`fino evaluate` prints the same comparison for every run whose equation is known, and says *use the
solver* where that is the answer. Where no solver exists, as for measured data, none of this
applies.
"""


def _machines(kept: dict[str, Any]) -> str:
    """Whether times compare between rows."""
    machines = {str(found["machine"]) for found in kept.values()}
    if len(machines) == 1:
        return f"All rows were measured on machines of one kind: {machines.pop()}."
    return "Rows were measured on different machines, so times compare within a row only."


def headline(kept: dict[str, Any]) -> str:
    """The rows of the README, the largest gain first: what wins and what loses."""
    lines = [
        "**Is it worth it?** What a trajectory costs beside the classical solver *of the same "
        "error*, on one thread, in batches of sixteen ([all figures](docs/worth.md)):",
        "",
        "| | nRMSE | solver, ms | FINO, ms | |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, found in sorted(kept.items(), key=_speed_up, reverse=True):
        one, gain = _best(found), _gains(found)[1]
        if gain is None:
            continue
        verdict = "about even"
        if gain > _EVEN:
            verdict = f"**{gain:.2g} times cheaper**"
        elif gain * _EVEN < 1:
            verdict = f"use the solver, {1 / gain:.2g} times cheaper"
        costs = [f"{1e3 * one[key]:.3g}" for key in ("matched_batched", "seconds_batched")]
        lines.append(f"| {name} | {one['nrmse']:.2g} | {' | '.join(costs)} | {verdict} |")
    return "\n".join(lines)


def _best(found: dict[str, Any]) -> dict[str, Any]:
    """The faster engine's figures."""
    engines = [found[e] for e in ("torch", "c") if e in found]
    return min(engines, key=lambda one: one["seconds"])


def _gains(found: dict[str, Any]) -> tuple[float | None, float | None]:
    one = _best(found)
    return one["speed_up"], one["speed_up_batched"]


def _speed_up(item: tuple[str, dict[str, Any]]) -> float:
    return _gains(item[1])[1] or 0.0


def _row(name: str, found: dict[str, Any]) -> list[str]:
    one, torch_ = _best(found), found["torch"]
    alone, batched = _gains(found)
    target = max(one["nrmse"], one["truth_error"] or 0.0)
    solver = one["solver"]
    cells = " × ".join(map(str, solver["points"])) if solver else "none"
    compiled = f"{1e3 * found['c']['seconds']:.3g}" if "c" in found else "–"
    return [
        name,
        f"{one['nrmse']:.2g}",
        f"{target:.2g}",
        cells if one["matched"] else f"none (best {solver['nrmse']:.2g} on {cells})",
        f"{1e3 * one['matched']:.3g}" if one["matched"] else "–",
        f"{1e3 * torch_['seconds']:.3g}",
        compiled,
        f"{alone:.2g}" if alone else "–",
        f"{batched:.2g}" if batched else "–",
        _pays(one),
    ]


def _factors(name: str, found: dict[str, Any]) -> list[str] | None:
    """The speed-up as a ratio of cells times a ratio of what a cell costs; None without either."""
    one, gain, model = _best(found), _gains(found)[1], found.get("points")
    if gain is None or model is None:
        return None
    # The matched solver lies between two grids: its cells follow from its cost, a power of d + 1.
    solver, dims = one["solver"], len(model)
    fewer = (one["matched"] / solver["seconds"]) ** (1 / (dims + 1))
    cells = [n * fewer for n in solver["points"]]
    ratio = math.prod(cells) / math.prod(model)
    shown = [" × ".join(f"{n:.0f}" for n in each) for each in (model, cells)]
    return [name, *shown, f"{ratio:.2g}", f"{gain / ratio:.2g}", f"{gain:.2g}"]


def _same_start(name: str, found: dict[str, Any]) -> list[str] | None:
    """Solver and model with the same knowledge of the start; None where it was not measured."""
    if "same_start" not in found["torch"] or not found.get("refine", 1) > 1:
        return None
    one, solver = _best(found), found["torch"]["same_start"]
    row = [name, f"{one['nrmse']:.2g}", f"{1e3 * one['seconds']:.3g}"]
    if solver is None:
        return [*row, "none is as good", "–"]
    return [*row, f"{1e3 * solver:.3g}", f"{solver / one['seconds']:.2g}"]


def _pays(one: dict[str, Any]) -> str:
    gain = (one["matched_batched"] or 0.0) - one["seconds_batched"]
    if one["training"] is None or not one["matched_batched"]:
        return "–"
    return f"{((one['data'] or 0.0) + one['training']) / gain:,.0f}" if gain > 0 else "never"


def _verdict(found: dict[str, Any]) -> str:
    one = _best(found)
    gain = _gains(found)[1]
    if gain is None:
        return f"no solver that was tried is as good (nRMSE {one['nrmse']:.2g})."
    if gain > _EVEN:
        return f"{gain:.2g} times cheaper than the solver of the same error."
    if gain * _EVEN < 1:
        return f"use the solver: it is {1 / gain:.2g} times cheaper at the same error."
    return "about as dear as the solver of the same error."


def draw_worth(kept: dict[str, Any], path: Path) -> None:
    """Error against processor time for every model: the solver's curve and both engines."""
    from matplotlib.figure import Figure

    columns = min(4, max(1, len(kept)))
    rows = -(-len(kept) // columns)
    figure = Figure(figsize=(3.2 * columns, 2.9 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in panels[len(kept) :]:
        axes.remove()
    for axes, (name, found) in zip(panels, kept.items(), strict=False):
        one = found["torch"]
        for label, seconds, errors in solver_lines(one["curve"]):
            axes.plot([1e3 * s for s in seconds], errors, ".-", lw=1, ms=4, label=label)
        for engine, marker in (("torch", "D"), ("c", "*")):
            if engine in found:
                x, y = 1e3 * found[engine]["seconds"], found[engine]["nrmse"]
                axes.plot(x, y, marker, color="k", ms=7, label=f"FINO, {engine}")
        axes.set(xscale="log", yscale="log")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_minor_formatter("")
        axes.set_title(name, fontsize=10)
        axes.legend(fontsize=6, frameon=False)
        axes.set_xlabel("ms of processor time", fontsize=8)
    panels[0].set_ylabel("nRMSE")
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=110)
