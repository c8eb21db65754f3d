"""A program as one C99 file and a header: no dependency but libm, the weights inside.

    cc -O3 -march=native -c model.c

The fixed part, register-blocked stencils and what goes with them, is `kernels.c`; of its sections
those are taken that the program needs.  Around it stand the weights, the table of fields in the
workspace, and the step as a list of calls, one for each operation.

Inside, a field lies cell by cell, its channels padded to sixteen: a stencil is then a product of
neighbouring cells with a small matrix, whose sums stay in registers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev
from scipy.special import erf

from fino.export.program import (
    Add,
    EulerStep,
    Film,
    Multiply,
    Operation,
    Pool,
    Program,
    Stencil,
    Upsample,
)

__all__ = ["c_header", "c_source"]

#: Channels in memory are a multiple of this.
_PAD = 16
#: Up to where x Φ(x) is a polynomial, and its degree in x².
_GELU_RANGE, _GELU_DEGREE = 5.4, 14


def c_source(program: Program, header: str = "fino.h", prefix: str = "fino") -> str:
    """The step, to be compiled beside its header."""
    plan = _Plan(program)
    sections = _read_sections()
    fixed = "".join(text for name, text in sections.items() if name in plan.sections)
    for mark, filling in _fillings(program).items():
        fixed = fixed.replace(mark, filling)
    weights = "\n".join(plan.constants)
    parts = [_opening(plan, header, prefix), fixed, _heading("Weights"), weights, plan.tables()]
    return "".join([*parts, sections["layout"], _step(plan, prefix)])


def c_header(program: Program, prefix: str = "fino") -> str:
    """What a caller includes."""
    space, integers = ", ".join(program.axes), _integers(program)
    guard = f"{prefix.upper()}_STEP_H"
    frames = f"({program.history}, {len(program.fields)}, {space})"
    takes = [kind for kind in ("signals", "known", "forcing") if getattr(program, kind)]
    takes += ["mask"] if program.walls else []
    return f"""/* {_title(program)}
 *
 * history     {frames}: past frames of {", ".join(program.fields)}, the newest last
 * out         ({len(program.fields)}, {space}): the next frame
 * parameters  {_names(program.parameters)}
 * beside      {_names(takes)}; NULL if that is nothing
 * workspace   {prefix}_workspace({space}) bytes, one for each thread
 *
 * It runs on {program.rule}.
 *
 * Arrays hold float32, the last axis contiguous.  A step allocates nothing and remembers
 * nothing: calls with different workspaces can run at the same time.
 */
#ifndef {guard}
#define {guard}

#include <stddef.h>

#ifdef __cplusplus
extern "C" {{
#endif

/* What a step is given beside the history and the parameters; NULL where there is none. */
typedef struct {{
    const float *signals;   /* (2, n): {_names(program.signals)}; at both ends of the step */
    const float *known;     /* (n, {space}): {_names(program.known)} */
    const float *forcing;   /* (2, n, {space}): {_names(program.forcing)}; at both ends */
    const float *mask;      /* ({space}): one inside of the domain, zero outside */
    const float *positions; /* (n, {space}): the position channels of a part of the domain;
                               NULL: these cells are the whole domain */
}} {prefix}_beside;

enum {{ {prefix}_ok = 0, {prefix}_bad_size = 1, {prefix}_missing = 2 }};

/* Bytes that a step on so many cells works in; 0 if it does not run on them. */
size_t {prefix}_workspace({integers});

/* The next frame.  Returns {prefix}_ok, {prefix}_bad_size, or {prefix}_missing where the model
 * takes something that is not given. */
int {prefix}_step(const float *history, float *out, {integers}, const float *parameters,
              const {prefix}_beside *beside, void *workspace);

/* The same for a batch of trajectories, one after another: all arrays but the positions have
 * the batch as their first axis. */
int {prefix}_step_batch(const float *history, float *out, int batch, {integers},
                    const float *parameters, const {prefix}_beside *beside, void *workspace);

#ifdef __cplusplus
}}
#endif

