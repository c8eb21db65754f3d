"""`fino list`: every problem, model, baseline, metric, recipe and pretrained model by name.

Models are described at their default size for one stated input, so that their costs compare:
ten past frames of one field on a line of 128 cells, and on a square of 64 × 64.
"""

from __future__ import annotations

import ast
import math
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, get_args

from fino.cli.console import say, say_json, table

__all__ = ["show"]

#: The input that costs are stated for: channels, and the grid in one and two dimensions.
_INPUTS = 10
_SPACES = {1: (128,), 2: (64, 64)}

Rows = list[dict[str, Any]]
#: Where descriptions begin.
_WIDTH = 30
_COLUMNS = ["name", "reach", "weights 1D", "weights 2D", "M mult-adds 1D", "M mult-adds 2D"]

Kind = Literal["problems", "models", "baselines", "metrics", "recipes", "pretrained"]


def show(kind: Kind | None = None, *, json: bool = False) -> None:
    """List problems, models, baselines, metrics, recipes and pretrained weights.

    Args:
        kind: Only this table; `fino list models` adds the models' reach, weights and cost.
        json: Print the tables as JSON.
    """
    costs = json or kind == "models"
    tables = _list_tables(*([kind] if kind else []), costs=costs)
    if json:
        say_json(tables)
        return
    for name, rows in tables.items():
        if name == "models" and costs:
            table(name.capitalize(), _COLUMNS, map(_cost_row, rows))
            grids = " and ".join("×".join(map(str, space)) for space in _SPACES.values())
            say(
                f"At default size, one step, {_INPUTS} channels in and 1 out, on {grids} cells. "
                f"Reach in cells; inf: the whole field."
            )
        else:
            say(bold=name.capitalize())
        lines = [f"  {row['name']:<{_WIDTH}}{_title(row)}" for row in rows]
        say("\n".join(lines or ["  none yet"]))
        if name == "models" and not costs:
            say("  `fino list models` adds their reach, weights and cost.")
        say()


def _title(row: dict[str, Any]) -> str:
    title = str(row["paper"] if "paper" in row else row["title"])
    return f"{title}: {row['equation']}" if "equation" in row else title


def _cost_row(row: dict[str, Any]) -> list[str]:
    line, plane = row["1d"], row["2d"]
    reach = dict.fromkeys(str(part["reach"]) for part in (line, plane))
    return [
        row["name"],
        "/".join(reach),
        *(f"{part['parameters']:,}" for part in (line, plane)),
        *(f"{part['multiply_adds'] / 1e6:,.1f}" for part in (line, plane)),
    ]


def _list_tables(*kinds: str, costs: bool = True) -> dict[str, Rows]:
    """The tables of the package as plain rows, ready for JSON; all of them if none is named.

    To count the models' costs takes a second or two; `costs` leaves them out.
    """
    made = {
        "problems": _problems,
        "models": lambda: _models() if costs else _papers(),
        "baselines": _baselines,
        "metrics": _metrics,
        "recipes": _recipes,
        "pretrained": _pretrained,
    }
    return {kind: made[kind]() for kind in kinds or get_args(Kind)}


def _source(module: str) -> ast.Module:
    """What a module says; to import it would import torch, which takes longer than the rest."""
    spec = find_spec(module)
    assert spec is not None and spec.origin is not None
    return ast.parse(Path(spec.origin).read_text(encoding="utf-8"))


def _strings(module: str, attribute: str) -> dict[str, str]:
    """The string that each class of a module has for an attribute."""
    return {
        cls.name: ast.literal_eval(line.value)
        for cls in _source(module).body
        if isinstance(cls, ast.ClassDef)
        for line in cls.body
        if isinstance(line, ast.AnnAssign) and line.value is not None
        if isinstance(line.target, ast.Name) and line.target.id == attribute
    }


def _assigned(module: str, name: str) -> Any:
    """The expression that a module gives a name."""
    for line in _source(module).body:
        targets = getattr(line, "targets", [getattr(line, "target", None)])
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return getattr(line, "value", None)
    raise LookupError(f"{module} has no {name}")


def _baselines() -> Rows:
    titles = _strings("fino.model.lookup", "title") | _strings("fino.model.baselines", "title")
    table = _assigned("fino.model.baselines", "BASELINES")
    pairs = zip(table.keys, table.values, strict=True)
    return [{"name": key.value, "title": titles[cls.id]} for key, cls in pairs]


def _metrics() -> Rows:
    calls = _assigned("fino.metrics", "_TABLE").elts
    return [dict(zip(("name", "title"), (a.value for a in c.args[:2]), strict=True)) for c in calls]


def _papers() -> Rows:
    """The models without their cost."""
    from fino.model import HOME

    places = {name: home.split(".") for name, home in HOME.items()}
    return [
        {"name": name, "paper": _strings(f"fino.model.{module}", "paper")[cls]}
        for name, (module, cls) in places.items()
    ]


def _pretrained() -> Rows:
    from fino.model.pretrained import CARD, WEIGHTS, card_title, pretrained_names, read_card

    cards = {name: read_card(WEIGHTS / name / CARD) for name in pretrained_names()}
    return [{"name": name, "title": card_title(card)} for name, card in cards.items()]


def _problems() -> Rows:
    from fino.pde import PROBLEMS

    rows = []
    for name, problem in PROBLEMS.items():
        usual = problem()
        facts = {
            "name": name,
            "title": problem.title,
            "equation": problem.equation,
            "fields": list(problem.fields),
            "points": list(usual.grid.points),
            "frames": 2 if problem.steady else len(usual.times),
            "steady": problem.steady,
        }
        rows.append(facts)
    return rows


def _recipes() -> Rows:
    from fino.recipe.recipe import find_recipes

    texts = {name: path.read_text(encoding="utf-8") for name, path in find_recipes().items()}
    return [{"name": n, "title": tomllib.loads(t).get("title", "")} for n, t in texts.items()]


def _models() -> Rows:
    from fino.model import MODELS

    rows: Rows = []
    for name, cls in MODELS.items():
        measured = {f"{dims}d": _cost(cls, dims) for dims in _SPACES}
        rows.append({"name": name, "paper": cls.paper, "sizes": list(cls.sizes), **measured})
    return rows


def _cost(cls: Any, dims: int) -> dict[str, Any]:
    import torch

    from fino.model.cost import multiply_adds, parameters

    # Shapes are enough: on the meta device nothing is allocated or computed.
    with torch.device("meta"):
        network = cls(dims=dims, inputs=_INPUTS, outputs=1).eval()
    radius = network.locality.radius[0]
    return {
        "space": list(_SPACES[dims]),
        "reach": int(radius) if math.isfinite(radius) else "inf",
        "parameters": parameters(network),
        "multiply_adds": multiply_adds(network, (1, _INPUTS, *_SPACES[dims])),
    }
