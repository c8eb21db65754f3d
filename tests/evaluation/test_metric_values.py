"""Every metric: exact on cases worked out by hand, and equal to plain numpy on random ones."""

import math

import numpy as np
import pytest
import torch

from fino.evaluation.tally import Tally
from fino.grid import Grid
from fino.metrics import (
    METRICS,
    area_weights,
    boundary_rmse,
    conserved_error,
    correlation,
    correlation_time,
    fourier_error,
    max_error,
    nrmse,
    rmse,
    vrmse,
)
from fino.metrics.scores import score
from fino.metrics.spectrum import bands_of, shells, spectrum


def pair(space, samples=5, times=3, channels=2, seed=0):
    stream = torch.Generator().manual_seed(seed)
    shape = (samples, times, channels, *space)
    truth = torch.randn(shape, generator=stream)
    return truth + 0.3 * torch.randn(shape, generator=stream) + 0.1, truth


def in_1d(*values):
    return torch.tensor(values, dtype=torch.float64)[None, None, None]


def test_four_points_by_hand():
    truth, prediction = in_1d(3.0, 0.0, 0.0, 4.0), in_1d(4.0, 2.0, 0.0, 6.0)
    # errors 1, 2, 0, 2: squares sum to 9 over 4 points; the truth's squares sum to 25.
    assert rmse(prediction, truth).item() == pytest.approx(1.5, abs=1e-12)
    assert nrmse(prediction, truth).item() == pytest.approx(3 / 5, abs=1e-12)
    assert max_error(prediction, truth).item() == 2.0
    assert conserved_error(prediction, truth).item() == pytest.approx(5 / 4, abs=1e-12)
    assert boundary_rmse(prediction, truth).item() == pytest.approx(math.sqrt(5 / 2), abs=1e-12)


def test_edges_of_a_square_are_counted_once():
    truth = torch.zeros(1, 1, 1, 3, 4)
    prediction = truth.clone()
    prediction[..., 0, 0] = 2.0  # a corner
    prediction[..., 1, 1] = 9.0  # inside: not seen
    # 12 cells, 2 of them inside: 4 / 10.
    assert boundary_rmse(prediction, truth).item() == pytest.approx(math.sqrt(0.4), abs=1e-12)


def test_a_cosine_error_has_one_amplitude():
    x = torch.arange(16, dtype=torch.float64) / 16
    truth = torch.zeros(1, 1, 1, 16)
    prediction = 3.0 * torch.cos(2 * torch.pi * 5 * x)[None, None, None]
    value = fourier_error(prediction, truth)[0, 0, 0]
    # All modes: the pair ±5 carries (3/2)² twice.
    assert value[5].item() == pytest.approx(3 / math.sqrt(2), abs=1e-12)
    assert value.sum().item() == pytest.approx(3 / math.sqrt(2), abs=1e-12)
    # Shells 4–8 exist on 16 points; their mean is a fifth.
    assert score("frmse_mid", prediction, truth) == pytest.approx(3 / math.sqrt(2) / 5, abs=1e-12)
    assert score("frmse_low", prediction, truth) == pytest.approx(0.0, abs=1e-12)


def test_a_diagonal_wave_lives_in_its_shell_whatever_its_direction():
    x, y = torch.meshgrid(*[torch.arange(8, dtype=torch.float64) / 8] * 2, indexing="ij")
    for sign in (1, -1):
        wave = torch.cos(2 * torch.pi * (2 * x + sign * 2 * y))[None, None, None]
        energy = spectrum(wave)[0, 0, 0]
        assert energy[2].item() == pytest.approx(0.5, abs=1e-12)  # ⌊√8⌋ = 2
        assert energy.sum().item() == pytest.approx(0.5, abs=1e-12)


@pytest.mark.parametrize("space", [(16,), (9,), (8, 12), (5, 7), (4, 6, 5)])
def test_the_shells_share_out_the_whole_energy(space):
    u = pair(space)[0]
    whole = u.double().square().flatten(3).mean(-1)
    torch.testing.assert_close(spectrum(u).sum(-1), whole, rtol=1e-12, atol=1e-12)