#endif
"""


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
        kinds = _activations(program)
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

    def tables(self) -> str:
        """What each input channel is, the scaling of the answer, and where each field lies."""
        program, slots = self.program, self.slots()
        channels = ",\n".join(f"    {{{_channel(program, c)}}}" for c in program.channels)
        places = ",\n".join(
            f"    {{{level}, {_padded(channels_)}, {{{', '.join(map(str, ghost))}}}, {slot}}}"
            for (level, channels_), ghost, slot in zip(self.values, self.ghost, slots, strict=True)
        )
        vectors = {"SCALE": program.scale, "SHIFT": program.shift}
        if program.prior == "linear" and program.prior_weight is not None:
            vectors["PRIOR"] = program.prior_weight.flatten()
        if program.walls:
            vectors["OUTSIDE"] = program.outside
        lines = [
            _heading("Tables").rstrip("\n"),
            f"static const channel CHANNELS[INPUTS] = {{\n{channels}}};",
            *(f"static const float {name}[] = {{{_numbers(v)}}};" for name, v in vectors.items()),
            f"enum {{ VALUES = {len(self.values)}, SLOTS = {max(slots) + 1} }};",
            f"static const place PLACES[VALUES] = {{\n{places}}};",
        ]
        return "\n".join(lines) + "\n\n"


def _opening(plan: _Plan, header: str, prefix: str) -> str:
    """What the file is, and the sizes that all of it knows."""
    program = plan.program
    steps = " ".join(f"X({step})" for step in sorted(plan.steps))
    text = f"""/* {_title(program)}
 *
 *     cc -O3 -march=native -c {header.removesuffix(".h")}.c
 *
 * One step of a strictly local network, {prefix}_step; {header} says how to call it.  Everything
 * is in this file, and nothing is needed beside it but the C library's mathematics.
 */
#include "{header}"

#include <math.h>
#include <stdint.h>
#include <string.h>

enum {{ DIMS = {program.dims}, FIELDS = {len(program.fields)}, HISTORY = {program.history} }};
enum {{ INPUTS = {len(program.channels)}, MOST_TAPS = {plan.taps} }};
"""
    if "euler" in plan.sections:
        text += f"enum {{ MOST_FEATURES = {plan.features} }};\n"
    if program.scalars:
        text += f"enum {{ SCALARS = {len(program.scalars)} }};\n"
    if program.embedding:
        text += f"enum {{ EMBEDDED = {len(program.embedding[-1][1])} }};\n"
    text += f"#define EACH_CELL_STEP(X) {steps}\n\n"
    if program.fixed:
        lines = program.coordinates(program.grid.points)
        names = ["NULL"] * plan.first + [f"COORDINATE_{axis}" for axis in range(program.dims)]
        for name, line in zip(names[plan.first :], lines, strict=True):
            text += f"static const float {name}[] = {{{_numbers(line)}}};\n"
        text += f"static const float *const COORDINATES[3] = {{{', '.join(names)}}};\n\n"
    return text


def _fillings(program: Program) -> dict[str, str]:
    """What stands where the fixed text leaves a place."""
    kinds = _activations(program)
    known = {
        "relu": "u[i] = u[i] > 0.0f ? u[i] : 0.0f;",
        "gelu": "u[i] = gelu(u[i]);",
        "silu": "u[i] *= sigmoid(u[i]);",
        "tanh": "u[i] = 2.0f * sigmoid(2.0f * u[i]) - 1.0f;",
    }
    cases = [
        f"    case {name.upper()}:\n        for (int i = 0; i < size; i++)\n"
        f"            {line}\n        break;\n"
        for name, line in known.items()
        if name in kinds
    ]
    sources = {channel.kind for channel in program.channels}
    places = [] if "edge" in sources else ["    (void)n;\n"]
    places += [] if sources & {"edge", "coordinate"} else ["    (void)place;\n"]
    places.append("    switch (k->source) {\n")
    if "edge" in sources:
        places.append(
            "    case EDGE:\n"
            "        return place[k->number] == (k->end ? n[k->number] - 1 : 0) ? 1.0f : 0.0f;\n"
        )
    if "coordinate" in sources:
        places.append(
            "    case COORDINATE:\n        return COORDINATES[k->number][place[k->number]];\n"
        )
    gated = "sigmoid(one[c]) * two[c]" if "sigmoid" in kinds else "0.0f"
    axes = ["periodic"] * (3 - program.dims) + list(program.boundary)
    return {
        "ACTIVATION_CASES\n": "".join(cases)
        or "    case NONE:\n        (void)u, (void)size;\n        break;\n",
        "    switch (k->source) {\nPOSITION_CASES\n": "".join(places),
        "AXES": ", ".join(name.upper() for name in axes),
        "GELU_POLYNOMIAL": _gelu_polynomial(),
        "GATED_VALUE": gated,
    }


def _step(plan: _Plan, prefix: str) -> str:
    """The functions of the header."""
    program = plan.program
    sizes = ["1"] * plan.first + list(program.axes)
    n = f"const int n[3] = {{{', '.join(sizes)}}};"
    calls = "\n    ".join(call.text for call in plan.calls)
    extended = f"{program.history * len(program.fields) + 3} * cells" if program.walls else "0"
    theta = "theta" if program.scalars else "NULL"
    return f"""{_heading("The step")}/* {program.rule} */
