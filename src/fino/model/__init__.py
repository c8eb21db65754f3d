"""The models: FINO, its rivals, the baselines."""

from __future__ import annotations

from collections import UserDict
from collections.abc import MutableMapping
from importlib import import_module
from typing import Any

from fino.settings import did_you_mean

__all__ = ["HOME", "MODELS"]

#: Every model by name, and where its class lives.  To add one: a file and a line here.
HOME = {
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


class _Models(UserDict[str, Any]):
    """A table whose classes are imported when they are asked for.

    A class of your own is put in as it is: MODELS["mine"] = Mine.
    """

    def __setitem__(self, name: str, cls: Any) -> None:
        if name in HOME and cls != HOME[name]:
            raise ValueError(f"There is a model '{name}' already. Choose another name.")
        self.data[name] = cls

    def __delitem__(self, name: str) -> None:
        if name in HOME:
            raise ValueError(f"'{name}' comes with the package and stays.")
        del self.data[name]

    def __getitem__(self, name: str) -> Any:
        if name not in self.data:
            raise ValueError(f"Unknown model '{name}'. {did_you_mean(name, list(self))}")
        if name not in HOME:
            return self.data[name]
        module, _, cls = HOME[name].rpartition(".")
        return getattr(import_module(f"fino.model.{module}"), cls)


MODELS: MutableMapping[str, Any] = _Models(HOME)
