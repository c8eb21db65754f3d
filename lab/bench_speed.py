"""`python -m lab bench speed`: what a step costs, every model in turn, as ratios.

All models are interleaved in one run, so that the ratios hold on a busy machine too.

forward                 without gradients, as a rollout runs it
forward + backward      as training runs it
share of peak           2 · multiply–adds / time, against a large float32 matrix product
                        timed in the same run
growth                  the exponent p of cost ~ cells^p between 64² and 512²
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import torch
import torch.nn.functional as F
from cyclopts import Parameter
from torch import Tensor, nn

from fino.cli.console import say, say_json, table
from fino.machine import keep_freed_memory
from fino.model import MODELS
from fino.model.cost import multiply_adds, parameters
from fino.shapes import Field

__all__ = [
    "CASES",
    "Growth",
    "Speed",
    "TextbookFNO",
    "speed",
    "time_growth",
    "time_in_turn",
    "time_models",
]

#: What is stepped: (batch, channels, *space).  Ten frames and two position channels go in.
CASES: dict[str, tuple[int, ...]] = {"1D 50×128": (50, 12, 128), "2D 8×64×64": (8, 12, 64, 64)}
SIZES = (64, 128, 256, 512)
_PEAK_SIZE = 1024
#: A job stops after this many seconds, but not before it has run this often.
_SECONDS_EACH = 2.0
_FEWEST = 3


@dataclass(frozen=True)
class Speed:
    """One model in one case; times in milliseconds."""

    case: str
    model: str
    parameters: int
    multiply_adds: int
    forward: float
    training: float
    forward_ratio: float
    training_ratio: float
    forward_textbook_ratio: float
    training_textbook_ratio: float
    peak_share: float


@dataclass(frozen=True)
class Growth:
    """How the cost of one forward pass grows with the grid; times in milliseconds."""

    model: str
    times: dict[int, float]
    exponent: float


def speed(
    *models: str,
    repeats: int = 30,
    threads: int | None = None,
    grow: Annotated[bool, Parameter(negative="--no-grow")] = True,
    json: bool = False,
) -> None:
    """Time FINO, FNO and the named models (all, if none is named), forward and with backward.

    Two ratios are shown: to our own FNO, which is engineered, and to the FNO as its paper
    writes it, both of PDEBench's size.

    Parameters
    ----------
    models
        Names from `fino list`.
    repeats
        Rounds; every model runs once in each, and medians are shown.
    threads
        How many cores to use.
    grow
        Also fit how the cost grows from 64² to 512².
    json
        Print for a machine.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    rows = list(time_models(models, repeats))
    sizes = list(time_growth(models)) if grow else []
    if json:
        say_json(
            {
                "threads": torch.get_num_threads(),
                "speed": [asdict(row) for row in rows],
                "growth": [asdict(row) for row in sizes],
            }
        )
        return
    say(f"{torch.get_num_threads()} threads, float32, torch {torch.__version__}")
    for case in dict.fromkeys(row.case for row in rows):
        _speed_table(case, [row for row in rows if row.case == case])
    if sizes:
        _growth_table(sizes)


def _contestants(names: Sequence[str], dims: int, inputs: int) -> dict[str, nn.Module]:
    """FINO at two widths, the FNO as published, and every other model of the table."""
    shape: dict[str, Any] = {"dims": dims, "inputs": inputs, "outputs": 1, "boundary": "periodic"}
    nets: dict[str, nn.Module] = {
        "FNO, textbook": TextbookFNO(dims, inputs, 1),
        "fno": MODELS["fno"](**shape),
        "fino, width 16": MODELS["fino"](**shape, width=16),
        "fino, width 32": MODELS["fino"](**shape, width=32),
    }
    for name in names or MODELS:
        if name not in ("fino", "fno"):
            nets[name] = MODELS[name](**shape)
    return nets


def time_models(names: Sequence[str] = (), repeats: int = 30) -> Iterator[Speed]:
    """Time every model in every case, one call of each in turn."""
    keep_freed_memory()
    for case, shape in CASES.items():
        torch.manual_seed(0)
        x = torch.randn(shape)
        nets = _contestants(names, len(shape) - 2, shape[1])
        jobs: dict[str, Callable[[], object]] = {"peak": _matrix_product()}
        for name, net in nets.items():
            jobs[f"forward {name}"] = _forward(net, x)
            jobs[f"training {name}"] = _training(net, x)
        times = time_in_turn(jobs, repeats)
        peak = 2 * _PEAK_SIZE**3 / times["peak"]
        for name, net in nets.items():
            yield _row(case, name, net, shape, times, peak)


def _row(
    case: str,
    name: str,
    net: nn.Module,
    shape: tuple[int, ...],
    times: dict[str, float],
    peak: float,
) -> Speed:
    forward, training = times[f"forward {name}"], times[f"training {name}"]
    work = multiply_adds(net, shape)
    return Speed(
        case=case,
        model=name,
        parameters=parameters(net),
        multiply_adds=work,
        forward=1e3 * forward,
        training=1e3 * training,
        forward_ratio=forward / times["forward fno"],
        training_ratio=training / times["training fno"],
        forward_textbook_ratio=forward / times["forward FNO, textbook"],
        training_textbook_ratio=training / times["training FNO, textbook"],
        peak_share=2 * work / forward / peak,
    )


