"""The learners: FINO, its rivals, the floors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from fino.settings import did_you_mean

__all__ = ["MODELS"]

#: Every model by name, and where its class lives.  To add one: a file and a line here.
_HOME = {
    "fino": "fino.Fino",
    "unet": "unet.UNet",
    "fno": "fno.FNO",
    "ufno": "ufno.UFNO",
    "ffno": "ffno.FFNO",
    "local-fno": "local_fno.LocalFNO",
    "transolver": "transolver.Transolver",
}

#: Networks of other libraries: where they live and what they need.
_PEERS = {
    "neuralop-fno": ("peers.NeuralopFNO", ("neuralop",)),
    "neuralop-local-no": ("peers.NeuralopLocalNO", ("neuralop", "torch_harmonics")),
}
for _name, (_home, _needs) in _PEERS.items():
    if all(find_spec(package) for package in _needs):
        _HOME[_name] = _home


class _Models(Mapping[str, Any]):
    """A read-only table whose classes are imported when they are asked for."""

    def __getitem__(self, name: str) -> Any:
        if name in _PEERS and name not in _HOME:
            raise ValueError(
                f"Model '{name}' needs {' and '.join(_PEERS[name][1])}. "
                f"Install the peers extra: pip install 'fino[peers]'."
            )
        if name not in _HOME:
            raise ValueError(f"Unknown model '{name}'. {did_you_mean(name, list(_HOME))}")
        module, _, cls = _HOME[name].rpartition(".")
        return getattr(import_module(f"fino.model.{module}"), cls)

    def __iter__(self) -> Iterator[str]:
        return iter(_HOME)

    def __len__(self) -> int:
        return len(_HOME)

    def __contains__(self, name: object) -> bool:
        return name in _HOME


MODELS: Mapping[str, Any] = _Models()
