"""Errors by stretch of time, and sums that drift, where both are known."""

import pytest
import torch

from lab.bench_vrmse import drift, vrmse_between


def test_the_vrmse_of_a_stretch_is_the_error_over_the_spread_there():
    truth = torch.randn(3, 6, 2, 16, 16, dtype=torch.float64)
    spread = truth.std((-1, -2), unbiased=False, keepdim=True)
    share = torch.tensor([9.0, 0.1, 0.2, 0.3, 9.0, 9.0])[:, None, None, None]
    prediction = truth + share * spread
    times = 0.1 * torch.arange(1, 7)
    mean, steps = vrmse_between(prediction, truth, times, 0.2, 0.4)
    assert (mean, steps) == (pytest.approx(0.2), 3)


def test_drift_is_the_change_of_a_sum():
    start = torch.ones(2, 1, 8, 8)
    prediction = torch.ones(2, 3, 1, 8, 8)
    assert drift(prediction, start) == 0
    prediction[1, 2] += 0.25
    assert drift(prediction, start) == pytest.approx(0.25)