def time_growth(names: Sequence[str] = (), repeats: int = 3) -> Iterator[Growth]:
    """Cost of one frame from 64² to 512², and the exponent of cells that fits it best."""
    keep_freed_memory()
    nets = _contestants(names, 2, 12)
    times: dict[str, dict[int, float]] = {name: {} for name in nets}
    for n in SIZES:
        x = torch.randn(1, 12, n, n)
        jobs = {name: _forward(net, x) for name, net in nets.items()}
        for name, seconds in time_in_turn(jobs, repeats).items():
            times[name][n] = 1e3 * seconds
    for name in nets:
        yield Growth(name, times[name], _exponent(times[name]))


def time_in_turn(jobs: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """The median seconds of each job, called in turn after one warm-up round.

    A job that has had its time is left out of later rounds: medians of slow ones need fewer.
    """
    taken: dict[str, list[float]] = {name: [] for name in jobs}
    for round_ in range(repeats + 1):
        for name, job in jobs.items():
            if len(taken[name]) >= _FEWEST and sum(taken[name]) > _SECONDS_EACH:
                continue
            start = time.perf_counter()
            job()
            if round_:
                taken[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in taken.items()}


def _forward(net: nn.Module, x: torch.Tensor) -> Callable[[], object]:
    def run() -> object:
        with torch.no_grad():
            return net(x)

    return run


def _training(net: nn.Module, x: torch.Tensor) -> Callable[[], object]:
    def run() -> None:
        net.zero_grad(set_to_none=True)
        net(x).square().sum().backward()

    return run


def _matrix_product() -> Callable[[], object]:
    a, b = torch.randn(2, _PEAK_SIZE, _PEAK_SIZE)
    return lambda: a @ b


def _exponent(times: dict[int, float]) -> float:
    """The slope of log time over log cells, by least squares."""
    x = [2 * math.log(n) for n in times]
    y = [math.log(t) for t in times.values()]
    return statistics.linear_regression(x, y).slope


def _speed_table(case: str, rows: Sequence[Speed]) -> None:
    columns = (
        "model",
        "weights",
        "million\nmult-adds",
        "ms",
        "÷ our FNO",
        "÷ textbook",
        "of\npeak",
    )
    table(
        f"{case}: a forward pass, and one with its backward pass",
        columns,
        [
            (
                r.model,
                f"{r.parameters:,}",
                f"{r.multiply_adds / 1e6:.0f}",
                f"{r.forward:.3g}, {r.training:.3g}",
                f"{r.forward_ratio:.2f}, {r.training_ratio:.2f}",
                f"{r.forward_textbook_ratio:.2f}, {r.training_textbook_ratio:.2f}",
                f"{r.peak_share:.0%}",
            )
            for r in rows
        ],
    )


def _growth_table(rows: Sequence[Growth]) -> None:
    sizes = list(rows[0].times)
    table(
        "one frame, forward, ms; cost ~ cells^p",
        ("model", *(f"{n}²" for n in sizes), "p"),
        [(r.model, *(f"{r.times[n]:.1f}" for n in sizes), f"{r.exponent:.2f}") for r in rows],
    )


class TextbookFNO(nn.Module):
    """The FNO as its paper and PDEBench write it, to which published ratios refer.

        v ← σ( W v + F⁻¹( R · F v ) )      width 20, 12 modes, 4 layers, 2 cells of padding

    Our own FNO (`fino.model.fno`) computes the same layers with fewer operations.

    (b, inputs, *space) → (b, outputs, *space), in one or two dimensions
    """

    def __init__(
        self, dims: int, inputs: int, outputs: int, width: int = 20, modes: int = 12
    ) -> None:
        super().__init__()
        self.modes, self.padding = modes, 2
        self.lift = nn.Linear(inputs, width)
        corners = 2 ** (dims - 1)
        shape = (corners, width, width, *[modes] * dims)
        self.multipliers = nn.ParameterList(
            torch.rand(shape, dtype=torch.cfloat) / width**2 for _ in range(4)
        )
        convolution = nn.Conv1d if dims == 1 else nn.Conv2d
        self.local = nn.ModuleList(convolution(width, width, 1) for _ in range(4))
        self.head = nn.Linear(width, 128)
        self.project = nn.Linear(128, outputs)

    def forward(self, x: Field) -> Field:
        space = x.shape[2:]
        v = self.lift(x.movedim(1, -1)).movedim(-1, 1)
        v = F.pad(v, [0, self.padding] * len(space))
        for layer, (multiplier, local) in enumerate(zip(self.multipliers, self.local, strict=True)):
            v = self._spectral(v, multiplier) + local(v)
            v = F.gelu(v) if layer < 3 else v
        for axis, n in enumerate(space, start=2):
            v = v.narrow(axis, 0, n)
        return self.project(F.gelu(self.head(v.movedim(1, -1)))).movedim(-1, 1)

    def _spectral(self, v: Field, multiplier: Tensor) -> Field:
        m, axes = self.modes, tuple(range(2, v.dim()))
        spectrum = torch.fft.rfftn(v, dim=axes)
        out = torch.zeros_like(spectrum)
        if len(axes) == 1:
            out[..., :m] = torch.einsum("bix,iox->box", spectrum[..., :m], multiplier[0])
        else:
            for corner, rows in enumerate((slice(None, m), slice(-m, None))):
                part = spectrum[:, :, rows, :m]
                out[:, :, rows, :m] = torch.einsum("bixy,ioxy->boxy", part, multiplier[corner])
        return torch.fft.irfftn(out, s=v.shape[2:], dim=axes)
