"""What a model costs: parameters, multiply-adds, seconds a step, memory.

Counts are exact.  Times are medians on this machine, which may be busy: compare them inside one
run (`python -m lab bench speed`), not between runs.
"""

from __future__ import annotations

import os
import platform
import resource
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fino.model.rollout import AnyStepper
from fino.training.journal import read_metrics

__all__ = ["cost_of", "machine", "seconds_per_step", "training_cpu_seconds"]

_REPEATS = 7


def cost_of(stepper: Any, history: Tensor) -> dict[str, Any]:
    """The cost of one step for one sample: (1, K, c, *space) → a table of numbers."""
    cost: dict[str, Any] = {"seconds_per_step": seconds_per_step(stepper, history)}
    network = getattr(stepper, "network", None)
    if isinstance(network, nn.Module):
        from fino.model.cost import multiply_adds, parameters

        cost["parameters"] = parameters(network)
        inputs = stepper.settings.inputs(stepper.grid)
        cost["multiply_adds"] = multiply_adds(network, (1, inputs, *history.shape[3:]))
    cost["peak_memory_bytes"] = peak_memory()
    return cost


def seconds_per_step(stepper: AnyStepper, history: Tensor, repeats: int = _REPEATS) -> float:
    """The median wall time of one step; the first, which warms up, is not counted."""
    needed = getattr(stepper, "history", history.shape[1])
    weight = next(stepper.parameters(), history) if isinstance(stepper, nn.Module) else history
    shown = history[:, history.shape[1] - needed :].to(weight.device)
    times = []
    with torch.no_grad():
        for _ in range(repeats + 1):
            began = time.perf_counter()
            stepper(shown)
            times.append(time.perf_counter() - began)
    return statistics.median(times[1:])


def peak_memory() -> int:
    """The most memory that this process has had, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def training_cpu_seconds(folder: Path) -> float | None:
    """The CPU-seconds that the last line of metrics.jsonl knows of."""
    spent = [row["cpu_seconds"] for row in read_metrics(folder / "metrics.jsonl")]
    return spent[-1] if spent else None


def machine() -> str:
    """The machine in a few words."""
    words = platform.processor() or platform.machine()
    return f"{words}, {os.cpu_count()} cores, torch on {torch.get_num_threads()} threads"
