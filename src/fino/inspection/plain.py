"""Results as plain JSON: dataclasses, arrays and complex numbers become dicts, lists and pairs."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import torch

__all__ = ["plain"]


def plain(value: Any) -> Any:
    """The same content in types that `json` writes; infinities and NaN become None."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {_key(key): plain(item) for key, item in value.items()}
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray):
        return [plain(item) for item in value.tolist()]
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, complex):
        return [plain(value.real), plain(value.imag)]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value


def _key(key: Any) -> str:
    if isinstance(key, tuple):
        return ",".join(_key(part) for part in key)
    return str(key)
