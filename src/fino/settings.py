"""Settings that are read once, refused if unknown, and saved with the result.

Every room describes what can be set as a frozen class derived from `Settings`.  A mistake is
answered with one line: which setting, what is wrong, what to do.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

__all__ = ["Settings", "did_you_mean"]


class Settings(BaseModel):
    """A frozen bag of validated settings; build it with keywords, get one-line errors."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False
    )

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            known = list(type(self).model_fields)
            lines = [_one_line(problem, known) for problem in error.errors()]
            raise ValueError(" ".join(lines)) from None

    def changed(self, **values: Any) -> Any:
        """The same settings with some of them replaced, validated again."""
        return type(self)(**{**self.model_dump(), **values})


def did_you_mean(word: str, known: list[str] | tuple[str, ...]) -> str:
    """A hint for a misspelt word, or the list of what there is."""
    near = _nearest(word, known)
    return f"Did you mean '{near}'?" if near else f"Known: {', '.join(sorted(known))}."


def _nearest(word: str, known: list[str] | tuple[str, ...]) -> str | None:
    """The name that was meant: a slip or two away, or begun and not ended; None if none is.

    Of names that are equally far, one of the same letters in another order comes first.
    """
    allowed = max(1, len(word) // 3)
    slips = {name: _slips(word, name) for name in known}
    near = [name for name in known if slips[name] <= allowed]
    if near:
        return min(near, key=lambda name: (slips[name], sorted(name) != sorted(word)))
    return next((name for name in known if len(word) > 2 and name.startswith(word)), None)


def _slips(word: str, name: str) -> int:
    """Letters to add, leave out, change, or swap with the next, from one word to the other."""
    rows = [list(range(len(name) + 1))]
    for i, a in enumerate(word):
        row = [i + 1]
        for j, b in enumerate(name):
            found = min(rows[-1][j + 1] + 1, row[j] + 1, rows[-1][j] + (a != b))
            if i and j and a == name[j - 1] and word[i - 1] == b:
                found = min(found, rows[-2][j - 1] + 1)
            row.append(found)
        rows.append(row)
    return rows[-1][-1]


def _one_line(problem: Any, known: list[str]) -> str:
    where = ".".join(str(part) for part in problem["loc"]) or "settings"
    if problem["type"] == "extra_forbidden":
        return f"Unknown setting '{where}'. {did_you_mean(where, known)}"
    if problem["type"] == "missing":
        return f"Setting '{where}' is missing."
    message = str(problem["msg"]).removeprefix("Value error, ")
    if problem["type"] == "value_error":
        return message
    return f"Setting '{where}': {message[0].lower()}{message[1:]}, got {problem['input']!r}."
