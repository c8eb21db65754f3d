"""FNO: the Fourier layer against its definition, and what padding does."""

from __future__ import annotations

import torch

from fino.model.cost import parameters
from fino.model.fno import FNO
from fino.model.spectral import Pointwise, SpectralConvolution, crop_right, pad_right


def test_the_layer_is_a_product_with_the_lowest_frequencies() -> None:
    torch.manual_seed(0)
    layer = SpectralConvolution(3, 2, (4, 5)).double()
    u = torch.randn(2, 3, 16, 18, dtype=torch.float64)
    weight = torch.complex(layer.weight[0], layer.weight[1])
    spectrum, out = torch.fft.rfft2(u), torch.zeros(2, 2, 16, 10, dtype=torch.complex128)
    for row in range(-4, 4):
        for column in range(5):
            out[:, :, row, column] = spectrum[:, :, row, column] @ weight[row, column]
    expected = torch.fft.irfft2(out, s=(16, 18))
    assert torch.allclose(layer(u), expected, atol=1e-12)


def test_a_wave_above_the_kept_modes_is_lost_and_one_below_is_turned() -> None:
    layer = SpectralConvolution(1, 1, (4,)).double()
    layer.weight.data.zero_()
    layer.weight.data[0, 2] = 3.0
    x = torch.arange(32, dtype=torch.float64) / 32 * 2 * torch.pi
    low, high = torch.cos(2 * x).view(1, 1, -1), torch.cos(5 * x).view(1, 1, -1)
    assert torch.allclose(layer(low), 3 * low, atol=1e-12)
    assert layer(high).abs().max() < 1e-12


def test_the_layer_means_the_same_on_a_finer_grid() -> None:
    torch.manual_seed(0)
    layer = SpectralConvolution(1, 1, (4, 4)).double()

    def field(points: int) -> torch.Tensor:
        x = torch.arange(points, dtype=torch.float64) / points * 2 * torch.pi
        return (torch.sin(x)[:, None] * torch.cos(2 * x + 0.3)).view(1, 1, points, points)

    assert torch.allclose(layer(field(32))[..., ::2, ::2], layer(field(16)), atol=1e-12)


def test_a_grid_too_coarse_for_the_modes_uses_the_frequencies_it_has() -> None:
    layer = SpectralConvolution(2, 2, (12, 12))
    for points in (5, 8, 23):
        assert layer(torch.randn(1, 2, points, points)).shape == (1, 2, points, points)


def test_the_pointwise_map_is_a_matrix_in_every_cell() -> None:
    torch.manual_seed(0)
    layer, u = Pointwise(3, 2), torch.randn(4, 3, 5, 6)
    expected = torch.einsum("oi,bixy->boxy", layer.weight, u) + layer.bias.view(-1, 1, 1)
    assert torch.allclose(layer(u), expected, atol=1e-6)


def test_padding_is_taken_away_again() -> None:
    u = torch.randn(1, 2, 6, 7)
    padded = pad_right(u, (2, 0))
    assert padded.shape == (1, 2, 8, 7)
    assert (padded[:, :, 6:] == 0).all()
    assert torch.equal(crop_right(padded, (2, 0)), u)


def test_only_axes_without_a_period_are_padded() -> None:
    settings = FNO(
        dims=2, inputs=1, outputs=1, boundary=("periodic", "neumann"), padding=3
    ).settings
    assert settings.pads == (0, 3)


def test_the_paper_size_has_the_parameters_of_pdebench() -> None:
    # PDEBench, two dimensions, ten frames and two coordinates in, one field out:
    # lift 12·20+20, four layers of 2·12·12·20² complex and 20²+20 real, 20·128+128, 128+1.
    net = FNO(dims=2, inputs=12, outputs=1, **FNO.sizes["paper"])
    complex_ones = 4 * 2 * 12 * 12 * 20 * 20
    others = 12 * 20 + 20 + 4 * (400 + 20) + 20 * 128 + 128 + 129
    assert parameters(net) == 2 * complex_ones + others == 926_357
    assert complex_ones + others == 465_557
