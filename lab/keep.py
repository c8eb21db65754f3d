"""`python -m lab keep`: the scores of every compared run, kept as lab/results/TASK/CASE.json.

    keep_folder("runs/laptop-advection")   → results/advection/fino.json, fno.json, unet.json
    compare_kept()                         → one comparison for each task, its seeds in one row

The tables of the results can then be printed without the runs.  A case is the name of a run in
its recipe's folder; fino, fino-seed-1 and fino-seed-2 are three seeds of one row.  Tasks whose
names begin with `ablation-`, `horizon-`, `short-` (a twentieth of the budget) or `retuned-` (the
protocol of the retuned FNO) have tables of their own.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fino.cli.console import say, say_json
from fino.durable import write_whole
from fino.evaluation.compare import Comparison, Row, compare
from fino.metrics.scores import Scores
from fino.training.run import PRETRAINED
from fino.training.run_data import read_json

__all__ = [
    "RESULTS",
    "SHIPPED",
    "TASKS",
    "compare_cases",
    "compare_kept",
    "group_seeds",
    "keep",
    "keep_folder",
    "keep_scores",
    "load_kept",
    "load_shipped",
]

#: Where they are kept.
RESULTS = Path(__file__).parent / "results"

#: The paper's tasks in its order; Darcy in two variants.
TASKS = (
    "advection",
    "compressible-1d",
    "diffusion-reaction-1d",
    "darcy",
    "darcy-pdebench",
    "diffusion-reaction-2d",
    "shallow-water",
    "climate",
)

#: What the row of a shipped model is called beside those of the comparison.
SHIPPED = "fino, shipped"

#: Bytes that one file should have at most; past that the spectra are left out.
_LARGEST = 30_000
_DIGITS = 6
_NAME = re.compile(r"[A-Za-z0-9.]+(-[A-Za-z0-9.]+)*")


def keep(
    *folders: Path,
    task: str | None = None,
    case: str | None = None,
    json: bool = False,
) -> None:
    """Keep scores: `python -m lab keep runs/laptop-*`.

    Writes lab/results/TASK/CASE.json for every run that has scores.  `python -m lab compare` and
    `python -m lab results` read them.

    Parameters
    ----------
    folders
        Folders that `fino run` filled, or single runs.
    task
        The task, if it is not the recipe's name without `laptop-`, or with the data's name
        after `ablation-…`.
    case
        The case of a single run, if it is not the folder's name.
    json
        Print the written files as JSON.
    """
    if not folders:
        raise ValueError("keep should be given folders, such as runs/laptop-*.")
    written = [path for folder in folders for path in keep_folder(folder, task, case)]
    if json:
        say_json([str(path) for path in written])
        return
    for path in written:
        say(f"{path.parent.name}/{path.name}: {path.stat().st_size / 1e3:.0f} kB")
    say("Next: python -m lab results")


def keep_folder(folder: str | Path, task: str | None = None, case: str | None = None) -> list[Path]:
    """Keep the scores of a `fino run` folder, or of one run; returns the files written.

    The task is the recipe's name without `laptop-`, and with its data's name if it is an
    ablation; the case is the run's own name.
    """
    folder = Path(folder)
    if (folder / "recipe.json").is_file():
        name = str(read_json(folder / "recipe.json").get("name", ""))
        found = {path.parent.name: path for path in sorted(folder.glob("*/scores.json"))}
        if not found:
            raise ValueError(f"No run in {folder} has scores yet. Let `fino run` finish one.")
        task = task or _task(name, Scores.load(next(iter(found.values()))))
        if case is not None:
            raise ValueError(f"{folder} has {len(found)} runs: --case is for a single one.")
    elif (folder / "scores.json").is_file():
        found = {case or folder.name: folder / "scores.json"}
    else:
        raise ValueError(f"{folder} is neither a folder of `fino run` nor a run with scores.")
    if not task:
        raise ValueError(f"{folder} does not say its task: pass --task, such as advection.")
    return [keep_scores(Scores.load(path), task, case) for case, path in found.items()]


def keep_scores(scores: Scores, task: str, case: str) -> Path:
    """Write scores to results/TASK/CASE.json in a short form."""
    for word in (task, case):
        if not _NAME.fullmatch(word):
            raise ValueError(f"a name should be letters, digits, dots and dashes, got '{word}'.")
    scores = scores.without_place()
    if "commit" not in scores.versions and (commit := _commit()):
        scores = replace(scores, versions={**scores.versions, "commit": commit})
    content = _compact(scores)
    if len(content) > _LARGEST:
        content = _compact(replace(scores, spectra={"wavenumber": [], "fields": {}}))
    path = RESULTS / task / f"{case}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, content)
    return path


def load_kept(beginning: str = "") -> dict[str, dict[str, Scores]]:
    """Everything that is kept, task → case → scores; the paper's tasks first, in its order.

    `beginning` takes the tasks whose names begin with it; without, the paper's alone are taken.
    """
    there = sorted(path.name for path in RESULTS.glob("*/") if any(path.glob("*.json")))
    if beginning:
        wanted = [name for name in there if name.startswith(beginning)]
    else:
        wanted = [name for name in TASKS if name in there]
    return {task: _cases(task) for task in wanted}


def group_seeds(cases: Iterable[str]) -> dict[str, list[str]]:
    """fino-seed-0, fino-seed-1, fno → fino: both of them, fno: itself; FINO first."""
    found: dict[str, list[str]] = {}
    for case in cases:
        found.setdefault(re.sub(r"-seed-\d+$", "", case), []).append(case)
    return dict(sorted(found.items(), key=lambda item: (not item[0].startswith("fino"), item[0])))


def load_shipped() -> dict[str, Scores]:
    """The scores of the shipped models of the paper's tasks, in its order."""
    found = {task: PRETRAINED[task].scores for task in TASKS if task in PRETRAINED}
    return {task: scores for task, scores in found.items() if scores is not None}


