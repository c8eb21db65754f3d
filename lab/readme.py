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
#: The ablations in a few lines: what is left out → the task's kept scores and case.
_WITHOUT = {
    "FINO, three blocks": ("ablation-gate", "fino-gate-true"),
    "without the gate": ("ablation-gate", "fino-gate-false"),
    "with Δt = 1 instead of a learned one": ("ablation-dt", "fino-dt-one"),
    "one block instead of three": ("ablation-blocks", "fino-blocks-1"),
    "a plain U-Net of equal cost": ("ablation-unet", "unet"),
}
_WITHOUT_ON = ("advection", "diffusion-reaction-2d")


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
    if all(f"{name}-{task}" in ablations for name, _ in _WITHOUT.values() for task in _WITHOUT_ON):
        parts["ablations"] = _ablations(ablations)
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


def _ablations(ablations: Tasks) -> str:
    """What does what, after a CPU-minute."""
    rows = []
    for words, (name, case) in _WITHOUT.items():
        found = [ablations[f"{name}-{task}"][case]["nrmse"].value for task in _WITHOUT_ON]
        rows.append([words, *(f"{value:.2g}" for value in found)])
    return _table(["nRMSE after one CPU-minute", *(_TASKS[t] for t in _WITHOUT_ON)], rows)


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
