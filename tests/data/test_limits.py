"""Too much, too large, too far apart: refused before it costs memory, disk or the process."""

from __future__ import annotations

import subprocess
import sys
from collections import namedtuple

import h5py
import numpy as np
import pytest
import samples

import fino
from fino.data import generate as generating
from fino.data.split import split_by_rule
from fino.data.store import save

SMALL = {"points": 64, "frames": 51}


def test_more_samples_than_a_file_holds_are_refused_at_once():
    with pytest.raises(ValueError, match=r"at most 4194304 in a file, got 100000000"):
        generating.plan("advection", 100_000_000, vary={"beta": "0.1:4"})
    parts = split_by_rule(4_000_000, "last")  # ranges, no lists
    assert parts.test == ((3_600_000, 4_000_000),) and parts.train == ((0, 3_240_000),)


def test_data_that_do_not_fit_on_the_disk_are_refused_before_anything_is_solved(
    tmp_path, monkeypatch
):
    usage = namedtuple("usage", "total used free")
    room = 64 * 51 * 64 * 4 * 1.9  # twice the size is needed
    monkeypatch.setattr(generating.shutil, "disk_usage", lambda place: usage(0, 0, room))
    monkeypatch.setattr(generating.Plan, "solve", lambda *rest: pytest.fail("it was solved"))
    message = (
        r"a\.h5 needs 0\.00167 GB while it is made, twice its size, and 0\.00159 GB are free\."
    )
    with pytest.raises(ValueError, match=message):
        fino.generate("advection", 64, out=tmp_path / "a.h5", **SMALL)


_FULL = """
import resource, signal, sys
from fino.data import generate as generating
from fino.cli.app import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
generating._SHARD_SAMPLES = 8
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))  # a shard fits, the whole does not
sys.argv = ["fino", *sys.argv[1:]]
main()
"""


def test_a_disk_that_fills_up_is_said_in_one_line_and_nothing_solved_is_lost(tmp_path):
    words = ["generate", "advection", "--samples", "64", "--out", str(tmp_path / "a.h5")]
    words += ["--set", "points=64", "--set", "frames=51"]
    done = subprocess.run(
        [sys.executable, "-c", _FULL, *words], capture_output=True, text=True, check=False
    )
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "a.h5 could not be written (File too large). What is solved is kept in" in last
    parts = tmp_path / "a.h5.parts"
    assert len(list(parts.glob("*.shard"))) == 8 and not (parts / "whole.h5").exists()


_CUT = """
import os, sys
import fino
data = fino.open(sys.argv[1])
data.read([0])
os.truncate(sys.argv[1], os.path.getsize(sys.argv[1]) // 4)
try:
    data.read([len(data) - 1])
except ValueError as error:
    print(error)
"""


@pytest.mark.parametrize("kind", ["native", "tensor"])
def test_a_file_that_is_cut_short_in_mid_run_does_not_end_the_process(tmp_path, kind):
    """To touch a page of a mapped file that is gone is a bus error."""
    path = tmp_path / "a.h5"
    if kind == "native":
        u = samples.noise(64, 5, 1, 1024)
        save(fino.from_array(u, dt=1, extent=(0, 1), boundary="periodic"), path)
    else:
        samples.tensor_file(path, samples.noise(64, 5, 1024))
    done = subprocess.run(
        [sys.executable, "-c", _CUT, str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (
        done.stdout == f"{path} was cut short while it was in use. Make or fetch the file again.\n"
    )


def test_a_small_file_that_declares_a_large_array_is_refused(tmp_path):
    """Pieces that were never written, and pieces that are too large to be read at once."""
    with h5py.File(tmp_path / "empty.h5", "w") as file:
        file.create_dataset("tensor", (1000, 100, 10_000), "f4", chunks=(1, 1, 10_000))
        file["tensor"][0, 0] = 1.0
    with h5py.File(tmp_path / "piece.h5", "w") as file:
        shape = (300, 1000, 1000)
        file.create_dataset("tensor", shape, "f8", chunks=shape, compression="gzip")
    for name, message in {
        "empty.h5": r"an array of shape \(1000, 100, 10000\) does not fit in a file of",
        "piece.h5": r"an array has pieces of \(300, 1000, 1000\), too large to be read at once",
    }.items():
        assert (tmp_path / name).stat().st_size < 5e6
        for options in ({}, {"array": "tensor", "dt": 1, "extent": "0:1", "boundary": "periodic"}):
            with pytest.raises(ValueError, match=message):
                fino.open(tmp_path / name, **options)


def test_a_netcdf_file_is_opened_by_the_arrays_that_are_wanted(tmp_path):
    """What is not asked for is not read, however large it says that it is."""
    netcdf = pytest.importorskip("netCDF4")
    with netcdf.Dataset(tmp_path / "a.nc", "w") as file:
        for name, size in (("member", 6), ("time", 5), ("x", 16), ("huge", 10**9)):
            file.createDimension(name, size)
        file.createVariable("u", "f4", ("member", "time", "x"))[:] = samples.noise(6, 5, 16)
        file.createVariable("bomb", "f4", ("member", "huge"), zlib=True, chunksizes=(1, 1000))
    assert (tmp_path / "a.nc").stat().st_size < 1e5
    told = {"dt": 1, "extent": "0:1", "boundary": "periodic"}
    assert fino.open(tmp_path / "a.nc", array="u", **told).shape == (6, 5, 1, 16)
    with pytest.raises(ValueError, match=r"does not fit in a file of"):
        fino.open(tmp_path / "a.nc", array="bomb", axes="time x", **told)


def test_a_history_that_a_file_cannot_hold_is_refused(tmp_path):
    data = fino.from_array(samples.noise(6, 5, 1, 16), dt=1, extent=(0, 1), boundary="periodic")
    model = fino.build("fino", data, width=4, levels=0, blocks=1)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("u", (2, 1, 2**40), "f4", chunks=(1, 1, 2**20))
    with pytest.raises(ValueError, match=r"a\.h5 cannot be read: an array of shape .* not fit"):
        fino.rollout(model, tmp_path / "a.h5", steps=1)
    with pytest.raises(ValueError, match="history 1000000000 leaves nothing to predict"):
        fino.build("fino", data, history=10**9)


@pytest.mark.parametrize("dtype", [np.float64, np.int64])
def test_what_single_precision_cannot_tell_apart_is_refused(dtype):
    u = (1e9 + 10 * samples.noise(6, 5, 1, 16).astype(np.float64)).astype(dtype)
    with pytest.raises(ValueError, match=r"channel 0 varies by 10\.\d around 1e\+09, which single"):
        fino.from_array(u, dt=1, extent=(0, 1), boundary="periodic")
    shifted = fino.from_array(u - u.mean(), dt=1, extent=(0, 1), boundary="periodic")
    assert shifted.read([0]).std() > 5
    warm = 300 + samples.noise(6, 5, 1, 16).astype(np.float64)  # kelvin are no such case
    assert fino.from_array(warm, dt=1, extent=(0, 1), boundary="periodic").shape == (6, 5, 1, 16)
