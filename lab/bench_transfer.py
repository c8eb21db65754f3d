"""`python -m lab bench transfer`: models on cells half as wide as those they were trained on.

The test samples are solved again and kept on twice as many cells along each axis.  A model runs
there in two ways:

as it is     the network as it was trained, on the finer cells
scaled       its stencils keep their length: taps lie two cells apart

Taps two cells apart never mix even with odd cells, so the second way is the trained model on each
of the 2ᵈ interleaved grids.  Where a wall is, a grid that begins one cell further from it is the
mirror image of one that ends there, and is run as such.  For a model of the whole field, such as
FNO, only the first way is its own.
"""

from __future__ import annotations

import json as text
from itertools import product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fino.cli.console import progress, say, say_json, table
from fino.data.card import Card
from fino.data.dataset import Dataset
from fino.durable import write_json
from fino.evaluation.evaluate import evaluate
from fino.model.baselines import Persistence
from fino.model.convolution import fold, unfold
from fino.model.emulator import Emulator
from fino.model.pretrained import plan_again, solve_samples
from fino.shapes import Field, Trajectory
from fino.training.run import find_run
from lab import keep

__all__ = ["KEPT", "Interleaved", "load_transfers", "on_finer_cells", "score_transfer", "transfer"]

KEPT = "transfer.json"


def transfer(*runs: str, samples: int = 20, json: bool = False) -> None:
    """Score runs on cells half as wide: `python -m lab bench transfer advection`.

    Parameters
    ----------
    runs
        Runs on data that were kept at every second cell or fewer; names of shipped models.
    samples
        Test trajectories.
    json
        Print the figures as JSON.
    """
    if not runs:
        raise ValueError("transfer should be given a run, such as advection.")
    rows: list[dict[str, Any]] = []
    with progress("solving and rolling out", quiet=json) as show:
        for name in runs:
            rows.append({"run": Path(name).name, **score_transfer(name, samples)})
            show(len(rows) / len(runs))
    write_json(keep.RESULTS / KEPT, rows)
    if json:
        say_json(rows)
        return
    columns = (
        "run",
        "own cells",
        "as it is, twice as fine",
        "scaled, twice as fine",
        "persistence",
    )
    keys = ("own", "as it is", "scaled", "persistence")
    table(
        f"nRMSE of rollouts, {samples} test trajectories",
        columns,
        [(row["run"], *("–" if row[k] is None else f"{row[k]:.3g}" for k in keys)) for row in rows],
    )
    say("Next: python -m lab results --readme README.md")


def load_transfers() -> list[dict[str, Any]]:
    """What is kept; empty where nothing was measured."""
    path = keep.RESULTS / KEPT
    return list(text.loads(path.read_text())) if path.exists() else []


def score_transfer(name: str, samples: int) -> dict[str, Any]:
    """nRMSE of one run on its own cells, on finer ones in both ways, and of persistence there."""
    run = find_run(name)
    model = run.model
    if not isinstance(model, Emulator) or model.settings.coordinates:
        raise ValueError(f"{name} is given coordinates of its grid and cannot run on another one.")
    fine = on_finer_cells(run.data_card, samples)
    cases: dict[str, tuple[Any, Dataset]] = {
        "own": (model, run.test_data(samples)),
        "as it is": (AsItIs(model), fine),
        "persistence": (Persistence(fine.grid), fine),
    }
    if model.locality.is_local:
        cases["scaled"] = (Interleaved(model), fine)
    errors = {
        case: evaluate(step, data, baselines=False)["nrmse"].value
        for case, (step, data) in cases.items()
    }
    facts = {"task": run.data_card.name, "model": model.settings.model, "samples": samples}
    return {**facts, "points": [*fine.grid.points], "scaled": None, **errors}


def on_finer_cells(card: Card, samples: int) -> Dataset:
    """The first test samples of a card, kept on twice as many cells along each axis."""
    if card.split is None or card.seed is None or any(s % 2 for s in card.stride_space):
        raise ValueError(f"{card.name} should be kept at every second cell or fewer.")
    finer = plan_again(
        card.changed(
            stride_space=tuple(s // 2 for s in card.stride_space),
            points=tuple(2 * n for n in card.points),
        )
    )
    return solve_samples(finer, card.split.samples("test")[:samples])


class AsItIs:
    """A model on whatever cells: (b, K, c, *space) → (b, c, *space).

    Without the model's own grid, which `evaluate` would hold against the data's.
    """

    def __init__(self, model: Emulator) -> None:
        self.model, self.history = model, model.history

    def __call__(self, history: Trajectory) -> Field:
        frame: Field = self.model(history)
        return frame


class Interleaved:
    """A local model whose taps lie two cells apart: (b, K, c, *2n) → (b, c, *2n).

    Each of the 2ᵈ grids of every second cell is a sample of its own.  Between walls those that
    begin at an odd cell are mirrored, so that the cell at the wall comes first, as in training.
    """

    def __init__(self, model: Emulator) -> None:
        self.model, self.history, self.dims = model, model.history, model.grid.dims
        self.mirrored = [not periodic for periodic in model.grid.is_periodic]

    def __call__(self, history: Trajectory) -> Field:
        dims, batch = self.dims, len(history)
        parts = fold(history.flatten(0, 1), 2).unflatten(1, (-1, 2**dims))
        parts = parts.unflatten(0, (batch, -1)).movedim(3, 1)  # (b, 2ᵈ, K, c, *n)
        frames = self.model(self._mirror(parts).flatten(0, 1))
        frames = self._mirror(frames.unflatten(0, (batch, -1)))
        return unfold(frames.movedim(1, 2).flatten(1, 2), 2)

    def _mirror(self, parts: Tensor) -> Tensor:
        """Mirror the odd grids along every axis with walls: (b, 2ᵈ, …, *n)."""
        dims = self.dims
        odd = product((0, 1), repeat=dims)
        turned = []
        for part, offset in zip(parts.unbind(1), odd, strict=True):
            axes = [a - dims for a in range(dims) if offset[a] and self.mirrored[a]]
            turned.append(part.flip(axes) if axes else part)
        return torch.stack(turned, dim=1)
