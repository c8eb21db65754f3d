"""The order of the axes, and one check for it at the front doors.

Batch first, time second, channels third, space last:

    Field       (b, c, *space)
    Trajectory  (b, t, c, *space)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from torch import Tensor

    Field: TypeAlias = Tensor
    Trajectory: TypeAlias = Tensor
else:
    Field = Trajectory = Any

__all__ = ["Field", "Trajectory", "expect"]


def expect(tensor: Any, axes: str, name: str = "tensor", **sizes: int | tuple[int, ...]) -> None:
    """Refuse a tensor whose shape is not `axes`, in the words that the caller used.

    expect(u, "b t c *space", name="trajectory", c=3, space=(64, 64)) passes for a tensor of
    shape (2, 5, 3, 64, 64).  Axes without a size may have any length; `*space` takes the rest.
    """
    shape = tuple(getattr(tensor, "shape", ()))  # not as int: sizes that are exported stay open
    named = axes.split()
    plain = [axis for axis in named if not axis.startswith("*")]
    wanted = f"{name} should be ({', '.join(named)}), got {shape}"
    starred = len(plain) != len(named)
    if len(shape) < len(plain) + starred or (not starred and len(shape) != len(plain)):
        at_least = "at least " if starred else ""
        raise ValueError(f"{wanted}: expected {at_least}{len(plain) + starred} axes.")
    found: dict[str, int | tuple[int, ...]] = dict(zip(plain, shape, strict=False))
    if starred:
        found[named[-1][1:]] = shape[len(plain) :]
    for axis, size in sizes.items():
        if found[axis] != size:
            raise ValueError(f"{wanted}: {axis} should be {size} but is {found[axis]}.")
