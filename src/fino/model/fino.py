"""FINO, the finite-difference-inspired neural operator, in the order of the paper.

    S    =  w ∗ u + b                        a learned stencil               (1)
    G    =  σ(W_g ∗ S) ⊙ S                   gated                           (2)
    ∂ₜU  =  W_c ∗ G                          fused: a learned derivative     (3)
    U′   =  U + Δt ∂ₜU                       an explicit Euler step          (4)
    B(U) =  ReLU(W_p ∗ U′)                   a FINO block                    (5)
    B ∘ … ∘ B                                a stack of blocks               (6)

Stacks stand inside a small encoder–decoder (7–9) with a 1×1 head.  Everything is a stencil, so
the network is strictly local; `Fino.locality` adds up how far it sees.

The paper leaves two things to its text: eq. 9 prints the skip alone, U↑(z) + xᵢ, where the
figure has FINO blocks after it, as here; and the head has no number (its eq. 10 is the ε of
Proposition 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field as Setting
from pydantic import ValidationInfo, field_validator, model_validator
from torch import Tensor, nn

from fino.locality import Locality
from fino.model.convolution import (
    Convolution,
    Pool,
    Upsample,
    channels_last,
    fold,
    pad,
    pointwise,
    unfold,
)
from fino.model.fused import FUSED_ACTIVATIONS, fused_blocks_allowed, run_fused
from fino.model.network import (
    ACTIVATIONS,
    Activation,
    NetworkSettings,
    check_field,
    check_halving,
    one_each,
)
from fino.shapes import Field

__all__ = [
    "EncoderDecoder",
    "EncoderDecoderSettings",
    "Fino",
    "FinoBlock",
    "FinoBlockStack",
    "FinoSettings",
    "FluxHead",
    "LocalOperatorBlock",
    "PatchHead",
]


#: Numbers that parameters θ are embedded into before they modulate the blocks.
_EMBEDDED = 32

#: (inputs, features, outputs, settings) → a block with a locality.
Block = Callable[[int, int, int, Any], nn.Module]


class LocalOperatorBlock(nn.Module):
    """A learned stencil, gated, then fused: the derivative estimate ∂ₜU (eqs. 1–3).

        S = w ∗ u + b          stencil of radius r
        G = σ(W_g ∗ S) ⊙ S     gate
        ∂ₜU = W_c ∗ G          fuse

    (b, c, *space) → (b, c, *space)
    """

    def __init__(self, channels: int, features: int, settings: FinoSettings) -> None:
        super().__init__()
        dims, boundary = settings.dims, settings.boundaries
        gate_radius, fuse_radius = (settings.gate_radius,) * dims, (settings.fuse_radius,) * dims
        self.stencil = Convolution(channels, features, settings.radii, boundary)
        self.gate = (
            Convolution(features, features, gate_radius, boundary) if settings.gate else None
        )
        self.fuse = Convolution(features, channels, fuse_radius, boundary, bias=False)

    @property
    def locality(self) -> Locality:
        gate = self.gate.locality if self.gate else Locality.point(len(self.stencil.radius))
        return self.stencil.locality.then(gate).then(self.fuse.locality)

    def forward(self, u: Field, film: Film | None = None) -> Field:
        s = self.stencil(u)
        if film is not None:
            s = s * (1 + film.scale) + film.shift
        if self.gate is None:
            return self.fuse(s)
        gate = self.gate(s) if film is None else self.gate(s) + film.gate
        return self.fuse(torch.sigmoid(gate) * s)


class TimeStep(nn.Module):
    """The step Δt > 0 of the explicit scheme (eq. 4).

    `learn`: one scalar, the softplus of a raw parameter.  `fixed`: its initial value.
    `one`: a plain skip connection.
    """

    value: Tensor

    def __init__(self, mode: str, initial: float) -> None:
        super().__init__()
        if mode == "learn":
            # On the CPU whatever the default device is: on the meta device, which counts weights,
            # this one operation imports a large part of torch.
            raw = torch.tensor(initial, device="cpu").expm1().log()
            self.raw = nn.Parameter(torch.tensor(float(raw)))
        else:
            self.register_buffer("value", torch.tensor(1.0 if mode == "one" else initial))
        self.learned = mode == "learn"

    def forward(self, change: Tensor | None = None) -> Tensor:
        """Δt, or where `change` (b, 1, …) shifts the raw parameter, one for each sample."""
        if not self.learned:
            return self.value
        return F.softplus(self.raw if change is None else self.raw + change)


class FinoBlock(nn.Module):
    """One explicit Euler step with a learned derivative, then a non-linear map (eqs. 4–5).

        U′ = U + Δt ∂ₜU
        B(U) = ReLU(W_p ∗ U′)

    (b, inputs, *space) → (b, outputs, *space)
    """

    def __init__(self, inputs: int, features: int, outputs: int, settings: FinoSettings) -> None:
        super().__init__()
        self.operator = LocalOperatorBlock(inputs, features, settings)
        self.dt = TimeStep(settings.dt, settings.dt_initial)
        self.project = Convolution(inputs, outputs, settings.radii, settings.boundaries)
        self.activation = ACTIVATIONS[settings.activation]
        self.settings = settings
        self.film = FilmLayer(features, settings.dims) if settings.parameters else None

    @property
    def locality(self) -> Locality:
        return self.operator.locality.then(self.project.locality)

    def forward(self, u: Field, theta: Tensor | None = None) -> Field:
        film = None if self.film is None else self.film(theta)
        if self.settings.is_fusible and fused_blocks_allowed():
            return run_fused(self, u, film)
        dt = self.dt() if film is None else self.dt(film.dt)
        return self.activation(self.project(u + dt * self.operator(u, film)))


@dataclass(frozen=True, eq=False)
class Film:
    """What parameters θ do to a block: (b, features, 1, …) each, and (b, 1, …) for Δt."""

    scale: Tensor
    shift: Tensor
    gate: Tensor
    dt: Tensor


class FilmLayer(nn.Module):
    """Feature-wise linear modulation of a block by parameters (Perez et al. 2018).

        S ← (1 + γ(θ)) ⊙ S + β(θ),     gate ← gate + δ(θ),     Δt = softplus(raw + ε(θ))

    The same in every cell, so the block stays strictly local.
    """

    def __init__(self, features: int, dims: int) -> None:
        super().__init__()
        self.features, self.dims = features, dims
        self.linear = nn.Linear(_EMBEDDED, 3 * features + 1)
        with torch.no_grad():  # a small effect of θ to begin with
            self.linear.weight.mul_(0.3)
            self.linear.bias.zero_()

    def forward(self, embedded: Tensor | None) -> Film:
        if embedded is None:
            raise ValueError("this network takes parameters: call it as network(x, theta).")
        out = self.linear(embedded)
        out = out.view(*out.shape, *[1] * self.dims)
        scale, shift, gate, dt = out.split([self.features] * 3 + [1], dim=1)
        return Film(scale, shift, gate, dt)


class FinoBlockStack(nn.Sequential):
    """B ∘ … ∘ B (eq. 6); the last block may change the number of channels."""

    def __init__(
        self,
        inputs: int,
        width: int,
        outputs: int,
        depth: int,
        settings: Any,
        block: Block = FinoBlock,
    ) -> None:
        ends = [inputs, *[width] * (depth - 1), outputs]
        super().__init__(*(block(a, width, b, settings) for a, b in pairwise(ends)))
        self.dims: int = settings.dims

    def forward(self, u: Field, theta: Tensor | None = None) -> Field:
        for block in self:
            u = block(u) if theta is None else block(u, theta)
        return u

    @property
    def locality(self) -> Locality:
        reach = Locality.point(self.dims)
        for block in self:
            reach = reach.then(getattr(block, "locality", Locality.point(self.dims)))
        return reach


class EncoderDecoder(nn.Module):
    """Stacks of blocks as encoder, bottleneck and decoder, and a 1×1 head (eqs. 7–9).

        xᵢ₊₁ = P↓(Dᵢ(xᵢ))              encoder: blocks, then average pooling         (7)
        z    = K(x_N)                   bottleneck: a stack of blocks                 (8)
        xᵢ₋₁ = Dᵢ(U↑(z) + xᵢ)           decoder: upsample, add the skip, blocks       (9)
        y    = W ∗ x₀                   head

    With `patch` = p the network works on cells p times as wide, whose channels are the p^d cells
    inside, and the head gives an answer for each of them: the cost of a coarse grid, the state of
    a fine one.

    (b, inputs, *space) → (b, outputs, *space).  Every axis must be a multiple of patch · 2^levels.
    """

    def __init__(self, settings: Any, block: Block, title: str) -> None:
        super().__init__()
        self.settings, self.title = settings, title
        *fine, coarsest = settings.widths
        *fine_depths, bottleneck_depth = settings.stack_depths
        entries = [settings.inputs * settings.patch**settings.dims, *fine]
        exits = [fine[0] if fine else coarsest, *fine]
        self.encoder = nn.ModuleList(
            FinoBlockStack(a, b, b, depth, settings, block)
            for a, b, depth in zip(entries, fine, fine_depths, strict=False)
        )
        self.bottleneck = FinoBlockStack(
            entries[-1], coarsest, exits[-1], bottleneck_depth, settings, block
        )
        self.decoder = nn.ModuleList(
            FinoBlockStack(b, b, out, depth, settings, block)
            for b, out, depth in zip(fine, exits, fine_depths, strict=False)
        )
        self.head = _head(exits[0], settings)
        self.others = nn.ModuleList(
            _Branch(self, block, entries[-1], coarsest, exits) for _ in range(settings.members - 1)
        )
        self.pool = Pool(settings.dims)
        self.upsample = Upsample(settings.upsample, settings.boundaries)
        self.embed = _embedding(settings.parameters) if settings.parameters else None

    @property
    def locality(self) -> Locality:
        """How far one step sees, added up from the layers."""
        reach = self.bottleneck.locality
        for down, up in zip(reversed(self.encoder), reversed(self.decoder), strict=True):
            below = reach.below(2).then(self.upsample.locality)
            skip = Locality.point(self.settings.dims)
            reach = down.locality.then(below.beside(skip)).then(up.locality)  # type: ignore[union-attr, operator]
        if self.settings.patch > 1:
            reach = reach.below(self.settings.patch)
        return reach.then(self.head.locality)  # type: ignore[arg-type]

    def forward(self, x: Field, theta: Tensor | None = None) -> Field:
        """(b, inputs, *space), and parameters (b, p) where the network takes them.

        Of several members the mean.
        """
        answers = self.each(x, theta)
        return answers[0] if len(answers) == 1 else torch.stack(answers).mean(0)

    def each(self, x: Field, theta: Tensor | None = None) -> list[Field]:
        """The answers of all members, which share all stacks before the last one."""
        check_field(x, self.settings, self.title)
        check_halving(x, self.settings.levels, self.settings.patch)
        if self.embed is not None and theta is not None:
            theta = self.embed(theta)
        x = channels_last(x if self.settings.patch == 1 else fold(x, self.settings.patch))
        skips = []
        for blocks in self.encoder:
            x = blocks(x, theta)
            skips.append(x)
            x = self.pool(x)
        more = () if theta is None else (theta,)
        if len(self.decoder):
            x = self.bottleneck(x, theta)
            *coarse, last = reversed(self.decoder)
            for blocks, skip in zip(coarse, reversed(skips[1:]), strict=True):
                x = blocks(self.upsample(x) + skip, theta)
            x = self.upsample(x) + skips[0]
        else:
            *shared, last = self.bottleneck
            for block in shared:
                x = block(x, *more)
        branches: list[Any] = [*self.others]
        ends = [(last, self.head), *((branch.last, branch.head) for branch in branches)]
        return [head(end(x, *more)) for end, head in ends]


class _Branch(nn.Module):
    """What a member has of its own: the last stack, or block where there is one stack, and head."""

    def __init__(
        self, trunk: EncoderDecoder, block: Block, entry: int, width: int, exits: Sequence[int]
    ) -> None:
        super().__init__()
        settings: Any = trunk.settings
        if len(trunk.decoder):
            fine, depth = settings.widths[0], settings.stack_depths[0]
            self.last: nn.Module = FinoBlockStack(fine, fine, exits[0], depth, settings, block)
        else:
            inputs = width if settings.stack_depths[-1] > 1 else entry
            self.last = block(inputs, width, exits[-1], settings)
        self.head = _head(exits[0], settings)


def _head(inputs: int, settings: Any) -> nn.Module:
    """What turns the last features into the answer."""
    if settings.flux:
        return FluxHead(inputs, settings.outputs, settings.boundaries, settings.patch)
    if settings.patch > 1:
        return PatchHead(inputs, settings.outputs, settings.boundaries, settings.patch)
    return Convolution(inputs, settings.outputs, (0,) * settings.dims, settings.boundaries)


class PatchHead(nn.Module):
    """A pointwise map to every cell of a patch: (b, inputs, *n) → (b, outputs, *(patch · n))."""

    def __init__(self, inputs: int, outputs: int, boundary: Sequence[str], patch: int) -> None:
        super().__init__()
        self.patch = patch
        dims = len(boundary)
        self.map = Convolution(inputs, outputs * patch**dims, (0,) * dims, boundary)

    @property
    def locality(self) -> Locality:
        return self.map.locality

    def forward(self, u: Field) -> Field:
        return unfold(self.map(u), self.patch)


class FluxHead(nn.Module):
    """Fluxes through the faces of the cells, and what they leave in each cell.

        F_a = W_a x                                          one flux for each axis and field
        y(x) = Σ_a F_a(x) − F_a(x + e_a)

    Each face gives to one cell what it takes from the other, so the sum of a field over a periodic
    domain stays what it was, whatever the weights are.  Both lines are one stencil, `weight`, as
    which they are exported.  With a patch the faces are those of the cells inside the patches.
    """

    bias = None

    def __init__(self, inputs: int, outputs: int, boundary: Sequence[str], patch: int = 1) -> None:
        super().__init__()
        self.boundary, self.radius = tuple(boundary), (1,) * len(boundary)
        self.patch = patch
        bound = 1 / math.sqrt(inputs)
        self.flux = nn.Parameter(
            torch.empty(len(boundary), outputs * patch ** len(boundary), inputs)
        )
        nn.init.uniform_(self.flux, -bound, bound)

    @property
    def weight(self) -> Tensor:
        """(outputs, inputs, 3, …): the fluxes of the cell and, taken away, those one cell on."""
        return _differences(self.flux)

    @property
    def difference(self) -> Tensor:
        """The same for fluxes that are channels already: (outputs, dims · outputs, 3, …)."""
        dims = len(self.radius)
        outputs = self.flux.shape[1] // self.patch**dims
        one_each = torch.eye(dims * outputs).view(dims, outputs, dims * outputs)
        return _differences(one_each)

    @property
    def weights(self) -> tuple[Tensor, Tensor]:
        """The weight and a bias of zero."""
        return self.weight, self.flux.new_zeros(self.flux.shape[1])

    @property
    def locality(self) -> Locality:
        return Locality(self.radius)

    def forward(self, u: Field) -> Field:
        # As fluxes, not as a stencil: both cells at a face get the same number, so that the sum is
        # kept to rounding in float32 as well.
        dims = len(self.radius)
        fluxes = pointwise(u, self.flux.flatten(0, 1))
        if self.patch > 1:
            fluxes = unfold(fluxes, self.patch)
        outputs = fluxes.shape[1] // dims
        fluxes = pad(fluxes, self.radius, self.boundary)
        here: Any = (..., *[slice(1, -1)] * dims)
        answer = fluxes.new_zeros(())
        for axis, flux in enumerate(fluxes.split(outputs, dim=1)):
            cells = [slice(1, -1)] * dims
            cells[axis] = slice(2, None)
            answer = answer + (flux[here] - flux[(..., *cells)])
        return answer


def _differences(flux: Tensor) -> Tensor:
    """Σ_a F_a(x) − F_a(x + e_a) as a stencil: (axes, outputs, inputs) → (outputs, inputs, 3, …)."""
    dims, outputs, inputs = flux.shape
    weight = flux.new_zeros(outputs, inputs, *[3] * dims)
    at: tuple[Any, ...] = (..., *[1] * dims)
    weight[at] = flux.sum(0)
    for axis, one in enumerate(flux):
        at = (..., *(2 if a == axis else 1 for a in range(dims)))
        weight[at] = -one
    return weight


def _embedding(parameters: int) -> nn.Module:
    """A small network from θ to what all blocks share of it."""
    return nn.Sequential(
        nn.Linear(parameters, _EMBEDDED), nn.GELU(), nn.Linear(_EMBEDDED, _EMBEDDED), nn.GELU()
    )


class Fino(EncoderDecoder):
    """The FINO network: FINO blocks in an encoder–decoder.

    (b, inputs, *space) → (b, outputs, *space).  Every axis must be a multiple of patch · 2^levels.
    `FinoSettings` lists all settings.  Widths of 16 and 32 use the hardware best; begin with few
    levels and check the reach.
    """

    paper: ClassVar[str] = "Cheng et al. 2025, PDE Solvers Should Be Local (FINO)"
    sizes: ClassVar[dict[str, dict[str, object]]] = {
        "small": {"width": 16, "levels": 1},
        "paper": {"width": 32, "levels": 2},
        "large": {"width": 64, "levels": 3},
    }
    shaped_by_data: ClassVar[bool] = True
    takes_parameters: ClassVar[bool] = True

    def __init__(
        self,
        dims: int,
        inputs: int,
        outputs: int,
        width: int = 32,
        levels: int = 2,
        boundary: str | Sequence[str] = "periodic",
        upsample: str = "nearest",
        **more: Any,
    ) -> None:
        shape: dict[str, Any] = {"dims": dims, "inputs": inputs, "outputs": outputs}
        shape |= {"width": width, "levels": levels, "upsample": upsample}
        shape["boundary"] = boundary if isinstance(boundary, str) else tuple(boundary)
        super().__init__(FinoSettings(**shape, **more), FinoBlock, "FINO")

    @property
    def time_steps(self) -> dict[str, float]:
        """The value of Δt in every block, by the block's name."""
        return {
            name: float(module.dt().detach())
            for name, module in self.named_modules()
            if isinstance(module, FinoBlock)
        }


