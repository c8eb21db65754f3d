"""An upper bound of the Lipschitz constant, layer by layer.

    ‖w ∗‖ = max over θ of σ_max( Σ_p w_p e^{i p·θ} )       exact on a periodic grid, by FFT

Norms of layers multiply, branches add.  The gate σ(g) ⊙ s multiplies two fields, so no constant
holds for all inputs; its factor max σ + max |s σ′| ‖W_g‖ uses the largest values seen on data.
The product is far from sharp: it assumes that every layer stretches the same direction most.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from fino.given import Given
from fino.inspection.held import modulations
from fino.model.convolution import Convolution
from fino.model.emulator import Emulator
from fino.model.fino import Film, Fino, FluxHead, PatchHead
from fino.model.unet import UNet

__all__ = ["Gates", "LayerBound", "layer_bound"]

#: By gated block: the largest σ and the largest |s σ′| seen on data.
Gates = dict[str, tuple[float, float]]

#: The steepest slope of each activation.
_SLOPES = {"relu": 1.0, "tanh": 1.0, "gelu": 1.129, "silu": 1.0999}


@dataclass(frozen=True)
class LayerBound:
    """An upper bound of C for the whole step, and the norm of every layer in it."""

    constant: float
    network: float
    layers: dict[str, float]


def convolution_norm(layer: Convolution, points: Sequence[int]) -> float:
    """The largest stretch of a stencil layer on a grid of `points` cells, by FFT.

    Exact where every axis is periodic.  Elsewhere an upper bound: the supremum over all waves,
    times what the ghost cells repeat (a copied edge counts 1 + r times, a mirrored cell twice).
    """
    if not any(layer.radius):
        return float(torch.linalg.matrix_norm(layer.weight.detach().double().flatten(1), 2))
    return _window_norm(layer.weight, layer.radius, points, layer.boundary)


def _window_norm(
    weight: Tensor, radius: Sequence[int], points: Sequence[int], boundary: Sequence[str]
) -> float:
    """max over wavenumbers of σ_max of the (outputs × inputs) symbol, times the walls' factor."""
    lengths, factor = [], 1.0
    for n, r, name in zip(points, radius, boundary, strict=True):
        if name == "periodic":
            lengths.append(int(n))
            continue
        samples = max(32, 32 * r)
        lengths.append(samples)
        # a polynomial of degree r in e^{iθ} exceeds its samples by at most this (Ehlich, Zeller)
        factor /= math.cos(math.pi * r / samples)
        factor *= {"dirichlet": 1.0, "neumann": math.sqrt(1 + r), "reflect": math.sqrt(2)}[name]
    kernel = torch.zeros(*lengths, *weight.shape[:2], dtype=torch.float64)
    taps = weight.detach().double().movedim((0, 1), (-2, -1))
    for place in product(*(range(n) for n in weight.shape[2:])):
        # a window wider than a periodic axis wraps around and adds up
        cell = tuple((p - r) % n for p, r, n in zip(place, radius, lengths, strict=True))
        kernel[cell] += taps[place]
    symbol = torch.fft.rfftn(kernel, dim=tuple(range(len(lengths)))).flatten(0, -3)
    small = symbol if symbol.shape[1] <= symbol.shape[2] else symbol.mH
    largest = [torch.linalg.eigvalsh(some @ some.mH)[:, -1].max() for some in small.split(1024)]
    return factor * math.sqrt(max(0.0, *map(float, largest)))


def layer_bound(
    emulator: Emulator, gates: Gates | None = None, given: Given | None = None
) -> LayerBound | None:
    """The bound for an emulator's buffer step, at the parameters of what is given.

    None for networks whose structure is not known here, for gates that no data has opened, and for
    walls that continue the field into a mask.
    """
    bound = next((b for known, b in _KNOWN.items() if isinstance(emulator.network, known)), None)
    if bound is None or emulator.settings.given.walls == "neumann":
        return None
    changed = modulations(emulator, given) if given is not None else {}
    tally = _Tally(emulator.network, emulator.grid.points, gates or {}, changed, {})
    try:
        with torch.no_grad():
            norm = bound(tally)
    except KeyError:
        return None
    ratio = float((emulator.output_std / emulator.input_std).abs().max())
    return LayerBound(_prior_norm(emulator) + ratio * norm, norm, tally.layers)


