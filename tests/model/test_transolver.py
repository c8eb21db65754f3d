"""Transolver: slices are means, and attention is among them."""

from __future__ import annotations

import pytest
import torch

from fino.model.cost import multiply_adds, parameters
from fino.model.transolver import PhysicsAttention, Transolver, TransolverSettings


def test_the_paper_size_has_the_parameters_of_the_reference_configuration() -> None:
    # thuml/Transolver, Darcy: width 128, 8 layers, 8 heads, 64 slices, kernel 3; the reference
    # has one more vector of 128, a placeholder that is not used when there is an input field.
    width, each, slices = 128, 16, 64
    attention = (
        2 * (width * width * 9 + width)
        + (each * slices + slices)
        + 3 * each * each
        + (width * width + width)
        + 8
    )
    block = attention + 2 * 2 * width + 2 * (width * width + width)
    lift = 3 * 2 * width + 2 * width + 2 * width * width + width
    expected = lift + 8 * block + 2 * width + width + 1
    with torch.device("meta"):
        net = Transolver(dims=2, inputs=3, outputs=1, **Transolver.sizes["paper"])
    assert parameters(net) == expected == 2_810_945


def test_one_slice_tells_every_cell_the_same() -> None:
    torch.manual_seed(0)
    attention = PhysicsAttention(
        TransolverSettings(dims=1, inputs=1, outputs=1, width=8, heads=2, slices=1)
    )
    out = attention(torch.randn(1, 16, 8))
    assert torch.allclose(out, out[:, :1].expand_as(out), atol=1e-5)


def test_without_stencils_the_order_of_the_cells_does_not_matter() -> None:
    torch.manual_seed(0)
    net = Transolver(
        dims=1, inputs=2, outputs=1, width=8, heads=2, slices=4, layers=2, radius=0
    ).double()
    u, order = torch.randn(1, 2, 16, dtype=torch.float64), torch.randperm(16)
    assert torch.allclose(net(u[..., order]), net(u)[..., order], atol=1e-12)


def test_the_cost_is_linear_in_the_cells() -> None:
    net = Transolver(dims=2, inputs=2, outputs=1, width=16, heads=2, slices=8, layers=2)
    small, large = (multiply_adds(net, (1, 2, n, n)) for n in (64, 256))
    assert large == pytest.approx(16 * small, rel=0.02)


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(ValueError, match=r"^heads should divide width = 10, got 3\.$"):
        Transolver(dims=1, inputs=1, outputs=1, width=10, heads=3)
