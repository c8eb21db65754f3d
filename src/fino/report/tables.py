"""Tables of results: the same cells as Markdown, CSV, LaTeX, JSON or plain text.

The best of the learned rows is in bold; baselines stand below them and are never the best.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fino.display import html_table
from fino.evaluation.compare import Comparison, Row
from fino.metrics import METRICS
from fino.metrics.scores import Scores
from fino.report.words import counted, describe_few_tested, describe_task
from fino.settings import did_you_mean

__all__ = [
    "Cell",
    "Table",
    "best_columns",
    "comparison",
    "costs",
    "field_table",
    "rendered",
    "score_table",
    "table_of",
]

#: Columns of a comparison unless told otherwise.
METRICS_SHOWN = ("rmse", "nrmse", "max_error", "crmse")
_FORMATS = ("text", "markdown", "csv", "latex", "json")
_TEX = str.maketrans(
    {
        **{letter: f"\\{letter}" for letter in "_%&#${}"},
        **{"\\": r"\textbackslash{}", "^": r"\^{}", "~": r"\~{}", "\n": " "},
        **{"±": r"$\pm$", "†": r"$\dagger$", "–": "--"},
    }
)


@dataclass(frozen=True)
class Cell:
    """What is printed, the number behind it, and whether it is the best of its column."""

    text: str
    value: float | None = None
    best: bool = False


@dataclass(frozen=True)
class Table:
    """A title, columns, rows of cells, and notes below."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.markdown()

    def _repr_html_(self) -> str:
        return html_table(self.title, self.columns, ([c.text for c in row] for row in self.rows))

    def markdown(self) -> str:
        lines = [f"**{self.title}**", "", "| " + " | ".join(self.columns) + " |"]
        lines.append("| " + " | ".join(["---", *["---:"] * (len(self.columns) - 1)]) + " |")
        for row in self.rows:
            cells = [f"**{cell.text}**" if cell.best else cell.text for cell in row]
            lines.append("| " + " | ".join(text.replace("|", "/") for text in cells) + " |")
        lines += ["", *[f"* {note}" for note in self.notes]] if self.notes else []
        return "\n".join(lines) + "\n"

    def csv(self) -> str:
        """Plain numbers where a cell has one."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.columns)
        for row in self.rows:
            writer.writerow([cell.text if cell.value is None else repr(cell.value) for cell in row])
        return out.getvalue()

    def latex(self) -> str:
        """A `tabular` with booktabs rules."""
        lines = [
            f"% {' '.join(self.title.split())}",
            rf"\begin{{tabular}}{{l{'r' * (len(self.columns) - 1)}}}",
            r"\toprule",
            " & ".join(column.translate(_TEX) for column in self.columns) + r" \\",
            r"\midrule",
        ]
        for row in self.rows:
            texts = [(cell.text.translate(_TEX), cell.best) for cell in row]
            cells = [rf"\textbf{{{text}}}" if best else text for text, best in texts]
            lines.append(" & ".join(cells) + r" \\")
        lines += [
            r"\bottomrule",
            r"\end{tabular}",
            *[f"% {' '.join(n.split())}" for n in self.notes],
        ]
        return "\n".join(lines) + "\n"

    def content(self) -> dict[str, Any]:
        """The table for a machine."""
        values = ([c.text if c.value is None else c.value for c in row] for row in self.rows)
        rows = [dict(zip(self.columns, row, strict=True)) for row in values]
        return {"title": self.title, "rows": rows, "notes": list(self.notes)}


def table_of(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A table of words."""
    return Table(title, tuple(columns), tuple(tuple(map(Cell, row)) for row in rows))


def rendered(tables: Sequence[Table], form: str) -> str:
    """Tables as text in the named format."""
    if form == "json":
        return json.dumps([table.content() for table in tables], indent=2, ensure_ascii=False)
    if form not in ("markdown", "csv", "latex"):
        raise ValueError(f"Unknown format '{form}'. {did_you_mean(form, _FORMATS)}")
    return "\n".join(getattr(table, form)() for table in tables)


def score_table(scores: Scores) -> Table:
    """Every metric with its interval beside the best baseline; the better of the two is bold."""
    columns = ("metric", scores.model["name"], "95 % interval", "best baseline", "it is")
    rows = []
    for name in (name for name in METRICS if name in scores.metrics):
        own, best = scores.metrics[name], scores.best_baseline(name)
        between = "–" if own.low is None else f"{own.low:.3g} – {own.high:.3g}"
        beside, wins, said = Cell("–"), False, ""
        if best is not None:
            other = scores.baselines[best][name]
            wins = _is_better(name, own.value, other.value)
            loses = _is_better(name, other.value, own.value)
            said = "better" if wins else "worse" if loses else "the same"
            beside = Cell(f"{other.short} {best}", other.value, loses)
        model = Cell(own.short, own.value, wins)
        rows.append((Cell(name), model, Cell(between), beside, Cell(said)))
    notes = tuple(filter(None, [describe_few_tested(scores)]))
    return Table(describe_task(scores.data), columns, tuple(rows), notes)


