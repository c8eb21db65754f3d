"""docs/results.md from the kept scores and the shipped models: tables, sentences, figures.

Nothing in it is written by hand, and a run that is missing is shown as not run.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fino.evaluation.compare import Comparison, Row
from fino.metrics.scores import Scores
from fino.report import tables
from fino.report.tables import Cell, Table
from lab.bench_horizon import LOST, measure_far
from lab.compare import beside_paper
from lab.front import Seconds, front_words, on_front
from lab.keep import SHIPPED, TASKS, compare_cases, group_seeds
from lab.results_words import (
    EXPECTED,
    against_retuned,
    headline,
    listed,
    missing,
    summary,
    tied_with_best,
)
from lab.search import load_trials
from lab.standing import (
    Standing,
    bar_of,
    lowest_baseline,
    papers,
    retuned,
    standings,
    with_shipped,
)

__all__ = ["results_page", "spans"]

Tasks = Mapping[str, Mapping[str, Scores]]

#: The recipes of the lab: ablations, and the protocol of the retuned FNO.
RECIPES = Path(__file__).parent / "recipes"

_METRICS = ("rmse", "nrmse", "max_error", "crmse")

#: What our FINO has that the paper's does not, and where it is not what its name says.
ADDED = (
    "Our FINO is the paper's block with additions, all of which every model here is given too: it "
    "adds to a linear prior that is fitted before training or to the last frame (the paper "
    "predicts frames), trains with SOAP on windows that grow into rollouts, learns from shifted "
    "and mirrored data where the equation allows it, and has GELU and few levels. On the two Darcy "
    "tasks it is not strictly local: it sees 107 cells of 64 and is told positions."
)


def results_page(
    tasks: Tasks,
    models: Mapping[str, Scores],
    ablations: Tasks,
    horizons: Tasks,
    short: Tasks,
    searched: Tasks,
    audited: Tasks,
    figures: Mapping[str, str],
    seconds: Seconds | None = None,
    transfers: Sequence[Mapping[str, Any]] | None = None,
) -> str:
    """The whole page; `figures` says where each of them is: pareto, over-time, fields, horizon.

    `seconds` is what a trajectory costs with every model, task by task; `transfers` are the rows of
    `python -m lab bench transfer`.
    """
    seconds = seconds or {}
    rows = {task: standings(cases) for task, cases in tasks.items()}
    beside = with_shipped(tasks, models)
    as_audited = {task: standings(cases) for task, cases in audited.items()}
    parts = [
        "# Results\n",
        "Built by `python -m lab results` from the scores in `lab/results` and "
        "`src/fino/model/weights`; not written by hand. nRMSE is "
        "the error divided by the truth's own size; (low – high) is a 95 % bootstrap interval "
        "over test samples, ± the standard deviation over seeds.\n",
        "## In short\n",
        _bullets(
            [
                *headline(models),
                *against_retuned(as_audited),
                *summary(rows, beside),
                *front_words(rows, seconds),
            ]
        ),
        _absent(missing(rows)),
        "## The shipped models beside the paper\n",
        _shipped(models).markdown(),
        _picture(figures, "fields", "Truth, prediction and error of the shipped models"),
        "## Equal budgets\n",
        "Every model gets 20 CPU-minutes of training, validation included.\n",
        f"{ADDED}\n",
        _spent(rows),
        _side_by_side(rows, beside).markdown(),
        _costs(rows, seconds),
        _picture(figures, "pareto", "Error against the time of a trajectory"),
        _picture(figures, "over-time", "Error over time"),
        *_short_budget(short, seconds),
        *_searched(searched),
        *_as_audited(as_audited, audited),
        *_details(tasks, models),
        *_ablations(ablations),
        *_horizons(horizons, tasks, models, figures),
        *_transferred(transfers or []),
        *_sources(tasks, audited),
        _again(models),
    ]
    return "\n".join(part for part in parts if part)


def _shipped(models: Mapping[str, Scores]) -> Table:
    """The shipped FINO beside the paper's and the bars."""
    own = ("task", "RMSE", "nRMSE", "the paper's RMSE", "its nRMSE", "bar", "met")
    columns = (*own, "retuned FNO's nRMSE", "CPU-min", "best baseline")
    rows = []
    for task in TASKS:
        paper = [papers(task, metric) for metric in ("rmse", "nrmse")]
        printed = [Cell("–") if value is None else Cell(f"{value:g}", value) for value in paper]
        audit = retuned(task)
        theirs = Cell("–") if audit is None else Cell(f"{audit:g}", audit)
        if task not in models:
            absent = Cell("not shipped")
            blank = Cell("–")
            rows.append((Cell(task), absent, absent, *printed, blank, blank, theirs, blank, blank))
            continue
        scores = models[task]
        bar = bar_of(task, scores)
        spent = scores.cost.get("training_cpu_seconds")
        rows.append(
            (
                Cell(task),
                Cell(str(scores["rmse"]), scores["rmse"].value),
                Cell(str(scores["nrmse"]), scores["nrmse"].value),
                *printed,
                Cell(bar.words),
                Cell("yes" if bar.met else "NO"),
                theirs,
                Cell("–" if spent is None else f"{spent / 60:.3g}"),
                _baseline([scores]),
            )
        )
    notes = (
        "The paper's data are not ours (see the tables below for how they differ), and its "
        "numbers are in PDEBench's convention; the climate number is read as a relative error.",
        "The retuned FNO is that of the PDEBench audit: other grids, frames and data (the notes of "
        "each task below), four to six GPU-hours.",
    )
    return Table("Shipped FINO, each at most 120 CPU-minutes", columns, tuple(rows), notes)