def numpy_scores(prediction, truth):
    """The same definitions, written again, without a line of the package."""
    p, q = prediction.numpy().astype(np.float64), truth.numpy().astype(np.float64)
    samples, times, channels, space = *p.shape[:3], p.shape[3:]
    axes = tuple(range(3, p.ndim))
    e = p - q
    rms = np.sqrt((e**2).mean(axes))
    out = {
        "rmse": rms.mean(),
        "nrmse": (rms / np.sqrt((q**2).mean(axes))).mean(),
        "max_error": np.abs(e).max((0, *axes)).mean(),
        "crmse": np.sqrt((p.mean(axes) - q.mean(axes)) ** 2).tolist(),
    }
    out["crmse"] = np.sqrt((np.array(out["crmse"]) ** 2).mean(0)).mean()
    edge = [
        index
        for index in np.ndindex(*space)
        if any(i in (0, n - 1) for i, n in zip(index, space, strict=True))
    ]
    at_edge = np.stack([e[(..., *index)] for index in edge], -1)
    out["brmse"] = np.sqrt((at_edge**2).mean(-1)).mean()
    energy = np.zeros((samples, times, channels, 1 + sum(space)))
    modes = np.fft.fftn(e, axes=axes) / np.prod(space)
    for index in np.ndindex(*space):
        signed = [i if i <= n // 2 else i - n for i, n in zip(index, space, strict=True)]
        shell = math.isqrt(sum(m * m for m in signed))
        energy[..., shell] += np.abs(modes[(..., *index)]) ** 2
    used = 1 + max(
        math.isqrt(sum(m * m for m in index)) for index in np.ndindex(*[n // 2 + 1 for n in space])
    )
    shell_rms = np.sqrt(energy[..., :used].mean(0))
    for name, part in {"low": slice(0, 4), "mid": slice(4, 12), "high": slice(12, None)}.items():
        if shell_rms[..., part].size:
            out[f"frmse_{name}"] = shell_rms[..., part].mean()
    lasted = []
    for b in range(samples):
        steps = 0
        for t in range(times):
            together = [
                np.corrcoef(p[b, t, c].ravel(), q[b, t, c].ravel())[0, 1] for c in range(channels)
            ]
            if np.mean(together) < 0.9:
                break
            steps += 1
        lasted.append(steps)
    out["correlation_time"] = np.mean(lasted)
    return out


@pytest.mark.parametrize("space", [(32,), (9,), (20, 30), (7, 5), (4, 6, 5)])
@pytest.mark.parametrize("noise", [0.3, 0.5])
def test_every_metric_agrees_with_plain_numpy(space, noise):
    truth = pair(space, seed=1)[1]
    prediction = truth + noise * (pair(space, seed=2)[1])
    for name, value in numpy_scores(prediction, truth).items():
        assert score(name, prediction, truth) == pytest.approx(value, rel=1e-9), name


def test_the_correlation_sees_patterns_and_not_sizes():
    truth = torch.sin(torch.arange(12.0))[None, None, None]
    assert correlation(3 * truth + 7, truth).item() == pytest.approx(1.0, abs=1e-9)
    assert correlation(-truth, truth).item() == pytest.approx(-1.0, abs=1e-9)
    flat = torch.ones_like(truth)
    assert correlation(flat, truth).item() == 0.0
    assert correlation(flat, 2 * flat).item() == 1.0


def test_the_correlation_time_stops_at_the_first_loss():
    truth = torch.sin(torch.arange(12.0)).expand(1, 4, 1, 12).clone()
    prediction = truth.clone()
    prediction[:, 2] = -prediction[:, 2]
    assert correlation_time(prediction, truth).item() == 2.0
    assert correlation_time(truth, truth).item() == 4.0


def test_a_field_of_zeros_predicted_exactly_is_not_wrong():
    zero = torch.zeros(2, 1, 1, 4)
    assert score("nrmse", zero, zero) == 0.0
    assert score("nrmse", zero + 1, zero) == math.inf


def test_a_blow_up_scores_infinity_and_not_nan():
    prediction, truth = pair((16, 16))
    prediction[0, 0, 0, 3, 3] = torch.nan
    for name in ("rmse", "nrmse", "max_error", "crmse", "frmse_low"):
        assert score(name, prediction, truth) == math.inf, name
    assert math.isfinite(score("correlation_time", prediction, truth))


def test_error_over_time_averages_to_the_score():
    prediction, truth = pair((8, 8))
    tally = Tally([METRICS["rmse"]], None)
    tally.add(prediction, truth)
    series = tally.over_time("rmse")
    assert len(series) == 3
    assert sum(series) / 3 == pytest.approx(score("rmse", prediction, truth), rel=1e-12)


def test_area_weights_follow_the_cosine_of_latitude():
    grid = Grid((2, 3), ((-90.0, 90.0), (0.0, 360.0)), ("neumann", "periodic"))
    torch.testing.assert_close(area_weights(grid), torch.ones(2, 3, dtype=torch.float64))
    finer = area_weights(Grid((3, 1), ((90.0, -90.0), (0.0, 360.0)), ("neumann", "periodic")))
    # Latitudes 60, 0, −60: cosines ½, 1, ½, whose mean is ⅔.
    expected = torch.tensor([[0.75], [1.5], [0.75]], dtype=torch.float64)
    torch.testing.assert_close(finer, expected)
    truth = torch.zeros(1, 1, 1, 3, 1)
    prediction = truth.clone()
    prediction[..., 1, 0] = 2.0
    assert score("rmse_area", prediction, truth, weights=finer) == pytest.approx(math.sqrt(2))
    assert score("crmse_area", prediction, truth, weights=finer) == pytest.approx(1.0)
    assert score("rmse", prediction, truth, weights=finer) == pytest.approx(math.sqrt(4 / 3))


def test_a_grid_that_is_no_sphere_is_refused():
    with pytest.raises(ValueError, match="latitudes between -90 and 90 degrees"):
        area_weights(Grid((4, 4), ((0.0, 360.0), (0.0, 1.0)), "periodic"))


def test_small_grids_have_no_high_band():
    assert bands_of((16,)) == ("low", "mid")
    assert bands_of((64, 64)) == ("low", "mid", "high")
    assert not METRICS["frmse_high"].applies_to((16,), 5, False)
    assert not METRICS["correlation_time"].applies_to((64,), 1, False)
    assert int(shells((8, 8)).max()) == 5  # the corner mode (4, 4)


def test_mistakes_are_answered_in_one_line():
    prediction, truth = pair((8,))
    with pytest.raises(ValueError, match=r"Unknown metric 'nrms'. Did you mean 'nrmse'?"):
        score("nrms", prediction, truth)
    with pytest.raises(ValueError, match=r"Unknown convention 'mine'. Use 'fino' or 'pdebench'."):
        score("nrmse", prediction, truth, convention="mine")
    with pytest.raises(ValueError, match=r"the shape of the truth, \(5, 3, 2, 8\), got"):
        score("nrmse", prediction[:, :2], truth)


def test_the_error_relative_to_the_spread_is_one_for_the_mean_and_blind_to_an_offset():
    truth = torch.rand(2, 3, 2, 16, 8, dtype=torch.float64)
    mean = truth.mean(dim=(3, 4), keepdim=True).expand_as(truth)
    torch.testing.assert_close(vrmse(mean, truth), torch.ones(2, 3, 2, dtype=torch.float64))
    near = truth + 0.01 * torch.rand_like(truth)
    torch.testing.assert_close(vrmse(near + 5, truth + 5), vrmse(near, truth))
    flat = torch.full_like(truth, 4.0)
    assert (vrmse(flat, flat) == 0).all()
    torch.testing.assert_close(vrmse(flat + 0.004, flat), torch.ones_like(vrmse(flat, flat)))


def test_a_frame_at_rest_is_measured_against_a_hundredth_of_its_trajectory():
    """A wave of size one that dies: RMS 1, 1, 0, 0, so 1/√2 over the trajectory."""
    truth = (
        torch.tensor([1.0, 1.0, 0.0, 0.0], dtype=torch.float64).view(1, 4, 1, 1).repeat(1, 1, 1, 8)
    )
    wrong = truth + 1e-3
    found = METRICS["nrmse"].per_sample(wrong, truth).flatten()
    expected = [1e-3, 1e-3, 0.1 * 2**0.5, 0.1 * 2**0.5]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))
    assert METRICS["nrmse"].per_sample(truth, truth).abs().max() == 0
    assert (
        METRICS["vrmse"]
        .per_sample(wrong * torch.arange(8), truth * torch.arange(8))
        .isfinite()
        .all()
    )
