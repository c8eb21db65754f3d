"""JAX's random numbers without JAX: threefry-2x32 in the layout that PDEBench's files used.

    (x₀, x₁) → 20 rounds of  x₀ += x₁;  x₁ = (x₁ ⋘ r) ⊕ x₀,  a key added every four rounds

A draw of `size` numbers hashes the counters 0 … size − 1 in pairs (i, i + size / 2).  So one
number depends on how many were drawn with it, but it can be had alone: every function takes
the positions `at` that are wanted and touches no other.  (Newer JAX hashes each counter by
itself; that is another stream.)  Salmon et al., "Parallel random numbers: as easy as 1, 2, 3".
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Key", "chance", "integers", "key_of", "split", "uniform"]

#: The two 32-bit words that a stream of numbers follows from.
Key = tuple[int, int]

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


def key_of(seed: int) -> Key:
    """The key of a 32-bit seed."""
    if not 0 <= seed < 2**32:
        raise ValueError(f"a threefry seed should be between 0 and 2³² − 1, got {seed}.")
    return (0, seed)


def split(key: Key) -> tuple[Key, Key]:
    """Two new keys from one."""
    a, b, c, d = (int(word) for word in bits(key, 4))
    return (a, b), (c, d)


def bits(key: Key, size: int, at: ArrayLike | None = None) -> NDArray[np.uint32]:
    """The 32-bit words at the given positions of a draw of `size` words, all by default."""
    where = np.arange(size) if at is None else np.asarray(at)
    if where.size and not (where.min() >= 0 and where.max() < size):
        raise ValueError(f"positions should be between 0 and {size - 1}.")
    half = -(-size // 2)
    low = where % half
    # An odd draw is padded with a counter of zero.
    high = np.where(low + half < size, low + half, 0)
    first, second = threefry(key, low.astype(np.uint32), high.astype(np.uint32))
    return np.where(where < half, first, second)


def uniform(
    key: Key, size: int, at: ArrayLike | None = None, low: float = 0.0, high: float = 1.0
) -> NDArray[np.float64]:
    """Uniform numbers in [low, high): 23 random bits each, scaled in single precision."""
    mantissa = (bits(key, size, at) >> np.uint32(9)) | np.uint32(0x3F800000)
    unit = mantissa.view(np.float32) - np.float32(1)
    scaled = unit * (np.float32(high) - np.float32(low)) + np.float32(low)
    return np.maximum(scaled, np.float32(low)).astype(np.float64)


def integers(key: Key, size: int, below: int, at: ArrayLike | None = None) -> NDArray[np.int64]:
    """Whole numbers in 0 … below − 1, each from two words so that the bias is negligible."""
    key_high, key_low = split(key)
    span = np.uint64(below)
    high = bits(key_high, size, at).astype(np.uint64) % span
    low = bits(key_low, size, at).astype(np.uint64) % span
    return ((high * np.uint64(2**32 % below) + low) % span).astype(np.int64)


def chance(
    key: Key, size: int, probability: float, at: ArrayLike | None = None
) -> NDArray[np.bool_]:
    """True with the given probability: the second of two outcomes drawn with weights."""
    never = np.float32(1) - np.float32(probability)
    return (np.float32(1) - uniform(key, size, at).astype(np.float32)) > never


def threefry(
    key: Key, x0: NDArray[np.uint32], x1: NDArray[np.uint32]
) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """The hash itself: twenty rounds on a pair of counters."""
    words = [np.uint32(word) for word in (*key, key[0] ^ key[1] ^ _PARITY)]
    x0, x1 = x0 + words[0], x1 + words[1]
    for group in range(5):
        for turn in _ROTATIONS[group % 2]:
            x0 = x0 + x1
            x1 = ((x1 << np.uint32(turn)) | (x1 >> np.uint32(32 - turn))) ^ x0
        x0 = x0 + words[(group + 1) % 3]
        # The group's number is added so that rounds differ; the sum wraps around at 2³².
        x1 = x1 + np.uint32((int(words[(group + 2) % 3]) + group + 1) % 2**32)
    return x0, x1
