"""`python -m lab compare`: runs, or all kept scores, beside the paper's numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

__all__ = ["compare"]


def compare(
    *runs: Path,
    metrics: Annotated[tuple[str, ...], Parameter(negative="")] = ("rmse", "nrmse"),
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
    from fino.cli.console import show_table
    from fino.evaluation.compare import compare as compared
    from fino.metrics import metric_named
    from fino.report import tables
    from lab.paper_table import beside_paper
    from lab.saved import comparisons

    for name in metrics:
        metric_named(name)
    kept = [result for results in comparisons().values() for result in results]
    if not runs and not kept:
        raise ValueError("compare should be given runs: no scores are kept in lab/results.")
    brief = format == "text"
    results = compared(runs) if runs else tuple(kept)
    made = [beside_paper(r, metrics, intervals=not brief, budgets=not runs) for r in results]
    if not brief:
        print(tables.rendered(made, format))
        return
    for one in made:
        show_table(one)
