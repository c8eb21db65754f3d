"""The exchange of halos between the processes of a mesh.

Axis by axis, each rank sends its faces to the two neighbours on that axis and receives theirs.
The second axis sends what the first one brought along with it: corners travel in two hops and
cost no message of their own.

    (b, f, c, *window), right in the block  →  right in the whole window
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor

from fino.inference.mesh import HIGH, LOW, Mesh
from fino.inference.tiles import Box

__all__ = ["Halo"]


class Halo:
    """How one rank of a mesh fills the cells around its block."""

    def __init__(
        self,
        mesh: Mesh,
        rank: int,
        width: tuple[int, ...],
        lost: Callable[[int, Exception], Exception] | None = None,
    ) -> None:
        mesh.check(width)
        self.mesh, self.rank, self.width = mesh, rank, width
        self.block: Box = mesh.block(rank)
        self.window: Box = mesh.domain.grown(self.block, width)
        self._lost = lost or (lambda neighbour, error: error)

    def room(self, block: Tensor) -> Tensor:
        """A window's tensor with the block's values in its middle; its halo is not filled."""
        sizes = [stop - start for start, stop in self.window]
        window = block.new_empty((*block.shape[: -len(sizes)], *sizes))
        self._part(window, len(sizes)).copy_(block)
        return window

    def exchange(self, window: Tensor) -> None:
        """Fill the halo of a window in place; every rank of the mesh has to call it."""
        for axis in range(self.mesh.domain.dims):
            self._exchange_axis(window, axis)

    def _exchange_axis(self, window: Tensor, axis: int) -> None:
        operations: list[dist.P2POp] = []
        arriving: list[tuple[Tensor, Tensor]] = []
        for side in (LOW, HIGH):
            other = HIGH if side == LOW else LOW
            # My low face is the high halo of my low neighbour, and so on.  This order also pairs
            # the messages where both neighbours are one rank and a library ignores tags.
            tag = 2 * axis + side
            to = self.mesh.neighbour(self.rank, axis, side)
            if to is not None:
                count = self.mesh.ghosts(to, self.width, axis, other)
                if count:
                    face = self._face(window, axis, side, count).contiguous()
                    operations.append(dist.P2POp(dist.isend, face, to, tag=tag))
            come = self.mesh.neighbour(self.rank, axis, other)
            if come is not None:
                ghosts = self._ghosts(window, axis, other)
                if ghosts.numel():
                    buffer = torch.empty_like(ghosts, memory_format=torch.contiguous_format)
                    operations.append(dist.P2POp(dist.irecv, buffer, come, tag=tag))
                    arriving.append((ghosts, buffer))
        self._carry_out(operations)
        for ghosts, buffer in arriving:
            ghosts.copy_(buffer)

    def _carry_out(self, operations: list[dist.P2POp]) -> None:
        if not operations:
            return
        peer = operations[0].peer
        try:
            for operation, work in zip(operations, dist.batch_isend_irecv(operations), strict=True):
                peer = operation.peer
                work.wait()
        except RuntimeError as error:
            raise self._lost(peer, error) from None

    def _part(self, window: Tensor, axes: int) -> Tensor:
        """The block's span on the last `axes` axes, everything on the others."""
        dims = self.mesh.domain.dims
        for axis in range(dims - axes, dims):
            (start, stop), (first, _) = self.block[axis], self.window[axis]
            window = window.narrow(window.dim() - dims + axis, start - first, stop - start)
        return window

    def _face(self, window: Tensor, axis: int, side: int, count: int) -> Tensor:
        dims = self.mesh.domain.dims
        part = self._part(window, dims - axis)
        place = part.dim() - dims + axis
        return part.narrow(place, 0 if side == LOW else part.shape[place] - count, count)

    def _ghosts(self, window: Tensor, axis: int, side: int) -> Tensor:
        dims = self.mesh.domain.dims
        part = self._part(window, dims - axis - 1)
        place = part.dim() - dims + axis
        count = self.mesh.ghosts(self.rank, self.width, axis, side)
        return part.narrow(place, 0 if side == LOW else part.shape[place] - count, count)
