"""The linear prior of an emulator, read as frames that are copied or as an equation."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fino.grid import Grid
from fino.inspection.amplification import step_amplification
from fino.inspection.growth import BufferStep, lipschitz
from fino.inspection.layers import prior_report
from fino.inspection.operator_norm import layer_bound
from fino.model import MODELS
from fino.model.emulator import Emulator, EmulatorSettings
from fino.report.inspection_words import describe_prior

H, DT = 1 / 16, 0.01


def emulator(predict: str, boundary: str = "periodic", **facts) -> Emulator:
    """An emulator of 16 cells whose network says nothing."""
    grid = Grid((16,), ((0.0, 1.0),), (boundary,))
    settings = EmulatorSettings(
        **{"model": "fino", "fields": ("u",), "history": 2, "dt": DT, "predict": predict, **facts}
    )
    network = MODELS["fino"](
        dims=1, inputs=settings.inputs(grid), outputs=settings.channels, width=2, levels=0,
        boundary=boundary, gate=False,
    )  # fmt: skip
    torch.nn.init.zeros_(network.head.weight)
    torch.nn.init.zeros_(network.head.bias)
    return Emulator(network, settings, grid).eval()


def with_heat(model: Emulator, nu: float, speed: float) -> Emulator:
    """The scheme of uₜ + c uₓ = ν uₓₓ in the middle of the emulator's own."""
    central, second = np.array([-0.5, 0, 0.5]) / H, np.array([1.0, -2, 1]) / H**2
    weights = np.array([0, 1.0, 0]) + DT * (nu * second - speed * central)
    model.prior.weight.copy_(torch.from_numpy(weights).expand_as(model.prior.weight))
    return model


def test_a_scheme_is_read_as_its_equation() -> None:
    found = prior_report(with_heat(emulator("stencil"), nu=0.05, speed=1.5))
    terms = found.equation["u"]
    assert terms == pytest.approx({("u", (1,)): -1.5, ("u", (2,)): 0.05}, rel=1e-4)
    assert describe_prior(found) == [
        "It adds to a scheme that stands for ∂t u = -1.5 ∂x u +0.05 ∂xx u."
    ]


def test_frames_that_are_copied_are_named_by_their_age() -> None:
    model = emulator("linear", history=5)
    model.prior.weight.zero_()
    model.prior.weight[0] = 1.0
    assert prior_report(model).frames == {5: (1.0,)}
    assert describe_prior(prior_report(model)) == ["It adds to 1.000 × the frame of 5 steps ago."]


def test_the_factors_of_a_bare_scheme_are_the_textbook_ones_even_between_walls() -> None:
    for boundary in ("periodic", "neumann"):
        model = with_heat(emulator("stencil", boundary, edges=True), nu=0.1, speed=0.0)
        found = step_amplification(model, torch.zeros(1), (16,))
        assert found is not None
        k, factors = found.along(0)
        expected = 1 - 4 * 0.1 * DT / H**2 * np.sin(np.pi * k / 16) ** 2
        np.testing.assert_allclose(np.abs(factors), np.abs(expected), atol=1e-5)


def test_the_layer_bound_counts_the_scheme() -> None:
    model = with_heat(emulator("stencil"), nu=0.3, speed=1.0)
    bound = layer_bound(model)
    assert bound is not None
    measured = lipschitz(BufferStep(model, torch.ones(1)), torch.randn(2, 2, 1, 16)).values.max()
    assert measured <= bound.constant <= 1.01 * measured
