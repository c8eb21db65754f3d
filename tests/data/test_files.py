"""Files of every common kind, made by other libraries' own writers, in Python and by command.

The same six trajectories of a travelling wave go into every file; whatever a file cannot say is
given by options.  Mistakes are answered with one line each.
"""

from __future__ import annotations

import csv
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from scipy.io import netcdf_file, savemat

import fino
from fino.cli.app import app
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
    cube.to_netcdf(tmp_path / "a.nc")
    again = fino.open(tmp_path / "a.nc", **told)
    assert again.hash == data.hash and again.card.signals == ("wind",)
    cube.to_zarr(tmp_path / "a.zarr", consolidated=False)
    assert fino.open(tmp_path / "a.zarr", **told).hash == data.hash


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
    )
    late = np.moveaxis(U, 1, 2)  # sample, x, time: the lengths of t and x say so
    data = fino.open(write_npz(tmp_path / "b.npz", late, t=T, x=X), **COORDINATES)
    assert data.shape == (6, 5, 1, 16) and "sample x time" in data.card.guesses[-1]
    assert "| guessed | " in data.card.markdown()


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
