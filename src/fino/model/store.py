"""A model on disk: a folder that says what it is and cannot be misread.

    model.safetensors   weights and scaling, no pickle
    config.json         settings, grid, versions, and the SHA-256 of the weights
    trust.json          what training saw and how far off predictions are, if that was measured

The configuration carries a SHA-256 of itself and must be byte for byte what fino writes.  So a
flipped bit, a missing tail or a configuration of another version is an error that names the
file, never a wrong model.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load as tensors_from_bytes
from safetensors.torch import save as bytes_from_tensors

import fino
from fino.data.dataset import Dataset
from fino.data.store import save as save_data
from fino.durable import read_bytes, restore_folder, wait_for_folder, write_folder, write_whole
from fino.grid import Grid
from fino.model import MODELS
from fino.model.cost import count_weights
from fino.model.emulator import Emulator, EmulatorSettings

__all__ = [
    "check_finite",
    "is_there",
    "load",
    "model_hash",
    "read_tensors",
    "repair",
    "save",
    "save_trust",
]

FORMAT = "fino-model"
VERSION = 2
#: Version 1 named the weights of the linear prior otherwise; it is still read.
_READ = (1, 2)
WEIGHTS = "model.safetensors"
CONFIG = "config.json"
TRUST = "trust.json"
_NAMES = (WEIGHTS, CONFIG, TRUST)
#: What is read of the last.
_TRUSTED = ("seen", "bands", "equation", "mirror")


def save(model: Emulator | Dataset, folder: str | Path, *, overwrite: bool = False) -> Path:
    """Write a model as a folder, or data as a file (.h5), all of it or nothing; returns the place.

    `fino.load` reads models back, `fino.open` data.
    """
    if isinstance(model, Dataset):
        save_data(model, folder, overwrite)
        return Path(folder)
    if not isinstance(model, Emulator):
        raise ValueError(f"save writes a model or data, got {type(model).__name__}.")
    check_finite(model)
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
    files = {WEIGHTS: weights, CONFIG: _config_bytes(config)}
    if model.trust is not None:
        files[TRUST] = _trust_bytes(model.trust, config)
    return write_folder(folder, files, overwrite=overwrite, without=[TRUST])


def save_trust(trust: dict[str, Any], folder: str | Path) -> None:
    """Put what was measured about a saved model beside its weights, which stay as they are."""
    write_whole(Path(folder) / TRUST, _trust_bytes(trust, _read_config(Path(folder) / CONFIG)))


def _trust_bytes(trust: dict[str, Any], config: dict[str, Any]) -> bytes:
    facts = {"format": "fino-trust", "weights_sha256": config["weights_sha256"]}
    return _config_bytes({**facts, **trust})


def load(folder: str | Path) -> Emulator:
    """Read a model back, checking every byte."""
    folder = Path(folder)
    if folder.is_file():
        raise ValueError(
            f"{folder} is a file: load is for models, which are folders; open is for data."
        )
    if not is_there(folder):
        raise ValueError(f"There is no model folder at {folder}. Expected {CONFIG} and {WEIGHTS}.")
    while True:
        config = _read_config(folder / CONFIG)
        try:
            tensors = read_tensors(folder / WEIGHTS, str(config.get("weights_sha256")), CONFIG)
            model = _rebuild(config, tensors, folder)
            model.trust = _read_trust(folder / TRUST, str(config["weights_sha256"]))
            return model
        except ValueError:
            # A training may have replaced the folder between the two reads.
            if not is_there(folder) or _read_config(folder / CONFIG) == config:
                raise


def is_there(folder: Path) -> bool:
    """Whether there is a model folder, after putting back one that a kill left half renamed."""
    return wait_for_folder(folder, _NAMES)


def _read_trust(path: Path, weights: str) -> dict[str, Any] | None:
    """What is known about how far to trust these weights; None where nothing is."""
    if not path.is_file():
        return None
    damaged = f"{path} is damaged or was edited: restore it, or delete it and run `fino calibrate`."
    content, trust = _read_json(path, damaged)
    if not isinstance(trust, dict) or _config_bytes(trust) != content:
        raise ValueError(damaged)
    if trust.get("weights_sha256") != weights:
        raise ValueError(f"{path} was measured with other weights. Run `fino calibrate`.")
    return {name: value for name, value in trust.items() if name in _TRUSTED}


def model_hash(folder: str | Path) -> str:
    """The SHA-256 of a saved model's weights, as its configuration has it."""
    return str(_read_config(Path(folder) / CONFIG)["weights_sha256"])


