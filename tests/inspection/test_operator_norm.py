"""Operator norms by FFT against the norms of the matrices themselves."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fino.grid import Grid
from fino.inspection.growth import BufferStep, lipschitz
from fino.inspection.layers import gate_reports
from fino.inspection.operator_norm import convolution_norm, layer_bound
from fino.model import MODELS
from fino.model.convolution import Convolution
from fino.model.emulator import Emulator, EmulatorSettings


def dense_norm(layer: Convolution, points: tuple[int, ...]) -> float:
    inputs = layer.weight.shape[1]
    shape = (1, inputs, *points)
    matrix = torch.autograd.functional.jacobian(
        lambda u: layer(u.view(shape)).flatten(), torch.zeros(int(np.prod(shape))).double()
    )
    return float(torch.linalg.matrix_norm(matrix, 2))


@pytest.mark.parametrize("points", [(12,), (6, 8), (2,)])
def test_the_norm_of_a_periodic_stencil_is_exact(points: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    dims = len(points)
    layer = Convolution(3, 2, (1,) * dims, ("periodic",) * dims).double()
    assert convolution_norm(layer, points) == pytest.approx(dense_norm(layer, points), rel=1e-9)


@pytest.mark.parametrize("boundary", ["dirichlet", "neumann", "reflect"])
def test_at_a_wall_the_norm_is_bounded_from_above(boundary: str) -> None:
    torch.manual_seed(1)
    for radius in (1, 2):
        layer = Convolution(2, 3, (radius, 1), (boundary, "periodic")).double()
        known = dense_norm(layer, (6, 4))
        assert known <= convolution_norm(layer, (6, 4)) <= 3 * known


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("fino", {"width": 4, "levels": 1}),
        ("fino", {"width": 4, "levels": 0, "gate": False, "activation": "gelu"}),
        ("fino", {"width": 4, "levels": 1, "patch": 2}),
        ("fino", {"width": 4, "levels": 1, "patch": 2, "flux": True}),
        ("unet", {"width": 3, "levels": 1}),
    ],
)
@pytest.mark.parametrize("predict", ["frame", "increment"])
def test_the_layer_bound_lies_above_the_measured_constant(
    name: str, settings: dict, predict: str
) -> None:
    grid = Grid((16,), ((0.0, 1.0),), ("periodic",))
    torch.manual_seed(0)
    network = MODELS[name](dims=1, inputs=3, outputs=1, boundary="periodic", **settings)
    facts = EmulatorSettings(model=name, fields=("u",), history=3, predict=predict)
    emulator = Emulator(network, facts, grid).eval()
    history = torch.randn(4, 3, 1, 16)
    seen = gate_reports(emulator, history)
    bound = layer_bound(emulator, {g.block: (g.largest, g.sensitivity) for g in seen})
    assert bound is not None
    measured = lipschitz(BufferStep(emulator, torch.ones(1)), history).values.max()
    assert measured <= bound.constant
    assert len(bound.layers) >= 3


def test_gates_that_no_data_opened_have_no_bound() -> None:
    grid = Grid((16,), ((0.0, 1.0),), ("periodic",))
    network = MODELS["fino"](dims=1, inputs=1, outputs=1, width=4, levels=0)
    facts = EmulatorSettings(model="fino", fields=("u",), history=1)
    assert layer_bound(Emulator(network, facts, grid)) is None
