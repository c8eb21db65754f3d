"""A run on disk: everything it is between two steps, written so that no crash can spoil it.

    last/state-<step>.safetensors    weights, optimiser, averages and the best weights; no pickle
    last/state.json                  step, clocks, scores, and the SHA-256 of the tensors

The tensors are written under a new name, forced to the disk, and only then does `state.json`
change, by a rename, to name them.  A kill at any moment leaves the old pair or the new one.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from pathlib import Path
from typing import Literal

from pydantic import Field
from safetensors.torch import save as bytes_from_tensors
from torch import Tensor

from fino.durable import check_no_link, read_bytes, write_json, write_whole
from fino.model.store import read_tensors
from fino.settings import Settings
from fino.training.loop import State
from fino.training.schedule import Clock

__all__ = ["STATE", "has_checkpoint", "read_checkpoint", "write_checkpoint"]

_FORMAT = "fino-checkpoint-1"
_NAME = "state.json"
_TENSORS = r"state-\d{8,}\.safetensors"
#: The names of a checkpoint's files.
STATE = rf"{_TENSORS}|state\.json"


class _Facts(Settings, extra="ignore"):
    """What `state.json` says."""

    format: Literal["fino-checkpoint-1"]
    tensors: str = Field(pattern=f"^{_TENSORS}$")
    sha256: str
    step: int = Field(ge=0)
    wall_seconds: float = Field(ge=0)
    cpu_seconds: float = Field(ge=0)
    loss: float | None
    best: float | None
    best_step: int
    stale: int = Field(ge=0)
    validated: tuple[float, ...] = ()


def write_checkpoint(state: State, folder: Path) -> None:
    """Put the state on the disk, all of it or nothing."""
    check_no_link(folder)
    folder.mkdir(parents=True, exist_ok=True)
    content = bytes_from_tensors(_tensors(state))
    name = f"state-{state.step:08d}.safetensors"
    facts = {
        "format": _FORMAT,
        "tensors": name,
        "sha256": hashlib.sha256(content).hexdigest(),
        "step": state.step,
        "wall_seconds": state.clock.wall,
        "cpu_seconds": state.clock.cpu,
        "loss": state.loss if math.isfinite(state.loss) else None,
        "best": state.best if math.isfinite(state.best) else None,
        "best_step": state.best_step,
        "stale": state.stale,
        "validated": state.validated,
    }
    write_whole(folder / name, content)
    write_json(folder / _NAME, facts)
    for old in folder.iterdir():
        if old.name != name and re.fullmatch(_TENSORS, old.name) and not old.is_symlink():
            old.unlink()


def has_checkpoint(folder: Path) -> bool:
    return (folder / _NAME).is_file()


def read_checkpoint(state: State, folder: Path) -> None:
    """Bring a fresh state to where the checkpoint left off, checking every byte."""
    facts = _read_facts(folder / _NAME)
    path = folder / facts.tensors
    groups: dict[str, dict[str, Tensor]] = {}
    for key, value in read_tensors(path, facts.sha256, _NAME).items():
        group, _, name = key.partition("/")
        groups.setdefault(group, {})[name] = value
    try:
        state.emulator.load_state_dict(groups["model"])
        state.optimizer.restore(groups.get("optimizer", {}))
        if state.averaged is not None:
            state.averaged.load_state_dict(groups["averaged"])
    except (KeyError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ValueError(f"{path} does not fit this run's model and settings: {reason}") from None
    state.best_weights = groups.get("best", {})
    state.step = facts.step
    state.clock = Clock(facts.wall_seconds, facts.cpu_seconds)
    state.loss = math.nan if facts.loss is None else facts.loss
    state.stale, state.validated = facts.stale, facts.validated
    state.best = math.inf if facts.best is None else facts.best
    state.best_step = facts.best_step


def _tensors(state: State) -> dict[str, Tensor]:
    groups = {
        "model": state.emulator.state_dict(),
        "optimizer": state.optimizer.tensors(),
        "averaged": state.averaged.state_dict() if state.averaged is not None else {},
        "best": state.best_weights,
    }
    return {
        f"{group}/{name}": value.detach().cpu().contiguous().clone()
        for group, tensors in groups.items()
        for name, value in tensors.items()
    }


def _read_facts(path: Path) -> _Facts:
    try:
        content = json.loads(read_bytes(path))
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise ValueError(f"{path} is not a fino checkpoint, or is damaged.")
    try:
        return _Facts(**content)
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error} Restore the file.") from None
