"""A program says all that a step does: interpreted by numpy, it gives what torch gives."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from interpreter import run
from random_models import EVERYTHING, random_given, random_model

import fino
from fino.export.program import describe

BOUNDARIES = ("periodic", "dirichlet", "neumann", "reflect")


def assert_interpreted_alike(model, space=None):
    given = random_given(model, space)
    program = describe(model)
    assert program.fits(given.space)
    beside = {name: value[0].double().numpy() for name, value in given.beside.items()}
    if "mask" in beside:
        beside["mask"] = beside["mask"][0]
    with torch.no_grad():
        expected = model.double()(given.to(torch.float64))[0].numpy()
    got = run(program, given.history[0].numpy(), **beside)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("points", [(16,), (12, 8), (8, 4, 8)])
def test_a_fino_is_interpreted_alike_for_every_boundary_and_dimension(points, boundary):
    model = random_model(points=points, boundary=boundary, width=3, levels=1, activation="gelu")
    assert_interpreted_alike(model)
    assert_interpreted_alike(model, tuple(n + 2 for n in points))


@pytest.mark.parametrize(
    "settings",
    [
        {"levels": 2, "blocks": (1, 2, 1), "growth": 2.0, "activation": "silu"},
        {"radius": (2, 1), "levels": 1, "upsample": "linear", "activation": "tanh"},
        {"gate": False, "levels": 0, "dt": "fixed"},
        {"gate_radius": 1, "fuse_radius": 1, "levels": 1, "dt": "one"},
        {"patch": 2, "levels": 1},
    ],
)
@pytest.mark.parametrize("boundary", [("neumann", "periodic"), ("reflect", "dirichlet")])
def test_every_setting_of_a_fino_is_interpreted_alike(settings, boundary):
    assert_interpreted_alike(random_model(boundary=boundary, width=3, **settings))


@pytest.mark.parametrize("patch", [1, 2])
def test_fluxes_are_interpreted_alike(patch):
    shape = {"width": 3, "flux": True, "patch": patch, "levels": 1}
    assert_interpreted_alike(random_model(boundary=("periodic",) * 2, **shape))


@pytest.mark.parametrize("predict", ["frame", "increment", "linear", "stencil"])
def test_every_prior_is_interpreted_alike(predict):
    model = random_model(predict=predict, fields=("u", "v"), boundary="reflect", width=2, levels=0)
    assert_interpreted_alike(model)


@pytest.mark.parametrize("walls", ["neumann", "dirichlet"])
@pytest.mark.parametrize("condition", ["film", "channels"])
def test_whatever_is_given_is_interpreted_alike(condition, walls):
    beside = {**EVERYTHING, "condition": condition, "walls": walls}
    model = random_model(beside=beside, boundary=("neumann", "periodic"), width=3, levels=1)
    assert_interpreted_alike(model)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("plain", {"width": 3, "levels": 1, "activation": "gelu"}),
        ("dilated-resnet", {"width": 3, "blocks": 1, "dilations": (1, 3)}),
        ("percnn", {"width": 3}),
    ],
)
def test_other_networks_of_stencils_are_interpreted_alike(name, settings):
    assert_interpreted_alike(random_model(name, boundary=("neumann", "periodic"), **settings))


@pytest.mark.parametrize("name", sorted(fino.PRETRAINED))
def test_every_shipped_model_is_interpreted_alike(name):
    model = fino.pretrained(name)
    space = None if model.settings.coordinates else model.grid.dims * (16,)
    assert_interpreted_alike(model, space)


def test_a_window_is_told_where_it_lies():
    model = random_model(boundary="neumann", coordinates=True, width=3, levels=1)
    given = random_given(model, (8, 4))
    positions = torch.randn(6, 8, 4)
    with torch.no_grad():
        expected = model(fino.given.Given(given.history, positions))[0].numpy()
    got = run(describe(model), given.history[0].numpy(), positions=positions.numpy())
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-5)


def test_sizes_that_do_not_fit_are_told_by_a_rule():
    program = describe(random_model(width=2, levels=2, boundary="reflect", points=(16, 16)))
    assert (
        program.rule
        == "height at least 8 and a multiple of 4, width at least 8 and a multiple of 4"
    )
    assert program.fits((8, 12)) and not program.fits((4, 12)) and not program.fits((10, 12))
    fixed = describe(random_model(width=2, levels=2, coordinates=True))
    assert fixed.rule == "exactly 12 × 8 cells"
    assert fixed.fits((12, 8)) and not fixed.fits((16, 8))


def test_what_has_no_program_is_refused_in_one_line():
    with pytest.raises(ValueError, match=r"^FNO sees the whole field \(radius inf\), so it is not"):
        describe(random_model("fno", width=2, modes=2, layers=1))
    with pytest.raises(ValueError, match=r"^UNet is local, but has layers that are not exported\."):
        describe(random_model("unet", width=2, levels=1))
    with pytest.raises(ValueError, match=r"^a trained model should be exported, got function"):
        describe(lambda u: u)
    film = {"parameters": ("nu",), "condition": "film"}
    with pytest.raises(ValueError, match=r"gates of radius 1 or more is not exported"):
        describe(random_model(beside=film, gate_radius=1, width=2, levels=0))
