"""What the results say, in sentences that are computed from the numbers: wins and losses alike."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from fino.metrics.scores import Scores
from lab.keep import TASKS
from lab.standing import Standing, bar_of, lowest_baseline, retuned

__all__ = [
    "EXPECTED",
    "against",
    "against_baselines",
    "against_retuned",
    "best_words",
    "headline",
    "listed",
    "missing",
    "summary",
    "tied_with_best",
]

#: What every task should have: FINO, its skeleton with plain blocks, the paper's six rivals and
#: two that came later.
EXPECTED = (
    "fino",
    "plain",
    "fno",
    "unet",
    "ufno",
    "ffno",
    "local-fno",
    "transolver",
    "dilated-resnet",
    "cnext-unet",
)

Rows = Mapping[str, Mapping[str, Standing]]


def listed(words: Sequence[str]) -> str:
    """a, b and c."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def missing(rows: Rows) -> dict[str, list[str]]:
    """Runs that the comparison should have and does not, task by task."""
    found = {task: [c for c in EXPECTED if c not in rows.get(task, {})] for task in TASKS}
    return {task: cases for task, cases in found.items() if cases}


def against(rows: Rows, rival: str) -> str:
    """FINO against one rival over all tasks where both were run."""
    both = {t: (c["fino"], c[rival]) for t, c in rows.items() if "fino" in c and rival in c}
    if not both:
        return f"FINO and {rival} were not both run on any task."
    won = [task for task, (ours, theirs) in both.items() if ours.nrmse < theirs.nrmse]
    apart = [task for task, (ours, theirs) in both.items() if ours.is_apart_from(theirs)]
    clear = [task for task in won if task in apart]
    tied = [task for task in both if task not in apart]
    lost = [
        f"{task} ({both[task][0].nrmse:.3g} against {both[task][1].nrmse:.3g})"
        for task in apart
        if task not in won
    ]
    sentences = [f"FINO is clearly below {rival} on {len(clear)} of {len(both)} tasks"]
    sentences[0] += f" ({listed(clear)})" if clear else ""
    sentences += [f"Their intervals overlap on {listed(tied)}: a tie"] if tied else []
    sentences += [f"It loses on {listed(lost)}"] if lost else []
    return ". ".join(sentences) + "."


def tied_with_best(cases: Mapping[str, Standing]) -> list[str]:
    """The rows whose intervals overlap that of the lowest one, without it."""
    best = min(cases.values(), key=lambda row: row.nrmse)
    return [n for n, row in cases.items() if row is not best and not row.is_apart_from(best)]


def against_baselines(rows: Rows, tasks: Mapping[str, Mapping[str, Scores]]) -> str:
    """Where FINO is no better than a prediction that needs no learning."""
    lost, scored = [], 0
    for task, cases in rows.items():
        baseline = lowest_baseline(tasks[task].values())
        if "fino" not in cases or baseline is None:
            continue
        scored += 1
        name, score = baseline
        if not cases["fino"].nrmse < score.value:
            lost.append(f"{task} ({name} {score.value:.3g}, FINO {cases['fino'].nrmse:.3g})")
    if not scored:
        return "No baseline was measured."
    if lost:
        return f"FINO does not beat the best baseline on {listed(lost)}."
    return f"FINO beats every baseline on all {scored} tasks that were run."


def headline(shipped: Mapping[str, Scores]) -> list[str]:
    """How many bars the shipped models meet, and which they do not."""
    if not shipped:
        return ["No model has been shipped yet."]
    bars = {task: bar_of(task, scores) for task, scores in shipped.items()}
    failed = [f"{task} ({bar.words})" for task, bar in bars.items() if not bar.met]
    met = len(bars) - len(failed)
    lines = [
        f"The shipped models meet {met} of {len(bars)} bars that were set beforehand"
        + (f"; not {listed(failed)}." if failed else ".")
    ]
    known = {t: value for t in shipped if (value := retuned(t)) is not None}
    below = [task for task, value in known.items() if shipped[task]["nrmse"].value <= value]
    if known:
        where = f" ({listed(below)})" if below else ""
        lines.append(
            f"They are at or below the nRMSE of the independently retuned FNO on {len(below)} of "
            f"{len(known)} tasks{where}; its data and protocol differ."
        )
    absent = [task for task in TASKS if task not in shipped]
    return [*lines, *([f"Not shipped: {listed(absent)}."] if absent else [])]


def against_retuned(audited: Rows) -> list[str]:
    """How FINO does in the protocol of the retuned FNO; nothing if that was not run."""
    known = {t: value for t in audited if (value := retuned(t)) is not None}
    ours = {t: audited[t]["fino"].nrmse for t in known if "fino" in audited[t]}
    if not ours:
        return []
    below = [task for task, error in ours.items() if error <= known[task]]
    each = listed([f"{task} {error:.2g} against {known[task]:g}" for task, error in ours.items()])
    absent = [task for task in TASKS if task not in ours and retuned(task) is not None]
    not_run = f" Not run that way: {listed(absent)}." if absent else ""
    return [
        f"Scored as the retuned FNO was, FINO is at or below it on {len(below)} of {len(ours)} "
        f"tasks ({each}).{not_run}"
    ]


def summary(rows: Rows, tasks: Mapping[str, Mapping[str, Scores]]) -> list[str]:
    """The comparison in a few lines."""
    if not rows:
        return ["No comparison has been run yet."]
    rivals = [c for c in EXPECTED[1:] if any(c in cases for cases in rows.values())]
    lines = [against(rows, rival) for rival in rivals]
    lines += [best_words(rows)]
    lines.append(against_baselines(rows, tasks))
    return lines


def best_words(rows: Rows) -> str:
    """On how many tasks FINO is lowest, and which of these are ties."""
    best = {
        task: min(cases, key=lambda case: cases[case].nrmse)
        for task, cases in rows.items()
        if len(cases) > 1 and any(math.isfinite(c.nrmse) for c in cases.values())
    }
    first = [task for task, case in best.items() if case == "fino"]
    other = [f"{case} on {task}" for task, case in best.items() if case != "fino"]
    tied = [task for task in first if tied_with_best(rows[task])]
    return (
        f"Of all models that were run, FINO has the lowest error on {len(first)} of {len(best)} "
        f"tasks"
        + (f", of which {_ties(tied)}" if tied else "")
        + (f"; lowest elsewhere: {listed(other)}." if other else ".")
    )


def _ties(tasks: Sequence[str]) -> str:
    return f"{listed(tasks)} {'are ties' if len(tasks) > 1 else 'is a tie'}"
