"""Rain from radar images: small files in the layouts of KNMI and ODIM, made here."""

from __future__ import annotations

import numpy as np
import pytest
from radar_images import rain, seen, write_knmi, write_odim

import fino
from fino.data.split import split_in_time


def test_images_of_knmi_become_one_trajectory_of_log_rain_inside_the_range(tmp_path):
    data = fino.open(write_knmi(tmp_path / "knmi"))
    assert data.shape == (1, 24, 1, 32, 32)
    assert data.dt == 5.0
    assert data.card.parameters["last"] == "2010-08-26 01:55"
    inside = data.everything.mask(0).numpy()
    assert inside.sum() == seen().sum()
    truth = np.log1p(np.round(rain(7) / 12 * 100) * 0.12)
    ours = data.read([0])[0, 7, 0][inside]
    np.testing.assert_allclose(np.sort(ours), np.sort(truth[seen()]), 1e-5)
    assert not data.read([0])[0, 7, 0][~inside].any()


@pytest.mark.parametrize("quantity", ["RATE", "DBZH"])
def test_odim_images_give_the_same_rain_from_rates_and_from_reflectivity(tmp_path, quantity):
    data = fino.open(write_odim(tmp_path / "odim", quantity))
    assert (data.dt, data.grid.spacing) == (10.0, (2.0, 2.0))
    inside = data.everything.mask(0).numpy()
    truth = np.log1p(rain(3) + 0.1)[seen()]
    np.testing.assert_allclose(np.sort(data.read([0])[0, 3, 0][inside]), np.sort(truth), atol=0.01)


def test_a_missing_image_is_named(tmp_path):
    with pytest.raises(ValueError, match="the image after 2010-08-26 00:25 is 10 minutes later"):
        fino.open(write_knmi(tmp_path / "knmi", skip=(6,)))


def test_a_single_image_is_refused(tmp_path):
    with pytest.raises(ValueError, match="a single image has no next one: give a folder"):
        fino.open(write_knmi(tmp_path / "knmi", frames=1))


def test_an_image_of_something_else_is_refused(tmp_path):
    with pytest.raises(ValueError, match="it holds 'VRADH', not a rain rate"):
        fino.open(write_odim(tmp_path / "odim", "VRADH"))


def test_windows_of_one_trajectory_predict_the_test_frames_after_all_others(tmp_path):
    data = fino.open(write_knmi(tmp_path / "knmi"), window=6, test=8, validation=4)
    assert data.shape[:2] == (19, 6)
    last = {part: max(getattr(data, part).samples) + 5 for part in ("train", "validation", "test")}
    assert last == {"train": 11, "validation": 15, "test": 23}
    assert min(data.validation.samples) + 4 == 12
    assert min(data.test.samples) + 4 == 16
    whole = fino.open(tmp_path / "knmi").read([0])
    assert data.test[0].future.equal(whole[0, 16:18])
    assert data.read([3], start=1, length=2).equal(whole[:, 4:6])


def test_windows_of_several_trajectories_stay_in_their_parts():
    u = np.random.default_rng(0).normal(size=(10, 9, 1, 8))
    nu = np.arange(10.0)
    data = fino.from_array(u, dt=1, extent=(0, 1), boundary="periodic", parameters={"nu": nu})
    cut = data.windows(4)
    assert len(cut) == 60
    assert len(cut.test) == 6 * len(data.test)
    assert cut.parameters["nu"][cut.test.samples[-1]] == nu[data.test.samples[-1]]


def test_a_short_trajectory_leaves_room_for_one_window_in_each_part():
    split = split_in_time(60, 16, 8)
    assert [len(split.samples(part)) for part in ("train", "validation", "test")] == [29, 1, 1]


def test_a_window_without_room_is_refused_in_a_line():
    data = fino.from_array(np.zeros((1, 9, 1, 8)), dt=1, extent=(0, 1), boundary="periodic")
    with pytest.raises(ValueError, match="a window should have 2 to 9 frames"):
        data.windows(10)
    with pytest.raises(ValueError, match="the train part has no room for a window of 6 frames"):
        split_in_time(12, 6, 2, test=5, validation=4)


def test_a_model_learns_the_motion_of_a_shower_and_beats_persistence(tmp_path):
    data = fino.open(write_knmi(tmp_path / "knmi", frames=16), window=6, test=4, validation=0)
    model = fino.build("fino", data, width=4, levels=1, predict="moved", history=2, edges=False)
    np.testing.assert_allclose(model.prior.velocity[0], [2, 1], atol=0.3)
    settings = {"crop": 16, "halo": False, "horizon": 2, "steps": 20, "batch": 1}
    run = fino.fit(model, data, out=tmp_path / "run", **settings)
    scores = fino.evaluate(run)
    assert scores.metrics["nrmse"].value < scores.baselines["persistence"]["nrmse"].value
