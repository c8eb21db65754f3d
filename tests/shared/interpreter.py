"""A program of operations, interpreted cell by cell with numpy: what generated code has to do."""

from __future__ import annotations

from itertools import product

import numpy as np
from scipy.special import erf

from fino.export.program import (
    Add,
    EulerStep,
    Fold,
    Multiply,
    Pool,
    Program,
    Stencil,
    Unfold,
    Upsample,
)

#: How far a field is continued into a `neumann` mask.
EXTENDED = 2
_MODES = {"periodic": "wrap", "neumann": "edge", "reflect": "reflect", "dirichlet": "constant"}
ACTIVATIONS = {
    None: lambda u: u,
    "relu": lambda u: np.maximum(u, 0),
    "gelu": lambda u: 0.5 * u * (1 + erf(u / np.sqrt(2))),
    "silu": lambda u: u * sigmoid(u),
    "tanh": np.tanh,
}


def sigmoid(u):
    return 0.5 * (1 + np.tanh(0.5 * u))


def run(program: Program, history, positions=None, **beside) -> np.ndarray:
    """One step in float64: (K, c, *space) → (c, *space).

    `beside` holds parameters (p,), signals (2, s), known (k, *space), forcing (2, f, *space) and
    mask (*space) of one trajectory; positions (p, *space) replace those of the whole domain.
    """
    u = np.asarray(history, dtype=np.float64)[-program.history :]
    mask = beside.get("mask")
    if mask is not None:
        u = np.stack([extended(program, frame, mask) for frame in u])
    theta = scaled_scalars(program, beside)
    values = [input_channels(program, u, theta, positions, beside)]
    for operation in program.operations:
        values.append(OPERATIONS[type(operation)](program, operation, values, theta))
    over = (-1, *[1] * program.dims)
    frame = prior(program, u) + values[-1] * program.scale.reshape(over)
    frame = frame + program.shift.reshape(over)
    return frame if mask is None else frame * mask


def input_channels(program, u, theta, positions, beside):
    space, found, seen = u.shape[2:], [], 0
    for channel in program.channels:
        if channel.kind in ("coordinate", "edge") and positions is not None:
            source, seen = np.asarray(positions[seen], dtype=np.float64), seen + 1
        elif channel.kind == "coordinate":
            (axis,) = channel.index
            along = [-1 if a == axis else 1 for a in range(len(space))]
            source = program.coordinates(space)[axis].reshape(along)
        elif channel.kind == "edge":
            axis, end = channel.index
            source = np.zeros(space)
            np.moveaxis(source, axis, 0)[-end] = 1.0
        elif channel.kind == "mask":
            source = beside["mask"]
        else:
            source = (
                theta if channel.kind == "scalar" else {"history": u, **beside}[channel.kind]
            )[channel.index]
        found.append(np.broadcast_to((source - channel.mean) / channel.std, space))
    return np.stack(found)


def scaled_scalars(program, beside):
    raw = [*beside.get("parameters", ())]
    raw += [value for end in beside.get("signals", ()) for value in end]
    values = [
        np.log(max(v, 1e-30)) if s.log else v for s, v in zip(program.scalars, raw, strict=True)
    ]
    return np.array([(v - s.mean) / s.std for s, v in zip(program.scalars, values, strict=True)])


def pad(program, u, radius):
    for axis, (r, name) in enumerate(zip(radius, program.boundary, strict=True), start=1):
        width = [(r, r) if a == axis else (0, 0) for a in range(u.ndim)]
        u = np.pad(u, width, mode=_MODES[name]) if r else u
    return u


