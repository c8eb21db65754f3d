"""What a model predicts before its network adds anything: its linear prior, in numbers.

    û = Σ_k w_k u_{t−k} + network         "linear": which frames are combined
    û = S ∗ u_t + network                 "stencil": (S − 1)/Δt is a differential operator

The stencil acts on the fields themselves, so its moments are the coefficients of the linear
equation that fits the data best, in physical units.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from fino.inspection.stencil import moments
from fino.model.prior import LinearPrior, PastFrames, Scheme

__all__ = ["PriorReport", "prior_report"]


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
    prior: LinearPrior = emulator.prior
    frames: dict[int, tuple[float, ...]] = {}
    equation: dict[str, dict[tuple[str, tuple[int, ...]], float]] = {}
    if isinstance(prior, PastFrames):
        weights = prior.weight.detach().double()
        for row, ago in zip(weights, range(len(weights), 0, -1), strict=True):
            if float(row.abs().max()) > 0.05 * float(weights.abs().max()):
                frames[ago] = tuple(row.tolist())
    if isinstance(prior, Scheme):
        for place, field in enumerate(emulator.settings.fields):
            equation[field] = _rate(emulator, prior.weight.detach(), place)
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
