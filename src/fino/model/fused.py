"""The FINO block with its backward pass written by hand.

Training and rollout of FINO are this project's inner loop.  The plain block, as the paper
writes it, spends more than half of its time outside the stencils: copies for the ghost cells,
zero-filled gradients of slices, one pass over memory for each elementwise operation.  Here the
same equations run on `(b, *space, c)` buffers with as few passes as we could find:

    S  = w ∗ pad(u) + b            one copy for the ghost cells
    g  = σ(S W_gᵀ + b_g)           in place
    U′ = u + (g ⊙ S)(Δt W_c)ᵀ      the Euler step is the product's own addition
    y  = φ(W_p ∗ pad(U′) + b_p)    in place where φ allows it

and back, each line once.  Parameters θ scale and shift S, shift the gate and set Δt, each for its
own row of the batch (FiLM).  `LocalOperatorBlock` and `FinoBlock` stay the reference; a test
holds both to the same values and gradients.  Where a gradient is itself to be differentiated
(Hessians, Hessian-vector products), the backward pass runs the plain equations again instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fino.model.convolution import check_ghosts, pad, pointwise, stencil

if TYPE_CHECKING:
    from fino.model.fino import Film, FinoBlock

__all__ = ["FUSED_ACTIVATIONS", "fused_blocks_allowed", "plain_blocks", "run_fused"]

aten = torch.ops.aten

#: Activations whose backward pass is known here.
FUSED_ACTIVATIONS = ("relu", "gelu", "silu")

_allowed = True


@contextmanager
def plain_blocks() -> Iterator[None]:
    """Run the blocks as the paper writes them: for second derivatives, export and tests."""
    global _allowed
    before, _allowed = _allowed, False
    try:
        yield
    finally:
        _allowed = before


def fused_blocks_allowed() -> bool:
    """False inside `plain_blocks()`, under autocast, and while torch traces or transforms."""
    return (
        _allowed
        and not torch.compiler.is_compiling()
        and not torch.jit.is_tracing()
        and not torch.is_autocast_enabled("cpu")
        and not torch.is_autocast_enabled("cuda")
        and not torch._C._functorch.peek_interpreter_stack()
    )


def run_fused(block: FinoBlock, u: Tensor, film: Film | None = None) -> Tensor:
    """B(U) of eq. 5 for a field (b, c, *space), by a block whose settings are fusible."""
    operator, project = block.operator, block.project
    assert operator.gate is not None
    gate_weight, gate_bias = operator.gate.weights
    fuse, modulation = operator.fuse.weight.flatten(1), _NO_FILM
    if film is None:
        fuse = block.dt() * fuse
    else:
        dt = block.dt(film.dt).expand_as(film.dt)
        modulation = tuple(each.flatten(1) for each in (film.scale, film.shift, film.gate, dt))
    weights = (*operator.stencil.weights, gate_weight.flatten(1), gate_bias, fuse, *project.weights)
    how = (project.boundary, block.settings.activation)
    arguments: tuple[Any, ...] = (u, *weights, *modulation, *how)
    if torch.is_grad_enabled():
        result: Tensor = _Block.apply(*arguments)
        return result
    return _forward(*arguments)[0]


#: Scale, shift, gate (b, features) and Δt (b, 1) of a block that is given no parameters.
_NO_FILM: tuple[Tensor | None, ...] = (None,) * 4


class _Block(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Tensor:
        out, saved = _forward(*arguments)
        ctx.boundary, ctx.activation = arguments[-2:]
        ctx.save_for_backward(*arguments[:-2], *saved)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        wanted = ctx.needs_input_grad
        kept = ctx.saved_tensors
        inputs, saved = kept[:_TENSORS], kept[_TENSORS:]
        if torch.is_grad_enabled():
            plain = _plain_backward(grad, inputs, ctx.boundary, ctx.activation, wanted)
            return (*plain, None, None)
        gradients = _backward(grad, inputs, saved, ctx.boundary, ctx.activation, wanted[0])
        given = (g if want else None for g, want in zip(gradients, wanted, strict=False))
        return (*given, None, None)


#: Tensors that a block is given: the field, its seven weights and four modulations.
_TENSORS = 12


def _plain_backward(
    grad: Tensor,
    inputs: Sequence[Tensor | None],
    boundary: tuple[str, ...],
    activation: str,
    wanted: Sequence[bool],
) -> Iterator[Tensor | None]:
    """The gradients as a differentiable function of everything, by the plain equations."""
    out = _plain(inputs, boundary, activation)
    sources = [tensor for tensor, want in zip(inputs, wanted, strict=False) if want]
    found = iter(torch.autograd.grad(out, sources, grad, create_graph=True))  # type: ignore[arg-type]
    return (next(found) if want else None for want in wanted[:_TENSORS])


def _plain(inputs: Sequence[Any], boundary: tuple[str, ...], activation: str) -> Tensor:
    """Equations 1–5 as `FinoBlock` writes them."""
    u, w, b, w_gate, b_gate, w_fuse, w_project, b_project, *film = inputs
    over = [1] * (u.dim() - 2)
    scale, shift, gate, dt = (0 if f is None else f.view(*f.shape, *over) for f in film)
    s = stencil(pad(u, [k // 2 for k in w.shape[2:]], boundary), w, b) * (1 + scale) + shift
    moved = pointwise(torch.sigmoid(pointwise(s, w_gate, b_gate) + gate) * s, w_fuse)
    stepped = u + (moved if film[3] is None else dt * moved)
    padded = pad(stepped, [k // 2 for k in w_project.shape[2:]], boundary)
    out: Tensor = getattr(F, activation)(stencil(padded, w_project, b_project))
    return out


def _forward(
    u: Tensor,
    w: Tensor,
    b: Tensor,
    w_gate: Tensor,
    b_gate: Tensor,
    w_fuse: Tensor,
    w_project: Tensor,
    b_project: Tensor,
    scale: Tensor | None,
    shift: Tensor | None,
    gate: Tensor | None,
    dt: Tensor | None,
    boundary: tuple[str, ...],
    activation: str,
) -> tuple[Tensor, list[Tensor | None]]:
    cells = u.movedim(1, -1)
    patches = _patches(cells, w, boundary)
    q = _convolve(patches, w, b).reshape(len(u), -1, len(w)).contiguous()
    s = q if scale is None else torch.addcmul(shift[:, None], q, 1 + scale[:, None])  # type: ignore[index]
    rows = s.view(-1, len(w))
    g = torch.addmm(b_gate, rows, w_gate.t()).view_as(s)
    g = (g if gate is None else g.add_(gate[:, None])).sigmoid_()
    gated = g * s if dt is None else (g * s).mul_(dt[:, None])
    flat = cells.reshape(-1, cells.shape[-1])
    stepped = torch.addmm(flat, gated.view_as(rows), w_fuse.t())
    stepped_patches = _patches(stepped.view(cells.shape), w_project, boundary)
    z = _convolve(stepped_patches, w_project, b_project)
    y = z.relu_() if activation == "relu" else getattr(F, activation)(z)
    before = None if scale is None else q
    saved = [patches, before, s, g, gated, stepped_patches, z]
    return y.movedim(-1, 1), saved


def _backward(
    grad: Tensor,
    inputs: Sequence[Any],
    saved: Sequence[Tensor],
    boundary: tuple[str, ...],
    activation: str,
    to_input: bool,
) -> tuple[Tensor | None, ...]:
    _, w, _, w_gate, _, w_fuse, w_project, _, scale, _, _, dt = inputs
    patches, q, s, g, gated, stepped_patches, z = saved
    grad_z = _activation_backward(grad.movedim(1, -1), z, activation)
    grad_cells, dw_project, db_project = _convolve_backward(
        grad_z, stepped_patches, w_project, boundary
    )
    grad_rows = grad_cells.reshape(-1, grad_cells.shape[-1])
    features = s.shape[-1]

    grad_gated = (grad_rows @ w_fuse).view_as(s)
    dw_fuse = grad_rows.t() @ gated.view(-1, features)
    film: tuple[Tensor | None, ...] = _NO_FILM
    if dt is not None:
        ddt = (grad_gated * gated).sum(dim=(1, 2)).unsqueeze(1) / dt
        grad_gated = grad_gated.mul_(dt[:, None])
    grad_gate = aten.sigmoid_backward(grad_gated * s, g)
    gate_rows = grad_gate.view(-1, features)
    dw_gate = gate_rows.t() @ s.view(-1, features)
    grad_s = torch.addmm(grad_gated.mul_(g).view(-1, features), gate_rows, w_gate).view_as(s)
    if dt is not None:
        film = ((grad_s * q).sum(dim=1), grad_s.sum(dim=1), grad_gate.sum(dim=1), ddt)
        grad_s = grad_s.mul_(1 + scale[:, None])

    grad_u, dw, db = _convolve_backward(
        grad_s.view(*grad_cells.shape[:-1], -1), patches, w, boundary, to_input
    )
    db_gate = gate_rows.sum(dim=0)
    whole = grad_u.add_(grad_cells).movedim(-1, 1) if to_input else None
    return whole, dw, db, dw_gate, db_gate, dw_fuse, dw_project, db_project, *film


def _activation_backward(grad: Tensor, z: Tensor, activation: str) -> Tensor:
    if activation == "relu":
        return aten.threshold_backward(grad, z, 0)
    if activation == "gelu":
        return aten.gelu_backward(grad, z)
    return aten.silu_backward(grad, z)


def _patches(cells: Tensor, w: Tensor, boundary: Sequence[str]) -> Tensor:
    """What the stencil reads: the padded field, or on a line the taps of every cell.

    (b, *n, c) → (b, *(n + 2r), c), or (b, n, taps·c).  On a line the neighbours of a cell lie
    next to each other in memory, and one matrix product over gathered taps beats the library's
    convolution; in the plane it does not.
    """
    padded = _pad(cells, [k // 2 for k in w.shape[2:]], boundary)
    return _taps(padded, w.shape[2]) if w.dim() == 3 else padded


def _convolve(patches: Tensor, w: Tensor, b: Tensor) -> Tensor:
    """→ (b, *n, outputs)"""
    if w.dim() == 3:
        return F.linear(patches, w.transpose(1, 2).flatten(1), b)
    images = patches.movedim(-1, 1)
    convolve = F.conv3d if images.dim() == 5 else F.conv2d
    return convolve(images, _kernel(w), b).movedim(1, -1)


def _convolve_backward(
    grad: Tensor, patches: Tensor, w: Tensor, boundary: Sequence[str], to_input: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients with respect to the field, if it is asked for, the weight and the bias."""
    if w.dim() == 3:
        return _line_backward(grad, patches, w, boundary, to_input)
    dims = w.dim() - 2
    zeros, ones = [0] * dims, [1] * dims
    grad_images, dw, db = aten.convolution_backward(
        *(grad.movedim(-1, 1), patches.movedim(-1, 1), _kernel(w), [w.shape[0]]),
        *(ones, zeros, ones, False, zeros, 1, [to_input, True, True]),
    )
    if not to_input:
        return grad, dw, db
    width = [k // 2 for k in w.shape[2:]]
    return _fold(grad_images.movedim(1, -1), width, boundary), dw, db


def _line_backward(
    grad: Tensor, patches: Tensor, w: Tensor, boundary: Sequence[str], to_input: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The same on a line, where the adjoint of a stencil is the mirrored stencil."""
    outputs, c, taps = w.shape
    rows = grad.reshape(-1, outputs)
    dw = (rows.t() @ patches.view(-1, taps * c)).view(outputs, taps, c).transpose(1, 2)
    db = rows.sum(dim=0)
    if not to_input:
        return grad, dw, db
    mirrored = w.flip(2).permute(1, 2, 0).flatten(1)
    radius = taps // 2
    if boundary[0] == "periodic":
        return F.linear(_taps(_pad(grad, [radius], boundary), taps), mirrored), dw, db
    around = _taps(_pad(grad, [2 * radius], ["dirichlet"]), taps)
    return _fold(F.linear(around, mirrored), [radius], boundary), dw, db


def _kernel(w: Tensor) -> Tensor:
    """The weight with its channels last, as the library wants it."""
    memory = torch.channels_last_3d if w.dim() == 5 else torch.channels_last
    return w.contiguous(memory_format=memory)


def _taps(padded: Tensor, taps: int) -> Tensor:
    """The neighbourhood of each cell of a line side by side: (b, n + 2r, c) → (b, n, taps·c)."""
    b, length, c = padded.shape
    shape, strides = (b, length - taps + 1, taps * c), (length * c, c, 1)
    return padded.as_strided(shape, strides).contiguous()


def _pad(cells: Tensor, width: Sequence[int], boundary: Sequence[str]) -> Tensor:
    """Ghost cells around (b, *space, c): the field is copied once, the edges after it."""
    space = cells.shape[1:-1]
    for n, r, name in zip(space, width, boundary, strict=True):
        check_ghosts(n, r, name)
    if tuple(boundary) == ("periodic",):
        (n,), (r,) = space, width
        return torch.cat((cells.narrow(1, n - r, r), cells, cells.narrow(1, 0, r)), dim=1)
    shape = [n + 2 * r for n, r in zip(space, width, strict=True)]
    out = cells.new_empty(cells.shape[0], *shape, cells.shape[-1])
    inner = out
    for axis, (n, r) in enumerate(zip(space, width, strict=True), start=1):
        inner = inner.narrow(axis, r, n)
    inner.copy_(cells)
    for axis, (n, r, name) in enumerate(zip(space, width, boundary, strict=True), start=1):
        # Axes before this one are complete, those after it still lack their ghosts.
        slab = out
        for later in range(axis + 1, out.dim() - 1):
            slab = slab.narrow(later, width[later - 1], space[later - 1])
        for ghosts, source in _pairs(slab, axis, n, r, name):
            ghosts.zero_() if source is None else ghosts.copy_(source)
    return out


def _fold(padded: Tensor, width: Sequence[int], boundary: Sequence[str]) -> Tensor:
    """The adjoint of `_pad`: what reached a ghost cell goes back to the cell it copied."""
    out = padded
    for axis in range(padded.dim() - 2, 0, -1):
        r, name = width[axis - 1], boundary[axis - 1]
        n = out.shape[axis] - 2 * r
        for ghosts, source in _pairs(out, axis, n, r, name):
            if source is None:
                continue
            if source.shape[axis] < ghosts.shape[axis] or (name == "neumann"):
                ghosts = ghosts.sum(dim=axis, keepdim=True)
            source.add_(ghosts)
        out = out.narrow(axis, r, n)
    return out.contiguous()


def _pairs(
    u: Tensor, axis: int, n: int, r: int, boundary: str
) -> Iterator[tuple[Tensor, Tensor | None]]:
    """The ghost cells of one axis and the cells they copy, low end and high end."""
    for low in (True, False) if r else ():
        ghosts = u.narrow(axis, 0 if low else r + n, r)
        if boundary == "periodic":
            yield ghosts, u.narrow(axis, n if low else r, r)
        elif boundary == "neumann":
            yield ghosts, u.narrow(axis, r if low else r + n - 1, 1)
        elif boundary == "reflect":
            # A flipped copy cannot be written to, so the mirror goes cell by cell.
            for i in range(r):
                mirror = 2 * r - i if low else r + n - 2 - i
                yield ghosts.narrow(axis, i, 1), u.narrow(axis, mirror, 1)
        else:
            yield ghosts, None