static int fits(const int n[3])
{{
    return {_fits(plan)};
}}

size_t {prefix}_workspace({_integers(program)})
{{
    {n}
    field v[VALUES];
    if (!fits(n))
        return 0;
    const size_t cells = (size_t)n[0] * (size_t)n[1] * (size_t)n[2];
    (void)cells;
    return ((size_t)lay_out(v, n, NULL) + {extended}) * sizeof(float) + 64;
}}

int {prefix}_step(const float *history, float *out, {_integers(program)}, const float *parameters,
              const {prefix}_beside *beside, void *workspace)
{{
    {n}
    const ptrdiff_t cells = (ptrdiff_t)n[0] * n[1] * n[2];
    field v[VALUES];
    if (!fits(n){_wrong_size(plan)})
        return {prefix}_bad_size;
    if ({_missing(program)})
        return {prefix}_missing;
    float *memory = (float *)(((uintptr_t)workspace + 63) & ~(uintptr_t)63);
    {"memory += " if program.walls else ""}lay_out(v, n, memory);
{_scalars(program)}{_walls(program)}
    const float *planes[INPUTS] = {{NULL}};
    for (int c = 0; c < HISTORY * FIELDS; c++)
        planes[c] = history + c * cells;
{_planes(program)}    gather(&v[0], CHANNELS, INPUTS, planes, {theta});
{_embedding(program)}{_newest(program)}    {calls}

{_answer(plan)}    return {prefix}_ok;
}}

{_batch(program, prefix)}"""


def _fits(plan: _Plan) -> str:
    program = plan.program
    tests = []
    for axis, least in enumerate(program.smallest):
        name, stride = f"n[{axis + plan.first}]", program.locality.stride[axis]
        tests.append(f"{name} >= {least}")
        tests += [f"{name} % {stride} == 0"] if stride > 1 else []
    return " && ".join(tests)


def _wrong_size(plan: _Plan) -> str:
    """A model with coordinates runs on its own grid, unless it is told where the cells lie."""
    program = plan.program
    if not program.fixed:
        return ""
    other = " || ".join(
        f"n[{axis + plan.first}] != {points}" for axis, points in enumerate(program.grid.points)
    )
    return f" || (!(beside && beside->positions) && ({other}))"


def _missing(program: Program) -> str:
    tests = ["!history", "!out", "!workspace"] + (["!parameters"] if program.parameters else [])
    kinds = [kind for kind in ("signals", "known", "forcing") if getattr(program, kind)]
    kinds += ["mask"] if program.walls else []
    tests += ["!beside"] if kinds else []
    return " || ".join([*tests, *(f"!beside->{kind}" for kind in kinds)])


def _scalars(program: Program) -> str:
    """The scalars of the step, scaled."""
    if not program.scalars:
        return "    (void)parameters;\n" + ("" if _uses_beside(program) else "    (void)beside;\n")
    lines, parameters = ["    const float theta[SCALARS] = {"], len(program.parameters)
    for place, scalar in enumerate(program.scalars):
        source = (
            f"parameters[{place}]"
            if place < parameters
            else (f"beside->signals[{place - parameters}]")
        )
        if scalar.log:
            source = f"logf({source} > 1e-30f ? {source} : 1e-30f)"
        mean, std = _number(scalar.mean), _number(scalar.std)
        lines.append(f"        ({source} - {mean}) / {std}, /* {scalar.name} */")
    end = [] if _uses_beside(program) else ["    (void)beside;"]
    return "\n".join([*lines, "    };", *end]) + "\n"


def _uses_beside(program: Program) -> bool:
    positions = {"edge", "coordinate"} & {channel.kind for channel in program.channels}
    given = program.signals or program.known or program.forcing or program.walls
    return bool(positions or given)


def _walls(program: Program) -> str:
    """The history with what lies at the walls of the mask in the cells outside of it."""
    if not program.walls:
        return ""
    return """    float *extended = memory, *scratch = memory + HISTORY * FIELDS * cells;
    for (int c = 0; c < HISTORY * FIELDS; c++)
        extend(extended + c * cells, history + c * cells, beside->mask, n, OUTSIDE[c % FIELDS],
               scratch);
    history = extended;
