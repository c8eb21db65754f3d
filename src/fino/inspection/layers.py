"""What a model learned: its prior, its stencils beside the textbooks', its gates on data, its Δt.

    û = Σ_k w_k u_{t−k} + network         "linear" prior: which frames are combined
    û = S ∗ u_t + network                 "stencil": (S − 1)/Δt is a differential operator
    G = σ(g) ⊙ S,   g = W_g ∗ S           a gate is open where σ(g) > ½

The prior's stencil acts on the fields themselves, so its moments are the coefficients of the
linear equation that fits the data best, in physical units.

A layer of 16 × 16 channels holds 256 stencils.  The report says what most of their weight looks
like, how that compares with chance, and shows the strongest ones in full.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fino.given import Given
from fino.inspection.held import modulations
from fino.inspection.stencil import (
    StencilReport,
    chance_distance,
    moments,
    nearest_classical,
    stencil_report,
)
from fino.model.emulator import Emulator
from fino.model.fino import LocalOperatorBlock
from fino.model.fused import plain_blocks
from fino.model.prior import LinearPrior, PastFrames, Scheme
from fino.model.rollout import take_step
from fino.shapes import Trajectory

__all__ = [
    "GateReport",
    "LayerReport",
    "PriorReport",
    "StrongStencil",
    "gate_reports",
    "layer_reports",
    "prior_report",
]

#: Stencils of a layer that are shown in full.
_STRONGEST = 3
#: Coefficients of a field's rate of change, by field and derivative.
Rate = dict[tuple[str, tuple[int, ...]], float]


@dataclass(frozen=True)
class PriorReport:
    """What is predicted before the network adds anything.

    `frames` maps how many steps ago to the weight of each field, `equation` each field to its
    rate of change.
    """

    kind: str
    frames: dict[int, tuple[float, ...]]
    equation: dict[str, Rate]


def prior_report(emulator: Any) -> PriorReport:
    """Read the prior of an emulator; coefficients too small to matter are left out."""
    prior: LinearPrior = emulator.prior
    frames, equation = {}, {}
    if isinstance(prior, PastFrames):
        weights = prior.weight.detach().double()
        for row, ago in zip(weights, range(len(weights), 0, -1), strict=True):
            if float(row.abs().max()) > 0.05 * float(weights.abs().max()):
                frames[ago] = tuple(row.tolist())
    if isinstance(prior, Scheme):
        for place, field in enumerate(emulator.settings.fields):
            equation[field] = _rate(emulator, prior.weight.detach(), place)
    return PriorReport(prior.kind, frames, equation)


def _rate(emulator: Any, weight: Tensor, place: int) -> Rate:
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


@dataclass(frozen=True, eq=False)
class StrongStencil:
    """One of the strongest stencils of a layer: from which channel to which, with what share."""

    output: int
    input: int
    share: float
    report: StencilReport


@dataclass(frozen=True, eq=False)
class LayerReport:
    """One layer of stencils.

    `nearest` holds the shares of the layer's squared weight by closest textbook stencil,
    `distance` the weighted median distance to it and `chance` that of random weights.
    """

    name: str
    stencils: int
    window: tuple[int, ...]
    spacing: tuple[float, ...]
    nearest: dict[str, float]
    distance: float
    chance: float
    strongest: tuple[StrongStencil, ...]

    @property
    def is_classical(self) -> bool:
        """Whether it lies clearly closer to the textbooks than chance would have it."""
        return self.distance < 0.7 * self.chance


@dataclass(frozen=True)
class GateReport:
    """One block's gates on data.

    `open_share` (channels) is how often σ > ½, `mean` the average opening; `always_open` and
    `always_shut` count channels that never change their mind.  `largest` and `sensitivity` are
    the largest σ and |s σ′|, for the layer-wise bound.
    """

    block: str
    open_share: tuple[float, ...]
    mean: float
    always_open: int
    always_shut: int
    largest: float
    sensitivity: float

    @property
    def channels(self) -> int:
        return len(self.open_share)

    @property
    def average_open(self) -> float:
        return sum(self.open_share) / len(self.open_share)


def _holds_stencils(module: nn.Module) -> bool:
    """Whether the weights are stencils: odd windows over space, wider than a cell."""
    weight = getattr(module, "weight", None)
    if not isinstance(weight, Tensor) or weight.dim() < 3 or weight.is_complex():
        return False
    window = weight.shape[2:]
    return max(window) > 1 and all(n % 2 for n in window)


def layer_reports(emulator: Emulator, given: Given | Trajectory) -> list[LayerReport]:
    """A report for every layer of stencils, as the parameters of the first row scale them.

    One step tells on which grid each layer works and how large its inputs are: a stencil counts
    by its weights times the size of what it is applied to.
    """
    given, grid, reports = Given.of(given), emulator.grid, []
    changed = {
        f"{block}.operator.stencil": film for block, film in modulations(emulator, given).items()
    }
    layers: dict[str, Any] = {
        name: module for name, module in emulator.network.named_modules() if _holds_stencils(module)
    }
    seen = _record(layers, emulator, given)
    for name, layer in layers.items():
        weights = layer.weight.detach().double()
        if name in changed:
            weights = weights * (1 + changed[name].scale[0].unsqueeze(1))
        weights = weights.cpu().numpy()
        spacing, size = grid.spacing, np.ones(weights.shape[1])
        inputs, _ = seen.get(name, (None, None))
        if inputs is not None and inputs.dim() == 2 + grid.dims:
            spacing = tuple(
                h * max(1, round(n / m))
                for h, n, m in zip(spacing, given.space, inputs.shape[2:], strict=True)
            )
            size = inputs.double().square().flatten(2).mean(dim=(0, 2)).sqrt().numpy()
        reports.append(layer_report(name, weights, spacing, size))
    return reports


def layer_report(
    name: str, weights: np.ndarray, spacing: Sequence[float], size: np.ndarray
) -> LayerReport:
    """Sum up the weights (outputs, inputs, *window) of one layer; `size` is that of its inputs."""
    outputs, inputs, *window = weights.shape
    h = tuple(float(d) for d in spacing)
    flat = weights.reshape(outputs * inputs, *window)
    strength = np.sqrt((weights**2).reshape(outputs, inputs, -1).sum(axis=2)) * size[:inputs]
    share = (strength**2).ravel() / max((strength**2).sum(), 1e-300)
    found = nearest_classical(flat, h)
    nearest: dict[str, float] = {}
    for one, weight in zip(found, share, strict=True):
        nearest[one.name] = nearest.get(one.name, 0.0) + float(weight)
    return LayerReport(
        name=name,
        stencils=len(flat),
        window=tuple(window),
        spacing=h,
        nearest=dict(sorted(nearest.items(), key=lambda item: -item[1])),
        distance=_weighted_median(np.array([one.distance for one in found]), share),
        chance=chance_distance(tuple(window)),
        strongest=tuple(
            StrongStencil(i // inputs, i % inputs, float(share[i]), stencil_report(flat[i], h))
            for i in np.argsort(-share, kind="stable")[:_STRONGEST].tolist()
        ),
    )


def _weighted_median(values: np.ndarray, weights: np.ndarray) -> float:
    order = np.argsort(values)
    half = np.searchsorted(np.cumsum(weights[order]), 0.5 * weights.sum())
    return float(values[order[min(half, len(values) - 1)]])


def gate_reports(emulator: Emulator, given: Given | Trajectory) -> list[GateReport]:
    """A report for every gated block, from one step over a batch."""
    given = Given.of(given)
    changed = {f"{block}.operator": film for block, film in modulations(emulator, given).items()}
    gated = {
        name: module.gate
        for name, module in emulator.network.named_modules()
        if isinstance(module, LocalOperatorBlock) and module.gate is not None
    }
    found = []
    for name, (s, g) in _record(gated, emulator, given).items():
        opening = torch.sigmoid(g + changed[name].gate if name in changed else g)
        share = (opening > 0.5).float().flatten(2).mean(dim=(0, 2))
        report = GateReport(
            block=name,
            open_share=tuple(share.tolist()),
            mean=float(opening.mean()),
            always_open=int((share == 1).sum()),
            always_shut=int((share == 0).sum()),
            largest=float(opening.max()),
            sensitivity=float((s * opening * (1 - opening)).abs().max()),
        )
        found.append(report)
    return found


def _record(
    modules: Mapping[str, nn.Module], emulator: Emulator, given: Given
) -> dict[str, tuple[Any, Any]]:
    """The input and output of each module in one step, by name, of those that were called."""
    seen: dict[str, tuple[Any, Any]] = {}

    def hook(name: str) -> Any:
        return lambda module, inputs, output: seen.update({name: (inputs[0], output)})

    handles = [module.register_forward_hook(hook(name)) for name, module in modules.items()]
    try:
        if modules:
            with plain_blocks(), torch.no_grad():
                take_step(emulator, given)
    finally:
        for handle in handles:
            handle.remove()
    return {name: seen[name] for name in modules if name in seen}
