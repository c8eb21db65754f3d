"""A trained step as a short list of operations: what every generator of code reads.

    inputs       history, positions, known fields, forcing, mask, scalars; scaled, as channels
    operations   stencils, Euler steps, sums, products, pooling, upsampling: one value each
    answer       prior + scale ⊙ last value + shift, times the mask

Value 0 is the field of all input channels, (inputs, *space); operation i makes value i + 1 from
values before it, and the last one has a channel for each field.  A value of level l lives on the
grid halved l times.  All weights are float32 arrays in torch's order, (outputs, inputs, *taps).

Beyond the edge, each axis continues as `boundary` says, on every level:

    periodic     the other side of the domain          u(−1) = u(n − 1)
    dirichlet    zero                                  u(−1) = 0
    neumann      the edge cell again                   u(−1) = u(0)
    reflect      the mirror image about the edge cell  u(−1) = u(1)

In more than one dimension the axes are padded one after the other, the first one first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from fino.grid import Grid
from fino.locality import Locality
from fino.model.dilated_resnet import DilatedResNet
from fino.model.emulator import Emulator
from fino.model.fino import EncoderDecoder, Fino, FinoBlock, FluxHead
from fino.model.percnn import PeRCNN
from fino.model.plain import Plain
from fino.model.prior import MovingFrame
from fino.trust.guards import Seen

__all__ = [
    "Add",
    "Channel",
    "EulerStep",
    "Film",
    "Fold",
    "Multiply",
    "Operation",
    "Pool",
    "Program",
    "Scalar",
    "Stencil",
    "Unfold",
    "Upsample",
    "describe",
]

Array: TypeAlias = np.ndarray


@dataclass(frozen=True)
class Channel:
    """One input channel of the network: (source − mean) / std.

    kind and index say what the source is:

        history      (frame, field)   a past frame, 0 the oldest
        coordinate   (axis,)          from −1 to 1 over the domain, see `Program.coordinates`
        edge         (axis, end)      one in the cells that touch the low (0) or high (1) wall
        known        (number,)        a field that is constant in time
        forcing      (end, number)    a field at the step's beginning (0) or end (1)
        mask         ()               one inside of the domain, zero outside
        scalar       (number,)        one of `Program.scalars`, already scaled, in every cell
    """

    kind: Literal["history", "coordinate", "edge", "known", "forcing", "mask", "scalar"]
    index: tuple[int, ...] = ()
    mean: float = 0.0
    std: float = 1.0


@dataclass(frozen=True)
class Scalar:
    """A number that a step is given: ((log of) value − mean) / std.

    `end` is None for a parameter; a signal is given at the step's beginning (0) and end (1).
    `low` and `high` are the range of the training data.
    """

    name: str
    mean: float
    std: float
    log: bool
    low: float
    high: float
    end: int | None = None


@dataclass(frozen=True, eq=False)
class Stencil:
    """y = φ(w ∗ u + b): weight (outputs, inputs, *taps), bias (outputs,); one tap is pointwise.

    The taps are `dilation` cells apart; `activation` is None, relu, gelu (the exact one, with
    erf), silu or tanh.
    """

    source: int
    weight: Array
    bias: Array
    activation: str | None = None
    dilation: int = 1

    @property
    def sources(self) -> tuple[int, ...]:
        return (self.source,)


@dataclass(frozen=True, eq=False)
class Film:
    """What the scalars do to an Euler step, the same in every cell.

        γ, β, δ, ε = split(W e + b)        e: `Program.embed` of the scaled scalars
        S ← (1 + γ) ⊙ S + β,   gate ← gate + δ,   fuse ← softplus(raw + ε) · fuse

    weight (3 f + 1, e), bias (3 f + 1,); γ, β and δ have f numbers each, ε has one.  `raw` is
    None where Δt is constant and already part of `fuse`.
    """

    weight: Array
    bias: Array
    raw: float | None


@dataclass(frozen=True, eq=False)
class EulerStep:
    """U + Δt ∂ₜU, the first half of a FINO block (eqs. 1–4).

    S  = w ∗ u + b                     weight (f, c, *taps), bias (f,)
    G  = σ(W_g S + b_g) ⊙ S            gate (f, f), gate_bias (f,); None: G = S
    U′ = u + W_f G                     fuse (c, f), which contains Δt
    """

    source: int
    weight: Array
    bias: Array
    gate: Array | None
    gate_bias: Array | None
    fuse: Array
    film: Film | None = None

    @property
    def sources(self) -> tuple[int, ...]:
        return (self.source,)


@dataclass(frozen=True)
class Add:
    """The sum of two values."""

    sources: tuple[int, int]


@dataclass(frozen=True)
class Multiply:
    """The product of two values, cell by cell; σ(first) is taken first if `gate` says so."""

    sources: tuple[int, int]
    gate: bool = False


@dataclass(frozen=True)
class Pool:
    """The average of two neighbours along every axis: the next coarser level."""

    source: int

    @property
    def sources(self) -> tuple[int, ...]:
        return (self.source,)


@dataclass(frozen=True)
class Upsample:
    """Twice the cells along every axis: the next finer level.

    `nearest` repeats each cell.  `linear`, along one axis after the other: cell 2i is
    ¾ z(i) + ¼ z(i − 1), cell 2i + 1 is ¾ z(i) + ¼ z(i + 1), with the boundary's ghost cells.
    """

    source: int
    mode: str = "nearest"

    @property
    def sources(self) -> tuple[int, ...]:
        return (self.source,)


@dataclass(frozen=True)
class Fold:
    """Patches of cells as channels of one cell, the last axis fastest.

    A patch of two cells along every axis is one level coarser, of four cells two.
    """

    source: int
    patch: int

    @property
    def sources(self) -> tuple[int, ...]:
        return (self.source,)


@dataclass(frozen=True)
class Unfold(Fold):
    """The inverse of a fold: the channels of a cell as a patch of cells."""


Operation: TypeAlias = Stencil | EulerStep | Add | Multiply | Pool | Upsample | Fold


@dataclass(frozen=True, eq=False)
class Program:
    """One step of a strictly local model: what is given → the next frame (c, *space).

    name          the network's name in `MODELS`
    fields        what is predicted, c names
    history       how many past frames are looked at, K
    grid          the grid of the training data; its spacing holds on every domain
    fixed         whether the step runs on the training grid alone, since it is given coordinates
    channels      what value 0 holds
    scalars       parameters, then the signals at the step's beginning, then at its end
    known, forcing   the names of the fields that are given beside the history
    walls         what lies at the edge of a mask: `neumann`, `dirichlet`; None without a mask
    outside       (c,) what a `neumann` mask holds far from its edge
    embedding     (weight, bias) pairs, each followed by GELU: scaled scalars → e, for `Film`
    operations    the network
    prior         `frame`, `increment`, `linear` with (K, c) weights, or `stencil` with weights
                  (c, c, 3, …) over the newest frame; both without a bias
    scale, shift  (c,) the scaling of the last value
    locality      how far the whole step sees, and the multiple that every axis has to be of
    dt            the time that a step takes, in the data's unit
    steady        whether there is no time: input → answer
    limits        (c, 4) what training saw of each field: the least and the largest value, the
                  largest difference of neighbours and change in a step, infinite where it does
                  not say; None for a model that was never calibrated
    """

    name: str
    fields: tuple[str, ...]
    history: int
    grid: Grid
    fixed: bool
    channels: tuple[Channel, ...]
    scalars: tuple[Scalar, ...]
    known: tuple[str, ...]
    forcing: tuple[str, ...]
    walls: str | None
    outside: Array
    embedding: tuple[tuple[Array, Array], ...]
    operations: tuple[Operation, ...]
    prior: str
    prior_weight: Array | None
    scale: Array
    shift: Array
    locality: Locality
    dt: float
    steady: bool
    limits: Array | None = None

    @property
    def dims(self) -> int:
        return self.grid.dims

    @property
    def boundary(self) -> tuple[str, ...]:
        return self.grid.boundary

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of the axes, the slowest in memory first."""
        return ("depth", "height", "width")[-self.dims :] if self.dims > 1 else ("length",)

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(scalar.name for scalar in self.scalars if scalar.end is None)

    @property
    def signals(self) -> tuple[str, ...]:
        return tuple(scalar.name for scalar in self.scalars if scalar.end == 0)

    @property
    def values(self) -> tuple[tuple[int, int], ...]:
        """The (level, channels) of every value, the input first."""
        found = [(0, len(self.channels))]
        for operation in self.operations:
            level, channels = found[operation.sources[0]]
            if isinstance(operation, Stencil):
                channels = len(operation.weight)
            level += isinstance(operation, Pool) - isinstance(operation, Upsample)
            if isinstance(operation, Fold):
                cells, halvings = operation.patch**self.dims, operation.patch.bit_length() - 1
                is_fold = not isinstance(operation, Unfold)
                channels = channels * cells if is_fold else channels // cells
                level += halvings if is_fold else -halvings
            found.append((level, channels))
        return tuple(found)

    @property
    def multiply_adds(self) -> float:
        """Products of the network for each cell of the domain."""
        total = 0.0
        for operation in self.operations:
            level = self.values[operation.sources[0]][0]
            for name in ("weight", "gate", "fuse"):
                weight = getattr(operation, name, None)
                if isinstance(weight, np.ndarray):
                    total += weight.size / 2 ** (level * self.dims)
        return total

    @property
    def smallest(self) -> tuple[int, ...]:
        """The fewest cells along each axis that ghost cells can be made from on every level."""
        needed = [1] * self.dims
        reach = [(0, (1,) * self.dims)] if self.prior == "stencil" or self.walls else []
        levels = self.values
        for operation in self.operations:
            level = levels[operation.sources[0]][0]
            if isinstance(operation, Stencil | EulerStep):
                taps, apart = operation.weight.shape[2:], getattr(operation, "dilation", 1)
                reach.append((level, tuple(apart * (n // 2) for n in taps)))
            if isinstance(operation, Upsample) and operation.mode == "linear":
                reach.append((level, (1,) * self.dims))
        for level, radius in reach:
            for axis, (r, name) in enumerate(zip(radius, self.boundary, strict=True)):
                cells = {"periodic": r, "reflect": r + 1 if r else 1}.get(name, 1)
                needed[axis] = max(needed[axis], 2**level * cells)
        return tuple(-(-n // s) * s for n, s in zip(needed, self.locality.stride, strict=True))

    @property
    def rule(self) -> str:
        """Which sizes the step runs on, in words."""
        if self.fixed:
            return f"exactly {' × '.join(map(str, self.grid.points))} cells"
        each = [
            f"{axis} at least {least}" + (f" and a multiple of {stride}" if stride > 1 else "")
            for axis, least, stride in zip(
                self.axes, self.smallest, self.locality.stride, strict=True
            )
        ]
        return ", ".join(each)

    def fits(self, space: tuple[int, ...]) -> bool:
        """Whether the step runs on a domain of so many cells."""
        if self.fixed:
            return tuple(space) == self.grid.points
        return len(space) == self.dims and all(
            n >= least and n % stride == 0
            for n, least, stride in zip(space, self.smallest, self.locality.stride, strict=True)
        )

    def coordinates(self, space: tuple[int, ...]) -> tuple[Array, ...]:
        """The values of the coordinate channels along each axis, from −1 to 1 over the domain."""
        return tuple(
            2 * (np.arange(n) + offset) / n - 1
            for n, offset in zip(space, self.grid.offset, strict=True)
        )


def describe(model: Any) -> Program:
    """The program of a trained emulator, or one line that says why it has none."""
    if not isinstance(model, Emulator):
        raise ValueError(
            f"a trained model should be exported, got {type(model).__name__}. "
            f"Pass a run, or a model of fino.build."
        )
    network: Any = model.network
    title = type(network).__name__
    if not model.locality.is_local:
        raise ValueError(
            f"{title} sees the whole field (radius inf), so it is not a list of stencils and "
            f"cannot be exported. Use a local model, such as fino."
        )
    if type(network) not in _TRACED:
        names = ", ".join(_TRACED.values())
        raise ValueError(
            f"{title} is local, but has layers that are not exported. Exported are {names}."
        )
    s, given = model.settings, model.settings.given
    moving = isinstance(model.prior, MovingFrame)
    if moving or s.degree or given.steps:
        prior = "a frame that moves along" if moving else "a prior that knows its parameters"
        what = "several lengths of a step" if given.steps else prior
        raise ValueError(
            f"a model with {what} is not exported yet. Build it with predict='stencil' or "
            f"'increment', and without strides."
        )
    if model.members > 1:
        raise ValueError(
            f"an ensemble of {model.members} members is not exported yet. Use torch, or train one "
            f"member."
        )
    tape = _Tape()
    with torch.no_grad():
        _trace_network(tape, network)
    weight = getattr(model.prior, "weight", None)
    return Program(
        name=s.model,
        fields=s.fields,
        history=s.history,
        grid=model.grid,
        fixed=s.coordinates,
        channels=tuple(_channels(model)),
        scalars=tuple(_scalars(model)),
        known=given.known,
        forcing=given.forcing,
        walls=given.walls,
        outside=_array(model.input_mean),
        embedding=tuple(_embedding(network)),
        operations=tuple(tape.operations),
        prior=s.predict,
        prior_weight=None if weight is None else _array(weight),
        scale=_array(model.output_std),
        shift=_array(model.output_mean),
        locality=model.locality,
        dt=s.dt,
        steady=s.steady,
        limits=_limits(model),
    )


def _limits(model: Emulator) -> Array | None:
    """What training saw of each field; the roughness of steady data is that of their inputs."""
    seen = Seen.of(model)
    if seen is None:
        return None
    found = seen.limits.clone()
    found[:, 2:] = torch.inf if model.settings.steady else found[:, 2:]
    return found.numpy()


#: Networks that are lists of the operations above, and their names.
_TRACED: dict[type, str] = {
    Fino: "fino",
    Plain: "plain",
    DilatedResNet: "dilated-resnet",
    PeRCNN: "percnn",
}


def _channels(model: Emulator) -> Iterator[Channel]:
    """The input channels in the order of `assemble` and `Conditioning.channels`."""
    s, given, grid = model.settings, model.settings.given, model.grid
    scaling = [*zip(model.input_mean.tolist(), model.input_std.tolist(), strict=True)]
    for frame in range(s.history):
        for field, (mean, std) in enumerate(scaling):
            yield Channel("history", (frame, field), mean, std)
    if s.coordinates:
        yield from (Channel("coordinate", (axis,)) for axis in range(grid.dims))
    if s.edges:
        walls = [axis for axis, periodic in enumerate(grid.is_periodic) if not periodic]
        yield from (Channel("edge", (axis, end)) for axis in walls for end in (0, 1))
    beside = model.conditioning
    for number in range(len(given.known)):
        mean, std = float(beside.known_mean[number]), float(beside.known_std[number])
        yield Channel("known", (number,), mean, std)
    for end in (0, 1):
        for number in range(len(given.forcing)):
            mean, std = float(beside.forcing_mean[number]), float(beside.forcing_std[number])
            yield Channel("forcing", (end, number), mean, std)
    if given.walls is not None:
        yield Channel("mask")
    if given.condition == "channels":
        yield from (Channel("scalar", (number,)) for number in range(given.scalars))


def _scalars(model: Emulator) -> Iterator[Scalar]:
    given, beside = model.settings.given, model.conditioning
    ends = [(name, end) for end in (0, 1) for name in given.signals]
    named = [*((name, None) for name in given.parameters), *ends]
    logs = [*given.logs, *[False] * (len(named) - len(given.logs))]
    for place, ((name, end), log) in enumerate(zip(named, logs, strict=True)):
        yield Scalar(
            name,
            mean=float(beside.theta_mean[place]),
            std=float(beside.theta_std[place]),
            log=bool(log) and any(given.logs),
            low=float(beside.theta_low[place]),
            high=float(beside.theta_high[place]),
            end=end,
        )


def _embedding(network: Any) -> Iterator[tuple[Array, Array]]:
    embed = getattr(network, "embed", None)
    for layer in embed if embed is not None else ():
        if isinstance(layer, nn.Linear):
            yield _array(layer.weight), _array(layer.bias)


class _Tape:
    """The operations so far; `add` returns the number of the new value."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []

    def add(self, operation: Operation) -> int:
        self.operations.append(operation)
        return len(self.operations)

    def stencil(
        self, convolution: Any, u: int, activation: str | None = None, dilation: int = 1
    ) -> int:
        weight, bias = convolution.weights
        return self.add(Stencil(u, _array(weight), _array(bias), activation, dilation))


def _trace_network(tape: _Tape, network: Any) -> None:
    if isinstance(network, EncoderDecoder):
        _trace_levels(tape, network)
    elif isinstance(network, DilatedResNet):
        s, u = network.settings, tape.stencil(network.encoder, 0)
        for block in network.blocks:
            v = u
            stencils: Any = block.stencils
            for stencil, dilation in zip(stencils, s.dilations, strict=True):
                v = tape.stencil(stencil, v, s.activation, dilation)
            u = tape.add(Add((u, v)))
        tape.stencil(network.decoder, u)
    else:
        assert isinstance(network, PeRCNN)
        first, *others = (tape.stencil(stencil, 0) for stencil in network.stencils)
        for factor in others:
            first = tape.add(Multiply((first, factor)))
        combined = tape.stencil(network.combine, first)
        tape.add(Add((combined, tape.stencil(network.linear, 0))))


def _trace_levels(tape: _Tape, network: EncoderDecoder) -> None:
    """Encoder, bottleneck, decoder and head (eqs. 7–9)."""
    patch, u, skips = network.settings.patch, 0, list[int]()
    if patch > 1:
        u = tape.add(Fold(u, patch))
    stacks: Any = network.encoder
    for stack in stacks:
        u = _trace_stack(tape, stack, u, network.settings)
        skips.append(u)
        u = tape.add(Pool(u))
    u = _trace_stack(tape, network.bottleneck, u, network.settings)
    upward: Any = zip(reversed(network.decoder), reversed(skips), strict=True)
    for stack, skip in upward:
        finer = tape.add(Upsample(u, network.upsample.mode))
        u = _trace_stack(tape, stack, tape.add(Add((finer, skip))), network.settings)
    _trace_head(tape, network.head, u, patch)


def _trace_head(tape: _Tape, head: Any, u: int, patch: int) -> None:
    """The head; with patches a pointwise map, the patches' cells and, of fluxes, differences."""
    if patch == 1:
        tape.stencil(head, u)
    elif not isinstance(head, FluxHead):
        tape.add(Unfold(tape.stencil(head.map, u), patch))
    else:
        weight = _array(head.flux.flatten(0, 1))
        pointwise = weight.reshape(*weight.shape, *[1] * len(head.radius))
        fluxes = tape.add(Stencil(u, pointwise, np.zeros(len(weight), dtype=np.float32)))
        weight = _array(head.difference)
        zero = np.zeros(len(weight), dtype=np.float32)
        tape.add(Stencil(tape.add(Unfold(fluxes, patch)), weight, zero))


def _trace_stack(tape: _Tape, stack: Any, u: int, settings: Any) -> int:
    for block in stack:
        if isinstance(block, FinoBlock):
            u = _trace_block(tape, block, u)
        else:
            u = tape.stencil(block.first, u, settings.activation)
            u = tape.stencil(block.second, u, settings.activation)
    return u


def _trace_block(tape: _Tape, block: FinoBlock, u: int) -> int:
    """A FINO block: an Euler step, then a stencil with an activation (eqs. 1–5)."""
    s, operator = block.settings, block.operator
    learned = block.film is not None and block.dt.learned
    fuse = operator.fuse.weight if learned else block.dt() * operator.fuse.weight
    if s.gate_radius == 0 and s.fuse_radius == 0:
        weight, bias = operator.stencil.weights
        gate = None if operator.gate is None else operator.gate.weights
        stepped = tape.add(
            EulerStep(
                u,
                _array(weight),
                _array(bias),
                gate=None if gate is None else _array(gate[0].flatten(1)),
                gate_bias=None if gate is None else _array(gate[1]),
                fuse=_array(fuse.flatten(1)),
                film=_film(block),
            )
        )
    else:
        if block.film is not None:
            raise ValueError(
                "A FINO whose parameters modulate gates of radius 1 or more is not exported. "
                "Use gate_radius=0 and fuse_radius=0, or condition='channels'."
            )
        gated = stencil = tape.stencil(operator.stencil, u)
        if operator.gate is not None:
            gated = tape.add(Multiply((tape.stencil(operator.gate, stencil), stencil), gate=True))
        zero = np.zeros(len(fuse), dtype=np.float32)
        stepped = tape.add(Add((u, tape.add(Stencil(gated, _array(fuse), zero)))))
    return tape.stencil(block.project, stepped, s.activation)


def _film(block: FinoBlock) -> Film | None:
    if block.film is None:
        return None
    linear = block.film.linear
    raw = float(block.dt.raw) if block.dt.learned else None
    return Film(_array(linear.weight), _array(linear.bias), raw)


def _array(tensor: Tensor) -> Array:
    return tensor.detach().cpu().float().contiguous().numpy()