def best_columns(scores: Scores) -> dict[str, set[str]]:
    """By metric, who is best: the names of baselines, and "model" for the model."""
    found = {}
    for name, own in scores.metrics.items():
        known = {"model": own.value}
        known |= {b: s[name].value for b, s in scores.baselines.items() if name in s}
        best = (max if METRICS[name].higher_is_better else min)(known.values())
        found[name] = {who for who, value in known.items() if value == best}
    return found


def _is_better(metric: str, own: float, other: float) -> bool:
    return own > other if METRICS[metric].higher_is_better else own < other


def field_table(scores: Scores, metrics: Sequence[str] = ()) -> Table | None:
    """The scores of each field; bold where the model beats every baseline on that field.

    None where there is one field.
    """
    fields = tuple(scores.data["fields"])
    shown = [n for n in metrics or METRICS if n in scores.metrics and scores.metrics[n].channels]
    if len(fields) < 2 or not shown:
        return None
    rows = []
    for name in shown:
        own = scores.metrics[name].channels
        others = [b[name].channels for b in scores.baselines.values() if name in b]
        cells = []
        for field in fields:
            rivals = [found[field] for found in others if field in found]
            wins = all(_is_better(name, own[field], rival) for rival in rivals)
            text = f"{own[field]:.3g}" if math.isfinite(own[field]) else "diverged"
            cells.append(Cell(text, own[field], bool(rivals) and wins))
        rows.append((Cell(name), *cells))
    note = "Bold: better than every baseline on that field."
    return Table("By field", ("metric", *fields), tuple(rows), (note,) if others else ())


def comparison(
    result: Comparison,
    metrics: Sequence[str] = METRICS_SHOWN,
    costs: bool = True,
    intervals: bool = True,
) -> Table:
    """Runs down, metrics and costs across, the baselines below."""
    shown = [metric for metric in metrics if metric in result.metrics]
    rows = (*result.rows, *result.baselines)
    known = _known_costs(rows) if costs else {}
    cells = []
    for row in rows:
        errors = (spread_cell(row, metric, result, intervals) for metric in shown)
        cells.append((Cell(labelled(row)), *errors, *(_cost(row, key) for key in known)))
    notes = [f"Convention: {result.convention}."] if result.convention != "fino" else []
    if any(row.runs > 1 for row in rows):
        notes.append("± is the standard deviation over seeds.")
    if intervals:
        notes.append("(low – high) is a 95 % bootstrap interval over samples.")
    columns = ("run", *shown, *known.values())
    return Table(describe_task(result.data), columns, tuple(cells), tuple(notes))


def costs(result: Comparison) -> Table:
    """Runs down, what they cost across."""
    rows = [row for row in (*result.rows, *result.baselines) if row.cost]
    known = _known_costs(rows)
    cells = tuple((Cell(labelled(row)), *(_cost(row, key) for key in known)) for row in rows)
    columns, note = ("run", *known.values()), "Times are those of one sample, one step."
    return Table("Cost", columns, cells, (note,))


def labelled(row: Row) -> str:
    if row.is_baseline:
        return f"baseline: {row.name}"
    return f"{row.name} ({row.runs} seeds)" if row.runs > 1 else row.name


def spread_cell(row: Row, metric: str, result: Comparison, intervals: bool) -> Cell:
    value = row.values.get(metric)
    if not row.runs:
        return Cell("not run")
    if value is None:
        return Cell("–")
    if not math.isfinite(value.mean):
        return Cell("diverged")
    text = f"{value.mean:.4g}"
    if value.deviation is not None:
        text += f" ± {value.deviation:.2g}"
    elif intervals and value.low is not None and value.high is not None:
        text += f" ({value.low:.3g} – {value.high:.3g})"
    return Cell(text, value.mean, not row.is_baseline and row.name in result.best(metric))


def _known_costs(rows: Sequence[Row]) -> dict[str, str]:
    """The columns of costs that are known of some row, by the key of each."""
    known = {key for row in rows for key in row.cost or {}}
    return {key: name for key, (name, _, _) in _COSTS.items() if key in known}


def _cost(row: Row, key: str) -> Cell:
    value = (row.cost or {}).get(key)
    if value is None:
        return Cell("–")
    _, unit, write = _COSTS[key]
    return Cell(write(unit * value), unit * value)


#: What a run cost: the column, its unit in that of the scores, and how it is written.
_COSTS: dict[str, tuple[str, float, Callable[[float], str]]] = {
    "parameters": ("parameters", 1, counted),
    "multiply_adds": ("mult-adds", 1, counted),
    "seconds_per_step": ("ms a step", 1000, "{:.3g}".format),
    "training_cpu_seconds": ("training CPU-s", 1, "{:.4g}".format),
    "peak_memory_bytes": ("peak MB", 2**-20, "{:.0f}".format),
}
