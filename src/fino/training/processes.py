"""One process or many: `torchrun --nproc-per-node 2 -m fino train …` shares every batch.

Each process takes its rows of the batch that one process would take whole, and the gradients
are averaged, so the losses agree to rounding.  gloo on CPUs, NCCL on GPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from fino.inference.process_group import ProcessGroup, is_launched, join_group
from fino.training.guards import NotFinite

__all__ = ["ALONE", "Processes", "join_processes"]


@dataclass(frozen=True)
class Processes:
    """This process among how many."""

    rank: int = 0
    world: int = 1
    group: ProcessGroup | None = None

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def rows(self, batch: int) -> slice:
        """The rows of a batch that are this process's."""
        if batch % self.world:
            raise ValueError(
                f"batch {batch} should be a multiple of the {self.world} processes. "
                f"Try {max(1, batch // self.world) * self.world}."
            )
        share = batch // self.world
        return slice(self.rank * share, (self.rank + 1) * share)

    def average_gradients(self, module: nn.Module) -> None:
        """Give every process the mean of all gradients, in one message."""
        gradients = [p.grad for p in module.parameters() if p.grad is not None]
        if self.world > 1 and gradients:
            together = torch.cat([g.reshape(-1) for g in gradients])
            self._share(dist.all_reduce, together)
            together /= self.world
            means = together.split([g.numel() for g in gradients])
            for g, mean in zip(gradients, means, strict=True):
                g.copy_(mean.view_as(g))

    def from_first(self, value: float) -> float:
        """What the first process has, so that all take the same decision."""
        box = torch.tensor([value], dtype=torch.float64)
        if self.world > 1:
            self._share(dist.broadcast, box, src=0)
        return float(box)

    def total(self, value: float) -> float:
        """The sum over all processes."""
        box = torch.tensor([value], dtype=torch.float64)
        if self.world > 1:
            self._share(dist.all_reduce, box)
        return float(box)

    def stop_on(self, message: str | None) -> None:
        """Raise NotFinite in every process if any of them has a message."""
        if self.world > 1 and self.total(message is not None):
            messages: list[Any] = [None] * self.world
            self._share(dist.all_gather_object, messages, message)
            message = next(text for text in messages if text)
        if message:
            raise NotFinite(message)

    def _share(self, exchange: Callable[..., Any], *what: Any, **how: Any) -> None:
        """Talk to the other processes; one that is gone is named."""
        try:
            exchange(*what, **how)
        except RuntimeError as error:
            if self.group is None:
                raise
            raise self.group.lost_one(error) from None


ALONE = Processes()


@contextmanager
def join_processes(device: str = "cpu") -> Iterator[Processes]:
    """The processes that torchrun started, or this one alone."""
    if not is_launched():
        yield ALONE
    elif dist.is_initialized():
        yield Processes(dist.get_rank(), dist.get_world_size())
    else:
        with join_group("cpu:gloo,cuda:nccl" if device.startswith("cuda") else "gloo") as group:
            yield Processes(group.rank, group.size, group)
