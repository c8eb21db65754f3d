"""Weather maps as NOAA and ECMWF give them."""

import numpy as np
import pytest
from samples import days, era_file, noaa_file

import fino
from fino.data.store import save
from fino.metrics import area_weights


def small_years(folder, years, **grid):
    """A pair of yearly files for each year, on a grid too small for the paper's points."""
    grid = grid or {
        "latitude": np.arange(90, -91, -30.0),
        "longitude": np.arange(0, 360, 45.0),
    }
    for year in years:
        noaa_file(folder / f"air.sig995.{year}.nc", "air", days(year), **grid)
        noaa_file(folder / f"pres.sfc.{year}.nc", "pres", days(year), units="Pascals", **grid)


@pytest.fixture(scope="module")
def ten_years(tmp_path_factory):
    folder = tmp_path_factory.mktemp("noaa")
    small_years(folder, range(2000, 2010))
    return fino.open(folder)


def test_ten_years_of_daily_maps_become_the_papers_split(ten_years):
    data = ten_years
    assert len(data) == 3650 and data.labels[0] == "2000-01-01" and data.labels[-1] == "2009-12-31"
    assert not any(label.endswith("02-29") for label in data.labels)
    assert data.card.name == "climate-daily" and data.steady and data.card.area_weighted
    assert len(data.train) + len(data.validation) == 1825 and len(data.test) == 1825
    assert max(data.labels[i] for i in data.validation.samples) == "2004-12-31"
    assert max(data.train.samples) < min(data.validation.samples)
    assert min(data.labels[i] for i in data.test.samples) == "2005-01-01"


def test_the_papers_points_are_taken_from_noaas_grid_and_unpacked(tmp_path):
    hours = days(2001)[:40]
    noaa_file(tmp_path / "air.sig995.2001.nc", "air", hours)
    noaa_file(tmp_path / "pres.sfc.2001.nc", "pres", hours, units="Pascals")
    period = {"train": ("2001-01", "2001-01"), "test": ("2001-02", "2001-02")}
    with pytest.raises(ValueError, match="temperature lacks 2001-02-10; 2001-02 to 2001-02 are"):
        fino.open(tmp_path, **period)
    hours = days(2001)[:59]
    noaa_file(tmp_path / "air.sig995.2001.nc", "air", hours)
    noaa_file(tmp_path / "pres.sfc.2001.nc", "pres", hours, units="Pascals")
    data = fino.open(tmp_path, **period)
    assert data.shape == (59, 2, 1, 72, 72) and len(data.test) == 28
    latitude, longitude = data.grid.coordinates()
    assert latitude[[0, 1, -1]].tolist() == [90, 87.5, -87.5]
    assert longitude[[0, 1, -1]].tolist() == pytest.approx([0, 5, 355])
    assert data.grid.boundary == ("neumann", "periodic")
    # the packed number is 100·sin(day)·cos(latitude) + longitude index
    day, row, column = 3, 10, 7
    packed = round(100 * np.sin(day) * np.cos(np.deg2rad(latitude[row])) + 2 * column)
    temperature, pressure = data.read([day])[0, :, 0, row, column].tolist()
    assert temperature == pytest.approx(280 + 0.01 * packed, abs=1e-3)
    assert pressure == pytest.approx((98000 + 10 * packed) / 1000, abs=1e-4)


def test_monthly_maps_come_through_the_same_door(tmp_path):
    months = np.arange("1995-01", "2012-01", dtype="datetime64[M]").astype("datetime64[D]")
    hours = (months - np.datetime64("1800-01-01")).astype(float) * 24
    grid = {"latitude": np.arange(90, -91, -30.0), "longitude": np.arange(0, 360, 45.0)}
    air = noaa_file(tmp_path / "air.mon.mean.nc", "air", hours, units="degC", **grid)
    slp = noaa_file(tmp_path / "slp.mon.mean.nc", "slp", hours, units="millibars", **grid)
    data = fino.open([air, slp])
    assert data.card.name == "climate-monthly" and data.shape == (180, 2, 1, 6, 8)
    assert [len(p) for p in (data.train, data.validation, data.test)] == [54, 6, 120]
    assert data.labels[data.test.samples[0]] == "2000-01" and data.labels[-1] == "2009-12"
    temperature, pressure = data.read([0]).mean(dim=(0, 2, 3, 4)).tolist()
    assert temperature == pytest.approx(280 + 273.15, abs=1) and pressure == pytest.approx(101, 0.1)


