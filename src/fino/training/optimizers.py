"""The optimisers by name, and their state as plain tensors that a checkpoint can hold."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from fino.training.settings import TrainingSettings
from fino.training.soap import Soap

__all__ = ["Optimizers", "make_optimizer"]


class Optimizers:
    """One or two torch optimisers that step together.

    Muon is for matrices alone, so what is not a matrix goes to AdamW beside it.
    """

    def __init__(self, parts: list[torch.optim.Optimizer]) -> None:
        self.parts = parts

    def zero_grad(self) -> None:
        for part in self.parts:
            part.zero_grad()

    def step(self, learning_rate: float) -> None:
        for part in self.parts:
            for group in part.param_groups:
                group["lr"] = learning_rate * group.get("relative", 1.0)
            part.step()

    def tensors(self) -> dict[str, Tensor]:
        """The whole state by name; numbers become tensors of no dimension."""
        return {
            f"{i}.{index}.{name}": torch.as_tensor(value)
            for i, part in enumerate(self.parts)
            for index, entries in part.state_dict()["state"].items()
            for name, value in entries.items()
        }

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """The way back from `tensors`."""
        for i, part in enumerate(self.parts):
            state: dict[int, dict[str, Any]] = {}
            for key, value in tensors.items():
                number, index, name = key.split(".", 2)
                if int(number) == i:
                    state.setdefault(int(index), {})[name] = value.clone()
            part.load_state_dict({**part.state_dict(), "state": state})


def make_optimizer(network: nn.Module, settings: TrainingSettings) -> Optimizers:
    """The optimiser that the settings name, over every weight of the network."""
    weights = [p for p in network.parameters() if p.requires_grad]
    common: dict[str, Any] = {
        "lr": settings.learning_rate,
        "weight_decay": settings.weight_decay,
    }
    if settings.optimizer == "soap":
        return Optimizers([Soap(weights, betas=settings.momentum, **common)])
    if settings.optimizer == "adamw":
        return Optimizers([torch.optim.AdamW(weights, betas=settings.momentum, **common)])
    if settings.optimizer == "adam":
        return Optimizers([torch.optim.Adam(weights, betas=settings.momentum, **common)])
    matrices = [p for p in weights if p.dim() == 2]
    others = [p for p in weights if p.dim() != 2]
    parts: list[torch.optim.Optimizer] = []
    if matrices:
        parts.append(torch.optim.Muon(matrices, adjust_lr_fn="match_rms_adamw", **common))
    if others:
        parts.append(torch.optim.AdamW(others, betas=settings.momentum, **common))
    return Optimizers(parts)
