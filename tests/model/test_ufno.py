"""U-FNO: its size in the paper, its path, its padding."""

from __future__ import annotations

import pytest
import torch

from fino.model.convolution import Doubling
from fino.model.cost import parameters
from fino.model.ufno import UFNO, UFNOSettings, UPath


def test_the_paper_size_has_the_parameters_of_the_released_configuration() -> None:
    # The released configuration (gegewen/ufno: three dimensions, 12 channels in, 10 modes,
    # width 36), counted from its layers with each complex weight as one.
    with torch.device("meta"):
        net = UFNO(dims=3, inputs=12, outputs=1, **UFNO.sizes["paper"])
    spectral = sum(layer.weight.numel() for layer in net.spectral)
    assert parameters(net) - spectral // 2 == 33_097_829


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_the_path_keeps_the_grid_and_commutes_with_shifts_of_eight(dims: int) -> None:
    torch.manual_seed(0)
    path = UPath(UFNOSettings(dims=dims, inputs=1, outputs=1, width=2, boundary="periodic"))
    u = torch.randn(1, 2, *[16] * dims)
    assert path(u).shape == u.shape
    assert torch.allclose(path(u.roll(8, -1)), path(u).roll(8, -1), atol=1e-6)


def test_raising_away_from_walls_is_the_plain_transposed_convolution() -> None:
    torch.manual_seed(0)
    up = Doubling(2, 3, ("periodic",), taps=4)
    u = torch.randn(1, 2, 8)
    plain = torch.nn.functional.conv_transpose1d(u, up.weight, up.bias, stride=2, padding=1)
    assert torch.allclose(up(u)[..., 2:-2], plain[..., 2:-2], atol=1e-6)


def test_an_axis_with_walls_is_padded_up_to_a_multiple_of_eight() -> None:
    settings = UFNOSettings(
        dims=2, inputs=1, outputs=1, boundary=("periodic", "neumann"), padding=2
    )
    assert settings.pads_for((16, 16)) == (0, 8)
    assert settings.pads_for((16, 20)) == (0, 4)
    assert settings.pads_for((16, 14)) == (0, 2)


def test_a_periodic_axis_that_cannot_be_halved_is_refused() -> None:
    net = UFNO(dims=1, inputs=1, outputs=1, width=2, modes=2)
    with pytest.raises(ValueError, match=r"\(20,\) should be a multiple of 8"):
        net(torch.zeros(1, 1, 20))


def test_more_paths_than_layers_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^paths should be at most layers = 2, got 3\.$"):
        UFNO(dims=1, inputs=1, outputs=1, layers=2, paths=3)
