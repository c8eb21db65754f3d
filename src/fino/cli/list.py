"""`fino list`: what there is, by name."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from cyclopts import Parameter

__all__ = ["show"]

#: Where descriptions begin.
_WIDTH = 30
_COLUMNS = ["name", "reach", "weights 1D", "weights 2D", "M mult-adds 1D", "M mult-adds 2D"]

Kind = Literal["problems", "models", "baselines", "metrics", "recipes", "pretrained"]


def show(
    kind: Kind | None = None, *, json: Annotated[bool, Parameter(negative="")] = False
) -> None:
    """List problems, models, baselines, metrics, recipes and pretrained weights.

    Parameters
    ----------
    kind
        Only this table; `fino list models` adds the models' reach, weights and cost.
    json
        Print the tables as JSON.
    """
    from fino.cli.console import say, say_json, table
    from fino.recipe.catalogue import INPUTS, SPACES, list_tables

    costs = json or kind == "models"
    tables = list_tables(*([kind] if kind else []), costs=costs)
    if json:
        say_json(tables)
        return
    for name, rows in tables.items():
        if name == "models" and costs:
            table(name.capitalize(), _COLUMNS, map(_costs, rows))
            grids = " and ".join("×".join(map(str, space)) for space in SPACES.values())
            say(
                f"At default size, one step, {INPUTS} channels in and 1 out, on {grids} cells. "
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


def _costs(row: dict[str, Any]) -> list[str]:
    line, plane = row["1d"], row["2d"]
    reach = dict.fromkeys(str(part["reach"]) for part in (line, plane))
    return [
        row["name"],
        "/".join(reach),
        *(f"{part['parameters']:,}" for part in (line, plane)),
        *(f"{part['multiply_adds'] / 1e6:,.1f}" for part in (line, plane)),
    ]
