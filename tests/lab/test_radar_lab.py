"""The lab of the radar rain: its scores, and a page that says what is kept."""

from __future__ import annotations

import json

import numpy as np
import pytest
from radar_images import write_knmi

from lab import radar as room
from lab.radar_page import draw_movie, draw_scores, headline, tables, write_page


def disc(n=48):
    y, x = np.mgrid[:n, :n]
    return (y - n // 2) ** 2 + (x - n // 2) ** 2 < (n // 2 - 2) ** 2


def images(frames=12, n=48):
    y, x = np.mgrid[:n, :n]
    return np.stack([np.exp(-((x - 8 - 2 * t) ** 2 + (y - 24) ** 2) / 30) for t in range(frames)])


def test_a_perfect_forecast_has_no_error_and_every_hit():
    u, mask = images(), disc()
    found = room.join([room.score(u, u, u[0], mask)])
    assert found["nrmse"] == [0.0] * 12
    assert found["csi"]["0.1"] == [1.0] * 12
    assert found["spectra"]["spectrum"] == found["spectra"]["truth"]


def test_unknown_cells_are_filled_in_the_way_that_is_better_for_the_method():
    u, mask = images(), disc()
    unknown = np.full_like(u, np.nan)
    found = room.join([room.score(unknown, u, u[0], mask)])
    assert found["nrmse"][0] == 0.0  # the last image again is right for the first frame
    assert found["nrmse"][-1] == 1.0  # and zero is better than a shower in the wrong place


def test_one_shift_for_all_follows_a_shower_that_moves():
    u, mask = images(16), disc()
    moved = room.shift_all(u[:4], mask, np.array([0.0, 2.0]))
    known = np.isfinite(moved[3]) & mask
    np.testing.assert_allclose(moved[3][known], u[7][known], atol=1e-2)


def test_matching_keeps_the_order_of_a_forecast_and_takes_the_values_of_the_last_image():
    u, mask = images(), disc()
    matched = room.match(0.3 * u, u[0], mask)
    np.testing.assert_array_equal(np.sort(matched[5][mask]), np.sort(u[0][mask]))
    assert matched[5][mask].argmax() == u[5][mask].argmax()


def test_a_blurred_image_loses_power_at_short_waves_only():
    rough = np.random.default_rng(0).normal(size=(48, 48))
    smooth = sum(np.roll(rough, k, axis) for axis in (0, 1) for k in (-1, 0, 1)) / 6
    ratio = np.array(room.spectrum(smooth, disc())) / room.spectrum(rough, disc())
    assert ratio[:3].mean() > 0.8 and ratio[-3:].mean() < 0.3


@pytest.fixture
def small(monkeypatch):
    """Networks and trainings of seconds, and no pysteps."""
    models = {"fino": {"width": 4, "levels": 1, "predict": "flow"}, "unet": {"width": 2}}
    models["fino-shift"] = {**models["fino"], "predict": "moved"}
    monkeypatch.setattr(room, "MODELS", models)
    little = {"crop": 16, "horizon": 2, "validations": 1}
    monkeypatch.setattr(room, "TRAINING", {**room.TRAINING, **little})
    kinds = {name: room.shift_all for name in room.BASELINES}
    monkeypatch.setattr(room, "BASELINES", {**kinds, "persistence": room.persist})
    monkeypatch.setattr(room, "extrapolate", room.shift_all)


def test_models_are_trained_scored_and_drawn(tmp_path, small):
    folder = write_knmi(tmp_path / "knmi", frames=40)
    room.radar(folder, out=tmp_path / "out", steps=2, members=2, test=13)
    found = json.loads((tmp_path / "out" / "scores.json").read_text())
    models = ("fino", "fino-shift", "unet", "fino-mean")
    assert set(found["methods"]) == {
        *room.BASELINES, *models, *(f"{name}-matched" for name in models)
    }  # fmt: skip
    assert found["tiles"] < 1e-5
    room.radar(folder, out=tmp_path / "out", steps=2, members=2, test=13)  # goes on, or is done
    data = room.open_data(folder, window=16, test=13, validation=0)
    hour = room.last_hour(data, room.Run(tmp_path / "out" / "fino", data=data))
    assert draw_movie(hour, tmp_path / "a.gif").stat().st_size > 1000
    assert draw_scores(found, tmp_path / "a.png").exists()


def test_settings_are_chosen_by_images_before_the_last_hours(tmp_path, small):
    folder = write_knmi(tmp_path / "knmi", frames=48)
    room.radar(folder, out=tmp_path / "out", steps=2, members=2, test=13, held=14)
    found = json.loads((tmp_path / "out" / "scores.json").read_text())
    data = room.open_data(folder, window=16, test=13, validation=14)
    assert found["origins"] == len(data.validation) == 3
    mask, rows = room.inside_of(data), []
    for sample in data.validation:
        past, truth = sample.history[:, 0].numpy(), sample.future[:, 0].numpy()
        rows.append(room.score(room.persist(past, mask, None), truth, past[-1], mask))
    assert found["methods"]["persistence"]["nrmse"] == room.join(rows)["nrmse"]
    with pytest.raises(ValueError, match="there to choose by"):
        room.radar(folder, out=tmp_path / "out", held=14, keep=True)


@pytest.mark.skipif(not room.KEPT.exists(), reason="no scores are kept")
def test_the_page_and_the_readme_say_what_is_kept():
    found = json.loads(room.KEPT.read_text())
    root = room.KEPT.parents[2]
    assert tables(found) in (root / "docs" / "radar.md").read_text()
    assert headline(found) in (root / "README.md").read_text()


def test_a_page_without_marks_is_refused(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("no marks")
    found = {
        "methods": {}, "cpu_seconds": {"fino": 60, "unet": 60}, "steps": {"fino": 9, "unet": 9},
        "origins": 1, "tiles": 0.0,
        "weights": {"fino": 1, "unet": 1}, "minutes": 5,
    }  # fmt: skip
    line = {"nrmse": [1.0] * 12, "csi": {h: [0.5] * 12 for h in ("0.1", "1", "5")}}
    power = [[1.0] * 99] * 2
    line["spectra"] = {"spectrum": power, "truth": power}
    found["methods"] = dict.fromkeys(("fino", "fino-matched", "sprog", "extrapolation"), line)
    found["methods"] |= dict.fromkeys(("unet", "persistence", "shift"), line)
    with pytest.raises(ValueError, match=r"has no <!-- scores --> … <!-- end of scores --> to"):
        write_page(found, page, page)
