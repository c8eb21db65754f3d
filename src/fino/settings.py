"""Settings that are read once, refused if unknown, and saved with the result.

Every room describes what can be set as a frozen class derived from `Settings`.  A mistake is
answered with one line: which setting, what is wrong, what to do.
"""

from __future__ import annotations

from difflib import get_close_matches
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
    near = get_close_matches(word, list(known), n=1)
    return f"Did you mean '{near[0]}'?" if near else f"Known: {', '.join(sorted(known))}."


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
