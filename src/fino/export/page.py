"""A page to play with: the learned step runs in the browser, beside the classical solver.

    write_page(run, path)               one file: no network, no server, opens from disk

The page holds the program of the model (`fino.export.program`) in JSON, weights in base64, and
the scripts in `browser/`: solvers, the step as WebGL2 shaders, with WebAssembly and in plain
JavaScript, and the page itself.  It also holds a short history with torch's answers, which it
checks itself against whenever it is opened, and the ranges of the data, from which it says when a
state is unlike them.  Nothing is fetched: the content policy allows only the page's own scripts,
by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup
from matplotlib import colormaps
from torch import Tensor

import fino
from fino.data.card import Card
from fino.data.dataset import Dataset
from fino.durable import write_whole
from fino.export.program import (
    EulerStep,
    Fold,
    Multiply,
    Program,
    Scalar,
    Stencil,
    Upsample,
    describe,
)
from fino.given import Given
from fino.model.rollout import rollout
from fino.pde import PROBLEMS

__all__ = ["SOLVERS", "write_page"]

#: Problems that have a classical solver in `browser/solvers.js`.
SOLVERS = (
    "advection",
    "diffusion-reaction-2d",
    "gray-scott",
    "shallow-water",
    "shallow-water-dams",
    "shallow-water-momenta",
)
#: The reference is at most so many times finer, or it would be what everybody waits for.
_FINEST = {1: 16, 2: 2}

_SCRIPTS = ("solvers.js", "kernel.js", "network.js", "shader.js", "world.js", "play.js")

#: Test trajectories that are solved again for a shipped model, and the most that are looked at.
_SOLVED = 6
_LOOKED_AT = 32
#: Cells along an axis of the self-check, its steps, and the error that it allows.
_CHECK_CELLS = 16
_CHECK_STEPS = (1, 10)
_TOLERANCE = 1e-3
#: Cells along an axis to begin with, and bytes of frames to start from where nothing solves them.
_CELLS = {1: 512, 2: 128}
_START_BYTES = 400_000


def write_page(run: Any, path: Path) -> Path:
    """Write the page of a `fino.Run`, with its data where it knows them."""
    write_whole(path, _html(run).encode("utf-8"))
    return path


def _html(run: Any) -> str:
    program = describe(run.model)
    _check_playable(program, run.name)
    data = run.test_data(_SOLVED) if run.has_data else None
    facts = _facts(run, program, data.card if data is not None else None, data)
    read = (Path(__file__).parent / "browser").joinpath
    style = read("page.css").read_text(encoding="utf-8")
    script = "".join(read(name).read_text(encoding="utf-8") for name in _SCRIPTS)
    # 'wasm-unsafe-eval' lets scripts that are allowed compile WebAssembly, and nothing else.
    scripts = f"script-src '{_hash(script)}' 'wasm-unsafe-eval'; style-src '{_hash(style)}'"
    environment = Environment(
        loader=PackageLoader("fino.export", "browser"),
        autoescape=select_autoescape(["html.j2"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("template.html.j2").render(
        facts=facts,
        policy=f"default-src 'none'; {scripts}; img-src data:; base-uri 'none'; form-action 'none'",
        style=Markup(style),
        script=Markup(script),
    )


def _check_playable(program: Program, name: str) -> None:
    """Refuse what a page cannot play, in one line."""
    if program.steady:
        raise ValueError(
            f"'{name}' has no time: it maps an input to an answer, and a page plays steps from "
            "frame to frame. Choose a model of a problem with a time, such as shallow-water."
        )
    if program.dims > 2:
        raise ValueError(f"'{name}' has three dimensions: a page plays lines and planes only.")
    beside = [*program.known, *program.forcing, *program.signals]
    if beside:
        raise ValueError(
            f"'{name}' is given {', '.join(beside)} at every step, which a page does not have: "
            "it plays models of the state, of parameters and of a mask."
        )


def _facts(run: Any, program: Program, card: Card | None, data: Dataset | None) -> dict[str, Any]:
    """Everything that the page knows, as JSON."""
    seen = _kept(_see(program, data) if data is not None else _guess(run.model), run.model)
    solver = _solver(program, card)
    given = _beginning(run.model, data)
    lift = [1] * (2 - program.dims)
    points = [
        n if program.fixed else min(n, _CELLS[program.dims] // s * s)
        for n, s in zip(program.grid.points, program.locality.stride, strict=True)
    ]
    scored = dict(run.card["scores"]) if run.card else {}
    title = (card and (card.title or card.name)) or f"{program.name}, {run.name}"
    return {
        "title": title,
        "equation": card.equation if card else "",
        "lead": _lead(run, program, solver),
        "words": list(_words(program, card, solver, scored)),
        "limits": list(_limits(run, program, card)),
        "version": fino.__version__,
        "command": f"fino export {run.name} --to page" if run.is_shipped else "",
        "program": _program(program, card),
        "check": _check(run.model, program, given),
        "solver": solver,
        "starts": None if solver else _starts(run.model, program, data, points),
        "points": [*lift, *points],
        "start": (card.start if card else 0.0),
        "end": card.start + card.dt * (card.frames - 1) if card else None,
        "units": list(card.units) if card else ["" for _ in program.fields],
        "cellsPerStep": _cells_per_step(program, card),
        "seen": {
            "low": seen.low,
            "high": seen.high,
            "change": seen.change,
            "basis": seen.basis,
        },
        "shown": {"low": seen.colors[0], "high": seen.colors[1]},
        "rest": _rest(program, card, run.model),
        "field": 1 if solver and solver["name"] == "gray-scott" else 0,
        "maps": {"field": _colors("viridis"), "error": _colors("RdBu_r")},
    }


@dataclass(frozen=True)
class _Seen:
    """What the newest frames of training data look like, for each field, and how that is known."""

    low: list[float]
    high: list[float]
    change: list[float] | None
    #: The ends of the colour map: nearly all values lie between them.
    colors: tuple[list[float], list[float]]
    basis: str


def _see(program: Program, data: Dataset) -> _Seen:
    """Ranges of the frames that a model goes on from: the last shown one and those after it."""
    part = data.train if len(data.train) else data.test
    count = min(len(part), _LOOKED_AT)
    lows, highs, changes, ends = [], [], [], []
    for i in torch.linspace(0, len(part) - 1, count).long().tolist():
        mask = part.mask(i)
        u = part.trajectory(i, program.history - 1)
        u = u.flatten(2) if mask is None else u[:, :, mask]
        lows.append(u.amin(dim=(0, 2)))
        highs.append(u.amax(dim=(0, 2)))
        changes.append(u.diff(dim=0).abs().amax(dim=(0, 2)))
        values = u.transpose(0, 1).flatten(1).sort(dim=1).values
        few = values.shape[1] // 500
        ends.append(torch.stack([values[:, few], values[:, -1 - few]]))
    kind = "training" if part.name == "train" else "test"
    solved = "" if kind == "training" else ", solved again when this page was made"
    return _Seen(
        low=_numbers(torch.stack(lows).amin(0)),
        high=_numbers(torch.stack(highs).amax(0)),
        change=_numbers(torch.stack(changes).amax(0)),
        colors=(
            _numbers(torch.stack(ends)[:, 0].amin(0)),
            _numbers(torch.stack(ends)[:, 1].amax(0)),
        ),
        basis=f"{count} {kind} trajectories of its data{solved}",
    )


def _kept(seen: _Seen, model: Any) -> _Seen:
    """The same with the ranges of training where the model keeps them."""
    ranges = ((getattr(model, "trust", None) or {}).get("seen") or {}).get("range")
    if not ranges:
        return seen
    low, high = ([float(pair[end]) for pair in ranges] for end in (0, 1))
    more = f", and with {seen.basis}" if seen.change else ""
    basis = f"the range of the training data, which the model keeps{more}"
    return replace(seen, low=low, high=high, basis=basis)


def _guess(model: Any) -> _Seen:
    """Ranges from the scaling in the model alone."""
    mean, std = model.input_mean.cpu(), model.input_std.cpu()
    basis = "the mean and three standard deviations of the training data, which the model keeps"
    low, high = _numbers(mean - 3 * std), _numbers(mean + 3 * std)
    return _Seen(low, high, None, (low, high), basis)


def _rest(program: Program, card: Card | None, model: Any) -> list[float]:
    """What an eraser leaves: the undisturbed state where it is known, else the mean."""
    mean = _numbers(model.input_mean.cpu())
    if card is None or card.name not in SOLVERS:
        return mean
    if card.name.startswith("shallow-water"):
        depth = card.parameters.get("outside", mean[0])
        return [float(depth), 0.0, 0.0][: len(program.fields)]  # type: ignore[arg-type]
    return [1.0, 0.0] if card.name == "gray-scott" else mean


def _solver(program: Program, card: Card | None) -> dict[str, Any] | None:
    """The classical solver of the data's problem, where the page has it."""
    if card is None or card.name not in SOLVERS or program.walls is not None:
        return None
    strides, averaged = set(card.stride_space), card.refine > 1
    apart = strides.pop() if len(strides) == 1 else 1
    # Gray–Scott is solved on finer points by itself.
    apart *= int(card.parameters.get("finer") or 1)  # type: ignore[arg-type]
    # Means over finer cells may be taken of fewer; every n-th point has to be that point.
    finest = _FINEST[program.dims]
    refine = min(card.refine, finest) if averaged and apart == 1 else apart
    settings = card.parameters.items()
    return {
        "name": card.name,
        "parameters": {k: v for k, v in settings if not isinstance(v, str | bool | None)},
        "spacing": [*[1.0] * (2 - program.dims), *program.grid.spacing],
        "refine": refine if refine <= finest else 1,
        "averaged": averaged,
        "solved": card.refine * apart,
    }


