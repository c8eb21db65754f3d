"""Models on finer cells: stencils that keep their length are the trained model on every second."""

import pytest
import torch

import fino
from lab.bench_transfer import Interleaved, on_finer_cells


@pytest.mark.parametrize("boundary", ["periodic", "neumann"])
@pytest.mark.parametrize("dims", [1, 2])
def test_scaled_stencils_give_every_second_cell_what_the_trained_model_gives(dims, boundary):
    torch.manual_seed(0)
    u = torch.randn(4, 6, 2, *[16] * dims)
    data = fino.from_array(u.numpy(), dt=0.1, extent=[(0, 1)] * dims, boundary=boundary)
    model = fino.build("fino", data, history=2, width=4, levels=1)
    fine = torch.randn(3, 2, 2, *[32] * dims)
    answer = Interleaved(model)(fine)
    assert answer.shape == (3, 2, *[32] * dims)
    with torch.no_grad():
        torch.testing.assert_close(answer[..., ::2], _every_second(model, fine, dims)[..., :])
    if boundary == "neumann":
        # Seen in a mirror along every axis, it is the same model.
        axes = [*range(-dims, 0)]
        torch.testing.assert_close(Interleaved(model)(fine.flip(axes)).flip(axes), answer)


def _every_second(model, fine, dims):
    """Rows are those of all grids; along the last axis only every second cell is compared."""
    if dims == 1:
        return model(fine[..., ::2])
    even = model(fine[..., ::2, ::2])
    odd = fine[..., 1::2, ::2]
    mirrored = not model.grid.is_periodic[0]
    odd = model(odd.flip(-2)).flip(-2) if mirrored else model(odd)
    return torch.stack([even, odd], dim=-2).flatten(-3, -2)


def test_finer_cells_hold_the_samples_of_the_test_part():
    data = fino.generate("advection", samples=10, stride_space=8, stride_time=50)
    fine = on_finer_cells(data.card, 1)
    assert fine.grid.points == (256,)
    own = data.read([data.test.samples[0]])
    torch.testing.assert_close(fine.read([0])[..., ::2], own)


def test_data_kept_at_every_cell_have_no_finer_ones():
    data = fino.generate("diffusion-reaction-1d", samples=10, stride_time=100)
    with pytest.raises(ValueError, match="should be kept at every second cell or fewer"):
        on_finer_cells(data.card, 1)
