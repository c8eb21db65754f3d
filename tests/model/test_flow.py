"""Local motion of images, and the prior that moves frames along it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import fino
from fino.model.flow import follow, local_motion


def blobs(shift_y, shift_x, n=96, seed=0):
    """Smooth random spots, moved by a shift that may differ from place to place: (1, 1, n, n)."""
    draw = np.random.default_rng(seed)
    y, x = np.mgrid[:n, :n].astype(float)
    y, x = y - shift_y, x - shift_x
    spots = draw.uniform(0, n, (60, 2))
    u = sum(np.exp(-((y - a) ** 2 + (x - b) ** 2) / 30) for a, b in spots)
    return torch.tensor(u)[None, None]


def film(frames=24, n=96, speed=(-1.0, 3.0)):
    """Spots that drift and, along one axis, are sheared."""
    _, x = np.mgrid[:n, :n]
    shear = 0.8 * np.sin(2 * np.pi * x / n)
    frames = [blobs(t * (speed[0] + shear), t * speed[1], n) for t in range(frames)]
    return torch.cat(frames, dim=1)[:, :, None].float()


def disc(n=96):
    y, x = np.mgrid[:n, :n]
    return (y - n / 2) ** 2 + (x - n / 2) ** 2 < (n / 2 - 3) ** 2


def radar_like(**facts):
    u = film() * torch.tensor(disc())
    facts = {"dt": 1.0, "extent": ((0, 1), (0, 1)), "boundary": "neumann", **facts}
    return fino.from_array(u.numpy(), mask=~disc(), **facts).windows(8, test=10)


def test_an_image_is_moved_by_fractions_of_cells():
    u, moved = blobs(0, 0), blobs(1.5, -2.25)
    shift = torch.tensor([1.5, -2.25]).double().view(1, 2, 1, 1).expand(1, 2, 96, 96)
    inner = (..., slice(8, -8), slice(8, -8))
    found = follow(u, torch.ones_like(u), shift)
    torch.testing.assert_close(found[inner], moved[inner], atol=0.02, rtol=0)


def test_local_motion_differs_from_the_motion_of_the_whole_as_the_image_does():
    uniform = torch.tensor([[2.0, -1.0]], dtype=torch.float64)
    mask = torch.ones(1, 1, 96, 96, dtype=torch.float64)
    found = local_motion(blobs(0, 0), blobs(2.6, -1.5), mask, uniform)
    inside = found[0, :, 24:-24, 24:-24].flatten(1).mean(dim=1)
    torch.testing.assert_close(inside, torch.tensor([2.6, -1.5]).double(), atol=0.1, rtol=0)


def test_without_contrast_the_motion_is_that_of_the_whole():
    uniform, flat = torch.tensor([[2.0, -1.0]]), torch.ones(1, 1, 32, 32)
    found = local_motion(flat, flat, flat, uniform)
    torch.testing.assert_close(found, uniform[..., None, None].expand_as(found))


def test_what_comes_in_from_outside_of_the_mask_stays_as_it_is():
    u = torch.arange(1.0, 257.0).view(1, 1, 16, 16)
    mask = torch.zeros_like(u)
    mask[..., 4:] = 1.0
    shift = torch.tensor([0.0, 3.0]).view(1, 2, 1, 1).expand(1, 2, 16, 16)
    moved = follow(u * mask, mask, shift)
    torch.testing.assert_close(moved[..., 4:7], u[..., 4:7])
    torch.testing.assert_close(moved[..., 9:], u[..., 6:-3])


def test_local_flow_predicts_sheared_motion_better_than_one_shift():
    data = radar_like()
    errors = {}
    for kind in ("moved", "flow"):
        model = fino.build("fino", data, width=4, levels=1, predict=kind, history=3)
        for weight in model.network.parameters():
            torch.nn.init.zeros_(weight)
        given, truth = data.test.begin([0], 3)
        frame = model(given).detach()
        inner = (..., slice(24, -24), slice(24, -24))
        errors[kind] = float((frame - truth[:, 0])[inner].square().mean().sqrt())
    assert errors["flow"] < 0.5 * errors["moved"]


def test_a_model_of_flow_is_exact_in_tiles_saves_loads_and_sees_no_farther_than_it_says(tmp_path):
    data = radar_like()
    model = fino.build("fino", data, width=4, levels=1, predict="flow", history=3).double()
    given = data.test[0].given.to(torch.float64)
    whole = fino.rollout(model, given, 2)
    torch.testing.assert_close(fino.rollout(model, given, 2, tile=32), whole, rtol=0, atol=1e-9)
    history = given.last(3).history.clone().requires_grad_()
    frame = model(replace(given, history=history))
    (gradient,) = torch.autograd.grad(frame[0, 0, 48, 48], history)
    seen = gradient.abs().sum(dim=(0, 1, 2)).nonzero() - 48
    assert (seen.abs().amax(dim=0) <= torch.tensor(model.locality.radius)).all()
    fino.save(model, tmp_path / "model")
    again = fino.load(tmp_path / "model")
    assert again.locality == model.locality
    assert torch.equal(fino.rollout(again, given, 2), whole)


@pytest.mark.parametrize("predict", ["flow", "moved"])
def test_images_that_were_mirrored_for_training_are_followed_the_other_way(predict):
    """The mean motion is the model's own, so it is mirrored with the images, each its own way."""
    data = radar_like(history=2)
    prior = fino.build("fino", data, predict=predict, history=2, width=2, levels=0).prior.double()
    given = data.train.begin([0], 2)[0].to(torch.float64)
    assert float(prior.velocity[0].abs().max()) > 1
    expected = prior(prior.carry(given))
    for axis in (-1, -2):
        back = replace(given, history=given.history.flip(axis), mask=given.mask.flip(axis))
        facing = torch.ones(1, 2, dtype=torch.float64)
        facing[0, axis] = -1
        with prior.mirrored(facing):
            found = prior(prior.carry(back)).flip(axis)
        inner = (..., slice(28, 68), slice(28, 68))
        torch.testing.assert_close(found[inner], expected[inner], atol=1e-6, rtol=0)
        lost = prior(prior.carry(back)).flip(axis)
        assert float((lost - expected)[inner].abs().max()) > 1e-2


def test_flow_is_refused_where_nothing_is_an_image():
    u = np.random.default_rng(0).normal(size=(4, 12, 1, 16)).astype("f4")
    data = fino.from_array(u, dt=1.0, extent=(0, 1), boundary="periodic")
    with pytest.raises(ValueError, match="in the plane with open edges"):
        fino.build("fino", data, predict="flow", history=2)


def test_flow_is_refused_on_an_odd_grid():
    u = np.random.default_rng(0).random((1, 24, 1, 45, 46)).astype("f4")
    data = fino.from_array(u, dt=1.0, extent=((0, 1), (0, 1)), boundary="neumann")
    with pytest.raises(ValueError, match=r"grid \(45, 46\) should be even on both axes"):
        fino.build("fino", data.windows(8, test=10), predict="flow", history=2)
