"""`python -m lab compare`: runs, or all kept scores, beside the paper's numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fino.cli.console import show_table
from fino.evaluation.compare import Comparison, Row
from fino.evaluation.compare import compare as compare_runs
from fino.metrics import metric_named
from fino.report.tables import METRICS_SHOWN, Cell, Table, labelled, rendered, spread_cell
from lab.keep import compare_kept
from lab.paper import AUDIT, DIFFERS, READS_AS, TASKS, numbers, task_of

__all__ = ["beside_paper", "compare"]


def compare(
    *runs: Path,
    metrics: tuple[str, ...] = ("rmse", "nrmse"),
    format: str = "text",
) -> None:
    """Our numbers beside the paper's: `python -m lab compare`.

    Parameters
    ----------
    runs
        Folders that were evaluated, or their scores.json; all kept scores if none is given.
    metrics
        A metric to show; may be repeated.
    format
        text, markdown, csv, latex or json.
    """
    for name in metrics:
        metric_named(name)
    kept = [result for results in compare_kept().values() for result in results]
    if not runs and not kept:
        raise ValueError("compare should be given runs: no scores are kept in lab/results.")
    brief = format == "text"
    results = compare_runs(runs) if runs else kept
    tables = [beside_paper(r, metrics, intervals=not brief, budgets=not runs) for r in results]
    if not brief:
        print(rendered(tables, format))
        return
    for one in tables:
        show_table(one)


def beside_paper(
    result: Comparison,
    metrics: Sequence[str] = METRICS_SHOWN,
    intervals: bool = True,
    budgets: bool = False,
) -> Table:
    """Our rows beside the paper's; † marks what was measured on other data.

    `budgets` adds the CPU-minutes of training and the number of seeds.  A row without runs is
    shown as not run.
    """
    task = task_of(result.task)
    if task is None:
        raise ValueError(
            f"The paper has no task '{result.task}': it has {', '.join(TASKS)}. Use `fino compare`."
        )
    entries = [*numbers(task), *(e for e in AUDIT if e.task == task)]
    shown = [m for m in metrics if m in result.metrics or any(e.metric == m for e in entries)]
    cells = [
        (
            Cell(row.name if budgets and not row.is_baseline else labelled(row)),
            Cell("ours"),
            *(spread_cell(row, metric, result, intervals) for metric in shown),
            *(_budget(row) if budgets else ()),
        )
        for row in (*result.rows, *result.baselines)
    ]
    sources: dict[tuple[str, str], dict[str, float]] = {}
    for entry in entries:
        kind = "paper" if entry in numbers(task) else entry.table
        name = entry.model if kind == "paper" else entry.row
        metric = READS_AS.get((task, entry.metric), entry.metric)
        sources.setdefault((name, kind), {})[metric] = entry.value
    for (name, kind), values in sources.items():
        printed = (Cell(f"{values[m]:g}", values[m]) if m in values else Cell("–") for m in shown)
        cells.append((Cell(f"{name} †"), Cell(kind), *printed, *[Cell("–")] * (2 * budgets)))
    read = {e: READS_AS.get((task, e.metric), e.metric) for e in numbers(task)}
    tables = sorted({entry.table for entry, metric in read.items() if metric in shown})
    notes = (
        f"† other data than ours: {DIFFERS[task]}.",
        f"The paper's numbers: {', '.join(tables)}, in PDEBench's convention (its sums over "
        f"batches come out a few per cent high, its fRMSE sees half or a quarter of the modes); "
        f"ours: {result.convention}.",
        *sorted({f"{e.row} ({e.table}): {e.note}." for e in AUDIT if e.task == task}),
    )
    variant = "" if result.task == task or task == "climate" else f", {result.task}"
    title = f"{TASKS[task]}{variant}: ours beside the paper's"
    more = ("CPU-min", "seeds") if budgets else ()
    return Table(title, ("model", "source", *shown, *more), tuple(cells), notes)


def _budget(row: Row) -> tuple[Cell, Cell]:
    """The CPU-minutes that a row was trained for, and with how many seeds."""
    spent = (row.cost or {}).get("training_cpu_seconds")
    if row.is_baseline or not row.runs:
        return Cell("–"), Cell("–")
    minutes = Cell("–") if spent is None else Cell(f"{spent / 60:.3g}", spent / 60)
    return minutes, Cell(str(row.runs), row.runs)