def _side_by_side(rows: Mapping[str, Mapping[str, Standing]], tasks: Tasks) -> Table:
    """nRMSE of every model on every task, and the best baseline."""
    cells = []
    for task in TASKS:
        known = rows.get(task, {})
        best = min((s.nrmse for s in known.values()), default=None)
        tied = tied_with_best(known) if known else []
        line = [Cell(task)]
        for name in EXPECTED:
            if name in known:
                own = known[name]
                line.append(Cell(own.words, own.nrmse, own.nrmse == best or name in tied))
            else:
                line.append(Cell("not run"))
        line.append(_baseline(tasks.get(task, {}).values()))
        cells.append(tuple(line))
    notes = (
        "Bold is the lowest of a task and what its interval overlaps with. One seed unless said "
        "otherwise.",
    )
    columns = ("task", *EXPECTED, "best baseline")
    return Table("nRMSE on the test part", columns, tuple(cells), notes)


def _costs(rows: Mapping[str, Mapping[str, Standing]], seconds: Seconds) -> str:
    """Milliseconds of a trajectory with every model; bold is what is on the front."""
    if not seconds:
        return ""
    cells = []
    for task in TASKS:
        known, times = rows.get(task, {}), seconds.get(task, {})
        best = on_front(known, times)
        line = [Cell(task)]
        for name in EXPECTED:
            if name in known and name in times:
                value = 1e3 * times[name]
                line.append(Cell(f"{value:.3g}", value, name in best))
            else:
                line.append(Cell("–"))
        cells.append(tuple(line))
    notes = (
        "The networks alone, with sixteen trajectories at once, all on one machine and one thread "
        "(`python -m lab front`). Bold: no model is both cheaper and better.",
    )
    return Table("Milliseconds a trajectory", ("task", *EXPECTED), tuple(cells), notes).markdown()


def _baseline(cases: Iterable[Scores]) -> Cell:
    """The lowest baseline that any of the cases was scored beside."""
    lowest = lowest_baseline(cases)
    return Cell("–" if lowest is None else f"{lowest[0]} {lowest[1].value:.3g}")


def _spent(rows: Mapping[str, Mapping[str, Standing]]) -> str:
    spent = [s.minutes for cases in rows.values() for s in cases.values() if s.minutes]
    if not spent:
        return ""
    low, high = f"{min(spent):.3g}", f"{max(spent):.3g}"
    return f"Spent were {low if low == high else f'{low} to {high}'} CPU-minutes each.\n"


