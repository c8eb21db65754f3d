"""Files of every common kind, made by other libraries' own writers, in Python and by command.

The same six trajectories of a travelling wave go into every file; whatever a file cannot say is
given by options.  Mistakes are answered with one line each.
"""

from __future__ import annotations

import csv
import random
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from samples import mutated
from scipy.io import netcdf_file, savemat

import fino
from fino.cli.app import app
from fino.data.frames import find_axis
from fino.data.store import save

netCDF4 = pytest.importorskip("netCDF4")
xarray = pytest.importorskip("xarray")
zarr = pytest.importorskip("zarr")

X, T = (np.arange(16) + 0.5) / 16, 0.1 * np.arange(5)
NU = np.linspace(0.1, 0.6, 6)
U = np.sin(2 * np.pi * (X - NU[:, None, None] * T[:, None])).astype(np.float32)


def write_npy(path: Path, u: np.ndarray = U, **more: np.ndarray) -> Path:
    np.save(path, u)
    return path


def write_npz(path: Path, u: np.ndarray = U, **more: np.ndarray) -> Path:
    np.savez_compressed(path, u=u, **more)
    return path


def write_matlab(path: Path, u: np.ndarray = U, **more: np.ndarray) -> Path:
    savemat(path, {"u": u, **more}, do_compression=True)
    return path