def compare_kept() -> dict[str, tuple[Comparison, ...]]:
    """The kept scores of the paper's tasks as comparisons, the shipped models among them."""
    kept, models = load_kept(), load_shipped()
    found = {}
    for task in TASKS:
        cases = dict(kept.get(task, {}))
        if task in models:
            cases[SHIPPED] = models[task]
        if cases:
            found[task] = compare_cases(cases)
    return found


def compare_cases(cases: Mapping[str, Scores]) -> tuple[Comparison, ...]:
    """One comparison for each data set that the cases were scored on, rows named by case."""
    together: dict[str, dict[str, Scores]] = {}
    for case, scores in cases.items():
        facts = [scores.data[k] for k in ("sha256", "part", "samples", "shown", "steps")]
        together.setdefault(json.dumps([facts, scores.convention]), {})[case] = scores
    found = []
    for group in together.values():
        (joined,) = compare(list(group.values()))
        rows: list[Row] = []
        for name, members in group_seeds(group).items():
            alike = compare([group[member] for member in members])[0].rows
            # Seeds that differ in more than the seed are rows of their own, under full names.
            rows += [replace(alike[0], name=name)] if len(alike) == 1 else alike
        found.append(replace(joined, rows=tuple(rows)))
    return tuple(found)


def _task(recipe: str, scores: Scores) -> str:
    if recipe.startswith("ablation-"):
        return f"{recipe}-{scores.data['name']}"
    return recipe.removeprefix("laptop-")


def _commit() -> str | None:
    """The commit of this clone, if it is one."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    found = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True)
    return found.stdout.strip() or None


def _cases(task: str) -> dict[str, Scores]:
    return {path.stem: Scores.load(path) for path in sorted((RESULTS / task).glob("*.json"))}


def _compact(scores: Scores) -> bytes:
    content = _rounded(json.loads(scores.to_json()))
    return (json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n").encode()


def _rounded(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: _rounded(value) for key, value in content.items()}
    if isinstance(content, list):
        return [_rounded(value) for value in content]
    if isinstance(content, float) and math.isfinite(content):
        return float(f"{content:.{_DIGITS}g}")
    return content