def _beginning(model: Any, data: Dataset | None) -> Given:
    """A history to check the page with: of the data, or smooth noise in their range."""
    if data is not None and len(data.test):
        return data.test.begin([0], model.history)[0].last(model.history)
    generator = torch.Generator().manual_seed(0)
    dims = model.grid.dims
    noise = torch.randn(1, 1, model.channels, *model.grid.points, generator=generator)
    for axis in range(-dims, 0):
        noise = sum((noise.roll(k, axis) for k in range(-3, 4)), torch.zeros(())) / 7**0.5
    over = (-1, *[1] * dims)
    field = model.input_mean.cpu().view(over) + model.input_std.cpu().view(over) * noise
    s = model.settings.given
    theta = (
        0.5 * (model.conditioning.theta_low + model.conditioning.theta_high).cpu()
        if s.scalars
        else None
    )
    return Given(
        field.expand(1, model.history, *field.shape[2:]).contiguous(),
        parameters=None if theta is None else theta[None, : len(s.parameters)],
        mask=None if s.walls is None else torch.ones(1, 1, *model.grid.points),
    )


def _check(model: Any, program: Program, given: Given) -> dict[str, Any]:
    """A short history and torch's answers to it, on the middle of the domain."""
    cells = given.space
    if not program.fixed:
        least = zip(program.smallest, program.locality.stride, cells, strict=True)
        cells = tuple(min(max(n, -(-_CHECK_CELLS // s) * s), most) for n, s, most in least)
    begins = [(m - n) // 2 for m, n in zip(given.space, cells, strict=True)]
    middle: Any = (..., *(slice(i, i + n) for i, n in zip(begins, cells, strict=True)))
    given = given.cut(lambda u: u[middle].half().float())
    with torch.no_grad():
        answers = rollout(model, given, max(_CHECK_STEPS))[0]
    kept = answers[[step - 1 for step in _CHECK_STEPS]]
    lift = [1] * (2 - program.dims)
    return {
        "points": [*lift, *cells],
        "history": _frames(given.history[0]),
        "mask": None if given.mask is None else _half(given.mask[0]),
        "scalars": [] if given.parameters is None else given.parameters[0].tolist(),
        "answers": {"steps": list(_CHECK_STEPS), "values": _base64(kept.numpy())},
        "tolerance": _TOLERANCE,
    }


def _starts(
    model: Any, program: Program, data: Dataset | None, points: list[int]
) -> list[dict[str, Any]]:
    """Histories to start from, as many as are small: (K, c, n0, n1) in float16 each."""
    corner: Any = (..., *(slice(0, n) for n in points))
    size = 2 * program.history * len(program.fields) * math.prod(points)
    found = [_beginning(model, data).cut(lambda u: u[corner]).history[0]]
    if data is not None:
        count = max(1, min(len(data.test), 3, _START_BYTES // size))
        begun = data.test.begin(range(count), model.history)[0].last(model.history)
        found = list(begun.cut(lambda u: u[corner]).history)
    return [_frames(history) for history in found]


def _cells_per_step(program: Program, card: Card | None) -> float | None:
    """How many cells the fastest wave moves in a step, where that is known."""
    if card is None or card.speed is None:
        return None
    return card.speed * program.dt / min(program.grid.spacing)


def _limits(run: Any, program: Program, card: Card | None) -> Iterator[str]:
    """Where not to trust it, a sentence each."""
    cells, reach = _cells_per_step(program, card), int(max(program.locality.radius))
    if cells is not None and cells > reach:
        yield (
            f"Waves move {cells:.3g} cells a step and the model sees {reach}: it has learned when "
            "they come back to this domain, and is wrong on domains of another size."
        )
    known = run.card["limits"] if run.card else card.flaws if card else ()
    yield from dict.fromkeys(known)


def _lead(run: Any, program: Program, solver: dict[str, Any] | None) -> str:
    weights = run.model.parameters_count
    cells = int(max(program.locality.radius))
    plural = "" if cells == 1 else "s"
    where = " beside the classical solver" if solver else ""
    return (
        f"A learned stencil of {weights:,} weights, which sees {cells} cell{plural} a step and "
        f"nothing farther away, runs in this page{where}. Paint on it, change the size of the "
        "domain, click a cell to see how far it reaches."
    )


def _words(
    program: Program, card: Card | None, solver: dict[str, Any] | None, scored: dict[str, Any]
) -> Iterator[str]:
    """What is computed, in sentences."""
    frames = "the newest frame" if program.history == 1 else f"the last {program.history} frames"
    yield (
        f"The learned step takes {frames} and gives the next one, {program.dt:g} in time later. "
        "It is the network as it was trained, with all its weights, as WebGL2 shaders that this "
        "page writes for it, or on the processor where there is no graphics card. When the "
        "page opens, it computes ten steps that torch has computed before and compares them."
    )
    if solver is None:
        yield (
            "There is no classical solver for these data in the page. It starts from frames of "
            "the data; a stroke of the brush is put into all the frames that the model looks at."
        )
        return
    if (finer := solver["refine"]) > 1:
        every = "every other" if finer == 2 else f"every {finer}th"
        kept = "the means of whose cells are" if solver["averaged"] else f"{every} cell of which is"
        same = finer == solver["solved"]
        made = "as the training data were made" if same else "less fine than the training data's"
        yield (
            f"The reference is the classical solver on a grid {finer} times finer, {kept} shown, "
            f"{made}. The solver in the middle has only the cells that the learned stencil has, "
            "and starts from the same frame."
        )
    if program.history > 1:
        yield (
            f"After a start or a stroke of the brush the model is given the reference's first "
            f"{program.history} frames, since it looks at that many; then both go on alone."
        )
    if scored:
        errors = f"{100 * scored['nrmse']['value']:.2g} %"
        solved = scored.get("baselines", {}).get("solver", {}).get("nrmse", {}).get("value")
        beside = f", and that of the solver on the same grid {100 * solved:.2g} %" if solved else ""
        yield (
            f"On {scored['samples']} test trajectories of {scored['steps']} steps the model's "
            f"relative error (nRMSE) is {errors}{beside}."
        )
    yield (
        "Times are those of this browser on this machine, where the solvers are JavaScript on one "
        "core. They say what runs here, not which method is cheaper."
    )


def _first_value(scalar: Scalar, card: Card | None) -> float:
    """Where a slider stands at first: the problem's own value if it was trained on, or between."""
    known = PROBLEMS[card.name].model_fields if card and card.name in PROBLEMS else {}
    if scalar.name in known:
        own, slack = known[scalar.name].default, 1e-6 * max(abs(scalar.low), abs(scalar.high))
        if scalar.low - slack <= own <= scalar.high + slack:
            return float(min(max(own, scalar.low), scalar.high))
    between = (scalar.low * scalar.high) ** 0.5 if scalar.log else (scalar.low + scalar.high) / 2
    return float(between)


def _program(program: Program, card: Card | None) -> dict[str, Any]:
    """The program as JSON; a line becomes a plane of one row."""
    lift = 2 - program.dims
    locality, grid = program.locality, program.grid
    return {
        "fields": list(program.fields),
        "history": program.history,
        "dims": program.dims,
        "dt": program.dt,
        "fixed": program.fixed,
        "points": [*[1] * lift, *grid.points],
        "offset": [*[0.5] * lift, *grid.offset],
        "boundary": [*["neumann"] * lift, *grid.boundary],
        "halved": [*[0] * lift, *[1] * program.dims],
        "stride": [*[1] * lift, *locality.stride],
        "radius": [*[0] * lift, *map(int, locality.radius)],
        "smallest": [*[1] * lift, *program.smallest],
        "channels": [
            {
                "kind": channel.kind,
                "index": [
                    n + lift * (k == 0 and _is_axis(channel.kind))
                    for k, n in enumerate(channel.index)
                ],
                "mean": channel.mean,
                "std": channel.std,
            }
            for channel in program.channels
        ],
        "scalars": [
            {
                "name": scalar.name,
                "mean": scalar.mean,
                "std": scalar.std,
                "log": scalar.log,
                "low": scalar.low,
                "high": scalar.high,
                "start": _first_value(scalar, card),
            }
            for scalar in program.scalars
        ],
        "walls": program.walls,
        "outside": program.outside.tolist(),
        "embedding": [[_base64(weight), _base64(bias)] for weight, bias in program.embedding],
        "operations": [_operation(operation) for operation in program.operations],
        "prior": program.prior,
        "priorWeight": None if program.prior_weight is None else _base64(program.prior_weight),
        "priorTaps": [*[1] * lift, *[3] * program.dims],
        "scale": program.scale.tolist(),
        "shift": program.shift.tolist(),
    }


def _is_axis(kind: str) -> bool:
    """Whether the index of a channel begins with an axis."""
    return kind in ("edge", "coordinate")


def _operation(operation: Any) -> dict[str, Any]:
    """One operation as JSON, its weights with two axes of taps."""
    name = type(operation).__name__.lower()
    found: dict[str, Any] = {
        "kind": "euler" if isinstance(operation, EulerStep) else name,
        "sources": list(operation.sources),
    }
    if isinstance(operation, Stencil | EulerStep):
        outputs, inputs, *taps = operation.weight.shape
        found["shape"] = [outputs, inputs, *[1] * (2 - len(taps)), *taps]
        found |= {"weight": _base64(operation.weight), "bias": _base64(operation.bias)}
    if isinstance(operation, Stencil):
        found |= {"activation": operation.activation, "dilation": operation.dilation}
    if isinstance(operation, Multiply):
        found["gate"] = operation.gate
    if isinstance(operation, Fold):
        found["patch"] = operation.patch
    if isinstance(operation, Upsample):
        found["mode"] = operation.mode
    if isinstance(operation, EulerStep):
        film = operation.film
        found |= {
            "gate": None if operation.gate is None else _base64(operation.gate),
            "gateBias": None if operation.gate_bias is None else _base64(operation.gate_bias),
            "fuse": _base64(operation.fuse),
            "film": film
            and {"weight": _base64(film.weight), "bias": _base64(film.bias), "raw": film.raw},
        }
    return found


def _base64(values: Any) -> str:
    return base64.b64encode(np.asarray(values, dtype="<f4").tobytes()).decode()


def _half(values: Tensor) -> str:
    return base64.b64encode(values.numpy().astype("<f2").tobytes()).decode()


def _frames(history: Tensor) -> dict[str, Any]:
    """Frames (K, c, *space) in float16."""
    return {"frames": _half(history), "count": len(history)}


def _numbers(values: Tensor) -> list[float]:
    return [float(f"{value:.6g}") for value in values.tolist()]


def _hash(text: str) -> str:
    """What a content policy calls a script or a style that is in the page."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return "sha256-" + base64.b64encode(digest).decode()


def _colors(name: str) -> str:
    """A colour map as 256 times RRGGBB."""
    colors = np.round(255 * np.asarray(colormaps[name](np.linspace(0, 1, 256)))[:, :3])
    return colors.astype(np.uint8).tobytes().hex()
