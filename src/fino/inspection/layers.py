"""All learned stencils of a network, summed up layer by layer.

A layer of 16 × 16 channels holds 256 stencils.  The report says what most of their weight looks
like, how that compares with chance, and shows the strongest ones in full.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from fino.grid import Grid
from fino.inspection.gates import recorded
from fino.inspection.stencil import (
    StencilReport,
    chance_distance,
    nearest_classical,
    stencil_report,
)
from fino.model.fused import plain_blocks
from fino.shapes import Trajectory

__all__ = ["LayerReport", "Strong", "layer_reports", "stencil_layers"]


@dataclass(frozen=True, eq=False)
class Strong:
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
    strongest: tuple[Strong, ...]

    @property
    def is_classical(self) -> bool:
        """Whether it lies clearly closer to the textbooks than chance would have it."""
        return self.distance < 0.7 * self.chance


def stencil_layers(network: nn.Module) -> dict[str, nn.Module]:
    """Every layer whose weights are stencils: odd windows over space, wider than a cell."""
    found = {}
    for name, module in network.named_modules():
        weight = getattr(module, "weight", None)
        if not isinstance(weight, torch.Tensor) or weight.dim() < 3 or weight.is_complex():
            continue
        window = weight.shape[2:]
        if max(window) > 1 and all(n % 2 for n in window):
            found[name] = module
    return found


def layer_reports(
    network: nn.Module,
    grid: Grid,
    step: Any,
    history: Trajectory,
    strongest: int = 3,
) -> list[LayerReport]:
    """A report for every layer of stencils.

    One step over `history` tells on which grid each layer works and how large its inputs are:
    a stencil counts by its weights times the size of what it is applied to.
    """
    layers = stencil_layers(network)
    with recorded(layers) as seen, plain_blocks(), torch.no_grad():
        step(history)
    reports = []
    for name, layer in layers.items():
        inputs = seen[name][0] if name in seen else None
        weights = _weights(layer)
        spacing, size = grid.spacing, np.ones(weights.shape[1])
        if inputs is not None and inputs.dim() == 2 + grid.dims:
            coarse = inputs.shape[2:]
            spacing = tuple(
                h * max(1, round(n / m))
                for h, n, m in zip(grid.spacing, history.shape[3:], coarse, strict=True)
            )
            size = inputs.double().square().flatten(2).mean(dim=(0, 2)).sqrt().numpy()
        reports.append(layer_report(name, weights, spacing, size, strongest))
    return reports


def layer_report(
    name: str,
    weights: np.ndarray,
    spacing: Sequence[float],
    size: np.ndarray,
    strongest: int = 3,
) -> LayerReport:
    """Sum up the weights (outputs, inputs, *window) of one layer."""
    outputs, inputs, *window = weights.shape
    h = tuple(float(d) for d in spacing)
    flat = weights.reshape(outputs * inputs, *window)
    strength = np.sqrt((weights**2).reshape(outputs, inputs, -1).sum(axis=2)) * size[:inputs]
    share = (strength**2).ravel() / max((strength**2).sum(), 1e-300)
    found = nearest_classical(flat, h)
    nearest: dict[str, float] = {}
    for one, weight in zip(found, share, strict=True):
        nearest[one.name] = nearest.get(one.name, 0.0) + float(weight)
    best = np.argsort(-share, kind="stable")[:strongest]
    return LayerReport(
        name=name,
        stencils=len(flat),
        window=tuple(window),
        spacing=h,
        nearest=dict(sorted(nearest.items(), key=lambda item: -item[1])),
        distance=_weighted_median(np.array([one.distance for one in found]), share),
        chance=chance_distance(tuple(window)),
        strongest=tuple(
            Strong(int(i) // inputs, int(i) % inputs, float(share[i]), stencil_report(flat[i], h))
            for i in best
        ),
    )


def _weights(layer: nn.Module) -> np.ndarray:
    weight: Any = layer.weight
    return np.asarray(weight.detach().double().cpu().numpy())


def _weighted_median(values: np.ndarray, weights: np.ndarray) -> float:
    order = np.argsort(values)
    half = np.searchsorted(np.cumsum(weights[order]), 0.5 * weights.sum())
    return float(values[order[min(half, len(values) - 1)]])
