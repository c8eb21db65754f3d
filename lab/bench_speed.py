"""What a step costs: every model interleaved in one run, so that ratios survive a busy machine.

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
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn

from fino.machine import keep_freed_memory
from fino.model import MODELS
from fino.model.cost import multiply_adds, parameters
from lab.textbook_fno import TextbookFNO

__all__ = ["CASES", "Growth", "Speed", "growth", "speed"]

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


def contestants(names: list[str] | None, dims: int, inputs: int) -> dict[str, nn.Module]:
    """FINO at two widths, the FNO as published, and every other model of the table."""
    shape: dict[str, Any] = {"dims": dims, "inputs": inputs, "outputs": 1, "boundary": "periodic"}
    nets: dict[str, nn.Module] = {
        "FNO, textbook": TextbookFNO(dims, inputs, 1),
        "fno": MODELS["fno"](**shape),
        "fino, width 16": MODELS["fino"](**shape, width=16),
        "fino, width 32": MODELS["fino"](**shape, width=32),
    }
    for name in MODELS if names is None else names:
        if name not in ("fino", "fno"):
            nets[name] = MODELS[name](**shape)
    return nets


def speed(names: list[str] | None = None, repeats: int = 30) -> Iterator[Speed]:
    """Time every model in every case, one call of each in turn."""
    keep_freed_memory()
    for case, shape in CASES.items():
        torch.manual_seed(0)
        x = torch.randn(shape)
        nets = contestants(names, len(shape) - 2, shape[1])
        jobs: dict[str, Callable[[], object]] = {"peak": _matrix_product()}
        for name, net in nets.items():
            jobs[f"forward {name}"] = _forward(net, x)
            jobs[f"training {name}"] = _training(net, x)
        times = interleaved(jobs, repeats)
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


def growth(names: list[str] | None = None, repeats: int = 3) -> Iterator[Growth]:
    """Cost of one frame from 64² to 512², and the exponent of cells that fits it best."""
    keep_freed_memory()
    nets = contestants(names, 2, 12)
    times: dict[str, dict[int, float]] = {name: {} for name in nets}
    for n in SIZES:
        x = torch.randn(1, 12, n, n)
        jobs = {name: _forward(net, x) for name, net in nets.items()}
        for name, seconds in interleaved(jobs, repeats).items():
            times[name][n] = 1e3 * seconds
    for name in nets:
        yield Growth(name, times[name], _exponent(times[name]))


def interleaved(jobs: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
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


def as_dict(row: Speed | Growth) -> dict[str, Any]:
    """For `--json`."""
    return asdict(row)


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
