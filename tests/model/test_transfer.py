"""Training that begins with what another model has learned."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import fino
from fino.model.transfer import begin_from


def noise(fields=("u",), points=16, seed=0):
    u = np.random.default_rng(seed).normal(size=(10, 5, len(fields), points))
    return fino.from_array(u, 0.1, (0, 1), "neumann", fields=fields)


def trained():
    model = fino.build("fino", noise(), history=2, width=4, levels=1, predict="increment")
    with torch.no_grad():
        for weight in model.network.parameters():
            weight.normal_(generator=torch.Generator().manual_seed(1))
    return model


def test_with_the_same_fields_training_begins_at_the_trained_model():
    source = trained()
    model, kept = begin_from(source, noise(points=32, seed=1))
    start = torch.randn(1, 2, 1, 32)
    torch.testing.assert_close(model(start), source(start))
    assert kept == f"all {model.parameters_count} weights, the scaling and the linear prior"


def test_with_other_fields_the_first_and_last_layers_are_widened_and_the_rest_is_kept():
    source = trained()
    model, kept = begin_from(source, noise(("v", "u")))
    old, new = (dict(m.network.named_parameters()) for m in (source, model))
    alike = [name for name in new if new[name].shape == old[name].shape]
    assert alike and all(torch.equal(new[name], old[name]) for name in alike)
    # u is the second of two fields now: its two frames and the markers of the two walls.
    first = "encoder.0.0.operator.stencil.weight"
    assert torch.equal(new[first][:, [1, 3, 4, 5]], old[first])
    assert torch.equal(new["head.weight"][[1]], old["head.weight"])
    assert "fields known from before: u" in kept
    assert model(torch.randn(1, 2, 2, 16)).shape == (1, 2, 16)


def test_data_of_another_kind_are_refused():
    plane = fino.from_array(np.zeros((4, 4, 1, 8, 8)) + np.eye(8), 0.1, (0, 1), "periodic")
    with pytest.raises(ValueError, match="is for 1D moving data, and array is 2D and moving"):
        begin_from(trained(), plane)
