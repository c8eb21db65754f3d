"""How far a map sees: the promise that tiles, halos, crops and the light-cone check rest on.

A map from a grid to the same grid has a *radius* when the value that it returns at cell i
depends on cells i − radius … i + radius alone, and a *stride* when shifting its input by
that many cells shifts its output with it.  A stencil has stride 1; a pooling level doubles it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Locality"]


@dataclass(frozen=True)
class Locality:
    """The reach of a map in cells and the shifts it commutes with, for each axis.

    Locality((3, 3)) is a stencil of radius 3 in two dimensions;
    Locality.everywhere(2) sees the whole field.
    """

    radius: tuple[float, ...]
    stride: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not self.stride:
            object.__setattr__(self, "stride", (1,) * len(self.radius))
        if len(self.stride) != len(self.radius):
            raise ValueError(f"radius {self.radius} and stride {self.stride} differ in length.")

    @classmethod
    def point(cls, dims: int) -> Locality:
        """A map that looks at its own cell only, such as a 1×1 convolution."""
        return cls((0,) * dims)

    @classmethod
    def everywhere(cls, dims: int) -> Locality:
        """A map whose every output depends on every input, such as a Fourier layer."""
        return cls((math.inf,) * dims)

    @property
    def dims(self) -> int:
        return len(self.radius)

    @property
    def is_local(self) -> bool:
        return all(math.isfinite(r) for r in self.radius)

    def then(self, other: Locality) -> Locality:
        """Self followed by other on the same grid: radii add."""
        return Locality(
            tuple(a + b for a, b in zip(self.radius, other.radius, strict=True)),
            self._common_stride(other),
        )

    def beside(self, other: Locality) -> Locality:
        """Self and other added together, as a skip connection does: the wider one counts."""
        return Locality(
            tuple(max(a, b) for a, b in zip(self.radius, other.radius, strict=True)),
            self._common_stride(other),
        )

    def below(self, factor: int | Sequence[int]) -> Locality:
        """This map on a grid pooled by `factor`, seen from the fine grid.

        A coarse cell covers `factor` fine ones.  From the last of them, radius R on the coarse
        grid reaches factor · R cells further plus the factor − 1 cells of its own block.
        """
        factors = (factor,) * self.dims if isinstance(factor, int) else tuple(factor)
        return Locality(
            tuple(f * r + f - 1 for f, r in zip(factors, self.radius, strict=True)),
            tuple(f * s for f, s in zip(factors, self.stride, strict=True)),
        )

    def repeated(self, steps: int) -> Locality:
        """The same map applied `steps` times."""
        return Locality(tuple(steps * r if steps else 0 for r in self.radius), self.stride)

    def halo(self, steps: int = 1) -> tuple[int, ...]:
        """Cells needed around a tile for `steps` steps, rounded up to whole strides."""
        if not self.is_local:
            raise ValueError("A map that sees the whole field (radius inf) has no finite halo.")
        return tuple(
            int(-(-steps * r // s)) * s for r, s in zip(self.radius, self.stride, strict=True)
        )

    def _common_stride(self, other: Locality) -> tuple[int, ...]:
        return tuple(math.lcm(a, b) for a, b in zip(self.stride, other.stride, strict=True))
