"""Whether data were made with the equation that a model was trained on.

One frame does not tell a gravity, but data usually come with a card that does.  Two cards are
compared: their equations, and the settings that stand in them (`Problem.coefficients`).  What
differs from trajectory to trajectory is given to the model, which knows its range.  Data without
an equation on their card, such as a stranger's arrays, are taken as they are.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import asdict, dataclass
from typing import Any

from fino.data.card import Card
from fino.pde import PROBLEMS

__all__ = ["Equation", "check_equation", "compare_equations"]

#: Two values of a setting are the same if they differ by less than this share.
_SAME = 1e-6


@dataclass(frozen=True)
class Equation:
    """What a card says of the equation, as plain facts that go to a file.

    name            of the problem, such as "shallow-water"
    formula         the equation itself; "" if it is not known
    coefficients    the settings that stand in it and are the same for all trajectories
    """

    name: str
    formula: str
    coefficients: dict[str, Any]

    @classmethod
    def of_card(cls, card: Card) -> Equation:
        problem = PROBLEMS.get(card.name)
        names = () if problem is None else problem.coefficients
        own = {name: card.parameters[name] for name in names if name in card.parameters}
        return cls(card.name, card.equation, own)

    @classmethod
    def of_model(cls, model: Any) -> Equation | None:
        """That of the data that a model was trained on; None if it does not say."""
        found = (getattr(model, "trust", None) or {}).get("equation")
        return None if found is None else cls(**found)

    @property
    def facts(self) -> dict[str, Any]:
        """What is kept with a model."""
        return asdict(self)

    def difference(self, data: Equation) -> str:
        """How the equation of some data differs from this one, in a line; "" if it does not."""
        if not (self.formula and data.formula):
            return ""
        if self.name != data.name and self.formula != data.formula:
            return (
                f"The data solve another equation, {data.name}; the model was trained on "
                f"{self.name}."
            )
        both = [name for name in self.coefficients if name in data.coefficients]
        other = [n for n in both if not _same(self.coefficients[n], data.coefficients[n])]
        if not other:
            return ""
        theirs, ours = (
            ", ".join(f"{name} = {_say(of.coefficients[name])}" for name in other)
            for of in (data, self)
        )
        return f"The data were made with {theirs}, the model was trained on {ours}."


def compare_equations(model: Any, card: Card | None) -> str:
    """How the data of a card differ from those that a model was trained on, in a line, or ""."""
    trained = Equation.of_model(model)
    if trained is None or card is None:
        return ""
    return trained.difference(Equation.of_card(card))


def check_equation(model: Any, card: Card | None, strict: bool = False, level: int = 2) -> str:
    """Warn of data that were made with another equation, or refuse them if strict.

    `level` is how many calls above this one the warning belongs to.  Returns the line, or "".
    """
    line = compare_equations(model, card)
    if line and strict:
        raise ValueError(line)
    if line:
        warnings.warn(line, stacklevel=level + 1)
    return line


def _same(one: Any, other: Any) -> bool:
    numbers = all(isinstance(value, int | float) for value in (one, other))
    return math.isclose(one, other, rel_tol=_SAME) if numbers else bool(one == other)


def _say(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, int | float) else str(value)
