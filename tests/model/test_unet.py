"""U-Net: its size, its reach, and what a batch norm does to both."""

from __future__ import annotations

import math

import pytest
import torch

from fino.model.convolution import Doubling
from fino.model.cost import parameters
from fino.model.unet import UNet, largest


def test_the_paper_size_has_the_parameters_of_the_reference() -> None:
    # The 32-feature U-Net that PDEBench builds on has 7 763 041 parameters for 3 channels to 1.
    with torch.device("meta"):
        net = UNet(dims=2, inputs=3, outputs=1, **UNet.sizes["paper"])
    assert parameters(net) == 7_763_041


def test_a_level_doubles_the_reach_and_adds_its_stencils() -> None:
    reaches = [
        UNet(dims=1, inputs=1, outputs=1, width=1, levels=n).locality.radius[0] for n in range(5)
    ]
    assert reaches == [2, 9, 23, 51, 107]


def test_doubling_gives_each_coarse_cell_its_own_block() -> None:
    up, u = Doubling(2, 3, ["periodic"] * 2), torch.randn(1, 2, 4, 4)
    changed = u.clone()
    changed[..., 1, 2] += 1
    moved = (up(changed) - up(u)).abs().sum(dim=(0, 1)) > 1e-7
    assert moved.nonzero().tolist() == [[2, 4], [2, 5], [3, 4], [3, 5]]


def test_pooling_keeps_the_largest_of_a_block() -> None:
    u = torch.tensor([[[1.0, 3.0, -2.0, -5.0]]])
    assert largest(u).tolist() == [[[3.0, -2.0]]]


def test_a_batch_norm_sees_everything_while_it_trains_and_says_so() -> None:
    net = UNet(dims=1, inputs=1, outputs=1, width=2, levels=1, norm="batch").double()
    u = torch.randn(1, 1, 64, dtype=torch.float64, requires_grad=True)
    (grad,) = torch.autograd.grad(net(u)[0, 0, 32], u)
    assert net.locality.radius == (math.inf,)
    assert (grad != 0).sum() > 2 * 9 + 1
    net.eval()
    (grad,) = torch.autograd.grad(net(u)[0, 0, 32], u)
    assert net.locality.radius == (9,)
    assert (grad.nonzero()[:, 2] - 32).abs().max() <= 9


def test_a_grid_that_cannot_be_halved_is_refused() -> None:
    net = UNet(dims=2, inputs=1, outputs=1, width=2, levels=3)
    with pytest.raises(ValueError, match=r"\(20, 16\) should be a multiple of 2\^levels = 8"):
        net(torch.zeros(1, 1, 20, 16))
