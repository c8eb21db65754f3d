"""A crop with its halo is exactly the full-domain loss restricted to the crop."""

from __future__ import annotations

import pytest
import torch
from little_data import blobs, little_fino, waves

import fino
from fino.given import Given
from fino.locality import Locality
from fino.training.batch import crop_sizes, draw_batch, draw_crop
from fino.training.loss import Unroll
from fino.training.settings import TrainingSettings

CASES = {
    "line, periodic": (waves(points=128), 16, {"levels": 1}),
    "line, two levels": (waves(points=256), 16, {"levels": 2}),
    "square, walls": (blobs(points=48), 8, {"levels": 1}),
    "square, on a scheme": (blobs(points=48), 8, {"levels": 1, "predict": "stencil"}),
    "square, no levels, linear prior": (blobs(points=48), 8, {"levels": 0, "predict": "linear"}),
}


def both_losses(data, crop, shape, *, horizon=2, shrink=0, step=0, dtype=torch.float32):
    """The loss on the crop and the full-domain loss restricted to it, with their gradients."""
    model = little_fino(data, **shape).to(dtype)
    settings = TrainingSettings(batch=2, crop=crop, augment=False, loss="scaled")
    sizes = crop_sizes(crop, data.grid, model.locality)
    promised = model.locality
    radius = tuple(r - shrink / horizon for r in promised.radius)
    piece = draw_crop(sizes, data.grid, Locality(radius, promised.stride), horizon, 0, step)
    whole = draw_batch(data.train, model, settings.changed(crop=None), step, horizon)
    history, future = whole.given.history.to(dtype), whole.future.to(dtype)
    small = Unroll(model, settings)(
        Given(history, model.positions()).cut(piece.cut), piece.cut(future), piece.inner
    )
    small.backward()
    small_gradient = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    # The loss of the same cells, unrolled over the whole domain.
    where = tuple(cells[inner] for cells, inner in zip(piece.cells, piece.inner, strict=True))
    starts = [int(w[0]) for w in where]
    back = [-s for s in starts]
    losses, buffer = [], history
    for t in range(horizon):
        frame = model(buffer)
        error = (frame - future[:, t]).roll(back, list(range(2, frame.dim())))
        error = error[(..., *(slice(0, n) for n in sizes))]
        losses.append((error / model.output_std.view(-1, *[1] * len(sizes))).square().mean())
        buffer = torch.cat([buffer[:, 1:], frame.unsqueeze(1)], dim=1)
    full = torch.stack(losses).mean()
    full.backward()
    full_gradient = [p.grad.clone() for p in model.parameters()]
    return small, full, small_gradient, full_gradient, piece


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("step", range(3))
def test_the_crop_has_the_loss_and_gradient_of_the_full_domain_restricted_to_it(case, step):
    data, crop, shape = CASES[case]
    small, full, small_gradient, full_gradient, piece = both_losses(data, crop, shape, step=step)
    assert min(len(cells) for cells in piece.cells) < data.grid.points[0], "nothing was cropped"
    assert small.item() == pytest.approx(full.item(), rel=1e-6)
    for a, b in zip(small_gradient, full_gradient, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


def test_in_double_precision_a_halo_one_cell_too_small_is_noticed():
    data, crop, shape = CASES["square, no levels, linear prior"]
    exact, full, *_ = both_losses(data, crop, shape, horizon=1, dtype=torch.float64)
    assert exact.item() == pytest.approx(full.item(), rel=1e-12, abs=0)
    short, full, *_ = both_losses(data, crop, shape, horizon=1, shrink=1, dtype=torch.float64)
    assert short.item() != pytest.approx(full.item(), rel=1e-9, abs=0)


def test_crops_start_on_the_stride_and_reach_over_periodic_edges_but_not_through_walls():
    line, square = waves(points=64), blobs(points=48)
    locality = Locality((5,), (2,))
    wrapped = set()
    for step in range(60):
        piece = draw_crop((16,), line.grid, locality, 2, 0, step)
        first = int(piece.cells[0][piece.inner[0]][0])
        assert first % 2 == 0
        assert len(piece.cells[0]) == 16 + 2 * 10
        wrapped.add(bool((piece.cells[0].diff() < 0).any()))
    assert wrapped == {True, False}
    at_wall = 0
    for step in range(60):
        piece = draw_crop((8, 8), square.grid, Locality((3, 3)), 2, 0, step)
        for cells in piece.cells:
            assert (cells.diff() == 1).all()
            at_wall += int(cells[0] == 0)
    assert at_wall > 0


def test_a_training_step_on_crops_reads_only_the_crop_and_its_halo():
    data = waves(points=64)
    model = little_fino(data)
    settings = TrainingSettings(batch=2, crop=8)
    batch = draw_batch(data.train, model, settings, step=3, horizon=1)
    halo = model.locality.halo(1)[0]
    assert batch.given.history.shape[-1] == batch.future.shape[-1] == 8 + 2 * halo
    assert torch.isfinite(Unroll(model, settings)(batch.given, batch.future, batch.inner))


def test_what_cannot_be_cropped_is_refused_in_words():
    data = waves()
    with pytest.raises(ValueError, match=r"sees the whole field \(radius inf\), so it cannot"):
        crop_sizes(8, data.grid, fino.build("fno", data, width=4).locality)
    with pytest.raises(ValueError, match=r"crop 7 should be a multiple of the model's stride 2"):
        crop_sizes(7, data.grid, Locality((3,), (2,)))
    with pytest.raises(ValueError, match="crop should be one size for each of 1 axes"):
        crop_sizes((4, 4), data.grid, Locality((3,), (2,)))