def write_matlab73(path: Path, u: np.ndarray = U, **more: np.ndarray) -> Path:
    """As MATLAB's save -v7.3: HDF5 behind 512 bytes of text, axes in the opposite order."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, array in {"u": u, **more}.items():
            values = np.atleast_2d(array).T
            file.create_dataset(name, data=values, chunks=True, compression="gzip")
            file[name].attrs["MATLAB_class"] = np.bytes_("double")
        if u.ndim == 1:
            file["u"].attrs["MATLAB_class"] = np.bytes_("double")
    with path.open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM")
    return path


def write_torch(path: Path, u: np.ndarray = U, **more: np.ndarray) -> Path:
    torch.save({name: torch.from_numpy(np.array(a)) for name, a in {"u": u, **more}.items()}, path)
    return path


def write_netcdf3(path: Path, u: np.ndarray = U, **more: np.ndarray) -> Path:
    with netcdf_file(str(path), "w") as file:
        fill_netcdf(file, u, more)
    return path


def write_netcdf4(path: Path, u: np.ndarray = U, **more: np.ndarray) -> Path:
    with netCDF4.Dataset(path, "w") as file:
        fill_netcdf(file, u, more)
    return path


def fill_netcdf(file, u: np.ndarray, more: dict[str, np.ndarray]) -> None:
    for name, size in zip(("run", "time", "x"), u.shape, strict=False):
        file.createDimension(name, size)
    for name, values, axis in (("time", T, "time"), ("x", X, "x")):
        if len(values) in u.shape:
            file.createVariable(name, "f8", (axis,))[:] = values
    file.createVariable("u", "f4", ("run", "time", "x")[: u.ndim])[:] = u
    for name, values in more.items():
        if name not in ("t", "x"):
            file.createVariable(name, "f8", ("run", "time", "x")[: values.ndim])[:] = values


def write_zarr(path: Path, u: np.ndarray = U, **more: np.ndarray) -> Path:
    store = zarr.open_group(str(path), mode="w")
    for name, array in {"u": u, **more}.items():
        store.create_array(name, data=np.asarray(array))
    return path


def write_hdf5(path: Path, u: np.ndarray = U, **more: np.ndarray) -> Path:
    with h5py.File(path, "w") as file:
        for name, array in {"u": u, **more}.items():
            file[f"results/{name}"] = array
    return path


def write_csv(path: Path, u: np.ndarray = U, **more: np.ndarray) -> Path:
    """A row for every point of every trajectory at every time, in no order."""
    samples, times, points = u.shape
    rows = [
        (i, T[j], X[k], u[i, j, k])
        for i in range(samples)
        for j in range(times)
        for k in range(points)
    ]
    np.random.default_rng(0).shuffle(rows)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("sample", "t", "x", "u"), *rows])
    return path


def write_folder(path: Path, u: np.ndarray = U, **more: np.ndarray) -> Path:
    """One table for every trajectory: a row for each time."""
    path.mkdir()
    for i, trajectory in enumerate(u):
        with (path / f"run{i}.csv").open("w", newline="") as file:
            rows = [[t, *values] for t, values in zip(T, trajectory.tolist(), strict=True)]
            csv.writer(file).writerows([["t", *X], *rows])
    return path


ASKED = {"dt": 0.1, "extent": "0:1", "boundary": "periodic"}
COORDINATES = {"boundary": "periodic"}

#: kind → (file name, writer, what the file cannot say)
KINDS = {
    "npy": ("u.npy", write_npy, ASKED),
    "npz": ("a.npz", write_npz, COORDINATES),
    "matlab": ("a.mat", write_matlab, COORDINATES),
    "matlab 7.3": ("a.mat", write_matlab73, COORDINATES),
    "torch": ("a.pt", write_torch, COORDINATES),
    "netcdf 3": ("a.nc", write_netcdf3, COORDINATES),
    "netcdf 4": ("a.nc", write_netcdf4, COORDINATES),
    "zarr": ("a.zarr", write_zarr, COORDINATES),
    "hdf5": ("a.h5", write_hdf5, {**ASKED, "array": "results/u"}),
    "csv": ("a.csv", write_csv, COORDINATES),
    "folder": ("a", write_folder, COORDINATES),
}


def written(folder: Path, kind: str, u: np.ndarray = U) -> tuple[Path, dict]:
    name, write, options = KINDS[kind]
    return write(folder / name, u, t=T, x=X), options


def check(data: fino.data.dataset.Dataset) -> None:
    assert data.shape == (6, 5, 1, 16) and data.dt == pytest.approx(0.1)
    assert data.grid.boundary == ("periodic",)
    assert data.grid.extent[0] == pytest.approx((0, 1)) and data.grid.offset == (0.5,)
    assert np.allclose(data.read(range(6))[:, :, 0], U, atol=1e-6)


def run_command(*words: object) -> None:
    app([str(word) for word in words], exit_on_error=False, result_action="return_value")


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_every_kind_opens_in_python(tmp_path, kind):
    path, options = written(tmp_path, kind)
    data = fino.open(path, **options)
    check(data)
    again = fino.open(**data.opened)
    assert again.hash == data.hash and again.card == data.card


def test_what_is_in_memory_opens_too():
    named = {"u": U, "t": T, "x": X}
    cube = xarray.DataArray(U, dims=("member", "time", "x"), coords={"time": T, "x": X}, name="u")
    for thing in (named, cube, cube.to_dataset(), {n: torch.tensor(a) for n, a in named.items()}):
        check(fino.open(thing, boundary="periodic"))
    for thing in (U, torch.from_numpy(U)):
        check(fino.open(thing, **ASKED))


def test_a_file_of_xarray_opens_with_its_own_names_and_dates(tmp_path):
    hours = np.datetime64("2020-01-01") + np.arange(5) * np.timedelta64(6, "h")
    cube = xarray.Dataset(
        {
            "height": (("time", "member", "lon"), np.moveaxis(U, 0, 1)),
            "depth": (("lon",), X),
            "wind": (("time", "member"), np.outer(T, NU)),
        },
        coords={"time": hours, "lon": X},
    )
    told = {"array": "height", "known": "depth", "forcing": "wind", "boundary": "periodic"}
    data = fino.open(cube, **told)
    assert data.dt == 6.0 and np.array_equal(data.read([2])[0, :, 0], U[2])
    assert data.card.known == ("depth",) and data.card.signals == ("wind",)
    assert data.card.axes == ("lon",) and data.card.units == ()
    cube.to_netcdf(tmp_path / "a.nc")
    again = fino.open(tmp_path / "a.nc", **told)
    assert again.hash == data.hash and again.card.signals == ("wind",)
    cube.to_zarr(tmp_path / "a.zarr", consolidated=False)
    assert fino.open(tmp_path / "a.zarr", **told).hash == data.hash


def test_the_unit_of_time_is_that_of_the_files_clock(tmp_path):
    days = {"time": np.arange(5.0), "x": X}
    for units, dt, shown in (("days since 2020-01-01", None, "1 days"), ("s", 2.0, "2")):
        cube = xarray.Dataset({"u": (("run", "time", "x"), U)}, coords=days)
        cube["time"].attrs["units"] = units
        cube.to_netcdf(tmp_path / "a.nc")
        data = fino.open(tmp_path / "a.nc", dt=dt, boundary="periodic")  # in whose unit is dt?
        assert data.card.facts()["time"] == f"5 frames from {data.card.start:g}, Δt = {shown}"
    kept = fino.save(fino.open(tmp_path / "a.nc", boundary="periodic"), tmp_path / "a.h5")
    assert fino.open(kept or tmp_path / "a.h5").card.time_unit == "s"


def test_names_of_axes_and_units_are_kept(tmp_path):
    places = {"lat": np.linspace(40, 45, 6), "lon": np.linspace(0, 7, 8), "time": np.arange(5.0)}
    values = np.random.default_rng(0).normal(size=(3, 5, 6, 8))
    maps = xarray.Dataset({"sst": (("member", *("time", "lat", "lon")), values)}, coords=places)
    maps["sst"].attrs["units"] = "degC"
    maps.to_netcdf(tmp_path / "sst.nc")
    data = fino.open(tmp_path / "sst.nc", boundary="neumann")
    assert data.card.axes == ("lat", "lon") and data.card.units == ("degC",)
    assert data.card.facts()["grid"].startswith("lat: 6 points on [39.5, 45.5], neumann; lon: 8")
    fino.save(data, tmp_path / "sst.h5")
    assert fino.open(tmp_path / "sst.h5").card.axes == ("lat", "lon")
    np.save(tmp_path / "u.npy", values)
    told = {"axes": "sample time y x", "dt": 1, "extent": (0, 1), "boundary": "periodic"}
    assert fino.open(tmp_path / "u.npy", **told).card.axes == ("y", "x")
    (low, _), _, _ = find_axis((0.5 + np.arange(8)) / 8 - 1e-12, 8)
    assert str(low) == "0.0"  # and not -0.0


def test_names_give_arrays_their_roles(tmp_path):
    path = write_npz(tmp_path / "a.npz", t=T, x=X, nu=NU, depth=X, land=X < 0.1, g=np.array(9.81))
    told = {"array": "u", "parameters": "nu,g", "known": "depth", "mask": "land"}
    data = fino.open(path, **told, boundary="neumann", walls="dirichlet")
    assert data.parameters["nu"] == pytest.approx(NU) and data.card.parameters == {"g": 9.81}
    assert data.card.known == ("depth",) and data.card.walls == "dirichlet"
    assert data.test.mask(0).tolist() == [x >= 0.1 for x in X]


def test_axes_may_come_in_any_order(tmp_path):
    wide = np.stack([U, 2 * U])  # channel, sample, time, x
    orders = {
        "channel sample time x": wide,
        "time x sample channel": wide.transpose(2, 3, 1, 0),
        "x channel time sample": wide.transpose(3, 0, 2, 1),
    }
    for words, array in orders.items():
        for kind in ("npz", "matlab 7.3"):
            path, _ = written(tmp_path, kind, array)
            data = fino.open(path, axes=words, array="u", boundary="periodic")
            assert data.fields == ("u0", "u1") and data.shape == (6, 5, 2, 16)
            assert np.allclose(data.read([4])[0, :, 1], 2 * U[4])


def test_guesses_are_on_the_card_and_coordinates_settle_them(tmp_path):
    data = fino.open(write_npz(tmp_path / "a.npz", t=T, x=X, nu=NU, extra=U[:, 0]), **COORDINATES)
    assert data.card.guesses == (
        "predicted: u (array); not used: extra",
        "axes of u (6, 5, 16): sample time x (axes)",
        "not given to models: nu, one number for each sample (parameters)",
    )
    late = np.moveaxis(U, 1, 2)  # sample, x, time: the lengths of t and x say so
    data = fino.open(write_npz(tmp_path / "b.npz", late, t=T, x=X), **COORDINATES)
    assert data.shape == (6, 5, 1, 16) and "sample x time" in data.card.guesses[-1]
    assert "| guessed | " in data.card.markdown()


@pytest.mark.parametrize("kind", ["npz", "matlab", "netcdf 4"])
def test_numbers_of_each_sample_that_nobody_asked_for_are_named(tmp_path, kind):
    name, write, told = KINDS[kind]
    path = write(tmp_path / name, U, nu=NU, t=T, x=X)
    said = "not given to models: nu, one number for each sample (parameters)"
    assert said in fino.open(path, **told).card.guesses
    assert said not in fino.open(path, **told, array="u", parameters="nu").card.guesses


def test_a_steady_problem_is_two_arrays_and_no_time_step(tmp_path):
    a, u = np.random.default_rng(0).random((2, 12, 8, 8), dtype=np.float32)
    torch.save({"x": torch.from_numpy(a) > 0.5, "y": torch.from_numpy(u)}, tmp_path / "a.pt")
    data = fino.open(tmp_path / "a.pt", extent="0:1", boundary="dirichlet")
    assert data.steady and data.shape == (12, 2, 1, 8, 8) and data.card.inputs == ("x",)
    assert np.array_equal(data.read([3])[0, 0, 0], a[3] > 0.5)
    assert np.array_equal(data.read([3])[0, 1, 0], u[3])
    assert data.card.guesses[0] == "steady, x → y (inputs, array)"
    kept = save(data, tmp_path / "kept.h5")
    assert kept.hash == data.hash and kept.card == data.card


@pytest.mark.parametrize(("questions", "answers"), [(3, 1), (1, 3), (2, 2)])
def test_a_steady_problem_has_any_number_of_inputs_and_outputs(tmp_path, questions, answers):
    draw = np.random.default_rng(0)
    a, u = (draw.normal(size=(12, n, 8, 6)).astype(np.float32) for n in (questions, answers))
    data = fino.from_array(u, inputs=a, extent=(0, 1), boundary="neumann")
    assert data.steady and data.channels == answers
    given = data.train[0].given
    seen = given.history[0, 0, : min(questions, answers)]
    seen = seen if given.known is None else torch.cat([seen, given.known[0]])
    assert np.array_equal(seen, a[data.train.samples[0]])
    assert np.array_equal(data.train[0].future[0], u[data.train.samples[0]])
    kept = save(data, tmp_path / "a.h5")
    assert kept.hash == data.hash and kept.card == data.card
    model = fino.build("fino", data, width=4, levels=1, blocks=1)
    before = model(given).detach()
    for channel in range(questions):  # every input reaches the answer
        other = a.copy()
        other[:, channel] += 1.0
        changed = fino.from_array(u, inputs=other, extent=(0, 1), boundary="neumann")
        assert not torch.equal(model(changed.train[0].given), before)
    np.savez(
        tmp_path / "a.npz",
        **{f"a{i}": a[:, i] for i in range(questions)},
        **{f"u{i}": u[:, i] for i in range(answers)},
    )
    names = {
        "inputs": [f"a{i}" for i in range(questions)],
        "array": [f"u{i}" for i in range(answers)],
    }
    opened = fino.open(tmp_path / "a.npz", extent=(0, 1), boundary="neumann", **names)
    assert opened.hash == data.hash
    np.savez(tmp_path / "b.npz", a=a, u=u)  # all channels in one array
    whole = fino.open(
        tmp_path / "b.npz", axes="sample channel x y", inputs="a", extent=(0, 1), boundary="neumann"
    )
    assert whole.hash == data.hash


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, tuple[Path, dict]]:
    """A file of every kind, and what it cannot say."""
    folder = tmp_path_factory.mktemp("files")
    made = {}
    for kind in KINDS:
        place = folder / kind.replace(" ", "-")
        place.mkdir()
        made[kind] = written(place, kind)
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_every_kind_is_imported_by_one_command(files, tmp_path, kind, capsys):
    path, options = files[kind]
    words = [word for key, value in options.items() for word in (f"--{key}", value)]
    run_command("import", path, "--out", tmp_path / "mine.h5", *words)
    said = capsys.readouterr().out
    assert "mine.h5: 6 × 5 × 1 × 16 (sample × time × channel × space)." in said
    assert "Parts: test = first 10 %" in said
    check(fino.open(tmp_path / "mine.h5"))  # which needs no options any more


#: mistake → (options, the line that answers); {u} is the array's name in the file.
MISTAKES = {
    "another name": ({"array": "uu"}, r"it has no array 'uu'\. (Did you mean 'u'\?|It holds .+)"),
    "too few axes": (
        {"axes": "sample x"},
        r"axes should name each of the 3 axes of '.*u' \(6, 5, 16\), such as 'sample time x', got "
        r"'sample x'\.|run0.csv: 'u' \(5, 16\) has no axis of time: 'sample x'\.",
    ),
    "an axis twice": (
        {"axes": "time time x"},
        r"axes should name sample, time and channel at most once .*|axes should name each of .*",
    ),
    "no boundary": (
        {"boundary": None},
        r"it does not say what lies beyond the edges of the domain\. Add --boundary",
    ),
    "a misspelt boundary": (
        {"boundary": "perodic"},
        r"Unknown boundary 'perodic'\. Did you mean 'periodic'\?",
    ),
    "half an extent": ({"extent": "1"}, r"extent should be \(low, high\), or one such pair"),
    "an empty extent": ({"extent": "1:1"}, r"extent should be finite and not empty"),
    "time that stands still": ({"dt": 0}, r"dt should be a positive time, got 0"),
    "a misspelt option": (
        {"boundry": "periodic"},
        r"no option 'boundry'\. Did you mean 'boundary'",
    ),
    "too large a test part": (
        {"test": 7},
        r"the test part wants 7 samples but only 6 of 6 are left",
    ),
    "a sample that is not there": (
        {"leave_out": "6"},
        r"leave_out should be sample numbers from 0",
    ),
    "an unknown parameter": ({"parameters": "mu"}, r"it has no array 'mu'\. "),
}


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_mistake_about_a_file_is_answered_in_one_line(files, kind, mistake):
    path, options = files[kind]
    changes, message = MISTAKES[mistake]
    with pytest.raises(ValueError, match=message) as error:
        fino.open(path, **{**options, **changes})
    assert "\n" not in str(error.value) and str(path) in str(error.value)


def test_all_that_a_file_does_not_say_is_asked_for_in_one_line(tmp_path):
    with pytest.raises(ValueError, match="cannot be opened") as error:
        fino.open(write_npy(tmp_path / "u.npy"))
    assert str(error.value) == (
        f"{tmp_path}/u.npy cannot be opened: it does not say the time between two frames, the "
        "edges of the domain and what lies beyond them. Add --dt 0.01 --extent 0:1 --boundary "
        "periodic with your own values (the same words are keywords in Python; a boundary is "
        "periodic, dirichlet, neumann or reflect, or one for each axis)."
    )
    np.save(tmp_path / "other.npy", U[:3])
    told = {"dt": 0.1, "boundary": "periodic"}
    with h5py.File(tmp_path / "own.h5", "w") as file:
        file["u"], file["x"] = U, X
    with pytest.raises(ValueError, match=r"the test part, .*other\.npy: it does not say the edges"):
        fino.open(tmp_path / "own.h5", array="u", test_data=str(tmp_path / "other.npy"), **told)


#: what is wrong with the numbers → (the array, the line that answers)
WRONG = {
    "complex": (U.astype(np.complex64), "complex|should hold numbers|where a number should be"),
    "words": (np.array([["a", "b"], ["c", "d"]]), "should hold numbers|no array of trajectories"),
    "empty": (U[:0], "is empty|empty table|without numbers|no array of trajectories"),
    "a line": (U[0, 0], "no array of trajectories|should have one to three axes|without numbers"),
    "lost in rounding": (U.astype(float) + 1e9, "single precision cannot tell apart. Subtract"),
}
_CANNOT = {
    "words": ("torch", "netcdf 3", "netcdf 4", "csv", "folder", "matlab 7.3", "zarr"),
    "complex": ("netcdf 3", "netcdf 4", "csv", "folder"),
    "empty": ("csv", "folder", "netcdf 3", "netcdf 4", "matlab 7.3"),
    "a line": ("csv", "folder", "matlab 7.3", "netcdf 3", "netcdf 4"),
    "lost in rounding": ("netcdf 3", "netcdf 4"),  # written in single precision
}


@pytest.mark.filterwarnings("ignore:.*(fixed length|dtype).*")
@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("kind", KINDS)
def test_numbers_that_are_none_are_answered_in_one_line(tmp_path, kind, wrong):
    if kind in _CANNOT[wrong]:
        return  # its writer refuses them
    array, message = WRONG[wrong]
    name, write, options = KINDS[kind]
    if wrong == "words" and kind == "hdf5":
        array = array.astype("S1")
    with pytest.raises(ValueError, match=message) as error:
        fino.open(write(tmp_path / name, array, t=T, x=X), **options)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("zarr", "folder")])
def test_a_file_cut_short_or_full_of_noise_is_said_to_be(files, tmp_path, kind):
    path, options = files[kind]
    content = path.read_bytes()
    broken = tmp_path / path.name
    for wrong in (content[: len(content) // 2], content[:40] + bytes(1000)):
        broken.write_bytes(wrong)
        with pytest.raises(ValueError, match="cannot be opened") as error:
            fino.open(broken, **options)
        assert "\n" not in str(error.value) and len(str(error.value)) < 600


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("zarr", "folder", "csv")])
def test_a_file_is_known_by_its_content_and_not_by_its_name(files, tmp_path, kind):
    path, options = files[kind]
    renamed = tmp_path / "data.bin"
    renamed.write_bytes(path.read_bytes())
    check(fino.open(renamed, **options))


@pytest.mark.parametrize("kind", KINDS)
def test_a_sample_of_nan_does_not_close_a_file(tmp_path, kind):
    broken = U.copy()
    broken[4] = np.nan
    path, options = written(tmp_path, kind, broken)
    data = fino.open(path, **options)
    said = r"run4\.csv has NaN or.* leave this" if kind == "folder" else "values. Leave it out"
    with pytest.raises(ValueError, match=said):
        data.read([4])
    rest = fino.open(path, **options, leave_out=[4])
    assert np.allclose(rest.read([4])[0, :, 0], U[5], atol=1e-6)


def test_gaps_in_a_single_trajectory_are_to_be_filled(tmp_path):
    gaps = U[:1].copy()
    gaps[0, 3, 5] = np.nan
    data = fino.open(write_npz(tmp_path / "a.npz", gaps, t=T, x=X), **COORDINATES)
    with pytest.raises(ValueError, match=r"first in frame 3\. Fill gaps in time, for.*--mask\)"):
        data.read([0])


def test_rows_that_are_missing_in_a_table_are_counted(tmp_path):
    path = write_csv(tmp_path / "a.csv")
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[:-3]))
    with pytest.raises(ValueError, match=r"its 477 rows do not fill sample × t × x = 6 × 5 × 16"):
        fino.open(path, **COORDINATES)
    path.write_text("t,0.5,1.5\n0.0,1,2\n0.1,1\n")
    with pytest.raises(ValueError, match=r"line 3 has 2 columns, the first 3\."):
        fino.open(path, **COORDINATES)
    path.write_text("t,0.5,1.5\n0.0,1,2\n0.1,1,two\n")
    with pytest.raises(ValueError, match=r"line 3 has 'two' where a number should be\."):
        fino.open(path, **COORDINATES)


def test_pickles_that_could_run_code_are_refused(tmp_path):
    torch.save({"u": torch.from_numpy(U), "path": Path("x")}, tmp_path / "a.pt")
    with pytest.raises(ValueError, match=r"Python objects beside tensors, which could run code"):
        fino.open(tmp_path / "a.pt", **ASKED)
    np.savez(tmp_path / "a.npz", u=np.array([{"a": 1}], dtype=object))
    with pytest.raises(ValueError, match=r"no array of trajectories in it\. It holds u \(1,\)"):
        fino.open(tmp_path / "a.npz", **ASKED)


def test_coordinates_that_are_not_even_are_said_to_be(tmp_path):
    late = T**2
    spaced = r"not evenly spaced: frames are 0\.01 to 0\.07 apart\. .* add dt=0\.04 \(--dt 0\.04\)"
    with pytest.raises(ValueError, match=spaced):
        fino.open(write_npz(tmp_path / "a.npz", t=late, x=X), **COORDINATES)
    with pytest.raises(ValueError, match=r"its coordinates are not evenly spaced\. Give extent=…"):
        fino.open(write_npz(tmp_path / "a.npz", t=T, x=X**2), **COORDINATES)
    assert fino.open(write_npz(tmp_path / "a.npz", t=late, x=X), dt=1, **COORDINATES).dt == 1.0


def test_files_that_do_not_belong_together_are_told_apart(tmp_path):
    write_npy(tmp_path / "a.npy")
    write_npy(tmp_path / "b.npy", U[:, :, ::2])
    with pytest.raises(ValueError, match=r"b\.npy holds \(6, 5, 1, 8\) of u .*: not one data set"):
        fino.open(tmp_path, **ASKED)
    with h5py.File(tmp_path / "c.h5", "w") as file:
        file["tensor"] = U
    with pytest.raises(
        ValueError, match=r"its files are of different kinds \(PDEBench's, arrays\)"
    ):
        fino.open([tmp_path / "a.npy", tmp_path / "c.h5"], boundary="periodic")


def test_parts_are_chosen_by_number_share_rule_folder_or_file(tmp_path):
    path = write_npy(tmp_path / "u.npy", np.concatenate([U] * 5))
    sizes = lambda data: [len(p) for p in (data.train, data.validation, data.test)]  # noqa: E731
    assert sizes(fino.open(path, **ASKED)) == [25, 2, 3]
    assert sizes(fino.open(path, **ASKED, test=10)) == [18, 2, 10]
    assert sizes(fino.open(path, **ASKED, test=0.5, validation=5)) == [10, 5, 15]
    assert fino.open(path, **ASKED, split="last").test.samples == (27, 28, 29)
    other = write_npy(tmp_path / "other.npy", 2 * U)
    data = fino.open(path, **ASKED, test_data=other)
    assert sizes(data) == [27, 3, 6] and np.allclose(data.test.all()[:, :, 0], 2 * U)
    assert fino.open(**data.opened).hash == data.hash
    for part in ("train", "test"):
        (tmp_path / "parts" / part).mkdir(parents=True)
        write_npy(tmp_path / "parts" / part / "u.npy")
    assert sizes(fino.open(tmp_path / "parts", **ASKED)) == [6, 0, 6]
    with pytest.raises(ValueError, match="test and validation do not go with split or test_data"):
        fino.open(path, **ASKED, test=3, test_data=other)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("zarr", "folder")])
def test_mutated_files_are_opened_or_refused_in_one_line(files, tmp_path, kind):
    path, options = files[kind]
    content, mutant = path.read_bytes(), tmp_path / path.name
    refused = 0
    for i in range(15):
        mutant.write_bytes(mutated(content, random.Random(f"{kind} {i}")))
        try:
            data = fino.open(mutant, **options)
            data.read(range(len(data)))
        except ValueError as error:
            assert "\n" not in str(error) and str(mutant) in str(error), i
            refused += 1
    assert refused > 1
