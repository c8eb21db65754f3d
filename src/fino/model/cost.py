"""What a network costs, counted, not timed: numbers that are the same on every machine.

Multiply–adds are those of matrix products, convolutions, attention and transforms.  A transform
of n numbers counts as ½ · 5 n log₂ n multiply–adds if they are complex and half of that if they
are real, the operation count of the radix-2 algorithm.  Functions of single cells (activations,
gates, sums, norms) are not counted.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from fino.machine import free_memory

__all__ = ["check_room", "count_weights", "multiply_adds", "parameters"]

#: Tensors of weights beyond which a network is a mistake.
_MOST_TENSORS = 4_000
#: Copies of the weights that training holds: gradients, momenta, the best so far.
_COPIES = 8


def parameters(network: nn.Module) -> int:
    """How many real numbers the network learns; a complex weight is two."""
    return sum(p.numel() * (2 if p.is_complex() else 1) for p in network.parameters())


def count_weights(kind: Any, **settings: Any) -> int:
    """How many real numbers a network of this kind would learn, without making room for them."""
    tensors = 0

    def count(module: nn.Module, name: str, weight: Any) -> None:
        nonlocal tensors
        tensors += 1
        if tensors > _MOST_TENSORS:
            raise ValueError(f"the network would have more than {_MOST_TENSORS} layers.")

    hook = nn.modules.module.register_module_parameter_registration_hook(count)
    try:
        with torch.device("meta"):
            return parameters(kind(**settings))
    except (RuntimeError, OverflowError, MemoryError, TypeError) as error:
        # torch has a TypeError for sizes beyond 64 bits.
        if isinstance(error, TypeError) and "verflow" not in str(error):
            raise
        raise ValueError("the network would be larger than any machine.") from None
    finally:
        hook.remove()


def check_room(kind: Any, **settings: Any) -> None:
    """Refuse a network that this machine has no memory to train."""
    needed, free = 4 * _COPIES * count_weights(kind, **settings), free_memory()
    if needed > free:
        raise ValueError(
            f"training this network needs about {needed / 1e9:.3g} GB of memory for its weights, "
            f"and {free / 1e9:.3g} GB are free. Choose a smaller width, or fewer levels or blocks."
        )


def multiply_adds(network: nn.Module, shape: Sequence[int]) -> int:
    """Multiply–adds of one forward pass for an input (b, inputs, *space).

    Nothing is computed: shapes alone run through a copy of the network.
    """
    ghost = copy.deepcopy(network).to("meta").eval()
    dtype = next(ghost.parameters()).dtype
    counter = FlopCounterMode(display=False, custom_mapping=_TRANSFORMS)
    count = getattr(getattr(network, "settings", None), "parameters", 0)
    given = [tuple(shape), *([(shape[0], count)] if count else [])]
    with torch.no_grad(), counter:
        ghost(*(torch.empty(one, dtype=dtype, device="meta") for one in given))
    return round(counter.get_total_flops() / 2)


def _real_to_complex(shape: Sequence[int], dim: list[int], *_: Any, **__: Any) -> float:
    return 2.5 * math.prod(shape) * sum(math.log2(shape[d]) for d in dim)


def _complex_to_real(
    shape: Sequence[int], dim: list[int], normalization: int, last: int, *_: Any, **__: Any
) -> float:
    cells = math.prod(shape) // shape[dim[-1]] * last
    return 2.5 * cells * sum(math.log2(last if d == dim[-1] else shape[d]) for d in dim)


def _complex_to_complex(shape: Sequence[int], dim: list[int], *_: Any, **__: Any) -> float:
    return 5.0 * math.prod(shape) * sum(math.log2(shape[d]) for d in dim)


_TRANSFORMS: dict[Any, Any] = {
    torch.ops.aten._fft_r2c: _real_to_complex,
    torch.ops.aten._fft_c2r: _complex_to_real,
    torch.ops.aten._fft_c2c: _complex_to_complex,
}