def _short_budget(tasks: Tasks, seconds: Seconds) -> list[str]:
    """The same comparison for people in a hurry, where every rival and more seeds fit."""
    parts = ["## A short budget, every rival\n"]
    if not tasks:
        return [*parts, "Not run.\n"]
    rows = {task: standings(cases) for task, cases in tasks.items()}
    front = front_words(rows, {t: seconds.get(f"short-{t}", {}) for t in rows})
    return [
        *parts,
        "The same tasks with a tenth of the budget, all models of a task on one machine\n"
        "(`python -m lab sweep --short`). Sizes and rates are those of the recipes; where a\n"
        "recipe has none for a rival, the rival has its small size, not searched for.\n",
        _spent(rows),
        _bullets([*summary(rows, tasks), *front]),
        _side_by_side(rows, tasks).markdown(),
    ]


def _searched(tasks: Tasks) -> list[str]:
    """What the same search for sizes and rates gives every model."""
    parts = ["## The same search for every model\n"]
    found = load_trials()
    if not found:
        return [*parts, "Not run.\n"]
    parts.append(
        "Six trials each, three sizes at two rates, all as long as the runs of the short table;\n"
        "the lowest on the validation part is the row and alone is scored on the test part\n"
        "(`python -m lab search TASK`).\n"
    )
    for task, models in found.items():
        rows = standings(tasks.get(task, {}))
        best = min((row.nrmse for row in rows.values()), default=None)
        tied = tied_with_best(rows) if rows else []
        cells, unfinished = [], []
        for name in EXPECTED:
            if name not in rows:
                unfinished.append(f"{name} ({len(models.get(name, []))} of 6)")
                continue
            chosen = min(models[name], key=lambda trial: trial["validation"])
            own = rows[name]
            cells.append(
                (
                    Cell(name),
                    Cell(own.words, own.nrmse, own.nrmse == best or name in tied),
                    Cell(f"{chosen['size']}, {chosen['parameters']:,} weights"),
                    Cell(f"{chosen['rate']:g}", chosen["rate"]),
                    Cell(f"{sum(t['training_cpu_seconds'] for t in models[name]) / 60:.3g}"),
                )
            )
        columns = ("model", "nRMSE on the test part", "size", "rate", "CPU-min of the search")
        notes = (f"Not finished: {listed(unfinished)}.",) if unfinished else ()
        parts.append(Table(task, columns, tuple(cells), notes).markdown())
    return parts


def _as_audited(standing: Mapping[str, Mapping[str, Standing]], tasks: Tasks) -> list[str]:
    """FINO in the protocol of the retuned FNO, beside what that one reports."""
    parts = ["## Scored as the retuned FNO was\n"]
    if not tasks:
        return [*parts, "Not run.\n"]
    rows = []
    for task, cases in tasks.items():
        theirs = retuned(task)
        for own in standing[task].values():
            data = cases[group_seeds(cases)[own.case][0]].data
            rows.append(
                (
                    Cell(task),
                    Cell(
                        f"{' × '.join(map(str, data['points']))}, {data['shown']} → {data['steps']}"
                    ),
                    Cell(own.case),
                    Cell(own.words, own.nrmse, theirs is not None and own.nrmse <= theirs),
                    Cell("–" if theirs is None else f"{theirs:g}", theirs),
                    Cell("–" if own.minutes is None else f"{own.minutes:.3g}"),
                    _baseline(cases.values()),
                )
            )
    own_columns = ("task", "grid, frames in → out", "model", "nRMSE")
    columns = (*own_columns, "retuned FNO's", "CPU-min", "best baseline")
    notes = (
        "Bold is at or below the retuned FNO, which had PDEBench's files and four to six "
        "GPU-hours; its advection is on 256 cells, and its compressible flow (0.03, 256 cells) and "
        "diffusion–reaction 1D (0.0012, on a file that rounding has frozen) were not run this way.",
        "Our own FNO was not run this way, so its place beside these rows is open.",
        "Every cell is kept here: where the data were solved on this very grid, the solver as a "
        "baseline is what made them, and nothing can be below it.",
    )
    return [*parts, Table("nRMSE on the test part", columns, tuple(rows), notes).markdown()]


