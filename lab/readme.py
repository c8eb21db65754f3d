"""The numbers of the README, from kept scores: `python -m lab results` fills them in.

Each stands between two marks, `<!-- name -->` and `<!-- end of name -->`, as do those of other
pages; `fill` is the one way to write there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from fino.metrics.scores import Scores
from lab.keep import TASKS
from lab.results_words import against, best_words, listed
from lab.standing import Standing, lowest_baseline, papers, standings

__all__ = ["fill", "readme_parts"]

Tasks = Mapping[str, Mapping[str, Scores]]

_SHOWN = ("fino", "fno", "unet")
_TASKS = {
    "advection": "advection",
    "compressible-1d": "compressible 1D",
    "diffusion-reaction-1d": "diffusion–reaction 1D",
    "darcy": "steady Darcy",
    "darcy-pdebench": "PDEBench's Darcy",
    "diffusion-reaction-2d": "diffusion–reaction 2D",
    "shallow-water": "shallow water",
    "climate": "climate (temperature to pressure)",
}
_BASELINES = {
    "best-lag": "an earlier frame again",
    "solver": "the solver on the coarse grid",
    "nearest-trajectory": "the nearest training trajectory",
    "blended-trajectories": "blending the nearest training trajectories",
    "analogue": "the most similar training inputs",
    "regression": "linear regression",
}
#: What does what, in a few lines: what is changed → its case in `ablation-parts-TASK`.
_CHANGED = {
    "FINO": "fino",
    "without the linear prior": "fino-without-prior",
    "without the gate": "fino-without-gate",
    "with Δt = 1, a residual block": "fino-unit-step",
    "with GELU instead of ReLU": "fino-gelu",
    "with AdamW instead of SOAP": "fino-adamw",
    "without symmetries": "fino-without-symmetries",
    "plain 3×3 convolutions instead of FINO's block": "plain",
    "the same without the linear prior": "plain-without-prior",
    "FNO": "fno",
    "FNO without the linear prior": "fno-without-prior",
}
_PARTS = "ablation-parts-"


def fill(path: Path, name: str, words: str) -> Path:
    """Put words between the two marks of a page."""
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    written = path.read_text(encoding="utf-8")
    if not 0 <= written.find(begin) < written.find(end):
        raise ValueError(f"{path} has no {begin.strip()} … {end} to fill.")
    before, rest = written.split(begin, 1)
    path.write_text(f"{before}{begin}{words}\n{end}{rest.split(end, 1)[1]}", encoding="utf-8")
    return path


def readme_parts(
    tasks: Tasks, ablations: Tasks, quickstart: Mapping[str, Scores], short: Tasks
) -> dict[str, str]:
    """Mark → what belongs there, of everything that is kept."""
    parts = {"results": _results(tasks)} if tasks else {}
    changed = {t: standings(ablations[_PARTS + t]) for t in TASKS if _PARTS + t in ablations}
    if changed:
        parts["ablations"] = _ablations(changed)
    if short:
        parts["short"] = _short(short)
    if quickstart:
        parts["quickstart"] = _quickstart(quickstart)
    return parts


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _results(tasks: Tasks) -> str:
    """FINO, FNO and U-Net beside the paper's FINO and the best baseline; what they say."""
    rows, every = [], {task: standings(cases) for task, cases in tasks.items()}
    for task in (task for task in TASKS if task in tasks):
        cases = list(tasks[task].values())
        errors: list[float | None] = [
            every[task][name].nrmse if name in every[task] else None for name in _SHOWN
        ]
        lowest = lowest_baseline(cases)
        errors.append(None if lowest is None else lowest[1].value)
        best = min((e for e in errors if e is not None), default=None)
        cells = [_bold(error, best) for error in errors]
        if lowest is not None:
            cells[-1] += f", {_BASELINES.get(lowest[0], lowest[0])}"
        steps = cases[0].data["steps"]
        moves = "" if cases[0].data["steady"] else f", {steps} steps"
        paper = papers(task, "nrmse") if task != "darcy" else None
        rows.append([f"{_TASKS[task]}{moves}", "–" if paper is None else f"{paper:.2g}", *cells])
    columns = ["task", "the paper's FINO", "our FINO", "our FNO", "our U-Net", "best baseline"]
    return f"{_table(columns, rows)}\n\n{_in_words(tasks, every)}"


def _bold(error: float | None, best: float | None) -> str:
    if error is None:
        return "not run"
    return f"**{error:.2g}**" if error == best else f"{error:.2g}"


def _in_words(tasks: Tasks, every: Mapping[str, Mapping[str, Standing]]) -> str:
    """Who is lowest, how many weights and seeds there were."""
    weights = max(
        scores.cost.get("parameters") or 0
        for cases in tasks.values()
        for case, scores in cases.items()
        if case.startswith("fino")
    )
    best = best_words({_TASKS[task].split(" (")[0]: rows for task, rows in every.items()})
    seeded = {t: rows["fino"].seeds for t, rows in every.items() if "fino" in rows}
    several = [_TASKS[task] for task, seeds in seeded.items() if seeds > 1]
    seeds = f" FINO and FNO are means of {max(seeded.values(), default=1)} seeds on "
    seeds += f"{listed(several)}; everything else is one seed." if several else ""
    return f"{best}{seeds if several else ''} FINO has at most {weights:,} weights."


def _short(tasks: Tasks) -> str:
    """What all rivals with a short budget say, and FINO's block beside a plain one."""
    every = {_TASKS[task].split(" (")[0]: standings(cases) for task, cases in tasks.items()}
    return f"{best_words(every)} {against(every, 'plain')}"


def _ablations(tasks: Mapping[str, Mapping[str, Standing]]) -> str:
    """What does what: the mean over seeds and its deviation, one part changed at a time."""
    rows = []
    for words, case in _CHANGED.items():
        found = [rows_of.get(case) for rows_of in tasks.values()]
        if any(found):
            rows.append([words, *("not run" if one is None else _spread(one) for one in found)])
    first = next(iter(tasks.values()))["fino"]
    minutes = f"{first.minutes:.2g} CPU-minutes" if first.minutes else "training"
    return _table([f"nRMSE after {minutes}", *(_TASKS[t] for t in tasks)], rows)


def _spread(row: Standing) -> str:
    return f"{row.nrmse:.2g}" + (f" ± {row.deviation:.1g}" if row.deviation is not None else "")


def _quickstart(cases: Mapping[str, Scores]) -> str:
    """The models of the quickstart and two of its baselines."""
    rows = []
    for case, scores in cases.items():
        weights = f"{scores.cost['parameters'] / 1e3:.2g} k weights"
        name = {"fino": "FINO", "fno": "FNO"}.get(case, case)
        rows.append([f"{name}, {weights}", *(f"{scores[m].value:.2g}" for m in ("rmse", "nrmse"))])
    first = next(iter(cases.values()))
    for name in ("best-lag", "solver"):
        row = first.baselines.get(name, {})
        if row:
            rows.append([_BASELINES[name], *(f"{row[m].value:.2g}" for m in ("rmse", "nrmse"))])
    return _table(["", "RMSE", "nRMSE"], rows)
