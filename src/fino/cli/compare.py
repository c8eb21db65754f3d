"""`fino compare`: many runs in one table, over seeds, beside the baselines."""

from __future__ import annotations

from pathlib import Path

from fino.cli.console import say, show_table

__all__ = ["compare"]


def compare(
    *runs: Path,
    metrics: tuple[str, ...] = (),
    format: str = "text",
    figure: Path | None = None,
    out: Path | None = None,
    json: bool = False,
) -> None:
    """Compare runs: `fino compare runs/*`.

    Runs that differ only in their seed become one row, mean ± standard deviation.

    Args:
        runs: Folders that were evaluated, or their scores.json.
        metrics: A metric to show; may be repeated.
        format: text, markdown, csv, latex or json.
        figure: Draw error against cost into this PNG or SVG file.
        out: Write the table to this file instead of printing it.
        json: The same as --format json.
    """
    from fino.evaluation.compare import compare as compare_runs
    from fino.metrics import metric_named
    from fino.report import tables

    for name in metrics:
        metric_named(name)
    shown = metrics or tables.METRICS_SHOWN
    results = compare_runs(runs)
    form = "json" if json else format
    brief = form == "text" and out is None
    written: list[tables.Table] = []
    for result in results:
        written.append(tables.comparison(result, shown, costs=not brief, intervals=not brief))
        written += [tables.costs(result)] if brief else []
    if figure is not None:
        from fino.report.curves import cost_and_error
        from fino.report.look import save

        save(cost_and_error(results[0]), figure)
    if out is not None:
        out.write_text(tables.rendered(written, "markdown" if form == "text" else form))
        say(f"{len(written)} tables are in {out}.")
    elif not brief:
        print(tables.rendered(written, form))
    else:
        for one in written:
            show_table(one)
