"""`python -m lab audit` and `python -m lab baselines`: are the kept numbers still what they say?

    audit        draws cells of docs/results.md at random, computes each of them again from the
                 weights and the solver, and compares it with the kept score
    baselines    scores every baseline of a task again and puts it beside all kept scores of the
                 same data, after a baseline was added or mended

A cell is a number of one row in one metric.  Weights of the shipped models are in the package;
those of other rows are audited if their run folders are given.
"""

from __future__ import annotations

import json as json_module
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fino.cli.console import progress, say, say_json
from fino.data.dataset import Dataset
from fino.data.split import Split
from fino.evaluation.evaluate import TOLERANCE, evaluate
from fino.metrics.scores import Scores
from fino.model import pretrained
from fino.model.baselines import BASELINES
from fino.model.pretrained import CARD, plan_again, solve_samples
from fino.model.store import model_hash
from fino.recipe.data import make_data, open_data
from fino.recipe.recipe import read_recipe
from fino.report.words import describe_verdict
from fino.training.run import PRETRAINED, Run, find_run
from lab.keep import TASKS, keep_scores, load_kept, load_shipped
from lab.ship import plain_score

__all__ = ["Audited", "audit", "baselines", "draw_cells", "recompute", "replace_baselines"]

_METRICS = ("rmse", "nrmse", "max_error", "crmse")
#: Samples that a solver may draw again.
_OTHERS = 64


@dataclass(frozen=True)
class Audited:
    """A cell of the results, the kept number and that of today."""

    task: str
    row: str
    metric: str
    kept: float
    today: float

    @property
    def difference(self) -> float:
        """By how much of the kept number they differ."""
        return abs(self.today - self.kept) / abs(self.kept) if self.kept else abs(self.today)

    @property
    def holds(self) -> bool:
        return self.difference <= TOLERANCE


def audit(
    *runs: Path,
    cells: int = 10,
    seed: int = 0,
    tasks: tuple[str, ...] = (),
    json: bool = False,
) -> None:
    """Compute random cells of the results again from weights: `python -m lab audit`.

    Fails if one of them differs from the kept score by more than a hundredth of itself.

    Parameters
    ----------
    runs
        Run folders with weights whose scores were kept; the shipped models are there anyway.
    cells
        How many cells.
    seed
        Which ones.
    tasks
        Only cells of these tasks; may be repeated.
    json
        Print the cells as JSON.
    """
    sources = _sources(runs, tasks)
    drawn = draw_cells(sources, cells, seed)
    if not json:
        say(f"{len(drawn)} cells of {len(sources) * len(_METRICS)}, solving their test data again.")
    with progress("auditing", quiet=json) as show:
        found = recompute(drawn, sources, show)
    if json:
        say_json([{**vars(one), "holds": one.holds} for one in found])
    for one in () if json else found:
        words = "holds" if one.holds else f"OFF by {100 * one.difference:.3g} %"
        say(f"{one.task}, {one.row}, {one.metric}: {one.kept:.6g} → {one.today:.6g}, {words}")
    off = sum(not one.holds for one in found)
    if off:
        raise ValueError(f"{off} of {len(found)} cells differ from the kept scores.")
    if not json:
        say(f"All {len(found)} cells hold.")


#: (task, row) → the run that made it, and what was kept of it.
Sources = Mapping[tuple[str, str], tuple[Run, Scores]]


def _sources(runs: Sequence[Path], tasks: Sequence[str]) -> Sources:
    """The shipped models whose data can be solved again, and run folders whose scores are kept."""
    shipped = {name: scores for name, scores in load_shipped().items() if name != "climate"}
    found = {
        (name, "fino, shipped"): (PRETRAINED[name], scores) for name, scores in shipped.items()
    }
    kept = {
        scores.model.get("sha256"): (task, case, scores)
        for task, cases in load_kept().items()
        for case, scores in cases.items()
    }
    for folder in runs:
        known = kept.get(model_hash(folder / "model"))
        if known is None:
            raise ValueError(f"No kept score is of the weights in {folder}. Keep it first.")
        found[known[:2]] = (find_run(folder), known[2])
    return {key: value for key, value in found.items() if not tasks or key[0] in tasks}


def draw_cells(sources: Sources, cells: int, seed: int) -> list[tuple[str, str, str]]:
    """So many (task, row, metric) at random, in the order of the page."""
    every = [(*key, m) for key, (_, kept) in sources.items() for m in _METRICS if m in kept.metrics]
    if not every:
        raise ValueError("There is nothing to audit: no shipped model is of these tasks.")
    drawn = random.Random(seed).sample(every, min(cells, len(every)))
    return sorted(drawn, key=every.index)


def recompute(
    drawn: Sequence[tuple[str, str, str]],
    sources: Sources,
    show: Callable[[float], None] = lambda share: None,
) -> list[Audited]:
    """The drawn cells again, each row scored once on its whole test part."""
    rows = list(dict.fromkeys(cell[:2] for cell in drawn))
    today = {}
    for number, row in enumerate(rows):
        run, kept = sources[row]
        data = run.test_data()
        if len(data.test) != kept.data["samples"]:
            raise ValueError(f"{row[0]} has {len(data.test)} test samples, kept were others.")
        today[row] = evaluate(run.with_data(data), baselines=False)
        show((number + 1) / len(rows))
    return [
        Audited(task, row, m, sources[task, row][1][m].value, today[task, row][m].value)
        for task, row, m in drawn
    ]


