"""Bands hold as many cells as they promise, however the rollout is computed."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

import fino
from fino.given import Given
from fino.trust.bands import _KEPT, Bands, _quantiles_left_out, _rms_in_scales, calibrate

FRAMES = 12


def noisy(samples=80, points=(24,), seed=0, boundary="periodic", **facts):
    """Random walks in every cell, rougher in one half of the domain: nobody can predict them."""
    draw = np.random.default_rng(seed)
    steps = draw.normal(size=(samples, FRAMES, 1, *points)) * 0.1
    steps[..., : points[-1] // 2] *= 5
    u = steps.cumsum(axis=1)
    return fino.from_array(
        u, dt=0.1, extent=((0, 1),) * len(points), boundary=boundary, history=2, **facts
    )


def model_for(data):
    model = fino.build("fino", data, predict="increment", width=4, levels=0).eval()
    model.output_std.fill_(1e-3)
    model.trust = calibrate(model, data)
    return model


@pytest.fixture(scope="module")
def walks():
    data = noisy().with_split(train=20, validation=40, test=20)
    return model_for(data), data


def held(model, part, interval):
    shares = []
    for sample in part:
        found = fino.rollout(model, sample, len(sample.future), interval=interval)
        inside = (sample.future >= found.lower) & (sample.future <= found.upper)
        shares.append(float(inside.float().mean()))
    return float(np.mean(shares))


@pytest.mark.parametrize("interval", [0.5, 0.8, 0.95])
def test_a_band_holds_as_many_cells_as_it_promises(walks, interval):
    model, _ = walks
    fresh = noisy(60, seed=1).with_split(train=0, test=60)
    assert held(model, fresh.test, interval) == pytest.approx(interval, abs=0.04)


def test_a_few_trajectories_of_unlike_size_are_enough_for_a_band_that_holds():
    """Twenty trajectories, each with an error size of its own, and 400 new ones, many times."""
    draw = torch.Generator().manual_seed(0)

    def errors(count):
        size = torch.exp(0.8 * torch.randn(count, 1, generator=draw, dtype=torch.float64))
        return (size * torch.randn(count, 100, generator=draw, dtype=torch.float64)).abs()

    shares = []
    for _ in range(100):
        found = dict(zip(_KEPT, _quantiles_left_out(errors(20)), strict=True))
        shares.append((errors(400) <= found[0.9]).double().mean())
    assert 0.885 < float(torch.stack(shares).mean()) < 0.915


def test_bands_of_earlier_versions_are_taken_as_they_were_calibrated(walks):
    model, _ = walks
    bands = Bands.of(model)
    assert bands.left_out and bands.level(0.9) == 0.9
    kept = {name: value for name, value in vars(bands).items() if name != "left_out"}
    assert Bands(**kept).level(0.9) == pytest.approx(0.9 * 41 / 40)


def test_bands_grow_with_lead_time_and_are_wider_where_errors_are_larger(walks):
    model, data = walks
    found = fino.rollout(model, data.test.begin(range(20), 2)[0], 10, interval=0.9)
    width = (found.upper - found.lower)[:, :, 0].mean(0)
    assert width[9].mean() > 2 * width[0].mean()
    assert model.trust["bands"]["activity"] != "even"
    assert width[:, 3:9].mean() > 1.3 * width[:, 15:21].mean()


def test_how_errors_grow_is_counted_by_the_whole_field_not_by_its_quietest_cells():
    """A cell without activity, whose small error grows tenfold, leaves that of the field alone."""
    scale = torch.tensor([1.0, 1.0, 0.001, 1.0]).expand(1, 1, 4)
    outside = torch.tensor([False, False, False, True])
    errors = [torch.tensor([0.3, 0.4, quiet, 0.0]).expand(1, 1, 4) for quiet in (0.001, 0.01)]
    first, later = (_rms_in_scales(u.masked_fill(outside, torch.nan), scale) for u in errors)
    assert first.item() == pytest.approx(0.5 / 2**0.5, rel=1e-4)
    assert later.item() == pytest.approx(first.item(), rel=1e-3)


def test_past_the_calibrated_steps_bands_go_on_to_grow(walks):
    model, _ = walks
    bands = Bands.of(model)
    last = bands.leads[-1]
    assert bands.quantile(4 * last, 0.9) > 1.5 * bands.quantile(last, 0.9)


@pytest.mark.parametrize("boundary", ["periodic", "neumann"])
def test_tiles_regions_and_files_give_the_same_band(boundary, tmp_path, monkeypatch):
    data = noisy(40, (24, 20), boundary=boundary).with_split(train=10, validation=20, test=10)
    model, start = model_for(data), data.test[0]
    whole = fino.rollout(model, start, 4, interval=0.9)
    for name, u in zip(("frames", "lower", "upper"), whole, strict=True):
        assert u.shape == (4, 1, 24, 20), name
    monkeypatch.setattr("fino.inference.band._AT_ONCE", 2**6)
    ways = [{"tile": 8}, {"tile": 8, "out": tmp_path / "out.npy"}]
    for way in ways:
        other = fino.rollout(model, start, 4, interval=0.9, **way)
        for u, v in zip(whole, other, strict=True):
            np.testing.assert_allclose(np.asarray(v), u, rtol=1e-5, atol=1e-5)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "out-lower.npy",
        "out-upper.npy",
        "out.npy",
    ]
    span = (18, 28) if boundary == "periodic" else (12, 24)
    some = fino.rollout(model, start, 4, interval=0.9, region=(span, (3, 9)), every=2)
    rows = torch.arange(*span) % 24
    for u, v in zip(whole, some, strict=True):
        np.testing.assert_allclose(v, u[1::2][:, :, rows, 3:9], rtol=1e-5, atol=1e-5)


def test_outside_of_a_mask_a_band_has_no_width():
    outside = np.arange(24) < 6
    data = noisy(mask=outside, walls="neumann").with_split(train=20, validation=40, test=20)
    found = fino.rollout(model_for(data), data.test[0], 4, interval=0.9)
    width = found.upper - found.lower
    assert bool((width[..., :6] == 0).all()) and bool((width[..., 6:] > 0).all())


@pytest.mark.filterwarnings("ignore:Sample 0 starts unlike")  # walks are smooth as they begin
def test_bands_of_an_ensemble_with_parameters_and_a_mask_survive_tiles_save_and_load(tmp_path):
    nu = 1 + np.arange(60) % 7 / 7
    outside = np.arange(24) < 4
    data = noisy(60, parameters={"nu": nu}, mask=outside, walls="neumann")
    data = data.with_split(train=20, validation=30, test=10)
    model = fino.build("fino", data, predict="increment", width=4, levels=0, blocks=2)
    model = model.with_members(3).eval()
    model.output_std.fill_(1e-3)
    model.trust = calibrate(model, data)
    fino.save(model, tmp_path / "model")
    again, start = fino.load(tmp_path / "model"), data.test[0]
    whole = fino.rollout(model, start, 4, interval=0.9)
    for ways in ({"tile": 8}, {"parameters": {"nu": float(start.given.parameters[0, 0])}}):
        other = fino.rollout(again, start, 4, interval=0.9, **ways)
        for u, v in zip(whole, other, strict=True):
            torch.testing.assert_close(torch.as_tensor(v).reshape(u.shape), torch.as_tensor(u))
    assert float((whole.upper - whole.lower)[..., 4:].min()) > 0
    with pytest.raises(ValueError, match=r"nu = 9 lies outside of the range"):
        fino.rollout(again, start, 4, parameters={"nu": 9.0}, strict=True, tile=8)


def test_a_rollout_that_diverges_in_calibration_counts_as_far_off(walks):
    _, data = walks
    model = fino.build("fino", data, predict="increment", width=4, levels=0).eval()
    model.output_std.fill_(1e30)
    bands = calibrate(model, data)["bands"]
    assert np.isfinite(json.loads(json.dumps(bands))["quantiles"]).all()


def test_mistakes_are_answered_in_one_line(walks, make_model, make_history):
    model, data = walks
    with pytest.raises(ValueError, match=r"interval should be a share such as 0.9, got 90"):
        fino.rollout(model, data.test[0], 2, interval=90)
    with pytest.raises(
        ValueError, match=r"0\.99 needs at least 99 validation trajectories, .* on 40"
    ):
        fino.rollout(model, data.test[0], 2, interval=0.99)
    bare = make_model((16,))
    with pytest.raises(ValueError, match="This model has no calibrated bands"):
        fino.rollout(bare, make_history(bare), 2, interval=0.9)


def test_fit_calibrates_evaluate_measures_and_the_verb_writes(tmp_path, capsys):
    data = noisy().with_split(train=30, validation=30, test=20)
    from fino.data.store import save

    save(data, tmp_path / "data.h5")
    data = fino.open(tmp_path / "data.h5")
    model = fino.build("fino", data, width=4, levels=0)
    run = fino.fit(model, data, steps=2, batch=2, out=tmp_path / "run")
    assert fino.load(tmp_path / "run" / "model").trust == run.model.trust
    scores = fino.evaluate(run, baselines=False)
    found = scores.trust["coverage"]
    assert found["levels"] == [0.5, 0.8, 0.9, 0.95]
    assert found["held"][2] == pytest.approx(0.9, abs=0.07)
    assert len(found["over_time"][0]) == FRAMES - 2
    assert scores.trust["guards"]["samples"] == 20
    path = tmp_path / "run" / "model" / "trust.json"
    before = json.loads(path.read_bytes())
    path.unlink()
    words = [sys.executable, "-m", "fino"]
    done = subprocess.run(
        [*words, "calibrate", "run"], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert "Bands from 30 validation trajectories" in done.stdout, done.stderr
    again = json.loads(path.read_bytes())
    assert again["bands"]["leads"] == before["bands"]["leads"]
    np.testing.assert_allclose(again["bands"]["quantiles"], before["bands"]["quantiles"], rtol=1e-4)
    more = ["rollout", "run", "--interval", "0.9", "--out", "out.npy"]
    done = subprocess.run(
        [*words, *more], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 0 and "out-upper.npy" in done.stdout, done.stderr
    low, high = (np.load(tmp_path / f"out-{end}.npy") for end in ("lower", "upper"))
    assert (low < np.load(tmp_path / "out.npy")).all() and (low < high).all()


def test_starts_and_bands_take_a_batch(walks):
    model, data = walks
    given, _ = data.test.begin(range(3), 2)
    found = fino.rollout(model, given, 3, interval=0.9)
    assert found.lower.shape == (3, 3, 1, 24)
    one = fino.rollout(model, replace(given, history=given.history[1:2]), 3, interval=0.9)
    torch.testing.assert_close(found.upper[1:2], one.upper)
    assert isinstance(given, Given)
