"""Rain from radar images: small files in the layouts of KNMI and ODIM, made here."""

from __future__ import annotations

from datetime import datetime, timedelta

import h5py
import numpy as np
import pytest

import fino
from fino.data.split import split_in_time


def rain(frame, rows=40, columns=36):
    """A shower in mm/h that moves two cells down and one to the right in each image."""
    y, x = np.mgrid[:rows, :columns]
    return 12.0 * np.exp(-((y - 12 - 2 * frame) ** 2 + (x - 10 - frame) ** 2) / 18)


def seen(rows=40, columns=36):
    """The cells within the radar's range."""
    y, x = np.mgrid[:rows, :columns]
    return (y - 20) ** 2 + (x - 18) ** 2 < 15**2


def write_knmi(folder, frames=24, minutes=5, skip=()):
    """Accumulations over five minutes in hundredths of a millimetre; 65535 is out of range."""
    folder.mkdir(exist_ok=True)
    midnight = datetime(2010, 8, 26)
    for frame in set(range(frames)) - set(skip):
        end = midnight + timedelta(minutes=frame * minutes)
        begin = end - timedelta(minutes=5)
        with h5py.File(folder / f"RAD_{end:%H%M}.h5", "w") as file:
            packed = np.where(seen(), np.round(rain(frame) / 12 * 100), 65535).astype("u2")
            image = file.create_group("image1")
            image.attrs["image_geo_parameter"] = b"ACCUMULATED_PRECIPITATION_[MM]"
            image["image_data"] = packed
            words = image.create_group("calibration").attrs
            words["calibration_formulas"] = b"GEO=0.01*PV+0.0"
            words["calibration_missing_data"] = words["calibration_out_of_image"] = [65535]
            times = file.create_group("overview").attrs
            for key, time in (("start", begin), ("end", end)):
                words = time.strftime("%d-%b-%Y;%H:%M:%S.000").upper()
                times[f"product_datetime_{key}"] = [words.encode()]
            where = file.create_group("geographic").attrs
            where["geo_pixel_size_x"], where["geo_pixel_size_y"] = [1.0], [-1.0]
    return folder


def write_odim(folder, quantity="RATE", frames=6):
    """The layout that most services of Europe share."""
    folder.mkdir(exist_ok=True)
    for frame in range(frames):
        with h5py.File(folder / f"{frame:03d}.h5", "w") as file:
            file.attrs["Conventions"] = b"ODIM_H5/V2_2"
            values = rain(frame) + 0.1
            if quantity == "DBZH":
                values = 10 * np.log10(200 * values**1.6)
            packed = np.where(seen(), np.round((values + 32) / 0.01), 65535).astype("u2")
            file["dataset1/data1/data"] = packed
            what = file["dataset1"].create_group("what").attrs
            what["startdate"] = what["enddate"] = b"20240501"
            what["starttime"] = what["endtime"] = f"12{10 * frame:02d}00".encode()
            own = file["dataset1/data1"].create_group("what").attrs
            own["quantity"], own["gain"], own["offset"] = quantity.encode(), 0.01, -32.0
            own["nodata"], own["undetect"] = 65535.0, 0.0
            where = file.create_group("where").attrs
            where["xscale"], where["yscale"] = 2000.0, 2000.0
    return folder


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