def baselines(*tasks: str, data: Path = Path("data"), only: tuple[str, ...] = ()) -> None:
    """Score the baselines of tasks again: `python -m lab baselines shallow-water`.

    Changes the kept scores of the same data, and those of the shipped model.

    Parameters
    ----------
    tasks
        The paper's tasks by our names; all that a solver can make if none is given.
    data
        A folder for the data, TASK.h5; what is there is not solved again.
    only
        Baselines that learn nothing, such as solver: the test part alone is then solved, and the
        others stay as they are kept.
    """
    for task in tasks or [task for task in TASKS if task != "climate"]:
        choice = read_recipe(f"laptop-{task}").data
        path = data / f"{task}.h5"
        if only:
            made = _test_part(task)
        else:
            if not path.exists():
                say(f"{task}: solving {choice.samples} samples into {path}")
                make_data(choice, path)
            made = open_data(choice, path)
        today = evaluate(PRETRAINED[task].with_data(made), worth=False)
        kept = {name: row for name, row in today.baselines.items() if name in (only or BASELINES)}
        today = replace(today, baselines=kept)
        for name, row in today.baselines.items():
            say(f"{task}, {name}: nRMSE {row['nrmse'].short}")
        for written in replace_baselines(task, today):
            say(f"  {written}")


def _test_part(task: str) -> Dataset:
    """The test part of a shipped model's data, and a few samples of the validation part.

    A solver draws those again to see what all starts have in common.
    """
    card = PRETRAINED[task].data_card
    assert card.split is not None
    tested, others = (card.split.samples(part) for part in ("test", "validation"))
    data = solve_samples(plan_again(card), (*tested, *others[:_OTHERS]))
    count = len(tested)
    split = Split.of("test, and others", test=range(count), train=range(count, count + _OTHERS))
    return data.with_split(split)


def replace_baselines(task: str, today: Scores) -> list[Path]:
    """Put today's baselines beside every kept score of the same data; returns what was written."""
    written = []
    for kept in (load_kept(task), load_kept(f"short-{task}")):
        for folder, cases in kept.items():
            for case, scores in cases.items() if folder.removeprefix("short-") == task else ():
                if _same_data(scores, today):
                    written.append(keep_scores(_with_baselines(scores, today), folder, case))
    shipped = PRETRAINED[task].scores
    if shipped is not None and _same_data(shipped, today):
        written += _replace_shipped(task, _with_baselines(shipped, today))
    return written


def _same_data(one: Scores, other: Scores) -> bool:
    """The same samples of the same problem.

    Solved on another machine their last bits and with them the checksum may differ.
    """
    facts = ("name", "part", "samples", "shown", "steps", "points")
    return all(one.data.get(key) == other.data.get(key) for key in facts)


def _with_baselines(scores: Scores, today: Scores) -> Scores:
    """Scores with today's baselines; how certain a win is, is known of the shipped model alone."""
    own = scores["nrmse"].value
    certain = today.model.get("sha256") == scores.model.get("sha256")
    verdict: dict[str, Any] = dict(scores.verdict["baselines"])
    for name, row in today.baselines.items():
        value = row["nrmse"].value
        verdict[name] = {"value": value, "beaten": own < value, "ratio": value / own}
        if certain:
            verdict[name]["certainty"] = today.verdict["baselines"][name]["certainty"]
    curves = {
        metric: scores.over_time[metric]
        | {name: today.over_time[metric][name] for name in today.baselines}
        for metric in ("rmse", "nrmse")
    }
    return replace(
        scores,
        baselines={**scores.baselines, **today.baselines},
        verdict={**_without_words(scores.verdict), "baselines": verdict},
        over_time={**scores.over_time, **curves},
        cost={**scores.cost, "baselines": today.cost.get("baselines", {})},
        versions={**scores.versions, "baselines": today.versions["fino"]},
    )


def _without_words(verdict: Mapping[str, Any]) -> dict[str, Any]:
    """Scores of the first format held the sentence too."""
    return {key: value for key, value in verdict.items() if key != "sentence"}


def _replace_shipped(task: str, scores: Scores) -> list[Path]:
    """The shipped scores, and what its card says of baselines."""
    folder = pretrained.WEIGHTS / task
    path = folder / CARD
    card = json_module.loads(path.read_text(encoding="utf-8"))
    before, after = card["scores"]["sentence"], describe_verdict(scores)
    card["scores"]["baselines"] = {
        name: {m: plain_score(row[m]) for m in ("rmse", "nrmse") if m in row}
        for name, row in scores.baselines.items()
    }
    card["scores"]["sentence"] = after
    beaten = all(row["beaten"] for row in scores.verdict["baselines"].values())
    limits = [words for words in card["limits"] if words != before]
    card["limits"] = limits if beaten else [*limits, after]
    path.write_text(json_module.dumps(card, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return [path, scores.save(folder / "scores.json")]