def _details(tasks: Tasks, models: Mapping[str, Scores]) -> list[str]:
    """Each task in full beside the paper, missing runs and the shipped model included."""
    parts = ["## Task by task\n"]
    for task in TASKS:
        cases = {**tasks.get(task, {}), **({SHIPPED: models[task]} if task in models else {})}
        if not cases:
            parts.append(f"**{task}**: not run.\n")
        for result in compare_cases(cases):
            table = beside_paper(_with_missing(task, result), _METRICS, budgets=True)
            parts.append(table.markdown())
    return parts


def _with_missing(task: str, result: Comparison) -> Comparison:
    known = {row.name for row in result.rows}
    if known == {SHIPPED}:
        # A shipped model that was scored on other data than the comparison has its own table.
        return result
    absent = [Row(name, {}, runs=0) for name in EXPECTED if name not in known]
    return replace(result, rows=(*result.rows, *absent))


def _ablations(ablations: Tasks) -> list[str]:
    parts = ["## Ablations\n"]
    if not ablations:
        return [*parts, "Not run.\n"]
    for name, cases in ablations.items():
        for result in compare_cases(cases):
            table = tables.comparison(_counted(result), ("nrmse",), costs=True)
            title = f"{_recipe_title(name)} ({result.task})"
            parts.append(replace(table, title=title).markdown())
            here = {row.name for row in result.rows}
            rows = {n: row for n, row in standings(cases).items() if n in here}
            parts.append(_what_mattered(rows) if rows else "")
    return parts


def _counted(result: Comparison) -> Comparison:
    """Without baselines, and without times: runs that shared a machine were not timed alike."""
    wanted = ("parameters", "multiply_adds", "training_cpu_seconds")
    rows = [
        replace(row, cost={k: v for k, v in (row.cost or {}).items() if k in wanted})
        for row in result.rows
    ]
    return replace(result, rows=tuple(rows), baselines=())


def _what_mattered(rows: Mapping[str, Standing]) -> str:
    """The lowest row, and those that cannot be told from it."""
    best = min(rows.values(), key=lambda row: row.nrmse)
    same = [n for n, row in rows.items() if row is not best and not row.is_apart_from(best)]
    worse = [n for n in rows if n not in same and n != best.case]
    sentence = f"Lowest: {best.case}."
    sentence += f" Within its interval: {listed(same)}." if same else ""
    return f"{sentence} {f'Clearly worse: {listed(worse)}.' if worse else ''}".strip() + "\n"


def _recipe_title(name: str) -> str:
    """The title of the recipe that an ablation was run from, with what its name adds."""
    for path in sorted(RECIPES.glob("*.toml"), key=lambda path: -len(path.stem)):
        if name.startswith(path.stem):
            return str(tomllib.loads(path.read_text(encoding="utf-8")).get("title", name))
    return name


def spans(task: str, scores: Scores, tasks: Tasks) -> float:
    """How many times the training's time a longer rollout spans; five if it is not known."""
    usual = next(iter(tasks.get(task.removeprefix("horizon-"), {}).values()), None)
    if usual is None:
        return 5.0
    frames = [s.data["shown"] + s.data["steps"] - 1 for s in (scores, usual)]
    return frames[0] / frames[1]


def _horizons(
    horizons: Tasks, tasks: Tasks, models: Mapping[str, Scores], figures: Mapping[str, str]
) -> list[str]:
    parts = ["## Far past the training horizon\n"]
    if not horizons:
        return [*parts, "Not run.\n"]
    for task, cases in horizons.items():
        rows = []
        for case, scores in cases.items():
            times = spans(task, scores, tasks)
            seen = measure_far(scores, times)
            numbers = [Cell(f"{v:.3g}", v) for v in (seen.within, seen.end, seen.worst)]
            spent = _trained_for(scores, models)
            budget = Cell("–" if spent is None else f"{spent / 60:.3g}")
            rows.append((Cell(case), budget, *numbers, Cell("yes" if seen.bounded else "NO")))
        first = next(iter(cases.values()))
        title = f"{first.data['name']}: {first.data['samples']} test samples, {times:.3g} times"
        ends = ("nRMSE where training ended", "at the end", "worst")
        columns = ("run", "CPU-min", *ends, "bounded")
        note = f"Bounded: no sample diverged, the error stayed below {LOST:g} times the truth."
        parts.append(Table(title, columns, tuple(rows), (note,)).markdown())
    picture = "Error past the training horizon, which the dotted line marks"
    return [*parts, _picture(figures, "horizon", picture)]


