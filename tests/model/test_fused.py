"""The block with its backward pass by hand is the block of the paper."""

import itertools

import pytest
import torch

import fino
from fino.model.fused import fused_blocks_allowed, plain_blocks

CASES = list(
    itertools.product(
        (1, 2, 3), ("periodic", "dirichlet", "neumann", "reflect"), ("relu", "gelu", "silu"), (1, 2)
    )
)


def value_and_gradients(network, x):
    y = network(x)
    weights = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view(y.shape)
    return y, torch.autograd.grad((y * weights).sum(), [x, *network.parameters()])


@pytest.mark.parametrize(("dims", "boundary", "activation", "radius"), CASES)
def test_values_and_gradients_equal_the_plain_block(dims, boundary, activation, radius):
    torch.manual_seed(0)
    net = fino.Fino(
        dims=dims,
        inputs=3,
        outputs=2,
        width=4,
        levels=1,
        boundary=boundary,
        radius=radius,
        activation=activation,
    ).double()
    x = torch.randn(2, 3, *(8, 12, 8)[:dims], dtype=torch.double, requires_grad=True)
    fast, fast_gradients = value_and_gradients(net, x)
    with plain_blocks():
        assert not fused_blocks_allowed()
        plain, plain_gradients = value_and_gradients(net, x)
    torch.testing.assert_close(fast, plain, rtol=1e-12, atol=1e-13)
    for mine, reference in zip(fast_gradients, plain_gradients, strict=True):
        torch.testing.assert_close(mine, reference, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dt", ["learn", "fixed"])
@pytest.mark.parametrize(("dims", "boundary"), [(1, "periodic"), (1, "reflect"), (2, "neumann")])
def test_parameters_modulate_the_fused_block_as_the_plain_one(dims, boundary, dt):
    """Values, gradients of the field, the weights and θ, and Hessians over all of them."""
    torch.manual_seed(0)
    shape = {"dims": dims, "inputs": 1, "outputs": 1, "width": 3, "levels": 1, "parameters": 2}
    net = fino.Fino(**shape, boundary=boundary, activation="gelu", dt=dt).double()
    u = torch.randn(3, 1, *[4] * dims, dtype=torch.double, requires_grad=True)
    theta = torch.randn(3, 2, dtype=torch.double, requires_grad=True)

    def everything():
        y = net(u, theta)
        sources = [u, theta, *net.parameters()]
        first = torch.autograd.grad(y.square().sum(), sources)
        (slope,) = torch.autograd.grad(net(u, theta).square().sum(), theta, create_graph=True)
        second = torch.autograd.grad(slope.square().sum(), sources)
        return [y, *first, *second]

    fused = everything()
    with plain_blocks():
        plain = everything()
    for ours, reference in zip(fused, plain, strict=True):
        torch.testing.assert_close(ours, reference, rtol=1e-9, atol=1e-11)


def test_boundaries_may_differ_between_axes():
    net = fino.Fino(
        dims=2, inputs=1, outputs=1, width=4, levels=1, boundary=("periodic", "neumann")
    ).double()
    x = torch.randn(2, 1, 8, 6, dtype=torch.double, requires_grad=True)
    fast, fast_gradients = value_and_gradients(net, x)
    with plain_blocks():
        plain, plain_gradients = value_and_gradients(net, x)
    torch.testing.assert_close(fast, plain)
    torch.testing.assert_close(fast_gradients, plain_gradients)


def test_a_jacobian_vector_product_takes_the_plain_path():
    net = fino.Fino(dims=1, inputs=1, outputs=1, width=4, levels=1).double()
    x, v = torch.randn(2, 1, 1, 8, dtype=torch.double)
    _, by_jvp = torch.func.jvp(net, (x,), (v,))
    by_difference = (net(x + 1e-6 * v) - net(x - 1e-6 * v)) / 2e-6
    torch.testing.assert_close(by_jvp, by_difference, atol=1e-6, rtol=1e-5)


def test_without_gradients_the_values_are_the_same():
    net = fino.Fino(dims=2, inputs=2, outputs=1, width=8, levels=1)
    x = torch.randn(1, 2, 8, 8)
    with torch.no_grad():
        quiet = net(x)
    assert torch.equal(quiet, net(x).detach())


@pytest.mark.parametrize(("boundary", "radius"), [("periodic", 3), ("reflect", 2)])
def test_an_axis_too_short_for_its_ghosts_is_refused_on_both_paths(boundary, radius):
    net = fino.Fino(
        dims=1, inputs=1, outputs=1, width=4, levels=1, boundary=boundary, radius=radius
    )
    message = f"An axis of 2 cells is too short for {radius} {boundary} ghost cells"
    with pytest.raises(ValueError, match=message):
        net(torch.zeros(1, 1, 4))
    with plain_blocks(), pytest.raises(ValueError, match=message):
        net(torch.zeros(1, 1, 4))


@pytest.mark.parametrize("activation", ["gelu", "silu"])
@pytest.mark.parametrize(("dims", "boundary"), [(1, "periodic"), (2, "neumann"), (2, "reflect")])
def test_second_derivatives_equal_those_of_the_plain_block(dims, boundary, activation):
    torch.manual_seed(0)
    shape = {"dims": dims, "inputs": 1, "outputs": 1, "width": 3, "levels": 1}
    net = fino.Fino(**shape, boundary=boundary, activation=activation).double()
    u = torch.randn(1, 1, *[4] * dims, dtype=torch.float64)
    v = torch.randn_like(u)

    def energy(x):
        return net(x).square().sum()

    def both():
        hessian = torch.autograd.functional.hessian(energy, u)
        _, product = torch.autograd.functional.hvp(energy, u, v)
        return hessian, product

    fused = both()
    with plain_blocks():
        plain = both()
    assert float(plain[0].abs().max()) > 1e-3
    for ours, reference in zip(fused, plain, strict=True):
        torch.testing.assert_close(ours, reference, rtol=1e-6, atol=1e-9)


def test_second_derivatives_reach_the_weights():
    torch.manual_seed(0)
    net = fino.Fino(dims=1, inputs=1, outputs=1, width=3, levels=0, activation="gelu").double()
    u = torch.randn(1, 1, 8, dtype=torch.float64, requires_grad=True)

    def penalty():
        (gradient,) = torch.autograd.grad(net(u).square().sum(), u, create_graph=True)
        return torch.autograd.grad(gradient.square().sum(), list(net.parameters()))

    fused = penalty()
    with plain_blocks():
        plain = penalty()
    for ours, reference in zip(fused, plain, strict=True):
        torch.testing.assert_close(ours, reference, rtol=1e-6, atol=1e-9)