"""


def _planes(program: Program) -> str:
    """Where the input channels after the history come from."""
    lines, at = [], program.history * len(program.fields)
    positions = sum(channel.kind in ("edge", "coordinate") for channel in program.channels)
    counts = {
        "positions": positions,
        "known": len(program.known),
        "forcing": 2 * len(program.forcing),
        "mask": int(program.walls is not None),
    }
    for kind, count in counts.items():
        if not count:
            continue
        lines += ["    if (beside && beside->positions)"] if kind == "positions" else []
        indent = "        " if kind == "positions" else "    "
        lines.append(f"{indent}for (int c = 0; c < {count}; c++)")
        lines.append(f"{indent}    planes[{at} + c] = beside->{kind} + c * cells;")
        at += count
    return "".join(f"{line}\n" for line in lines)


def _embedding(program: Program) -> str:
    """What the Euler steps share of the scalars."""
    if not program.embedding:
        return ""
    text, source = "    modulation m;\n", "theta"
    for layer, (weight, _) in enumerate(program.embedding, start=1):
        outputs, inputs = weight.shape
        out = "embedded" if layer == len(program.embedding) else f"hidden_{layer}"
        text += f"""    float {out}[{outputs}];
    linear(EMBED_{layer}, EMBED_{layer}_BIAS, {outputs}, {inputs}, {source}, {out});
    activate(GELU, {out}, {outputs});
"""
        source = out
    return text


def _newest(program: Program) -> str:
    if program.prior not in ("increment", "stencil"):
        return ""
    return "    const float *newest = history + (HISTORY - 1) * FIELDS * cells;\n"


def _answer(plan: _Plan) -> str:
    """prior + scale ⊙ value + shift, times the mask, as planes."""
    program = plan.program
    add, before = "", ""
    if program.prior == "increment":
        add = " + newest[at + x]"
    elif program.prior == "stencil":
        before = f"            const float *prior = cell_at(&v[{plan.answer + 2}], z, y, 0) + c;\n"
        add = f" + prior[x * v[{plan.answer + 2}].cell]"
    after = ""
    if program.prior == "linear":
        after += """                for (int k = 0; k < HISTORY; k++)
                    for (int x = 0; x < n[2]; x++)
                        out[at + x] += PRIOR[k * FIELDS + c] * history[k * FIELDS * cells + at + x];
"""
    if program.walls:
        after += """                for (int x = 0; x < n[2]; x++)
                    out[at + x] *= beside->mask[at - c * cells + x];
