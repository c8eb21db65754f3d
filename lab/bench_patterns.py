"""`python -m lab bench patterns`: Gray–Scott's six patterns, rolled out for 30 steps.

Every test trajectory is rolled out from several frames on, and its error is kept by pattern and by
step, as VRMSE (The Well's measure): the error relative to the truth's standard deviation in space.
"""

from __future__ import annotations

import json as text
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import fino
from fino.cli.console import progress, say, say_json, table
from fino.data.dataset import Dataset
from fino.durable import write_json
from fino.metrics import vrmse
from fino.model.emulator import Emulator
from fino.model.rollout import rollout
from fino.pde.gray_scott import PATTERNS
from fino.training.run import find_run

__all__ = ["measure_patterns", "patterns"]

RESULTS = Path(__file__).parent / "results" / "gray-scott.json"
FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "gray-scott.png"
#: Frames that rollouts begin at: the clusters of the start, soon after, while patterns grow, and
#: when they fill the square.
BEGINS = (0, 5, 20, 60)
STEPS = 30


def patterns(run: Path, *, data: Path | None = None, without: str = "", json: bool = False) -> None:
    """30 steps of every pattern: `python -m lab bench patterns runs/gray-scott`.

    Keeps the errors in lab/results/gray-scott.json.

    Parameters
    ----------
    run
        A run on data with the patterns.
    data
        Another file, all of it; the test part of the run's own data if not given.
    without
        The pattern that was left out of the training, and is in the data.
    json
        Print the errors as JSON.
    """
    found = find_run(run)
    source = found.data if data is None else fino.open(data)
    samples = list(source.test.samples if data is None else range(len(source)))
    with progress("rolling out", quiet=json) as show:
        errors = measure_patterns(found.model, source, samples, show)
    kept = text.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    kept[f"without {without}" if without else "all"] = errors
    write_json(RESULTS, kept)
    if json:
        say_json(errors)
        return
    rows = [[name, *map(_words, row.values())] for name, row in errors.items()]
    columns = ["pattern", *(f"from frame {begin}" for begin in BEGINS)]
    table("VRMSE at step 1, over steps 6–12, over steps 13–30; mean of both fields", columns, rows)
    say(f"Kept in {RESULTS}.")


def _words(errors: dict[str, Any]) -> str:
    return " ".join(f"{errors[steps]:.2g}" for steps in ("1", "6-12", "13-30"))


def measure_patterns(
    model: Emulator,
    data: Dataset,
    samples: list[int],
    show: Callable[[float], None] | None = None,
) -> dict[str, dict[str, Any]]:
    """VRMSE by pattern and by the frame that it begins at.

    Each at step 1, over steps 6–12 and 13–30, at the worst step, and at every step.
    """
    errors: dict[str, dict[str, list[torch.Tensor]]] = {}
    part = data.everything
    for done, sample in enumerate(samples, start=1):
        name = _pattern(data, sample)
        for begin in BEGINS:
            given = part.beside([sample], begin, model.history)
            u = part.trajectory(sample, begin, model.history + STEPS)
            recent = given.with_history(u[None, : model.history])
            with torch.no_grad():
                predicted = rollout(model, recent, STEPS)
            error = vrmse(predicted, u[None, model.history :]).mean(dim=2)[0]
            errors.setdefault(name, {}).setdefault(str(begin), []).append(error)
        if show is not None:
            show(done / len(samples))
    return {n: {b: _summed(rows) for b, rows in own.items()} for n, own in errors.items()}


def _summed(rows: list[torch.Tensor]) -> dict[str, Any]:
    each = torch.stack(rows).mean(dim=0)
    return {
        "1": float(each[0]),
        "6-12": float(each[5:12].mean()),
        "13-30": float(each[12:30].mean()),
        "worst": float(torch.stack(rows).amax()),
        "steps": [round(float(e), 6) for e in each],
    }


def _pattern(data: Dataset, sample: int) -> str:
    """The pattern whose feed and kill rates a trajectory has."""
    here = [float(data.parameters[name][sample]) for name in ("feed", "kill")]
    near = {n: abs(f - here[0]) + abs(k - here[1]) for n, (f, k) in PATTERNS.items()}
    return min(near, key=near.__getitem__)
