"""What there is: every problem, model, baseline, metric, recipe and pretrained model by name.

Models are described at their default size for one stated input, so that their costs compare:
ten past frames of one field on a line of 128 cells, and on a square of 64 × 64.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from fino.metrics import METRICS
from fino.model import MODELS
from fino.model.baselines import BASELINES
from fino.model.cost import multiply_adds, parameters
from fino.pde import PROBLEMS
from fino.training.run import PRETRAINED

__all__ = ["INPUTS", "SPACES", "catalogue"]

#: The input that costs are stated for: channels, and the grid in one and two dimensions.
INPUTS = 10
SPACES = {1: (128,), 2: (64, 64)}


def catalogue(*kinds: str) -> dict[str, list[dict[str, Any]]]:
    """The tables of the house as plain rows, ready for JSON; all of them if none is named."""
    return {kind: _TABLES[kind]() for kind in kinds or _TABLES}


def _problems() -> list[dict[str, Any]]:
    return [_problem(name, problem()) for name, problem in PROBLEMS.items()]


def _problem(name: str, problem: Any) -> dict[str, Any]:
    return {
        "name": name,
        "title": problem.title,
        "equation": problem.equation,
        "fields": list(problem.fields),
        "points": list(problem.grid.points),
        "frames": 2 if problem.steady else len(problem.times),
        "steady": problem.steady,
    }


def _models() -> list[dict[str, Any]]:
    return [_model(name) for name in MODELS]


def _model(name: str) -> dict[str, Any]:
    cls = MODELS[name]
    row: dict[str, Any] = {"name": name, "paper": cls.paper, "sizes": list(cls.sizes)}
    for dims, space in SPACES.items():
        # Shapes are enough: on the meta device nothing is allocated or computed.
        with torch.device("meta"):
            network = cls(dims=dims, inputs=INPUTS, outputs=1).eval()
        radius = network.locality.radius[0]
        row[f"{dims}d"] = {
            "space": list(space),
            "reach": int(radius) if math.isfinite(radius) else "inf",
            "parameters": parameters(network),
            "multiply_adds": multiply_adds(network, (1, INPUTS, *space)),
        }
    return row


def _baselines() -> list[dict[str, Any]]:
    return [{"name": name, "title": baseline.title} for name, baseline in BASELINES.items()]


def _metrics() -> list[dict[str, Any]]:
    return [{"name": name, "title": metric.title} for name, metric in METRICS.items()]


def _recipes() -> list[dict[str, Any]]:
    """The recipe files that come with the package, with their title where they have one."""
    folder = Path(__file__).parent / "recipes"
    rows = []
    for path in sorted(folder.glob("*.toml")):
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        rows.append({"name": path.stem, "title": content.get("title", "")})
    return rows


def _pretrained() -> list[dict[str, Any]]:
    """The trained models that come with the package."""
    return [{"name": name, "title": entry.title} for name, entry in PRETRAINED.items()]


_TABLES: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "problems": _problems,
    "models": _models,
    "baselines": _baselines,
    "metrics": _metrics,
    "recipes": _recipes,
    "pretrained": _pretrained,
}
