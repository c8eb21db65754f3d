"""Equations 1–10 of the paper, recomputed with plain loops over numpy."""

import numpy as np
import pytest
import torch

import fino
from fino.model.fino import FinoBlock, FinoBlockStack, FinoSettings, LocalOperatorBlock
from fino.model.fused import plain_blocks

BOUNDARIES = ("periodic", "dirichlet", "neumann", "reflect")


def settings(**more) -> FinoSettings:
    return FinoSettings(**{"dims": 2, "inputs": 3, "outputs": 2, "width": 4, **more})


def cell(u: np.ndarray, channel: int, place: tuple[int, int], boundary: str) -> float:
    """The value at a place that may lie beyond the edge."""
    inside = []
    for i, n in zip(place, u.shape[1:], strict=True):
        if boundary == "periodic":
            i %= n
        elif boundary == "neumann":
            i = min(max(i, 0), n - 1)
        elif boundary == "reflect":
            i = -i if i < 0 else 2 * (n - 1) - i if i >= n else i
        elif not 0 <= i < n:
            return 0.0
        inside.append(i)
    return u[channel, inside[0], inside[1]]


def loops(u: np.ndarray, weight: np.ndarray, bias: np.ndarray | None, boundary: str) -> np.ndarray:
    """Σ_c Σ_p Σ_q w[α, c, p, q] u[c, h + p, w + q] + b[α], one number at a time."""
    outputs, inputs, height, width = weight.shape
    out = np.zeros((outputs, *u.shape[1:]))
    for a, h, w in np.ndindex(out.shape):
        total = 0.0 if bias is None else bias[a]
        for c, p, q in np.ndindex(inputs, height, width):
            place = (h + p - height // 2, w + q - width // 2)
            total += weight[a, c, p, q] * cell(u, c, place, boundary)
        out[a, h, w] = total
    return out


def numbers(tensor: torch.Tensor | None) -> np.ndarray | None:
    return None if tensor is None else tensor.detach().double().numpy()


def operator_by_loops(block: LocalOperatorBlock, u: np.ndarray, boundary: str) -> np.ndarray:
    s = loops(u, numbers(block.stencil.weight), numbers(block.stencil.bias), boundary)
    gate = loops(s, numbers(block.gate.weight), numbers(block.gate.bias), boundary)
    gated = s / (1 + np.exp(-gate))
    return loops(gated, numbers(block.fuse.weight), None, boundary)


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("radius", [1, 2])
def test_the_operator_block_is_equations_1_to_3(boundary, radius):
    torch.manual_seed(0)
    block = LocalOperatorBlock(3, 4, settings(boundary=boundary, radius=radius))
    u = torch.randn(1, 3, 5, 6)
    np.testing.assert_allclose(
        block(u)[0].detach().numpy(), operator_by_loops(block, numbers(u[0]), boundary), atol=1e-6
    )


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("dt", ["learn", "fixed", "one"])
def test_the_block_is_an_euler_step_then_a_projection_equations_4_and_5(boundary, dt):
    torch.manual_seed(1)
    block = FinoBlock(3, 4, 2, settings(boundary=boundary, dt=dt, dt_initial=0.3))
    u = torch.randn(1, 3, 5, 6)
    step = 1.0 if dt == "one" else 0.3
    stepped = numbers(u[0]) + step * operator_by_loops(block.operator, numbers(u[0]), boundary)
    weight, bias = numbers(block.project.weight), numbers(block.project.bias)
    expected = np.maximum(loops(stepped, weight, bias, boundary), 0.0)
    np.testing.assert_allclose(block(u)[0].detach().numpy(), expected, atol=1e-6)
    with plain_blocks():
        np.testing.assert_allclose(block(u)[0].detach().numpy(), expected, atol=1e-6)


def test_a_stack_is_blocks_one_after_another_equation_6():
    stack = FinoBlockStack(3, 4, 2, 3, settings())
    u = torch.randn(1, 3, 8, 8)
    assert torch.equal(stack(u), stack[2](stack[1](stack[0](u))))


def test_the_network_is_encoder_bottleneck_decoder_and_head_equations_7_to_10():
    torch.manual_seed(2)
    net = fino.Fino(dims=2, inputs=3, outputs=2, width=4, levels=2)
    x0 = torch.randn(1, 3, 8, 8)
    d0 = net.encoder[0](x0)
    x1 = torch.nn.functional.avg_pool2d(d0, 2)
    d1 = net.encoder[1](x1)
    x2 = torch.nn.functional.avg_pool2d(d1, 2)
    z = net.bottleneck(x2)
    z = net.decoder[1](z.repeat_interleave(2, 2).repeat_interleave(2, 3) + d1)
    z = net.decoder[0](z.repeat_interleave(2, 2).repeat_interleave(2, 3) + d0)
    weight, bias = net.head.weight[:, :, 0, 0], net.head.bias
    y = torch.einsum("oc,bchw->bohw", weight, z) + bias.view(1, -1, 1, 1)
    torch.testing.assert_close(net(x0), y)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_a_field_that_varies_along_one_axis_gives_the_same_in_every_dimension(dims):
    """One code path: a 2D or 3D network on a stretched line is the 1D network."""
    torch.manual_seed(3)
    line = fino.Fino(dims=1, inputs=2, outputs=1, width=4, levels=1, boundary="neumann")
    net = fino.Fino(dims=dims, inputs=2, outputs=1, width=4, levels=1, boundary="neumann")
    weights = {}
    for name, value in line.state_dict().items():
        target = net.state_dict()[name]
        # All weight sits in the middle of the added axes.
        grown = torch.zeros_like(target)
        middle = tuple(n // 2 for n in target.shape[3:])
        grown[(..., *middle)] = value
        weights[name] = grown if target.dim() > 2 else value
    net.load_state_dict(weights)
    x = torch.randn(1, 2, 16)
    stretched = x.view(1, 2, 16, *[1] * (dims - 1)).expand(1, 2, 16, *[4] * (dims - 1))
    y = net(stretched)
    torch.testing.assert_close(y[(..., *[0] * (dims - 1))], line(x), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("dt", ["learn", "fixed", "one"])
def test_time_steps_are_positive_and_reported(dt):
    net = fino.Fino(dims=1, inputs=1, outputs=1, levels=1, dt=dt)
    expected = 1.0 if dt == "one" else 0.1
    assert net.time_steps == pytest.approx(
        {"encoder.0.0": expected, "bottleneck.0": expected, "decoder.0.0": expected}
    )


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"width": 0}, "width should be at least 1, got 0. Try width=16."),
        ({"dims": 4}, "dims should be 1, 2 or 3, got 4."),
        ({"levels": -1}, "levels should be 0 or more, got -1."),
        ({"radius": 0}, "radius should be at least 1 on each of 2 axes, got 0."),
        ({"blocks": (1, 2)}, "one for each of 3 stacks from the finest level to the bottleneck"),
        ({"boundary": "perodic"}, "Unknown boundary 'perodic'. Did you mean 'periodic'?"),
        ({"widht": 8}, "Unknown setting 'widht'. Did you mean 'width'?"),
        ({"dt": "often"}, "Setting 'dt': input should be 'learn', 'fixed' or 'one', got 'often'."),
        ({"growth": 0.0}, "growth should be positive, got 0.0."),
    ],
)
def test_a_bad_setting_is_named_with_its_fix(bad, message):
    with pytest.raises(ValueError) as error:
        fino.Fino(**{"dims": 2, "inputs": 3, "outputs": 1, **bad})
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((1, 3, 10, 8), "grid (10, 8) should be a multiple of 2^levels = 4 on every axis. Use few"),
        ((1, 2, 8, 8), "inputs should be 3 but is 2."),
        ((1, 3, 8), "input of FINO should have 2 space axes, got 1"),
    ],
)
def test_a_bad_input_is_refused_in_words(shape, message):
    with pytest.raises(ValueError) as error:
        fino.Fino(dims=2, inputs=3, outputs=1, width=4)(torch.zeros(shape))
    assert message in str(error.value)
