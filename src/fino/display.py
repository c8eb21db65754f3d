"""Tables as notebooks show them: whatever comes from a file stays text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

__all__ = ["html_table"]


def html_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A title, a line of columns if there are any, and rows of texts."""
    lines = [f"<p><b>{escape(title)}</b></p><table>"]
    if columns:
        lines.append("<tr>" + "".join(f"<th>{escape(c)}</th>" for c in columns) + "</tr>")
    for row in rows:
        lines.append("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>")
    return "".join(lines) + "</table>"
