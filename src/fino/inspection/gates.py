"""What the gates do on data: how often each is open, and how steep it stands.

G = σ(g) ⊙ S,   g = W_g ∗ S        a gate is open where σ(g) > ½
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from fino.model.fino import LocalOperatorBlock
from fino.model.fused import plain_blocks
from fino.shapes import Trajectory

__all__ = ["GateReport", "gate_reports", "recorded"]


@dataclass(frozen=True)
class GateReport:
    """One block's gates on data.

    `open_share` (channels) is how often σ > ½, `mean` the average opening; `always_open` and
    `always_shut` count channels that never change their mind.  `largest` and `sensitivity` are
    the largest σ and |s σ′|, for the layer-wise bound.
    """

    block: str
    open_share: tuple[float, ...]
    mean: float
    always_open: int
    always_shut: int
    largest: float
    sensitivity: float

    @property
    def channels(self) -> int:
        return len(self.open_share)

    @property
    def average_open(self) -> float:
        return sum(self.open_share) / len(self.open_share)


@contextmanager
def recorded(modules: Mapping[str, nn.Module]) -> Iterator[dict[str, tuple[Tensor, Tensor]]]:
    """While open, keeps the last input and output of each module, by name."""
    seen: dict[str, tuple[Tensor, Tensor]] = {}

    def hook(name: str) -> Any:
        def keep(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            seen[name] = (inputs[0].detach(), output.detach())

        return keep

    handles = [module.register_forward_hook(hook(name)) for name, module in modules.items()]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def gate_reports(network: nn.Module, step: Any, history: Trajectory) -> list[GateReport]:
    """A report for every gated block, from one step over a batch of histories."""
    gated = {
        name: module.gate
        for name, module in network.named_modules()
        if isinstance(module, LocalOperatorBlock) and module.gate is not None
    }
    if not gated:
        return []
    with recorded(gated) as seen, plain_blocks(), torch.no_grad():
        step(history)
    return [_report(name, *seen[name]) for name in gated if name in seen]


def _report(name: str, s: Tensor, g: Tensor) -> GateReport:
    opening = torch.sigmoid(g)
    share = (opening > 0.5).float().flatten(2).mean(dim=(0, 2))
    return GateReport(
        block=name,
        open_share=tuple(float(x) for x in share),
        mean=float(opening.mean()),
        always_open=int((share == 1).sum()),
        always_shut=int((share == 0).sum()),
        largest=float(opening.max()),
        sensitivity=float((s * opening * (1 - opening)).abs().max()),
    )