def _prior_norm(emulator: Emulator) -> float:
    """The rolled buffer without its network: frames move up, the prior makes the newest."""
    frame_weights, grid = emulator.prior.frame_weights, emulator.grid
    if frame_weights is not None:
        return max(_companion_norm(of_channel) for of_channel in frame_weights.T)
    weight: Any = emulator.prior.weight
    scale = emulator.input_std.view(-1, *[1] * (weight.dim() - 1))
    scaled = weight * scale.transpose(0, 1) / scale
    norm = _window_norm(scaled, (1,) * grid.dims, grid.points, grid.boundary)
    return math.hypot(1.0, norm) if emulator.history > 1 else norm


def _companion_norm(weights: Tensor) -> float:
    """The norm of the shift of K frames whose newest is a combination of all."""
    matrix = torch.ones(len(weights) - 1, dtype=torch.float64).diag(1)
    matrix[-1] = weights.double()
    return float(torch.linalg.matrix_norm(matrix, 2))


@dataclass(frozen=True)
class _Tally:
    """A network whose layers are being measured, by name."""

    network: Any
    points: tuple[int, ...]
    gates: Gates
    modulations: dict[str, Film]
    layers: dict[str, float]

    @property
    def slope(self) -> float:
        return _SLOPES[self.network.settings.activation]

    @property
    def levels(self) -> int:
        return len(self.network.encoder)

    def norm(self, name: str, level: int = 0) -> float:
        layer = self.network.get_submodule(name)
        wide = getattr(self.network.settings, "patch", 1) * 2**level
        self.layers[name] = convolution_norm(layer, [n // wide for n in self.points])
        return self.layers[name]


def _fino(tally: _Tally) -> float:
    """Levels from the bottom up: D(U(z) + x) after x = D(x); pooling and doubling cancel."""

    def stack(name: str, level: int) -> float:
        blocks = tally.network.get_submodule(name)
        return math.prod(_block(tally, f"{name}.{place}", level) for place in range(len(blocks)))

    bound = stack("bottleneck", tally.levels)
    for level in reversed(range(tally.levels)):
        bound = stack(f"decoder.{level}", level) * (bound + 1) * stack(f"encoder.{level}", level)
    return bound * _head_norm(tally)


def _head_norm(tally: _Tally) -> float:
    """Cells that become channels, and channels that become cells, stretch nothing."""
    head = tally.network.head
    if isinstance(head, PatchHead):
        return tally.norm("head.map")
    if isinstance(head, FluxHead) and head.patch > 1:
        fluxes = float(torch.linalg.matrix_norm(head.flux.detach().double().flatten(0, 1), 2))
        apart = _window_norm(head.difference, head.radius, tally.points, head.boundary)
        tally.layers["head"] = fluxes * apart
        return tally.layers["head"]
    return tally.norm("head")


def _block(tally: _Tally, name: str, level: int) -> float:
    """‖W_p‖ (1 + Δt ‖W_c‖ gate ‖w‖) for U′ = U + Δt W_c [σ(W_g S) ⊙ S]."""
    block = tally.network.get_submodule(name)
    derivative, film = tally.norm(f"{name}.operator.stencil", level), tally.modulations.get(name)
    if film is not None:
        derivative *= float((1 + film.scale).abs().max())
    if block.operator.gate is not None:
        opening, sensitivity = tally.gates[f"{name}.operator"]
        derivative *= opening + sensitivity * tally.norm(f"{name}.operator.gate", level)
    derivative *= tally.norm(f"{name}.operator.fuse", level)
    dt = float(block.dt(None if film is None else film.dt).max())
    return tally.slope * tally.norm(f"{name}.project", level) * (1 + dt * derivative)


def _unet(tally: _Tally) -> float:
    """Levels from the bottom up; putting fields side by side adds squares."""

    def two(name: str, level: int) -> float:
        total = 1.0
        for part in ("first", "second"):
            total *= tally.slope * tally.norm(f"{name}.{part}", level)
            norm = tally.network.get_submodule(f"{name}.{part}_norm")
            if not isinstance(norm, nn.Identity):  # a batch norm in use
                total *= float((norm.weight / (norm.running_var + norm.eps).sqrt()).abs().max())
        return total

    bound = two("bottleneck", tally.levels)
    for level in reversed(range(tally.levels)):
        weight = tally.network.up[level].weight.detach().double()
        up = tally.layers[f"up.{level}"] = float(torch.linalg.matrix_norm(weight.flatten(1), 2))
        side_by_side = math.hypot(up * bound, 1.0)
        bound = two(f"decoder.{level}", level) * side_by_side * two(f"encoder.{level}", level)
    return bound * tally.norm("head")


_KNOWN: dict[type[nn.Module], Callable[[_Tally], float]] = {Fino: _fino, UNet: _unet}