def test_era_files_hold_both_quantities(tmp_path):
    data = fino.open(era_file(tmp_path / "ERA.nc"))
    assert data.shape == (3, 2, 1, 12, 24) and data.labels == ("2017-02", "2017-03", "2017-04")
    with pytest.raises(ValueError, match=r"ERA\.nc is on a 13 × 24 grid, which lacks some of the"):
        fino.open(tmp_path / "ERA.nc", points="paper")


def test_a_missing_year_is_named(tmp_path):
    small_years(tmp_path, [*range(2000, 2003), *range(2004, 2010)])
    with pytest.raises(ValueError, match=r"temperature lacks the year 2003; 2000-01 to 2004-12"):
        fino.open(tmp_path)
    (tmp_path / "pres.sfc.2001.nc").unlink()
    period = {"train": ("2000-01", "2000-12"), "test": ("2001-01", "2001-12")}
    with pytest.raises(ValueError, match=r"pressure lacks the year 2001; 2001-01 to 2001-12"):
        fino.open(tmp_path, **period)


def test_another_grid_is_named(tmp_path):
    small_years(tmp_path, [2000])
    small_years(
        tmp_path, [2001], latitude=np.arange(90, -91, -45.0), longitude=np.arange(0, 360, 45.0)
    )
    with pytest.raises(ValueError, match=r"2001\.nc is on another grid \(5 × 8\) than .*2000\.nc"):
        fino.open(tmp_path)


def test_other_mistakes_are_one_line_too(tmp_path):
    period = {"train": ("2001-01", "2001-01"), "test": ("2001-02", "2001-02")}
    air = noaa_file(tmp_path / "air.2001.nc", "air", days(2001)[:59])
    with pytest.raises(ValueError, match=r"none of the 1 files has pressure"):
        fino.open(air)
    pressure = noaa_file(tmp_path / "pres.2001.nc", "pres", days(2001)[:59], units="furlongs")
    with pytest.raises(ValueError, match=r"pressure should be in Pa, hPa, .* got 'furlongs'"):
        fino.open(tmp_path, **period)
    with pytest.raises(ValueError, match=r"train and test should be given together"):
        fino.open(tmp_path, train=("2001-01", "2001-01"))
    with pytest.raises(ValueError, match=r"a month should be such as '2000-01', got 'May'"):
        fino.open(tmp_path, train=("May", "June"), test=("2001-01", "2001-01"))
    pressure.write_bytes(b"<html>")
    with pytest.raises(ValueError, match="It is not NetCDF, although its name says so"):
        fino.open([air, pressure])


def test_area_weights_follow_the_cosine_of_latitude(tmp_path):
    grid = fino.open(era_file(tmp_path / "ERA.nc")).grid
    weights = area_weights(grid)
    assert weights.shape == grid.points and float(weights.mean()) == pytest.approx(1)
    latitude = grid.coordinates()[0]
    ratio = (weights[:, 0] / weights[6, 0]).numpy()
    assert ratio == pytest.approx(np.cos(np.deg2rad(latitude)), abs=1e-12)


def test_the_pairs_can_be_kept_in_one_file_with_their_dates(ten_years, tmp_path):
    again = save(ten_years, tmp_path / "climate.h5")
    assert again.labels == ten_years.labels and again.card == ten_years.card
    assert again.hash == ten_years.hash and again.card.area_weighted