"""
    before = before.replace("            ", "                ", 1)
    return f"""    for (int c = 0; c < FIELDS; c++)
        for (int z = 0; z < n[0]; z++)
            for (int y = 0; y < n[1]; y++) {{
                const ptrdiff_t at = c * cells + ((ptrdiff_t)z * n[1] + y) * n[2];
                const float *value = cell_at(&v[{plan.answer}], z, y, 0) + c;
{before}                for (int x = 0; x < n[2]; x++)
                    out[at + x] = value[x * v[{plan.answer}].cell] * SCALE[c] + SHIFT[c]{add};
{after}            }}
"""


def _batch(program: Program, prefix: str) -> str:
    space = " * ".join(f"(size_t){name}" for name in program.axes)
    names = ", ".join(program.axes)
    moved = ""
    for kind, size in (
        ("signals", f"{2 * len(program.signals)}"),
        ("known", f"{len(program.known)} * cells"),
        ("forcing", f"{2 * len(program.forcing)} * cells"),
        ("mask", "cells"),
    ):
        given = program.walls if kind == "mask" else getattr(program, kind)
        if given:
            moved += f"        one.{kind} = one.{kind} ? one.{kind} + b * {size} : NULL;\n"
    parameters = f"parameters ? parameters + b * {len(program.parameters)} : NULL"
    sizes = _integers(program)
    return f"""int {prefix}_step_batch(const float *history, float *out, int batch, {sizes},
                    const float *parameters, const {prefix}_beside *beside, void *workspace)
{{
    const size_t cells = {space};
    for (size_t b = 0; b < (size_t)(batch > 0 ? batch : 0); b++) {{
        {prefix}_beside one = {{NULL, NULL, NULL, NULL, NULL}};
        if (beside)
            one = *beside;
{moved}        const int wrong =
            {prefix}_step(history + b * HISTORY * FIELDS * cells, out + b * FIELDS * cells, {names},
                      {parameters if program.parameters else "parameters"},
                      beside ? &one : NULL, workspace);
        if (wrong)
            return wrong;
    }}
    return {prefix}_ok;
}}
"""


def _channel(program: Program, channel: object) -> str:
    """An entry of the table of input channels."""
    kind, index = channel.kind, channel.index  # type: ignore[attr-defined]
    first = 3 - program.dims
    numbers = {
        "edge": ("EDGE", first + index[0] if index else 0, index[-1] if index else 0),
        "coordinate": ("COORDINATE", first + index[0] if index else 0, 0),
        "scalar": ("SCALAR", index[0] if index else 0, 0),
    }
    source, number, end = numbers.get(kind, ("PLANE", 0, 0))
    scaling = f"{_number(channel.mean)}, {_number(channel.std)}"  # type: ignore[attr-defined]
    return f"{source}, {number}, {end}, {scaling}"


def _activations(program: Program) -> set[str]:
    """The functions that the program needs; `sigmoid` for gates."""
    found = {op.activation for op in program.operations if isinstance(op, Stencil)}
    if any(isinstance(op, EulerStep) or getattr(op, "gate", False) for op in program.operations):
        found.add("sigmoid")
    if program.embedding:
        found.add("gelu")
    return {name for name in found if name}


def _is_nearest(operation: Operation) -> bool:
    return isinstance(operation, Upsample) and operation.mode == "nearest"


def _read_sections() -> dict[str, str]:
    """The parts of kernels.c by name: each begins with a line //: name."""
    text = (files("fino.export") / "kernels.c").read_text(encoding="utf-8")
    parts = re.split(r"^//: ([\w-]+)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def _gelu_polynomial() -> str:
    """Φ(x) − ½ = x q(t), t = 2 x² / range² − 1, by interpolation at Chebyshev's points."""

    def q(t: Any) -> Any:
        x = _GELU_RANGE * np.sqrt(np.maximum((t + 1) / 2, 1e-16))
        return erf(x / np.sqrt(2)) / (2 * x)

    powers = chebyshev.cheb2poly(chebyshev.chebinterpolate(q, _GELU_DEGREE))
    first, *others = powers[::-1]
    lines = [f"    float sum = {_number(first)};"]
    lines += [f"    sum = sum * t + {_number(power)};" for power in others]
    return "\n".join(lines) + "\n"


def _heading(title: str) -> str:
    return f"/* ---- {title} {'-' * (84 - len(title))} */\n"


def _title(program: Program) -> str:
    steady = "the answer to a steady problem" if program.steady else f"a step of {program.dt:g}"
    return f"{program.name} for {', '.join(program.fields)} in {program.dims}D: {steady}."


def _names(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _integers(program: Program) -> str:
    return ", ".join(f"int {name}" for name in program.axes)


def _padded(channels: int) -> int:
    return -(-channels // _PAD) * _PAD


def _pad(values: np.ndarray) -> np.ndarray:
    """Zeros after the end of the last axis, to a multiple of sixteen."""
    wide = [(0, 0)] * (values.ndim - 1) + [(0, _padded(values.shape[-1]) - values.shape[-1])]
    return np.pad(values, wide)


def _numbers(values: Iterable[float]) -> str:
    return ", ".join(map(_number, values))


def _number(value: float) -> str:
    """A float32 as C reads it back to the last bit."""
    text = f"{np.float32(value):.9g}"
    if text in ("0", "-0"):
        return "0"
    return text + ("f" if "." in text or "e" in text else ".0f")