class EncoderDecoderSettings(NetworkSettings):
    """The shape of an encoder–decoder of blocks.

    width        channels at the finest level; 16 or 32 use the hardware best
    growth       factor of the width from level to level; 1 keeps it
    levels       how often the grid is halved; 0 to 3, as the reach needs
    blocks       blocks in each stack, one number or one for each level and the bottleneck; 1 to 3
    radius       cells that a stencil reaches, one number or one for each axis; 1
    activation   φ at the end of a block; the paper has ReLU, GELU did better with levels
    upsample     `nearest`, or `linear` with the boundary's own ghost cells
    parameters   scalars θ that modulate FINO's blocks; 0 for none
    patch        cells along each axis whose values are channels of one wider cell; 1, or 2 where a
                 fine grid is wanted at the cost of a coarse one
    members      networks of an ensemble, which share all stacks but the last; 1, or 3
    flux         whether the head gives fluxes, whose differences conserve every field's sum; where
                 all fields are conserved and all axes periodic
    """

    width: int = 32
    growth: float = 1.0
    levels: int = 2
    blocks: int | tuple[int, ...] = 1
    radius: int | tuple[int, ...] = 1
    activation: Activation = "relu"
    upsample: Literal["nearest", "linear"] = "nearest"
    parameters: int = 0
    patch: Literal[1, 2, 4] = 1
    members: int = Setting(1, ge=1)
    flux: bool = False

    @field_validator("levels", "gate_radius", "fuse_radius", "parameters", check_fields=False)
    @classmethod
    def _not_negative(cls, count: int, info: ValidationInfo) -> int:
        if count < 0:
            raise ValueError(f"{info.field_name} should be 0 or more, got {count}.")
        return count

    @field_validator("growth", "dt_initial", check_fields=False)
    @classmethod
    def _positive(cls, value: float, info: ValidationInfo) -> float:
        if not (value > 0 and math.isfinite(value)):
            raise ValueError(f"{info.field_name} should be positive, got {value}.")
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> EncoderDecoderSettings:
        if self.width < 1:
            raise ValueError(f"width should be at least 1, got {self.width}. Try width=16.")
        if len(self.radii) != self.dims or min(self.radii) < 1:
            raise ValueError(
                f"radius should be at least 1 on each of {self.dims} axes, got {self.radius}."
            )
        if len(self.stack_depths) != self.levels + 1 or min(self.stack_depths) < 1:
            raise ValueError(
                f"blocks should be at least 1, one number or one for each of {self.levels + 1} "
                f"stacks from the finest level to the bottleneck, got {self.blocks}."
            )
        return self

    @model_validator(mode="after")
    def _conserves(self) -> EncoderDecoderSettings:
        open_ends = [name for name in self.boundaries if name != "periodic"]
        if self.flux and open_ends:
            raise ValueError(
                f"flux should be False at a {open_ends[0]} boundary, through which fields may "
                f"leave: only a periodic domain keeps their sum."
            )
        return self

    @property
    def radii(self) -> tuple[int, ...]:
        return one_each(self.radius, self.dims)

    @property
    def stack_depths(self) -> tuple[int, ...]:
        return one_each(self.blocks, self.levels + 1)

    @property
    def widths(self) -> tuple[int, ...]:
        """Channels at each level, from the finest to the bottleneck."""
        return tuple(max(1, round(self.width * self.growth**i)) for i in range(self.levels + 1))


class FinoSettings(EncoderDecoderSettings):
    """Everything that decides the shape of a FINO: the encoder–decoder, and its blocks.

    gate         whether stencil responses are gated (eq. 2)
    gate_radius, fuse_radius    reach of W_g and W_c; 0 is pointwise
    dt           Δt as a parameter (`learn`), as a constant (`fixed`), or 1 (`one`)
    dt_initial   the first value of Δt; 0.1
    """

    gate: bool = True
    gate_radius: int = 0
    fuse_radius: int = 0
    dt: Literal["learn", "fixed", "one"] = "learn"
    dt_initial: float = 0.1

    @property
    def is_fusible(self) -> bool:
        """Whether the fused block computes these settings."""
        pointwise = self.gate and not (self.gate_radius or self.fuse_radius)
        return pointwise and self.activation in FUSED_ACTIVATIONS
