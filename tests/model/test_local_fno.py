"""LocalFNO: its stencils are derivatives, its kernels are integrals."""

from __future__ import annotations

import pytest
import torch

from fino.model.fno import FNO
from fino.model.local_fno import DifferentialKernel, IntegralKernel, LocalFNO, hats_on_rings


def polynomial(points: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = (torch.arange(points, dtype=torch.float64) + 0.5) / points
    return (2 * x**2 - 3 * x + 1).view(1, 1, -1), (4 * x - 3).view(1, 1, -1)


@pytest.mark.parametrize("points", [16, 64, 256])
def test_a_differential_kernel_gives_the_derivative_of_a_polynomial(points: int) -> None:
    kernel = DifferentialKernel(1, 1, radius=1, boundary=("neumann",), unit=1.0).double()
    kernel.weight.data = torch.tensor([[[-0.5, 0.0, 0.5]]], dtype=torch.float64)
    u, slope = polynomial(points)
    inside = slice(1, -1)
    assert torch.allclose(kernel(u, 1 / points)[..., inside], slope[..., inside], atol=1e-10)


def test_any_weights_approach_a_derivative_at_first_order() -> None:
    torch.manual_seed(0)
    kernel = DifferentialKernel(1, 1, radius=2, boundary=("neumann",), unit=1.0).double()
    taps = torch.arange(-2, 3, dtype=torch.float64)
    speed = (kernel.centred()[0, 0] * taps).sum()
    errors = []
    for points in (64, 128, 256):
        u, slope = polynomial(points)
        error = (kernel(u, 1 / points) - speed * slope)[..., 2:-2]
        errors.append(error.abs().max().item())
    assert errors[0] / errors[1] == pytest.approx(2, rel=0.05)
    assert errors[1] / errors[2] == pytest.approx(2, rel=0.05)


def test_a_mixed_kernel_gives_the_slope_in_the_plane() -> None:
    kernel = DifferentialKernel(1, 2, radius=1, boundary=("neumann",) * 2, unit=0.25).double()
    kernel.weight.data.zero_()
    kernel.weight.data[0, 0, 2, 1] = 1.0
    kernel.weight.data[1, 0, 1, 0] = 1.0
    x = (torch.arange(32, dtype=torch.float64) + 0.5) / 32
    u = (3 * x[:, None] - 2 * x[None, :]).view(1, 1, 32, 32)
    out = kernel(u, 1 / 32)[..., 1:-1, 1:-1]
    assert torch.allclose(out[:, 0], torch.full_like(out[:, 0], 3 * 0.25), atol=1e-10)
    assert torch.allclose(out[:, 1], torch.full_like(out[:, 1], 2 * 0.25), atol=1e-10)


def test_differential_weights_sum_to_zero() -> None:
    kernel = DifferentialKernel(3, 4, radius=1, boundary=("periodic",) * 2, unit=1.0)
    assert kernel.centred().sum(dim=(2, 3)).abs().max() < 1e-6


@pytest.mark.parametrize("radius", [0.5, 1.5, 3.0, 4.7])
@pytest.mark.parametrize("rings", [1, 2, 3])
@pytest.mark.parametrize("directions", [1, 4, 8])
def test_hats_are_means_within_their_radius(radius: float, rings: int, directions: int) -> None:
    hats = hats_on_rings(radius, rings, directions)
    assert len(hats) == 1 + directions * (rings - 1)
    assert torch.allclose(hats.sum(dim=(1, 2)), torch.ones(len(hats), dtype=torch.float64))
    assert (hats >= 0).all()
    cells = hats.shape[-1] // 2
    assert cells < max(radius, 0.75 * max(rings, 2))


def test_an_integral_kernel_means_the_same_on_a_finer_grid() -> None:
    torch.manual_seed(0)
    kernel = IntegralKernel(1, 0.1, rings=2, directions=4, boundary=("periodic",) * 2).double()

    def answer(points: int) -> torch.Tensor:
        x = torch.arange(points, dtype=torch.float64) / points * 2 * torch.pi
        u = (torch.sin(x)[:, None] + torch.cos(x)[None, :]).view(1, 1, points, points)
        return kernel(u, 1 / points)[..., :: points // 32, :: points // 32]

    fine = answer(256)
    errors = [(answer(points) - fine).abs().max().item() for points in (32, 64, 128)]
    assert errors[2] < errors[0] / 4
    assert errors[2] < 0.02 * fine.abs().max().item()


def test_one_dimension_has_the_differential_part_alone() -> None:
    shape = {"inputs": 1, "outputs": 1, "width": 4, "modes": 3, "layers": 1}
    assert LocalFNO(dims=1, **shape).layers[0].integral is None
    assert LocalFNO(dims=2, **shape).layers[0].integral is not None
    assert LocalFNO(dims=2, **shape, integral=False).layers[0].integral is None


def test_without_its_local_kernels_it_is_an_fno() -> None:
    torch.manual_seed(0)
    shape = {"dims": 1, "inputs": 2, "outputs": 1, "width": 4, "modes": 3, "boundary": "neumann"}
    ours, plain = LocalFNO(**shape), FNO(**shape)
    for layer in ours.layers:
        layer.differential.weight.data.zero_()
    names = {"lift.weight": "lift.last.weight", "lift.bias": "lift.last.bias"}
    weights = {
        names.get(key, key): value
        for key, value in ours.state_dict().items()
        if "differential" not in key
    }
    plain.load_state_dict(weights)
    u = torch.randn(2, 2, 32)
    assert torch.allclose(ours(u), plain(u), atol=1e-6)
