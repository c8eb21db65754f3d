"""A model on disk: a folder that says what it is and cannot be misread.

    model.safetensors   weights and scaling, no pickle
    config.json         settings, grid, versions, and the SHA-256 of the weights

The configuration carries a SHA-256 of itself and must be byte for byte what fino writes.  So a
flipped bit, a missing tail or a configuration of another version is an error that names the
file, never a wrong model.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load as tensors_from_bytes
from safetensors.torch import save as bytes_from_tensors

import fino
from fino.durable import read_bytes, write_whole
from fino.grid import Grid
from fino.model import MODELS
from fino.model.emulator import Emulator, EmulatorSettings

__all__ = ["load", "model_hash", "save", "write_folder"]

FORMAT = "fino-model"
VERSION = 2
#: Version 1 named the weights of the linear prior otherwise; it is still read.
_READ = (1, 2)
WEIGHTS = "model.safetensors"
CONFIG = "config.json"


def save(model: Emulator, folder: str | Path, *, overwrite: bool = False) -> Path:
    """Write a model as a folder, all of it or nothing."""
    weights = bytes_from_tensors(
        {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}
    )
    config = {
        "format": FORMAT,
        "version": VERSION,
        "network": model.network.settings.model_dump(mode="json"),  # type: ignore[union-attr, operator]
        "emulator": model.settings.model_dump(mode="json"),
        "grid": asdict(model.grid),
        "dtype": str(next(model.network.parameters()).dtype).removeprefix("torch."),
        "made_with": {
            "fino": fino.__version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
        },
        "weights_sha256": hashlib.sha256(weights).hexdigest(),
    }
    return write_folder(
        folder, {WEIGHTS: weights, CONFIG: _config_bytes(config)}, overwrite=overwrite
    )


def load(folder: str | Path) -> Emulator:
    """Read a model back, checking every byte."""
    folder = Path(folder)
    if not folder.is_dir():
        raise ValueError(f"There is no model folder at {folder}. Expected {CONFIG} and {WEIGHTS}.")
    config = _read_config(folder / CONFIG)
    weights = read_bytes(folder / WEIGHTS)
    if hashlib.sha256(weights).hexdigest() != config["weights_sha256"]:
        raise ValueError(
            f"{folder / WEIGHTS} is damaged: its SHA-256 differs from {CONFIG}. "
            f"Restore the file or save the model again."
        )
    try:
        tensors = tensors_from_bytes(weights)
    except SafetensorError as error:
        raise ValueError(f"{folder / WEIGHTS} is not a safetensors file: {error}.") from None
    return _rebuild(config, tensors, folder)


def model_hash(folder: str | Path) -> str:
    """The SHA-256 of a saved model's weights, as its configuration has it."""
    return str(_read_config(Path(folder) / CONFIG)["weights_sha256"])


def write_folder(folder: str | Path, files: dict[str, bytes], *, overwrite: bool = False) -> Path:
    """Write files as a folder that appears at once, after all of it is on the disk."""
    folder = Path(folder)
    if folder.exists() and not overwrite:
        raise ValueError(f"{folder} exists already. Choose another name or pass overwrite=True.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        for name, content in files.items():
            write_whole(fresh / name, content)
        fresh.chmod(0o755)
        if folder.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{folder.name}.old.", dir=folder.parent))
            folder.rename(old / folder.name)
            fresh.rename(folder)
            shutil.rmtree(old)
        else:
            fresh.rename(folder)
    finally:
        if fresh.exists():
            shutil.rmtree(fresh)
    return folder


def _rebuild(config: dict[str, Any], tensors: dict[str, torch.Tensor], folder: Path) -> Emulator:
    try:
        settings = EmulatorSettings(**config["emulator"])
        network = MODELS[settings.model](**config["network"])
        model = Emulator(network, settings, Grid(**config["grid"]))
        model = model.to(getattr(torch, config["dtype"]))
        model.load_state_dict(tensors)
    except (KeyError, TypeError, RuntimeError, AttributeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(
            f"{folder / CONFIG} and {WEIGHTS} do not describe one model: {reason}"
        ) from None
    return model.eval()


def _config_bytes(config: dict[str, Any]) -> bytes:
    body = {name: value for name, value in config.items() if name != "config_sha256"}
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    text = json.dumps({**body, "config_sha256": digest}, indent=2, sort_keys=True)
    return (text + "\n").encode()


def _read_config(path: Path) -> dict[str, Any]:
    content = read_bytes(path)
    damaged = f"{path} is damaged or was edited: restore it or save the model again."
    try:
        config = json.loads(content)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise ValueError(damaged) from None
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        raise ValueError(f"{path} is not a fino model configuration.")
    if config.get("version") not in _READ:
        raise ValueError(
            f"{path} has version {config.get('version')!r}, this fino reads {_READ[-1]}. "
            f"Load it with the fino that wrote it."
        )
    if _config_bytes(config) != content:
        raise ValueError(damaged)
    return config
