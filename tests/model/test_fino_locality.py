"""The promise everything rests on: the network sees as far as it says, and no farther."""

import itertools

import pytest
import torch
from torch import nn

import fino
from fino.model.fused import plain_blocks

CASES = list(
    itertools.product(
        (1, 2, 3),
        (0, 1, 2, 3),
        (1, 2),
        ("periodic", "dirichlet", "neumann", "reflect"),
        ("nearest", "linear"),
    )
)


def measured_reach(network: nn.Module, space: tuple[int, ...], axis: int) -> list[int]:
    """The farthest input that each cell of one stride depends on, by gradient.

    Every cell of the stride has an entry of the batch to itself, so that one backward pass
    serves them all.
    """
    stride = network.locality.stride[axis]
    middle = space[axis] // 2 // stride * stride
    x = torch.rand(stride, network.settings.inputs, *space)
    x.requires_grad_()
    y = network(x).movedim(2 + axis, -1)
    picked = sum(y[i, ..., middle + i].sum() for i in range(stride))
    (grad,) = torch.autograd.grad(picked, x)
    by_cell = grad.movedim(2 + axis, -1).abs().flatten(1, -2).sum(1)
    return [int((by_cell[i].nonzero().flatten() - (middle + i)).abs().max()) for i in range(stride)]


def network_for(dims, levels, radius, boundary, upsample) -> nn.Module:
    torch.manual_seed(0)
    net = fino.Fino(
        dims=dims,
        inputs=1,
        outputs=1,
        width=2,
        levels=levels,
        radius=radius,
        boundary=boundary,
        upsample=upsample,
        activation="gelu",
    )
    return net


@pytest.mark.parametrize(("dims", "levels", "radius", "boundary", "upsample"), CASES)
def test_the_reach_measured_by_gradient_is_the_declared_one(
    dims, levels, radius, boundary, upsample
):
    net = network_for(dims, levels, radius, boundary, upsample)
    axis = (levels + radius) % dims
    declared, stride = int(net.locality.radius[axis]), net.locality.stride[axis]
    # One long axis, so that nothing wraps or meets a wall, and the shortest others that hold
    # the ghost cells of the coarsest level.
    coarsest = radius + 1 if boundary == "reflect" else radius
    long = 2 * (declared // stride + 2) * stride
    space = tuple(long if a == axis else coarsest * stride for a in range(dims))
    reaches = measured_reach(net, space, axis)
    assert max(reaches) == declared


def test_axes_may_have_radii_of_their_own():
    net = network_for(2, 1, (1, 2), "periodic", "linear")
    assert net.locality.radius == (10, 18)
    assert max(measured_reach(net, (48, 8), 0)) == 10
    assert max(measured_reach(net, (8, 80), 1)) == 18


def test_a_group_norm_slipped_in_is_caught():
    net = network_for(1, 1, 1, "periodic", "nearest")
    net.bottleneck.append(nn.GroupNorm(1, 2))
    with plain_blocks():
        assert max(measured_reach(net, (64,), 0)) > net.locality.radius[0]


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("upsample", ["nearest", "linear"])
def test_a_periodic_network_commutes_with_shifts_by_its_stride(dims, upsample):
    torch.manual_seed(0)
    net = fino.Fino(dims=dims, inputs=2, outputs=2, width=4, levels=2, upsample=upsample)
    x = torch.randn(2, 2, *[16] * dims)
    axes = list(range(2, 2 + dims))
    shift = [4 * (i + 1) for i in range(dims)]
    torch.testing.assert_close(
        net(x.roll(shift, axes)), net(x).roll(shift, axes), atol=1e-6, rtol=1e-6
    )


def test_blocks_and_growth_widen_what_they_should():
    net = fino.Fino(dims=1, inputs=3, outputs=1, width=4, levels=2, growth=2.0, blocks=(1, 2, 3))
    assert net.settings.widths == (4, 8, 16)
    assert [len(stack) for stack in net.encoder] == [1, 2]
    assert len(net.bottleneck) == 3
    assert net(torch.randn(1, 3, 16)).shape == (1, 1, 16)
    # bottleneck 6; level 1: 4 + (2·6 + 1) + 4 = 21; level 0: 2 + (2·21 + 1) + 2 = 47
    assert net.locality.radius == (47,)
