"""Patches of cells as channels: nothing lost, still local, still conserving."""

import pytest
import torch
import torch.nn.functional as F
from test_fino_locality import measured_reach

import fino
from fino.model.convolution import fold, unfold


@pytest.mark.parametrize("patch", [2, 4])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_unfolding_gives_back_what_was_folded(dims, patch):
    u = torch.randn(2, 3, *[2 * patch, 4 * patch, patch][:dims])
    wide = fold(u, patch)
    assert wide.shape == (2, 3 * patch**dims, *[2, 4, 1][:dims])
    assert torch.equal(unfold(wide, patch), u)
    if dims == 2:
        assert torch.equal(wide, F.pixel_unshuffle(u, patch))


@pytest.mark.parametrize("dims", [1, 2])
def test_a_network_with_patches_is_the_same_network_on_folded_fields(dims):
    torch.manual_seed(0)
    fine = fino.Fino(dims=dims, inputs=2, outputs=3, width=4, levels=1, patch=2)
    coarse = fino.Fino(dims=dims, inputs=2 * 2**dims, outputs=3 * 2**dims, width=4, levels=1)
    weights = {name.replace("head.map", "head"): w for name, w in fine.state_dict().items()}
    coarse.load_state_dict(weights)
    u = torch.randn(2, 2, *[16] * dims)
    torch.testing.assert_close(fine(u), unfold(coarse(fold(u, 2)), 2))


@pytest.mark.parametrize("flux", [False, True])
@pytest.mark.parametrize(("patch", "levels"), [(2, 0), (2, 1), (4, 0), (4, 1)])
def test_the_reach_with_patches_is_the_declared_one(patch, levels, flux):
    torch.manual_seed(0)
    shape = {"width": 2, "levels": levels, "patch": patch, "flux": flux, "activation": "gelu"}
    net = fino.Fino(dims=1, inputs=1, outputs=1, **shape)
    declared, stride = int(net.locality.radius[0]), net.locality.stride[0]
    assert stride == patch * 2**levels
    reach = max(measured_reach(net, (2 * (declared // stride + 2) * stride,), 0))
    # Fluxes look one cell on, on one side alone; the declared reach counts it on both.
    assert declared - flux <= reach <= declared


@pytest.mark.parametrize("members", [1, 2])
def test_fluxes_between_the_cells_of_patches_conserve_every_field(members):
    torch.manual_seed(0)
    shape = {"width": 4, "levels": 1, "patch": 2, "flux": True, "members": members}
    net = fino.Fino(dims=2, inputs=3, outputs=3, **shape).double()
    change = net(torch.randn(2, 3, 16, 16, dtype=torch.float64)).detach()
    assert float(change.abs().max()) > 1e-3, "nothing happened"
    assert float(change.sum((-1, -2)).abs().max()) < 1e-12


def test_a_grid_that_cannot_be_cut_into_patches_is_refused_in_one_line():
    net = fino.Fino(dims=2, inputs=1, outputs=1, width=2, levels=1, patch=2)
    expected = (
        r"grid \(6, 8\) should be a multiple of patch \(2\) times 2\^levels = 4 on every axis"
    )
    with pytest.raises(ValueError, match=expected):
        net(torch.zeros(1, 1, 6, 8))
    with pytest.raises(ValueError, match=r"patch"):
        fino.Fino(dims=2, inputs=1, outputs=1, patch=3)