def check_finite(model: Emulator) -> None:
    """Refuse a model with a weight that is not a number."""
    for name, value in model.state_dict().items():
        if not value.isfinite().all():
            raise ValueError(
                f"the model is broken: '{name}' has a NaN or infinite number. Train it again, with "
                "a smaller learning rate."
            )


def repair(folder: Path) -> None:
    """Put back what a kill left of a model folder that no other process is writing."""
    restore_folder(folder, _NAMES, alone=True)


def read_tensors(path: Path, sha256: str, source: str) -> dict[str, torch.Tensor]:
    """The tensors of a file whose SHA-256 `source` states; each once, real and finite."""
    content = read_bytes(path)
    if hashlib.sha256(content).hexdigest() != sha256:
        raise ValueError(
            f"{path} is damaged: its SHA-256 differs from {source}. "
            f"Restore the file or save the model again."
        )
    try:
        tensors = tensors_from_bytes(content)
    except (SafetensorError, ValueError, TypeError) as error:
        raise ValueError(f"{path} is not a safetensors file: {error}.") from None
    size = int.from_bytes(content[:8], "little")
    pairs = json.loads(content[8 : 8 + size], object_pairs_hook=list)
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{path} is damaged: it holds '{twice}' twice.")
    for name, value in tensors.items():
        if not value.isfinite().all():
            raise ValueError(
                f"{path} cannot be used: '{name}' has a NaN or infinite number. "
                f"Restore the file or train again."
            )
    return tensors


def _check_types(model: Emulator, tensors: dict[str, torch.Tensor], path: Path) -> None:
    """Refuse tensors of another type: they would be rounded to the model's without a word."""
    for name, value in model.state_dict().items():
        found = tensors[name].dtype if name in tensors else value.dtype
        if found != value.dtype:
            raise ValueError(
                f"{path} is damaged: '{name}' should be {_word(value.dtype)}, got {_word(found)}."
            )


def _word(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _rebuild(config: dict[str, Any], tensors: dict[str, torch.Tensor], folder: Path) -> Emulator:
    try:
        settings = EmulatorSettings(**config["emulator"])
        kind = MODELS[settings.model]
        stored = sum(value.numel() * (2 if value.is_complex() else 1) for value in tensors.values())
        if count_weights(kind, **config["network"]) > stored:
            raise ValueError(f"{WEIGHTS} holds {stored} numbers, fewer than the network has.")
        model = Emulator(kind(**config["network"]), settings, Grid(**config["grid"]))
        model = model.to(getattr(torch, config["dtype"]))
        model.load_state_dict(tensors)
    except (KeyError, TypeError, RuntimeError, AttributeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(
            f"{folder / CONFIG} and {WEIGHTS} do not describe one model: {reason}"
        ) from None
    _check_types(model, tensors, folder / WEIGHTS)
    return model.eval()


def _config_bytes(config: dict[str, Any]) -> bytes:
    body = {name: value for name, value in config.items() if name != "config_sha256"}
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    text = json.dumps({**body, "config_sha256": digest}, indent=2, sort_keys=True)
    return (text + "\n").encode()


def _read_json(path: Path, damaged: str) -> tuple[bytes, Any]:
    """The bytes of a file and what they say; `damaged` is the line for one that says nothing."""
    content = read_bytes(path)
    try:
        return content, json.loads(content)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError):
        raise ValueError(damaged) from None


def _read_config(path: Path) -> dict[str, Any]:
    damaged = f"{path} is damaged or was edited: restore it or save the model again."
    content, config = _read_json(path, damaged)
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
