"""PDEBench's quirks, one by one, each on numbers that can be checked with a pencil."""

import math

import pytest
import torch

from fino.metrics.pdebench import CONVENTION, of_batch
from fino.metrics.scores import score


def zeros(samples, *space):
    return torch.zeros(samples, 1, 1, *space, dtype=torch.float64)


def close(value):
    return pytest.approx(value, abs=1e-7)


def test_the_sum_over_batches_is_divided_by_one_less():
    truth = zeros(4, 2)
    prediction = truth + torch.tensor([1.0, 2.0, 3.0, 4.0])[:, None, None, None]
    # Batches of two have means 1.5 and 3.5; 5 / (2 − 1) instead of 5 / 2.
    assert score("rmse", prediction, truth, "pdebench", batch=2) == close(5.0)
    assert score("rmse", prediction, truth) == close(2.5)


def test_a_short_last_batch_weighs_as_much_as_a_full_one():
    truth = zeros(3, 2)
    prediction = truth + torch.tensor([1.0, 3.0, 8.0])[:, None, None, None]
    # Means 2 and 8 over one division by (2 − 1).
    assert score("rmse", prediction, truth, "pdebench", batch=2) == close(10.0)
    assert score("rmse", prediction, truth) == close(4.0)


def test_one_batch_cannot_be_scored():
    truth = zeros(4, 2)
    with pytest.raises(ValueError, match="needs two batches or more"):
        score("rmse", truth, truth, "pdebench", batch=4)
    with pytest.raises(ValueError, match="depend on the batch size"):
        score("rmse", truth, truth, "pdebench")


def test_the_relative_error_is_divided_frame_by_frame():
    truth = zeros(2, 2) + torch.tensor([2.0, 4.0])[:, None, None, None]
    # 1/2 and 1/4 in two batches of one.
    assert score("nrmse", truth + 1.0, truth, "pdebench", batch=1) == close(0.75)


def test_the_conserved_error_depends_on_the_batch():
    truth = zeros(4, 2)
    prediction = truth + torch.tensor([1.0, -1.0, 7.0, 1.0])[:, None, None, None]
    # Batches of two: √((1 + 1)/2) = 1 and √((49 + 1)/2) = 5, over one.
    assert score("crmse", prediction, truth, "pdebench", batch=2) == close(6.0)
    # Batches of one: 1 + 1 + 7 + 1 = 10, over three.
    assert score("crmse", prediction, truth, "pdebench", batch=1) == close(10 / 3)
    # Ours: √(52/4), whatever the batch.
    assert score("crmse", prediction, truth) == close(math.sqrt(13))


def test_the_worst_point_is_taken_within_a_batch():
    truth = zeros(4, 2)
    prediction = truth + torch.tensor([1.0, 2.0, 3.0, 4.0])[:, None, None, None]
    assert score("max_error", prediction, truth, "pdebench", batch=2) == close(6.0)
    assert score("max_error", prediction, truth, "pdebench", batch=1) == close(10 / 3)
    assert score("max_error", prediction, truth) == close(4.0)


def test_corners_are_counted_twice():
    truth = zeros(2, 3, 3)
    prediction = truth.clone()
    prediction[:, 0, 0, 0, 0] = 3.0
    prediction[:, 0, 0, 0, 1] = 1.0
    # 9 twice and 1 once, over 2·3 + 2·3 = 12; two batches of one, over one.
    assert of_batch("brmse", prediction, truth) == close(math.sqrt(19 / 12))
    assert score("brmse", prediction, truth, "pdebench", batch=1) == close(2 * math.sqrt(19 / 12))
    # Ours: 10 over the 8 cells at the edge.
    assert score("brmse", prediction, truth) == close(math.sqrt(10 / 8))


def test_two_ends_in_one_dimension():
    truth = zeros(1, 5)
    prediction = truth.clone()
    prediction[..., 0], prediction[..., -1], prediction[..., 2] = 1.0, 3.0, 99.0
    assert of_batch("brmse", prediction, truth) == close(math.sqrt(5))


def test_a_pair_of_modes_is_counted_once_in_one_dimension():
    x = torch.arange(16, dtype=torch.float64) / 16
    prediction = 3.0 * torch.cos(2 * torch.pi * 2 * x).expand(1, 1, 1, 16)
    # |F₂| / n = 3/2, averaged over k = 0 … 3; ours counts ±2: 3/√2 over the same four.
    assert of_batch("frmse_low", prediction, zeros(1, 16)) == close(1.5 / 4)
    assert score("frmse_low", prediction, zeros(1, 16)) == close(3 / math.sqrt(2) / 4)


def test_only_the_positive_quadrant_is_seen_in_two_dimensions():
    x, y = torch.meshgrid(*[torch.arange(8, dtype=torch.float64) / 8] * 2, indexing="ij")
    along = torch.cos(2 * torch.pi * (x + 2 * y)).expand(1, 1, 1, 8, 8)
    against = torch.cos(2 * torch.pi * (x - 2 * y)).expand(1, 1, 1, 8, 8)
    truth = zeros(1, 8, 8)
    # (1, 2) is in the quadrant, in shell 2, with |F|/64 = 1/2; its mirror image is not.
    assert of_batch("frmse_low", along, truth) == close(0.5 / 4)
    assert of_batch("frmse_low", against, truth) == close(0.0)
    for wave in (along, against):
        assert score("frmse_low", wave, truth) == close(math.sqrt(0.5) / 4)


def test_shells_from_half_the_grid_on_are_dropped():
    x, y = torch.meshgrid(*[torch.arange(8, dtype=torch.float64) / 8] * 2, indexing="ij")
    corner = torch.cos(2 * torch.pi * (3 * x + 3 * y)).expand(1, 1, 1, 8, 8)
    truth = zeros(1, 8, 8)
    # ⌊√18⌋ = 4 = 8/2: not among its shells 0 … 3, and there is no middle band at all.
    assert of_batch("frmse_low", corner, truth) == close(0.0)
    assert math.isnan(of_batch("frmse_mid", corner, truth))
    # Ours has shells 4 and 5 there.
    assert score("frmse_mid", corner, truth) == close(math.sqrt(0.5) / 2)


def test_samples_of_a_batch_share_their_spectrum():
    x = torch.arange(8, dtype=torch.float64) / 8
    wave = torch.cos(2 * torch.pi * x)
    prediction = torch.stack([2 * wave, 4 * wave])[:, None, None]
    # √((1 + 4)/2) in one batch of two, over four modes.
    assert of_batch("frmse_low", prediction, zeros(2, 8)) == close(math.sqrt(2.5) / 4)


def test_what_it_does_not_have_is_refused():
    truth = zeros(2, 4)
    with pytest.raises(ValueError, match="has no metric 'correlation_time'"):
        of_batch("correlation_time", truth, truth)
    with pytest.raises(ValueError, match="one and two dimensions, got 3"):
        of_batch("rmse", zeros(2, 4, 4, 4), zeros(2, 4, 4, 4))
    assert set(CONVENTION) >= {"rmse", "nrmse", "crmse", "brmse", "max_error", "frmse_high"}
