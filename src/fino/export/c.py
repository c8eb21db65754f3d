"""A program as one C99 file and a header: no dependency but libm, the weights inside.

    cc -O3 -march=native -c model.c

All of the C is in `source/step.c.j2`; of its parts those are taken that the program needs.  Here
stand the numbers: the weights in the order in which they are read, the fields and where they lie
in the workspace, and the step as a list of calls.

Inside, a field lies cell by cell, its channels padded to sixteen: a stencil is then a product of
neighbouring cells with a small matrix, whose sums stay in registers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from numpy.polynomial import chebyshev
from scipy.special import erf

from fino.export.program import (
    Add,
    Channel,
    EulerStep,
    Film,
    Fold,
    Multiply,
    Operation,
    Pool,
    Program,
    Scalar,
    Stencil,
    Unfold,
    Upsample,
)
from fino.trust.guards import FAR

__all__ = ["c_header", "c_source"]

#: Channels in memory are a multiple of this.
_PAD = 16
#: Up to where x Φ(x) is a polynomial, and its degree in x².
_GELU_RANGE, _GELU_DEGREE = 5.4, 14


def c_source(program: Program, header: str = "fino.h", prefix: str = "fino") -> str:
    """The step, to be compiled beside its header; `prefix` begins the names of its functions."""
    plan = _Plan(program)
    template = _environment().get_template("step.c.j2")
    return template.render(**_words(program, prefix), **_context(plan), header=header)


def c_header(program: Program, prefix: str = "fino") -> str:
    """What a caller includes."""
    return _environment().get_template("step.h.j2").render(**_words(program, prefix))


@dataclass(frozen=True)
class _Call:
    """A line of the step, and the fields that it reads and writes."""

    text: str
    reads: tuple[int, ...]
    writes: tuple[int, ...]


class _Plan:
    """How a program runs in C: the calls, the constants that they need, and the fields."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.first = 3 - program.dims  # axes before this one are a single cell
        self.constants: list[str] = []
        self.calls: list[_Call] = []
        self.values = [*program.values]
        self.ghost = [[0, 0, 0] for _ in self.values]
        self.steps: set[int] = set()
        self.taps = self.features = 1
        self.sections = {"vectors", "fields", "activations", "activate", "inputs"}
        self.answer = len(program.operations)
        for layer, (weight, bias) in enumerate(program.embedding, start=1):
            self._array(f"EMBED_{layer}", weight)
            self._array(f"EMBED_{layer}_BIAS", bias)
        self._plan_operations()
        self._plan_prior()
        if program.walls:
            self.sections |= {"walls", f"walls-{program.walls}"}
        kinds = _functions(program)
        if kinds & {"silu", "tanh", "sigmoid"}:
            self.sections.add("exponential")
        if "gelu" in kinds:
            self.sections.add("gelu")

    def _plan_operations(self) -> None:
        """A call for each operation; a FINO block is one call, and so is upsampling with a skip."""
        operations, done = self.program.operations, 0
        for number, operation in enumerate(operations, start=1):
            following = operations[number] if number < len(operations) else None
            if number <= done:
                continue
            if isinstance(operation, EulerStep):
                assert isinstance(following, Stencil) and following.source == number
                self._plan_block(number, operation, following)
                done = number + 1
            elif isinstance(operation, Stencil):
                self._plan_stencil(number, operation)
            elif _is_nearest(operation) and isinstance(following, Add):
                assert isinstance(operation, Upsample) and following.sources[0] == number
                self._call("upsample_add", (operation.source, following.sources[1]), number + 1)
                done = number + 1
            else:
                self._plan_other(number, operation)

    def _call(self, name: str, reads: tuple[int, ...], out: int, before: str = "") -> None:
        self.sections.add(name)
        arguments = ", ".join(f"&v[{i}]" for i in (*reads, out))
        self.calls.append(_Call(f"run_{name}({before}{arguments});", reads, (out,)))

    def _plan_block(self, number: int, euler: EulerStep, project: Stencil) -> None:
        self.sections |= {"stencil", "euler"}
        self._read_by(euler.source, euler.weight)
        self._read_by(number, project.weight)
        self._declare_euler(number, euler)
        self._declare_stencil(f"STENCIL_{number + 1}", project)
        lines = []
        if euler.film is not None:
            lines = [self._modulation(number, euler.film)]
        how = "&m" if lines else "NULL"
        fields = f"&v[{euler.source}], &v[{number}], &v[{number + 1}]"
        lines.append(f"run_block(&EULER_{number}, {how}, &STENCIL_{number + 1}, {fields});")
        reads, writes = (euler.source,), (number, number + 1)
        self.calls.append(_Call("\n    ".join(lines), reads, writes))

    def _plan_stencil(self, number: int, operation: Stencil) -> None:
        self.sections.add("stencil")
        self._read_by(operation.source, operation.weight, operation.dilation)
        self._declare_stencil(f"STENCIL_{number}", operation)
        self._call("stencil", (operation.source,), number, f"&STENCIL_{number}, ")
        self.sections.add("run_stencil")

    def _plan_other(self, number: int, operation: Operation) -> None:
        if isinstance(operation, Pool):
            self._call("pool", operation.sources, number)
        elif isinstance(operation, Upsample) and operation.mode == "linear":
            self._read_by(operation.source, np.zeros((1, 1, *[3] * self.program.dims)))
            self._call("upsample_linear", operation.sources, number)
        elif isinstance(operation, Add | Multiply):
            is_gate = isinstance(operation, Multiply) and operation.gate
            kind = "SUM" if isinstance(operation, Add) else "GATED" if is_gate else "PRODUCT"
            self._call("combine", operation.sources, number, f"{kind}, ")
        elif isinstance(operation, Fold):
            name = "unfold" if isinstance(operation, Unfold) else "fold"
            finer = number if name == "unfold" else operation.source
            sizes = f"{self.values[finer][1]}, {operation.patch}, "
            self._call(name, operation.sources, number, sizes)
        else:
            raise AssertionError(f"no call for {operation}")

    def _plan_prior(self) -> None:
        """A linear scheme is a stencil over the newest frame: two more fields."""
        weight, fields = self.program.prior_weight, len(self.program.fields)
        if self.program.prior != "stencil" or weight is None:
            return
        newest = len(self.values)
        self.values += [(0, fields), (0, fields)]
        self.ghost += [[0, 0, 0], [0, 0, 0]]
        self.sections |= {"stencil", "run_stencil", "newest"}
        self._read_by(newest, weight)
        self._declare_stencil("PRIOR", Stencil(newest, weight, np.zeros(fields)))
        self.calls.append(_Call(f"gather_newest(&v[{newest}], newest);", (), (newest,)))
        self._call("stencil", (newest,), newest + 1, "&PRIOR, ")

    def _read_by(self, value: int, weight: np.ndarray, dilation: int = 1) -> None:
        """Give a value the ghost cells that a stencil reads."""
        for axis, n in enumerate(weight.shape[2:], start=self.first):
            self.ghost[value][axis] = max(self.ghost[value][axis], dilation * (n // 2))
        self.steps.add(_padded(self.values[value][1]))

    def _array(self, name: str, values: np.ndarray) -> str:
        """A constant array; a line for each row of (…, numbers)."""
        rows = values.reshape(-1, values.shape[-1])
        body = ",\n".join("    " + ", ".join(map(_number, row)) for row in rows)
        self.constants.append(f"static const float {name}[{values.size}] = {{\n{body}}};")
        return name

    def _stencil(
        self,
        name: str,
        weight: np.ndarray,
        bias: np.ndarray,
        activation: str | None = None,
        dilation: int = 1,
    ) -> str:
        """The constant of a stencil, its weights as [tap][input][output]."""
        outputs, inputs, *taps = weight.shape
        packed = _pad(weight.reshape(outputs, inputs, -1).transpose(2, 1, 0))
        self.taps = max(self.taps, len(packed))
        radius = ", ".join(map(str, [0] * self.first + [n // 2 for n in taps]))
        return (
            f"{{{inputs}, {packed.shape[-1]}, {{{radius}}}, {dilation}, "
            f"{(activation or 'none').upper()},\n    {self._array(f'{name}_WEIGHT', packed)}, "
            f"{self._array(f'{name}_BIAS', _pad(bias))}}}"
        )

    def _declare_stencil(self, name: str, op: Stencil) -> None:
        stencil = self._stencil(name, op.weight, op.bias, op.activation, op.dilation)
        self.constants.append(f"static const stencil {name} = {stencil};\n")

    def _declare_euler(self, number: int, euler: EulerStep) -> None:
        name, features = f"EULER_{number}", len(euler.weight)
        stencil = self._stencil(name, euler.weight, euler.bias)
        gate = bias = "NULL"
        if euler.gate is not None and euler.gate_bias is not None:
            gate = self._array(f"{name}_GATE", _pad(euler.gate.T))
            bias = self._array(f"{name}_GATE_BIAS", _pad(euler.gate_bias))
        fuse = self._array(f"{name}_FUSE", _pad(euler.fuse.T))
        self.constants.append(
            f"static const euler {name} = {{\n    {stencil},\n    {features}, "
            f"{_padded(len(euler.fuse))}, {gate}, {bias}, {fuse}}};\n"
        )
        self.features = max(self.features, _padded(features))
        self.steps.add(_padded(features))

    def _modulation(self, number: int, film: Film) -> str:
        self.sections.add("modulate")
        weight = self._array(f"EULER_{number}_FILM", film.weight)
        bias = self._array(f"EULER_{number}_FILM_BIAS", film.bias)
        learned, raw = int(film.raw is not None), _number(film.raw or 0.0)
        return f"modulate(&m, &EULER_{number}, {weight}, {bias}, {learned}, {raw}, embedded);"

    def slots(self) -> list[int]:
        """A slot of the workspace for each value, shared by values that are never alive at once."""
        ends = {self.answer: len(self.calls), len(self.values) - 1: len(self.calls)}
        for time, call in enumerate(self.calls):
            for value in call.reads:
                ends[value] = max(ends.get(value, 0), time)
        born = [((0,), -1)] + [(call.writes, time) for time, call in enumerate(self.calls)]
        found, until = [0] * len(self.values), list[int]()
        for values, time in born:
            for value in values:
                free = [slot for slot, end in enumerate(until) if end < time]
                slot = free[0] if free else len(until)
                until[slot : slot + 1] = [ends.get(value, time)]
                found[value] = slot
        return found


def _environment() -> Environment:
    """Templates whose statements are lines that begin with //: and look like C's comments."""
    environment = Environment(
        loader=PackageLoader("fino.export", "source"),
        undefined=StrictUndefined,
        line_statement_prefix="//:",
        keep_trailing_newline=True,
    )
    environment.filters |= {"number": _number, "numbers": _numbers, "names": _names}
    return environment


def _words(program: Program, prefix: str) -> dict[str, Any]:
    """What the header and the source both say."""
    steady = "the answer to a steady problem" if program.steady else f"a step of {program.dt:g}"
    takes = [kind for kind in ("signals", "known", "forcing") if getattr(program, kind)]
    return {
        "program": program,
        "prefix": prefix,
        "title": f"{program.name} for {_names(program.fields)} in {program.dims}D: {steady}.",
        "space": ", ".join(program.axes),
        "integers": ", ".join(f"int {name}" for name in program.axes),
        "takes": [*takes, *(["mask"] if program.walls else [])],
    }


def _context(plan: _Plan) -> dict[str, Any]:
    """What the source needs beside the plan, as text and tables."""
    program, first, slots = plan.program, plan.first, plan.slots()
    vectors = {"SCALE": program.scale, "SHIFT": program.shift}
    if program.prior == "linear" and program.prior_weight is not None:
        vectors["PRIOR"] = program.prior_weight.flatten()
    if program.walls:
        vectors["OUTSIDE"] = program.outside
    lines = program.coordinates(program.grid.points) if program.fixed else ()
    names = ["NULL"] * first + [f"COORDINATE_{axis}" for axis in range(program.dims)]
    places = [
        (level, _padded(channels), ghost, slot)
        for (level, channels), ghost, slot in zip(plan.values, plan.ghost, slots, strict=True)
    ]
    return {
        "plan": plan,
        "sections": plan.sections,
        "activations": {k: v for k, v in _ACTIVATIONS.items() if k in _functions(program)},
        "gelu": _gelu_polynomial(),
        "sources": {channel.kind for channel in program.channels},
        "axes": ", ".join(n.upper() for n in (*["periodic"] * first, *program.boundary)),
        "coordinates": lines,
        "coordinate_names": ", ".join(names),
        "channels": [_channel(channel, first) for channel in program.channels],
        "vectors": vectors,
        "places": places,
        "slots": max(slots) + 1,
        "sizes": ", ".join([*["1"] * first, *program.axes]),
        "cells": " * ".join(f"(size_t){name}" for name in program.axes),
        "tests": _size_tests(plan),
        "other_sizes": [f"n[{first + axis}] != {n}" for axis, n in enumerate(program.grid.points)],
        "missing": _missing(program),
        "scalars": _scalars(program),
        "letters": [_letters(name) for name in program.fields],
        "thetas": [(*_letters(s.name), _ranges(s)) for s in program.scalars if s.end is None],
        "limits": [] if program.limits is None else _finite(program.limits).tolist(),
        "far": FAR,
        "planes": _planes(program),
        "strides": _strides(program),
    }


def _size_tests(plan: _Plan) -> list[str]:
    program, tests = plan.program, []
    for axis, least in enumerate(program.smallest):
        name, stride = f"n[{axis + plan.first}]", program.locality.stride[axis]
        tests.append(f"{name} >= {least}")
        tests += [f"{name} % {stride} == 0"] if stride > 1 else []
    return tests


def _missing(program: Program) -> list[str]:
    """What tells that something is not given."""
    tests = ["!history", "!out", "!workspace"] + (["!parameters"] if program.parameters else [])
    kinds = [kind for kind in ("signals", "known", "forcing") if getattr(program, kind)]
    kinds += ["mask"] if program.walls else []
    return tests + (["!beside"] if kinds else []) + [f"!beside->{kind}" for kind in kinds]


def _scalars(program: Program) -> list[tuple[Scalar, str]]:
    """Each scalar and where it is read."""
    found, parameters = [], len(program.parameters)
    for place, scalar in enumerate(program.scalars):
        source = f"parameters[{place}]"
        if place >= parameters:
            source = f"beside->signals[{place - parameters}]"
        if scalar.log:
            source = f"logf({source} > 1e-30f ? {source} : 1e-30f)"
        found.append((scalar, source))
    return found


def _letters(name: str) -> tuple[str, str]:
    """A name as the numbers of its letters, and as words of a comment: it never becomes code."""
    words = _names([name])
    return ", ".join(str(letter) for letter in (*words.encode(), 0)), words


def _ranges(scalar: Scalar) -> tuple[float, float, float, float]:
    """The range of a parameter, and the same a little wider, for rounding."""
    slack = 1e-3 * max(abs(scalar.high - scalar.low), 1e-12)
    return scalar.low, scalar.high, scalar.low - slack, scalar.high + slack


def _planes(program: Program) -> list[tuple[str, int, int]]:
    """Where the input channels after the history come from: kind, first channel, count."""
    at, found = program.history * len(program.fields), []
    counts = {
        "positions": sum(c.kind in ("edge", "coordinate") for c in program.channels),
        "known": len(program.known),
        "forcing": 2 * len(program.forcing),
        "mask": int(program.walls is not None),
    }
    for kind, count in counts.items():
        found += [(kind, at, count)] if count else []
        at += count
    return found


def _strides(program: Program) -> dict[str, str]:
    """How many numbers of each kind a trajectory of a batch has."""
    sizes = {
        "signals": str(2 * len(program.signals)),
        "known": f"{len(program.known)} * cells",
        "forcing": f"{2 * len(program.forcing)} * cells",
    }
    found = {kind: size for kind, size in sizes.items() if getattr(program, kind)}
    return found | ({"mask": "cells"} if program.walls else {})


def _channel(channel: Channel, first: int) -> str:
    """An entry of the table of input channels."""
    source, number, end = "PLANE", 0, 0
    if channel.kind in ("edge", "coordinate"):
        source, number = channel.kind.upper(), first + channel.index[0]
        end = channel.index[1] if channel.kind == "edge" else 0
    elif channel.kind == "scalar":
        source, number = "SCALAR", channel.index[0]
    return f"{source}, {number}, {end}, {_numbers((channel.mean, channel.std))}"


#: What each activation does to a number u[i].
_ACTIVATIONS = {
    "relu": "u[i] = u[i] > 0.0f ? u[i] : 0.0f;",
    "gelu": "u[i] = gelu(u[i]);",
    "silu": "u[i] *= sigmoid(u[i]);",
    "tanh": "u[i] = 2.0f * sigmoid(2.0f * u[i]) - 1.0f;",
}


def _functions(program: Program) -> set[str]:
    """The functions that the program needs; `sigmoid` for gates."""
    found = {op.activation for op in program.operations if isinstance(op, Stencil)}
    if any(isinstance(op, EulerStep) or getattr(op, "gate", False) for op in program.operations):
        found.add("sigmoid")
    if program.embedding:
        found.add("gelu")
    return {name for name in found if name}


def _is_nearest(operation: Operation) -> bool:
    return isinstance(operation, Upsample) and operation.mode == "nearest"


def _gelu_polynomial() -> list[float]:
    """Φ(x) − ½ = x q(t), t = 2 x² / range² − 1: the powers of q, the highest first."""

    def q(t: Any) -> Any:
        x = _GELU_RANGE * np.sqrt(np.maximum((t + 1) / 2, 1e-16))
        return erf(x / np.sqrt(2)) / (2 * x)

    powers = chebyshev.cheb2poly(chebyshev.chebinterpolate(q, _GELU_DEGREE))
    return [float(power) for power in powers[::-1]]


def _names(names: Iterable[str]) -> str:
    """Names as words of a comment; they come from files, and cannot end it to become code."""
    return ", ".join(re.sub(r"[^\w .+()^-]", "_", name)[:80] for name in names) or "none"


def _padded(channels: int) -> int:
    return -(-channels // _PAD) * _PAD


def _pad(values: np.ndarray) -> np.ndarray:
    """Zeros after the end of the last axis, to a multiple of sixteen."""
    wide = [(0, 0)] * (values.ndim - 1) + [(0, _padded(values.shape[-1]) - values.shape[-1])]
    return np.pad(values, wide)


def _finite(values: np.ndarray) -> np.ndarray:
    """The same with the largest float32 for infinity, which C cannot spell."""
    largest = float(np.finfo(np.float32).max)
    return np.nan_to_num(values, posinf=largest, neginf=-largest)


def _numbers(values: Iterable[float]) -> str:
    return ", ".join(map(_number, values))


def _number(value: float) -> str:
    """A float32 as C reads it back to the last bit."""
    text = f"{np.float32(value):.9g}"
    if text in ("0", "-0"):
        return "0"
    return text + ("f" if "." in text or "e" in text else ".0f")
