"""`fino list`: every problem, model, baseline, metric, recipe and pretrained model by name.

Models are described at their default size for one stated input, so that their costs compare:
ten past frames of one field on a line of 128 cells, and on a square of 64 × 64.
"""

from __future__ import annotations

import math
import tomllib
from importlib import import_module
from typing import Any, Literal, get_args

from fino.cli.console import say, say_json, table

__all__ = ["show"]

#: The input that costs are stated for: channels, and the grid in one and two dimensions.
_INPUTS = 10
_SPACES = {1: (128,), 2: (64, 64)}

#: Tables whose entries have a title.  Imported when asked for: recipes are listed without torch.
_TITLED = {
    "baselines": ("fino.model.baselines", "BASELINES"),
    "metrics": ("fino.metrics", "METRICS"),
    "pretrained": ("fino.training.run", "PRETRAINED"),
}

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
            say(f"[bold]{name.capitalize()}[/bold]")
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
    own = {"problems": _problems, "models": lambda: _models(costs), "recipes": _recipes}
    return {kind: own[kind]() if kind in own else _titles(kind) for kind in kinds or get_args(Kind)}


def _titles(kind: str) -> Rows:
    module, name = _TITLED[kind]
    table = getattr(import_module(module), name)
    return [{"name": name, "title": entry.title} for name, entry in table.items()]


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


def _models(costs: bool) -> Rows:
    from fino.model import MODELS

    rows: Rows = []
    for name, cls in MODELS.items():
        measured = {f"{dims}d": _cost(cls, dims) for dims in _SPACES} if costs else {}
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
