"""The pieces of a readable page: sections, sentences and small tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = ["Section", "WordTable", "in_text", "upper"]


@dataclass(frozen=True)
class WordTable:
    """A small table of words and numbers."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class Section:
    """A heading, what it says, and the numbers behind it."""

    title: str
    lines: list[str] = field(default_factory=list)
    tables: list[WordTable] = field(default_factory=list)


def in_text(section: Section) -> str:
    """A section as plain text."""
    text = [section.title, "─" * len(section.title), *section.lines]
    for table in section.tables:
        text += ["", *_text_table(table)]
    return "\n".join(text)


def upper(text: str) -> str:
    """The same sentence with a capital letter."""
    return text[:1].upper() + text[1:]


def _text_table(table: WordTable) -> list[str]:
    cells = [table.columns, *table.rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(table.columns))]
    lines = [table.title]
    for row in cells:
        padded = [
            cell.ljust(w) if i == 0 else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  " + "  ".join(padded))
    return lines
