"""The ONNX model of a step gives what torch gives, on sizes and batches that it never saw."""

from __future__ import annotations

import sys

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_models import EVERYTHING, random_given, random_model

import fino
from fino.export.check import relative_difference, worst_difference
from fino.export.program import describe
from fino.grid import BOUNDARIES
from fino.model.rollout import rollout

pytest.importorskip("onnxruntime")
from fino.export.onnx import OnnxStep, onnx_model


def exported(model) -> OnnxStep:
    program = describe(model)
    return OnnxStep(program, onnx_model(program).SerializeToString())


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("points", [(16,), (8, 12), (4, 8, 6)])
def test_a_step_in_onnx_is_the_step_of_torch_on_every_size(points, boundary):
    model = random_model(points=points, boundary=boundary, width=3, levels=1, activation="gelu")
    step = exported(model)
    for space, batch in ((points, 1), (tuple(n + 4 for n in points), 3)):
        assert worst_difference(step, model, random_given(model, space, batch)) < 1e-6


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    walls=st.sampled_from(["neumann", "dirichlet", None]),
    condition=st.sampled_from(["film", "channels"]),
    predict=st.sampled_from(["frame", "increment", "linear", "stencil"]),
    upsample=st.sampled_from(["nearest", "linear"]),
    activation=st.sampled_from(["relu", "gelu", "silu", "tanh"]),
    coordinates=st.booleans(),
)
def test_whatever_is_given_is_given_to_onnx_as_well(walls, condition, predict, **settings):
    model = random_model(
        beside={**EVERYTHING, "walls": walls, "condition": condition},
        boundary=("neumann", "periodic"),
        predict=predict,
        fields=("u", "v"),
        width=3,
        levels=1,
        **settings,
    )
    assert worst_difference(exported(model), model, random_given(model, batch=2)) < 1e-6


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("fino", {"gate_radius": 1, "fuse_radius": 1, "levels": 0, "dt": "one"}),
        ("fino", {"patch": 2, "levels": 1, "width": 3}),
        ("plain", {"width": 3, "levels": 1, "activation": "gelu"}),
        ("dilated-resnet", {"width": 3, "blocks": 1, "dilations": (1, 3)}),
        ("percnn", {"width": 3}),
    ],
)
def test_other_networks_of_stencils_are_exported_to_onnx(name, shape):
    model = random_model(name, boundary=("reflect", "periodic"), points=(12, 20), **shape)
    assert worst_difference(exported(model), model, random_given(model)) < 1e-6


@pytest.mark.parametrize("points", [(16,), (16, 24), (4, 8, 12)])
def test_patches_of_cells_and_their_fluxes_are_exported_to_onnx(points):
    model = random_model(
        points=points, boundary="periodic", fields=("u", "v"), patch=2, flux=True, levels=1, width=3
    )
    step = exported(model)
    for space in (points, tuple(n + 4 for n in points)):
        assert worst_difference(step, model, random_given(model, space, batch=2)) < 1e-6


def test_the_model_says_its_rule_and_refuses_other_sizes():
    model = random_model(width=2, levels=2)
    rule = "height at least 4 and a multiple of 4, width at least 4 and a multiple of 4"
    content = onnx_model(describe(model))
    assert content.doc_string == f"fino. It runs on {rule}."
    assert {p.key: p.value for p in content.metadata_props}["sizes"] == rule
    step = exported(model)
    for space in ((12, 10), (13, 8), (3, 3), (2, 4)):
        with pytest.raises(Exception, match="ONNXRuntimeError"):
            step(fino.given.Given(torch.zeros(1, 2, 1, *space)))
    fixed = exported(random_model(width=2, levels=0, coordinates=True))
    with pytest.raises(Exception, match=r"Got: 16 Expected: 12"):
        fixed(fino.given.Given(torch.zeros(1, 2, 1, 16, 8)))


def test_without_the_packages_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ValueError, match=r"^ONNX needs the packages onnx and onnxruntime, which"):
        onnx_model(describe(random_model(width=2, levels=0)))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(fino.PRETRAINED))
def test_every_shipped_model_steps_alike_in_onnx_on_three_unseen_sizes(
    name, real_start, allowed_difference
):
    model, step = fino.pretrained(name), exported(fino.pretrained(name))
    steps = 1 if model.settings.steady else 20
    for times in (1,) if model.settings.coordinates else (2, 3, 4):
        given = real_start(name, times)
        expected = rollout(model, given, steps)[0]
        got = rollout(step, given, steps)[0]
        assert relative_difference(got, expected) < allowed_difference(name, given, steps)
