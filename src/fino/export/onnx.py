"""A program as an ONNX model: the whole step, for any batch and every size that the model takes.

    history (batch, K, c, *space)   →   frame (batch, c, *space)

Beside the history it has an input for each kind of thing that the model is given: `parameters`
(batch, p), `signals` (batch, 2, s), `known` (batch, k, *space), `forcing` (batch, 2, f, *space)
and `mask` (batch, 1, *space); those in time at both ends of the step.  Sizes are dynamic; the
rule that they have to follow is in the model's description and its metadata, and a runtime
refuses others with an error, because the levels' shapes do not meet.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import torch

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
from fino.given import Given
from fino.shapes import Field

__all__ = ["OnnxStep", "onnx_model"]

#: Operations of ONNX 1.14: the first with padding that wraps around.
_OPSET, _IR = 19, 9
_MODES = {"periodic": "wrap", "neumann": "edge", "reflect": "reflect", "dirichlet": "constant"}


def onnx_model(program: Program, title: str = "") -> Any:
    """The step as an `onnx.ModelProto`, checked for its form."""
    onnx, _ = _packages()
    graph = _Graph(program).build()
    opset = onnx.helper.make_opsetid("", _OPSET)
    model = onnx.helper.make_model(graph, opset_imports=[opset], ir_version=_IR)
    model.producer_name = "fino"
    model.doc_string = f"{title or program.name}. It runs on {program.rule}."
    facts = {
        "sizes": program.rule,
        "fields": ", ".join(program.fields),
        "parameters": ", ".join(program.parameters),
        "dt": f"{program.dt:g}",
    }
    onnx.helper.set_model_props(model, facts)
    onnx.checker.check_model(model)
    return model


class OnnxStep:
    """The exported step in onnxruntime: given → next frame (b, c, *space), on one thread."""

    takes_given = True

    def __init__(self, program: Program, content: bytes) -> None:
        _, runtime = _packages()
        options = runtime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 4
        self.history = program.history
        self.session = runtime.InferenceSession(
            content, options, providers=["CPUExecutionProvider"]
        )
        self.names = [one.name for one in self.session.get_inputs()]

    def __call__(self, given: Given) -> Field:
        given = Given.of(given).last(self.history)
        found: dict[str, np.ndarray] = {}
        for name in self.names:
            value = getattr(given, name).float()
            found[name] = (value[:, :2] if name in ("signals", "forcing") else value).numpy()
        (frame,) = self.session.run(None, found)
        return torch.from_numpy(frame)


def _packages() -> tuple[Any, Any]:
    try:
        import onnx
        import onnxruntime
    except ImportError:
        raise ValueError(
            "ONNX needs the packages onnx and onnxruntime, which are not installed. "
            "Install them with `pip install fino[export]`."
        ) from None
    return onnx, onnxruntime


class _Graph:
    """Nodes and constants as they are added; every method returns the name of a result."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.onnx, _ = _packages()
        self.nodes: list[Any] = []
        self.constants: dict[str, np.ndarray] = {}
        self.ones = [1] * program.dims

    def build(self) -> Any:
        program, helper = self.program, self.onnx.helper
        history = "history"
        if program.walls:
            history = self._extended()
        frame = self._prior(history)
        theta = self._theta()
        values = [self._inputs(history, theta)]
        embedded = self._embedded(theta)
        for operation in program.operations:
            values.append(self._operation(operation, values, embedded))
        over = (-1, *self.ones)
        scaled = self.add("Mul", values[-1], self.constant(program.scale.reshape(over)))
        residual = self.add("Add", scaled, self.constant(program.shift.reshape(over)))
        frame = residual if frame is None else self.add("Add", frame, residual)
        if program.walls:
            frame = self.add("Mul", frame, "mask")
        self.nodes.append(helper.make_node("Identity", [frame], ["frame"]))
        shape = ["batch", len(program.fields), *self._sizes()]
        out = helper.make_tensor_value_info("frame", self.onnx.TensorProto.FLOAT, shape)
        constants = [
            self.onnx.numpy_helper.from_array(value, name) for name, value in self.constants.items()
        ]
        return helper.make_graph(self.nodes, "step", self._declared(), [out], constants)

    def _sizes(self) -> Sequence[str | int]:
        return self.program.grid.points if self.program.fixed else self.program.axes

    def _declared(self) -> list[Any]:
        """The inputs that the model has."""
        program, space = self.program, self._sizes()
        shapes: dict[str, tuple[Any, ...]] = {
            "history": (program.history, len(program.fields), *space)
        }
        if program.parameters:
            shapes["parameters"] = (len(program.parameters),)
        if program.signals:
            shapes["signals"] = (2, len(program.signals))
        if program.known:
            shapes["known"] = (len(program.known), *space)
        if program.forcing:
            shapes["forcing"] = (2, len(program.forcing), *space)
        if program.walls:
            shapes["mask"] = (1, *space)
        kind = self.onnx.TensorProto.FLOAT
        make = self.onnx.helper.make_tensor_value_info
        return [make(name, kind, ["batch", *shape]) for name, shape in shapes.items()]

    def add(self, kind: str, *sources: str, **attributes: Any) -> str:
        name = f"{kind.lower()}_{len(self.nodes)}"
        node = self.onnx.helper.make_node(kind, list(sources), [name], name=name, **attributes)
        self.nodes.append(node)
        return name

    def constant(self, value: Any, kind: Any = np.float32) -> str:
        name = f"constant_{len(self.constants)}"
        self.constants[name] = np.array(value, dtype=kind, order="C")
        return name

    def integers(self, *values: int) -> str:
        return self.constant(values, np.int64)

    def slice(self, u: str, axis: int, start: int, stop: int) -> str:
        return self.add("Slice", u, *(self.integers(n) for n in (start, stop, axis)))

    def pad(self, u: str, radius: Sequence[int]) -> str:
        """Ghost cells, axis after axis, as the boundary of each has it."""
        axes = len(radius) + 2
        for axis, (r, name) in enumerate(zip(radius, self.program.boundary, strict=True), start=2):
            if r:
                width = [0] * (2 * axes)
                width[axis] = width[axis + axes] = r
                u = self.add("Pad", u, self.integers(*width), mode=_MODES[name])
        return u

    def convolve(
        self, u: str, weight: np.ndarray, bias: np.ndarray | None = None, apart: int = 1
    ) -> str:
        taps = weight.shape[2:]
        padded = self.pad(u, [apart * (n // 2) for n in taps])
        given = [self.constant(weight)] + ([] if bias is None else [self.constant(bias)])
        return self.add("Conv", padded, *given, dilations=[apart] * len(taps))

    def activation(self, name: str | None, u: str) -> str:
        if name == "relu":
            return self.add("Relu", u)
        if name == "tanh":
            return self.add("Tanh", u)
        if name == "silu":
            return self.add("Mul", u, self.add("Sigmoid", u))
        if name == "gelu":
            erf = self.add("Erf", self.add("Mul", u, self.constant(math.sqrt(0.5))))
            both = self.add("Add", erf, self.constant(1.0))
            return self.add("Mul", self.add("Mul", u, self.constant(0.5)), both)
        return u

    def _extended(self) -> str:
        """The history with what lies at the walls of the mask in the cells outside of it."""
        program = self.program
        mask = self.add("Unsqueeze", "mask", self.integers(1))
        if program.walls == "dirichlet":
            return self.add("Mul", "history", mask)
        count = program.history * len(program.fields)
        flat = self._flat("history")
        outside = np.tile(program.outside, program.history).reshape(-1, *self.ones)
        is_inside = self.add("Greater", "mask", self.constant(0.0))
        filled = self.add("Where", is_inside, flat, self.constant(outside))
        inside = "mask"
        cross = _cross(program.dims)
        for _ in range(2):
            total = self._around(self.add("Mul", filled, inside), np.tile(cross, (count, 1)), count)
            number = self._around(inside, cross, 1)
            near = self.add(
                "And",
                self.add("Equal", inside, self.constant(0.0)),
                self.add("Greater", number, self.constant(0.0)),
            )
            mean = self.add("Div", total, self.add("Max", number, self.constant(1.0)))
            filled = self.add("Where", near, mean, filled)
            inside = self.add("Where", near, self.constant(1.0), inside)
        shape = self.add("Shape", "history")
        return self.add("Reshape", filled, shape)

    def _around(self, u: str, cross: np.ndarray, groups: int) -> str:
        """The sum over the neighbours along each axis, channel by channel."""
        weight = cross.reshape(groups, 1, *[3] * self.program.dims)
        return self.add("Conv", self.pad(u, self.ones), self.constant(weight), group=groups)

    def _flat(self, history: str) -> str:
        """(b, K, c, *space) → (b, K c, *space)"""
        shape = self.add("Shape", history)
        first, space = self.slice(shape, 0, 0, 1), self.slice(shape, 0, 3, 9)
        count = self.integers(self.program.history * len(self.program.fields))
        return self.add("Reshape", history, self.add("Concat", first, count, space, axis=0))

    def _prior(self, history: str) -> str | None:
        program = self.program
        if program.prior == "frame":
            return None
        if program.prior == "linear":
            assert program.prior_weight is not None
            weight = self.constant(
                program.prior_weight.reshape(*program.prior_weight.shape, *self.ones)
            )
            weighted = self.add("Mul", history, weight)
            return self.add("ReduceSum", weighted, self.integers(1), keepdims=0)
        newest = self.add("Gather", history, self.constant(program.history - 1, np.int64), axis=1)
        if program.prior == "increment":
            return newest
        assert program.prior_weight is not None
        return self.convolve(newest, program.prior_weight)

    def _theta(self) -> str | None:
        """The scalars of the step, scaled: (b, n)."""
        scalars = self.program.scalars
        if not scalars:
            return None
        parts = ["parameters"] if self.program.parameters else []
        parts += ["_signals"] if self.program.signals else []
        if self.program.signals:
            parts[-1] = self.add("Flatten", "signals")
        raw = parts[0] if len(parts) == 1 else self.add("Concat", *parts, axis=1)
        if any(scalar.log for scalar in scalars):
            which = self.constant([scalar.log for scalar in scalars], np.bool_)
            log = self.add("Log", self.add("Max", raw, self.constant(1e-30)))
            raw = self.add("Where", which, log, raw)
        mean = self.constant([scalar.mean for scalar in scalars])
        return self.add(
            "Div", self.add("Sub", raw, mean), self.constant([scalar.std for scalar in scalars])
        )

    def _inputs(self, history: str, theta: str | None) -> str:
        """All input channels, scaled: (b, inputs, *space)."""
        program, flat = self.program, self._flat(history)
        shape = self.add("Shape", flat)
        one = self.add(
            "Concat",
            self.slice(shape, 0, 0, 1),
            self.integers(1),
            self.slice(shape, 0, 2, 9),
            axis=0,
        )
        forcing = "forcing"
        if program.forcing:
            start = self.add("Shape", "forcing")
            both = (self.slice(start, 0, 0, 1), self.integers(2 * len(program.forcing)))
            size = self.add("Concat", *both, self.slice(start, 0, 3, 9), axis=0)
            forcing = self.add("Reshape", "forcing", size)
        sources = {"history": flat, "known": "known", "forcing": forcing}
        parts = []
        for kind in ("history", "position", "known", "forcing", "mask", "scalar"):
            some = [c for c in program.channels if _kind(c.kind) == kind]
            if kind in sources and some:
                over = (-1, *self.ones)
                mean = self.constant(np.array([c.mean for c in some]).reshape(over))
                std = self.constant(np.array([c.std for c in some]).reshape(over))
                parts.append(self.add("Div", self.add("Sub", sources[kind], mean), std))
            elif kind == "position":
                parts += [self.add("Expand", self._line(c, shape), one) for c in some]
            elif kind == "mask" and some:
                parts.append("mask")
            elif kind == "scalar" and some:
                assert theta is not None
                column = self.add("Unsqueeze", theta, self.integers(*range(2, program.dims + 2)))
                size = self.add(
                    *("Concat", self.slice(shape, 0, 0, 1), self.integers(len(some))),
                    self.slice(shape, 0, 2, 9),
                    axis=0,
                )
                parts.append(self.add("Expand", column, size))
        return parts[0] if len(parts) == 1 else self.add("Concat", *parts, axis=1)

    def _line(self, channel: Any, shape: str) -> str:
        """A position channel along its axis: (1, 1, …, n, …, 1)."""
        program, axis = self.program, channel.index[0]
        along = [1, 1, *(-1 if a == axis else 1 for a in range(program.dims))]
        if channel.kind == "coordinate":
            return self.constant(program.coordinates(program.grid.points)[axis].reshape(along))
        n = self.add("Gather", shape, self.constant(axis + 2, np.int64))
        zero, one = self.constant(0, np.int64), self.constant(1, np.int64)
        place = self.add("Range", zero, n, one)
        wall = self.add("Sub", n, one) if channel.index[1] else zero
        marked = self.add("Cast", self.add("Equal", place, wall), to=self.onnx.TensorProto.FLOAT)
        return self.add("Reshape", marked, self.integers(*along))

    def _embedded(self, theta: str | None) -> str:
        u = theta or ""
        for weight, bias in self.program.embedding:
            u = self.activation("gelu", self._linear(u, weight, bias))
        return u

    def _linear(self, u: str, weight: np.ndarray, bias: np.ndarray) -> str:
        return self.add("Gemm", u, self.constant(weight), self.constant(bias), transB=1)

    def _operation(self, operation: Any, values: list[str], embedded: str) -> str:
        u = values[operation.sources[0]]
        if isinstance(operation, Stencil):
            out = self.convolve(u, operation.weight, operation.bias, operation.dilation)
            return self.activation(operation.activation, out)
        if isinstance(operation, EulerStep):
            return self._euler(operation, u, embedded)
        if isinstance(operation, Add):
            return self.add("Add", u, values[operation.sources[1]])
        if isinstance(operation, Multiply):
            first = self.add("Sigmoid", u) if operation.gate else u
            return self.add("Mul", first, values[operation.sources[1]])
        if isinstance(operation, Pool):
            two = [2] * self.program.dims
            return self.add("AveragePool", u, kernel_shape=two, strides=two)
        if isinstance(operation, Fold):
            channels = self.program.values[operation.source][1]
            return self._fold(operation, u, channels)
        assert isinstance(operation, Upsample)
        return self._upsample(operation, u, self.program.values[operation.source][1])

    def _euler(self, operation: EulerStep, u: str, embedded: str) -> str:
        def pointwise(weight: np.ndarray) -> np.ndarray:
            return weight.reshape(*weight.shape, *self.ones)

        s = self.convolve(u, operation.weight, operation.bias)
        change: list[str] = []
        if operation.film is not None:
            f, film = len(operation.weight), operation.film
            all_of_them = self._linear(embedded, film.weight, film.bias)
            for start, stop in ((0, f), (f, 2 * f), (2 * f, 3 * f), (3 * f, 3 * f + 1)):
                part = self.slice(all_of_them, 1, start, stop)
                axes = self.integers(*range(2, self.program.dims + 2))
                change.append(self.add("Unsqueeze", part, axes))
            scale = self.add("Add", change[0], self.constant(1.0))
            s = self.add("Add", self.add("Mul", s, scale), change[1])
        gated = s
        if operation.gate is not None:
            gate = self.convolve(s, pointwise(operation.gate), operation.gate_bias)
            gate = self.add("Add", gate, change[2]) if change else gate
            gated = self.add("Mul", self.add("Sigmoid", gate), s)
        step = self.convolve(gated, pointwise(operation.fuse))
        if operation.film is not None and operation.film.raw is not None:
            raw = self.add("Add", change[3], self.constant(operation.film.raw))
            step = self.add("Mul", step, self.add("Softplus", raw))
        return self.add("Add", u, step)

    def _fold(self, operation: Fold, u: str, channels: int) -> str:
        """(b, c, *(p n)) ↔ (b, c · p^d, *n): axes split, moved and joined; no size is fixed."""
        dims, p, axes = self.program.dims, operation.patch, range(self.program.dims)
        shape = self.add("Shape", u)
        batch, space = self.slice(shape, 0, 0, 1), self.slice(shape, 0, 2, 9)
        patch = self.integers(p)
        if isinstance(operation, Unfold):
            fields = self.integers(channels // p**dims)
            split = self.add("Concat", batch, fields, *[patch] * dims, space, axis=0)
            order = [0, 1, *(axis for a in axes for axis in (2 + dims + a, 2 + a))]
            joined = self.add("Concat", batch, fields, self.add("Mul", space, patch), axis=0)
        else:
            coarse = self.add("Div", space, patch)
            sides = [side for a in axes for side in (self.slice(coarse, 0, a, a + 1), patch)]
            split = self.add("Concat", batch, self.integers(channels), *sides, axis=0)
            order = [0, 1, *(3 + 2 * a for a in axes), *(2 + 2 * a for a in axes)]
            joined = self.add("Concat", batch, self.integers(channels * p**dims), coarse, axis=0)
        moved = self.add("Transpose", self.add("Reshape", u, split), perm=order)
        return self.add("Reshape", moved, joined)

    def _upsample(self, operation: Upsample, u: str, channels: int) -> str:
        dims, is_linear = self.program.dims, operation.mode == "linear"
        u = self.pad(u, self.ones) if is_linear else u
        twice = self.constant([1.0, 1.0, *[2.0] * dims])
        how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric"}
        fine = self.add("Resize", u, "", twice, **how)
        if not is_linear:
            return fine
        # Linear is nearest, smoothed by ¼, ½, ¼ along every axis; the ghosts are cut off.
        line = np.array([0.25, 0.5, 0.25])
        kernel = line
        for _ in range(dims - 1):
            kernel = np.multiply.outer(kernel, line)
        weight = np.broadcast_to(kernel, (channels, 1, *kernel.shape))
        fine = self.add("Conv", fine, self.constant(weight), group=channels)
        for axis in range(2, dims + 2):
            fine = self.slice(fine, axis, 1, -1)
        return fine


def _kind(kind: str) -> str:
    return "position" if kind in ("coordinate", "edge") else kind


def _cross(dims: int) -> np.ndarray:
    """One at the two neighbours along each axis of a 3 × … × 3 stencil: (1, 3^dims)."""
    places = product((-1, 0, 1), repeat=dims)
    return np.array([[float(sum(map(abs, place)) == 1) for place in places]])
