"""The models: FINO, its rivals, the baselines."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Any

from fino.settings import did_you_mean

__all__ = ["MODELS"]

#: Every model by name, and where its class lives.  To add one: a file and a line here.
_HOME = {
    "fino": "fino.Fino",
    "plain": "plain.Plain",
    "unet": "unet.UNet",
    "cnext-unet": "cnext_unet.CNextUNet",
    "dilated-resnet": "dilated_resnet.DilatedResNet",
    "percnn": "percnn.PeRCNN",
    "fno": "fno.FNO",
    "ufno": "ufno.UFNO",
    "ffno": "ffno.FFNO",
    "local-fno": "local_fno.LocalFNO",
    "transolver": "transolver.Transolver",
}


class _Models(MutableMapping[str, Any]):
    """A table whose classes are imported when they are asked for.

    A class of your own is put in as it is: MODELS["mine"] = Mine.
    """

    def __init__(self) -> None:
        self._own: dict[str, Any] = {}

    def __setitem__(self, name: str, cls: Any) -> None:
        if name in _HOME:
            raise ValueError(f"There is a model '{name}' already. Choose another name.")
        self._own[name] = cls

    def __delitem__(self, name: str) -> None:
        del self._own[name]

    def __getitem__(self, name: str) -> Any:
        if name in self._own:
            return self._own[name]
        if name not in _HOME:
            raise ValueError(f"Unknown model '{name}'. {did_you_mean(name, list(self))}")
        module, _, cls = _HOME[name].rpartition(".")
        return getattr(import_module(f"fino.model.{module}"), cls)

    def __iter__(self) -> Iterator[str]:
        return iter([*_HOME, *self._own])

    def __len__(self) -> int:
        return len(_HOME) + len(self._own)

    def __contains__(self, name: object) -> bool:
        return name in _HOME or name in self._own


MODELS: MutableMapping[str, Any] = _Models()