def convolve(program, weight, u, dilation=1):
    taps = weight.shape[2:]
    padded = pad(program, u, [dilation * (n // 2) for n in taps])
    out = np.zeros((len(weight), *u.shape[1:]))
    for tap in product(*map(range, taps)):
        at = tuple(
            slice(dilation * t, dilation * t + n) for t, n in zip(tap, u.shape[1:], strict=True)
        )
        out += np.tensordot(weight[(slice(None), slice(None), *tap)], padded[(slice(None), *at)], 1)
    return out


def column(vector, u):
    return np.asarray(vector).reshape(-1, *[1] * (u.ndim - 1))


def stencil(program, op, values, theta):
    u = convolve(program, op.weight, values[op.source], op.dilation)
    return ACTIVATIONS[op.activation](u + column(op.bias, u))


def euler_step(program, op, values, theta):
    u = values[op.source]
    s = convolve(program, op.weight, u) + column(op.bias, u)
    features, delta, dt = len(op.weight), 0.0, 1.0
    if op.film is not None:
        gamma, beta, delta, epsilon = np.split(
            op.film.weight @ embed(program, theta) + op.film.bias,
            [features, 2 * features, 3 * features],
        )
        s = (1 + column(gamma, u)) * s + column(beta, u)
        delta = column(delta, u)
        if op.film.raw is not None:
            dt = np.log1p(np.exp(op.film.raw + epsilon[0]))
    gated = s
    if op.gate is not None:
        gated = sigmoid(np.tensordot(op.gate, s, 1) + column(op.gate_bias, u) + delta) * s
    return u + dt * np.tensordot(op.fuse, gated, 1)


def embed(program, theta):
    for weight, bias in program.embedding:
        theta = ACTIVATIONS["gelu"](weight @ theta + bias)
    return theta


def multiply(program, op, values, theta):
    first, second = (values[source] for source in op.sources)
    return (sigmoid(first) if op.gate else first) * second


def pool(program, op, values, theta):
    u = values[op.source]
    for axis in range(1, u.ndim):
        low, high = (np.take(u, range(end, u.shape[axis], 2), axis) for end in (0, 1))
        u = (low + high) / 2
    return u


def upsample(program, op, values, theta):
    z = values[op.source]
    if op.mode == "nearest":
        for axis in range(1, z.ndim):
            z = np.repeat(z, 2, axis)
        return z
    for axis in range(1, z.ndim):
        n = z.shape[axis]
        padded = pad(program, z, [a == axis for a in range(1, z.ndim)])
        low, high = (np.take(padded, range(k, k + n), axis) for k in (0, 2))
        both = np.stack([0.75 * z + 0.25 * low, 0.75 * z + 0.25 * high], axis=axis + 1)
        z = both.reshape(*z.shape[:axis], 2 * n, *z.shape[axis + 1 :])
    return z


def fold(program, op, values, theta):
    """Channel by channel, cell by cell of a patch, the last axis fastest."""
    u, p = values[op.source], op.patch
    cells = product(range(p), repeat=program.dims)
    parts = [u[(slice(None), *(slice(i, None, p) for i in cell))] for cell in cells]
    return np.stack(parts, axis=1).reshape(-1, *parts[0].shape[1:])


def unfold(program, op, values, theta):
    u, p = values[op.source], op.patch
    parts = u.reshape(-1, p**program.dims, *u.shape[1:])
    out = np.zeros((len(parts), *(p * n for n in u.shape[1:])))
    for number, cell in enumerate(product(range(p), repeat=program.dims)):
        out[(slice(None), *(slice(i, None, p) for i in cell))] = parts[:, number]
    return out


OPERATIONS = {
    Stencil: stencil,
    EulerStep: euler_step,
    Add: lambda program, op, values, theta: values[op.sources[0]] + values[op.sources[1]],
    Multiply: multiply,
    Pool: pool,
    Upsample: upsample,
    Fold: fold,
    Unfold: unfold,
}


def prior(program, u):
    if program.prior == "frame":
        return np.zeros_like(u[-1])
    if program.prior == "increment":
        return u[-1]
    if program.prior == "linear":
        return (u * program.prior_weight.reshape(*u.shape[:2], *[1] * program.dims)).sum(axis=0)
    return convolve(program, program.prior_weight, u[-1])


def extended(program, u, mask):
    """A frame whose cells outside of the mask hold what lies at its walls: (c, *space)."""
    if program.walls == "dirichlet":
        return u * mask
    filled = np.where(mask > 0, u, column(program.outside, u))
    inside = np.broadcast_to(mask, u.shape[1:]).astype(np.float64)[None]
    one = (1,) * program.dims
    for _ in range(EXTENDED):
        total = neighbours(pad(program, filled * inside, one))
        count = neighbours(pad(program, inside, one))
        near = (inside == 0) & (count > 0)
        filled = np.where(near, total / np.maximum(count, 1.0), filled)
        inside = np.where(near, 1.0, inside)
    return filled


def neighbours(padded):
    total = 0.0
    for axis in range(1, padded.ndim):
        for start in (0, 2):
            at = [slice(1, -1)] * (padded.ndim - 1)
            at[axis - 1] = slice(start, padded.shape[axis] - 2 + start)
            total = total + padded[(slice(None), *at)]
    return total
