"""Fluxes: what leaves one cell enters the next, so sums never change."""

import pytest
import torch

import fino
from fino.model.convolution import pad, stencil
from fino.model.fino import FluxHead


def gas(samples: int = 4, frames: int = 6):
    """Smooth fields on a ring of squares whose sums stay what they are."""
    draw = torch.Generator().manual_seed(0)
    u = torch.randn(samples, 1, 3, 16, 16, generator=draw).repeat(1, frames, 1, 1, 1)
    for frame in range(1, frames):
        u[:, frame] = 0.9 * u[:, frame - 1] + 0.1 * u[:, frame - 1].roll(1, -1)
    return fino.from_array(u + 2.0, dt=0.1, extent=[(0, 1)] * 2, boundary="periodic")


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_the_stencil_is_the_difference_of_the_fluxes(dims):
    head = FluxHead(3, 2, ("periodic",) * dims).double()
    u = torch.randn(2, 3, *[6] * dims, dtype=torch.float64)
    fluxes = torch.einsum("aoi,bi...->abo...", head.flux, u)
    expected = sum(f - f.roll(-1, axis + 2) for axis, f in enumerate(fluxes))
    torch.testing.assert_close(head(u), expected)
    ghosts = pad(u, head.radius, head.boundary)
    torch.testing.assert_close(stencil(ghosts, head.weight), expected)


@pytest.mark.parametrize("shape", [{"levels": 0}, {"levels": 2}, {"members": 2}])
@pytest.mark.parametrize("predict", ["increment", "moved"])
def test_any_weights_conserve_every_field_over_a_rollout(shape, predict):
    model = fino.build("fino", gas(), history=1, width=4, flux=True, predict=predict, **shape)
    start = gas().test[0].history[None, :1].double()
    end = model.double()
    frames = fino.rollout(end, start, steps=20)
    drift = (frames.sum((-1, -2)) - start.sum((-1, -2))).abs() / start.abs().sum((-1, -2))
    assert float((frames[:, -1] - start[:, 0]).abs().max()) > 0.01, "nothing happened"
    assert float(drift.max()) < 1e-12


def test_single_precision_keeps_the_sums_to_its_rounding():
    model = fino.build("fino", gas(), history=1, width=4, levels=1, flux=True)
    start = gas().test[0].history[None, :1]
    frames = fino.rollout(model, start, steps=20).double()
    begin = start.double()
    drift = (frames.sum((-1, -2)) - begin.sum((-1, -2))).abs() / begin.abs().sum((-1, -2))
    assert float(drift.max()) < 1e-6


def test_without_fluxes_the_sums_drift():
    model = fino.build("fino", gas(), history=1, width=4, levels=0, predict="increment")
    start = gas().test[0].history[None, :1].double()
    frames = fino.rollout(model.double(), start, steps=20)
    drift = (frames.sum((-1, -2)) - start.sum((-1, -2))).abs() / start.abs().sum((-1, -2))
    assert float(drift.max()) > 1e-6


def test_what_cannot_be_conserved_is_refused_in_one_line():
    with pytest.raises(ValueError, match="flux should be False at a neumann boundary"):
        fino.Fino(2, 1, 1, boundary=("periodic", "neumann"), flux=True)
    with pytest.raises(ValueError, match="predict should be 'increment' or 'moved', got 'frame'"):
        fino.build("fino", gas(), flux=True, predict="frame")