def _trained_for(scores: Scores, models: Mapping[str, Scores]) -> float | None:
    """CPU-seconds of training; shipped weights carry theirs in their own scores."""
    asked: float | None = (scores.model.get("training") or {}).get("cpu_seconds")
    if asked is not None:
        return asked
    same = (m for m in models.values() if m.model.get("sha256") == scores.model.get("sha256"))
    return next((m.cost.get("training_cpu_seconds") for m in same), None)


def _transferred(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Models on cells half as wide as those they were trained on."""
    if not rows:
        return []
    keys = ("own", "as it is", "scaled", "persistence")
    cells = [
        (
            Cell(f"{row['task']}, {' × '.join(map(str, row['points']))}"),
            Cell(str(row["run"])),
            *(Cell("–" if row[k] is None else f"{row[k]:.3g}", row[k]) for k in keys),
        )
        for row in rows
    ]
    columns = ("task, finer cells", "run", "own cells", "as it is", "scaled", "persistence")
    note = (
        "Scaled: the stencils keep their length, so their taps lie two cells apart; only a local "
        "model can. Nothing was trained on the finer cells."
    )
    table = Table("nRMSE of rollouts", columns, tuple(cells), (note,))
    return ["## On cells half as wide\n", table.markdown()]


def _sources(tasks: Tasks, audited: Tasks) -> list[str]:
    """Which file, commit, weights and command every row of the comparison is from."""
    rows = []
    for beginning, group in (("", tasks), ("retuned-", audited)):
        for task, cases in group.items():
            for case, scores in cases.items():
                facts = (scores.versions.get("commit"), str(scores.when.get("date", ""))[:10])
                weights = str(scores.model.get("sha256", ""))[:8]
                words = [f"{beginning}{task}/{case}", *facts, weights]
                command = f"`{scores.command}`" if scores.command else "–"
                rows.append(tuple(Cell(word or "–") for word in (*words, command)))
    if not rows:
        return []
    columns = ("lab/results/…json", "commit", "date", "weights", "command")
    notes = (
        "Commits of scores from before 18 November are the last ones before their date. The files "
        "of the short runs, the ablations and the long horizons say the same of themselves.",
        "`python -m lab audit` computes ten random cells of the shipped models again from their "
        "weights and compares them with the kept scores; given run folders, cells of those too.",
    )
    title = "Every row of the comparison at 20 CPU-minutes, and of the retuned FNO's protocol"
    return [
        "## Where the numbers come from\n",
        Table(title, columns, tuple(rows), notes).markdown(),
    ]


def _again(models: Mapping[str, Scores]) -> str:
    names = [f"fino evaluate --pretrained {name}" for name in models]
    lines = [
        "## Again, on your machine\n",
        "```",
        *names,
        "fino run laptop-advection                            one comparison, from nothing",
        "python -m lab bench horizon runs/laptop-advection    the same runs, five times as long",
        "python -m lab compare                                the tables above",
        "python -m lab audit                                  ten random cells, from weights",
        "python -m lab results --readme README.md             this page, and the README's tables",
        "```",
    ]
    return "\n".join(lines) + "\n"


def _absent(cases: Mapping[str, list[str]]) -> str:
    if not cases:
        return ""
    words = [f"{task} ({', '.join(names)})" for task, names in cases.items()]
    return f"Not run: {'; '.join(words)}.\n"


def _bullets(lines: list[str]) -> str:
    return "".join(f"* {line}\n" for line in lines)


def _picture(figures: Mapping[str, str], name: str, words: str) -> str:
    return f"![{words}]({figures[name]})\n" if name in figures else ""
