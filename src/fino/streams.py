"""One seed, many independent streams of random numbers, each with a name.

A stream is a pure function of (seed, *names): the noise of step 1 200 is the same whether the
run was interrupted at step 1 000 or not, and adding a new consumer changes no old one.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch

__all__ = ["numpy_stream", "torch_stream"]


def stream_seed(seed: int, *names: str | int) -> int:
    """A 63-bit seed that depends on every name and on their order."""
    words = "\x1f".join([str(int(seed)), *(f"{type(n).__name__}:{n}" for n in names)])
    return int.from_bytes(hashlib.sha256(words.encode()).digest()[:8], "big") >> 1


def numpy_stream(seed: int, *names: str | int) -> np.random.Generator:
    """numpy_stream(0, "initial", 17) draws the initial condition of sample 17."""
    return np.random.Generator(np.random.PCG64(stream_seed(seed, *names)))


def torch_stream(seed: int, *names: str | int) -> torch.Generator:
    """The same for torch, on the CPU."""
    import torch

    return torch.Generator().manual_seed(stream_seed(seed, *names))
