"""What a model predicts before its network adds anything: its linear prior, in numbers.

    û = Σ_k w_k u_{t−k} + network         "linear": which frames are combined
    û = S ∗ u_t + network                 "stencil": (S − 1)/Δt is a differential operator

The stencil acts on the fields themselves, so its moments are the coefficients of the linear
equation that fits the data best, in physical units.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fino.inspection.stencil import moments

__all__ = ["PriorReport", "frame_weights", "prior_of", "prior_report"]


@dataclass(frozen=True, eq=False)
class Prior:
    """What a network adds to.

    kind      "frame" (nothing), "increment" (the last frame), "linear" or "stencil"
    weight    (K, c) for "linear", (c, c, 3, …) for "stencil", else None
    """

    kind: str
    weight: Tensor | None = None


def prior_of(emulator: Any) -> Prior:
    """The prior of an emulator: the one place that knows where an emulator keeps it."""
    kind = emulator.settings.predict
    weight = {"linear": "base", "stencil": "scheme"}.get(kind)
    return Prior(kind, None if weight is None else getattr(emulator, weight).detach())


def frame_weights(prior: Prior, history: int, channels: int) -> Tensor:
    """The weight of each past frame, (K, c), of a prior that combines frames."""
    if prior.kind == "linear" and prior.weight is not None:
        return prior.weight
    weights = torch.zeros(history, channels)
    weights[-1] = float(prior.kind == "increment")
    return weights


@dataclass(frozen=True)
class PriorReport:
    """The prior in numbers.

    `frames` maps how many steps ago to the weight of each field; `equation` maps each field to
    its rate of change: (field, derivative) → coefficient.
    """

    kind: str
    frames: dict[int, tuple[float, ...]]
    equation: dict[str, dict[tuple[str, tuple[int, ...]], float]]


def prior_report(emulator: Any) -> PriorReport:
    """Read the prior of an emulator; coefficients too small to matter are left out."""
    prior, frames, equation = prior_of(emulator), {}, {}
    if prior.kind == "linear" and prior.weight is not None:
        weights = prior.weight.double()
        for row, ago in zip(weights, range(len(weights), 0, -1), strict=True):
            if float(row.abs().max()) > 0.05 * float(weights.abs().max()):
                frames[ago] = tuple(row.tolist())
    if prior.kind == "stencil" and prior.weight is not None:
        for place, field in enumerate(emulator.settings.fields):
            equation[field] = _rate(emulator, prior.weight, place)
    return PriorReport(prior.kind, frames, equation)


def _rate(emulator: Any, weight: Tensor, place: int) -> dict[tuple[str, tuple[int, ...]], float]:
    """The moments of (S − 1)/Δt for one field, the terms that matter in a step."""
    settings, grid = emulator.settings, emulator.grid
    scheme = weight.double().cpu().numpy()[place].copy()
    scheme[(place, *[1] * grid.dims)] -= 1.0
    spread = emulator.input_std.detach().double().cpu().numpy()
    found = {}
    for source, (name, weights) in enumerate(zip(settings.fields, scheme, strict=True)):
        in_cells = moments(weights, (1.0,) * grid.dims, highest=2)
        for alpha, value in moments(weights, grid.spacing, highest=2).items():
            if abs(in_cells[alpha]) * spread[source] > 3e-3 * spread[place]:
                found[name, alpha] = value / settings.dt
    return found
