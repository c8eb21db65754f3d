"""Two processes at one folder or file: the second is refused by name, and nothing is corrupted."""

import os
import subprocess
import sys

import numpy as np
import pytest
from answers import fino

import fino as package
from fino.durable import hold_alone, write_folder
from fino.training.fit import fit, resume

OWN = rf": process {os.getpid()} \(.*\)\. Wait for it, or stop it\.$"


def test_a_run_that_is_being_trained_is_not_resumed(run):
    refused = []

    def try_to_resume(happened):
        with pytest.raises(ValueError, match=f"^Another process is training {run}{OWN}") as error:
            resume(run)
        refused.append(error)

    before = (run / "settings.json").read_bytes()
    resume(run, steps=6, progress=try_to_resume)
    assert len(refused) == 2
    assert (run / "settings.json").read_bytes() != before
    assert not (run / ".lock").exists()


def test_a_new_run_is_not_begun_where_another_just_begins(waves, tmp_path):
    data, folder = package.open(waves), tmp_path / "new"
    model = package.build("fino", data, width=4, levels=1, history=3)
    with (
        hold_alone(folder / ".lock", "mine"),
        pytest.raises(ValueError, match=f"^Another process is training {folder}{OWN}"),
    ):
        fit(model, data, out=folder, steps=1)
    assert fit(model, data, out=folder, steps=1, batch=2).folder == folder


@pytest.mark.parametrize("overwrite", [[], ["--overwrite"]])
def test_a_file_that_is_being_generated_is_not_generated_twice(overwrite, tmp_path):
    path, shares = tmp_path / "a.h5", []
    words = ["generate", "advection", "--set", "points=32", "--set", "frames=4", "--out", path]

    def second(share):
        if not shares:
            line = fino(*words, "--samples", "5", *overwrite).line
            assert f"Another process is making {path}: process {os.getpid()}" in line
        shares.append(share)

    data = package.generate(
        "advection", samples=4, out=path, progress=second, points=32, frames=4, overwrite=True
    )
    assert shares and data.card.samples == 4
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        *("a.h5", "a.h5.card.json", "a.h5.card.md")
    ]


def test_a_killed_process_holds_nothing(tmp_path):
    lock = tmp_path / "lock"
    code = (
        "import os, sys; from pathlib import Path; from fino.durable import hold_alone\n"
        "with hold_alone(Path(sys.argv[1]), 'x'): os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(lock)], check=False)
    assert lock.exists()
    with hold_alone(lock, "is held"):
        assert f"process {os.getpid()} " in lock.read_text()
    assert not lock.exists()


def test_a_reader_finds_a_model_that_is_being_replaced(run, monkeypatch):
    """Between the two renames there is no folder of that name; readers wait for it."""
    model = run / "model"
    process = os.getppid()  # some process that is alive
    model.rename(run / f".model.{process}.old")
    fresh = run / f".model.{process}.new"
    fresh.mkdir()

    def finish(seconds):
        (run / f".model.{process}.old").rename(model)
        fresh.rmdir()

    monkeypatch.setattr("time.sleep", finish)
    assert package.load(model).history == 3


def test_a_model_lost_between_two_renames_is_put_back(run):
    """A kill there leaves the old folder under another name, and the new one half written."""
    process = 2**22 + 1  # no process has this number
    (run / "model").rename(run / f".model.{process}.old")
    (run / f".model.{process}.old" / "notes.txt").write_text("mine")
    (run / f".model.{process}.new").mkdir()
    (run / f".model.{process}.new" / "config.json").write_text("{")
    assert fino("evaluate", run).code == 0
    assert not list(run.glob(".model*"))
    assert (run / "model" / "notes.txt").read_text() == "mine"


def test_a_folder_that_is_replaced_keeps_what_else_stands_in_it(tmp_path):
    write_folder(tmp_path / "m", {"a": b"1"})
    (tmp_path / "m" / "notes.txt").write_text("mine")
    write_folder(tmp_path / "m", {"a": b"2"}, overwrite=True)
    assert (tmp_path / "m" / "notes.txt").read_text() == "mine"
    assert (tmp_path / "m" / "a").read_bytes() == b"2"
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


@pytest.mark.parametrize("name", ["out.npy", "out.h5"])
def test_a_rollout_is_not_written_twice_at_once(name, run, waves, tmp_path):
    model, start, out = package.load(run / "model"), package.open(waves).test[0], tmp_path / name
    words = ["rollout", run, "--steps", "4", "--out", out]
    lines = []

    def second(share):
        lines.append(fino(*words).line)

    frames = package.rollout(model, start, 8, out=out, progress=second)
    assert f"Another process is writing {out}: process {os.getpid()}" in lines[0]
    assert frames.shape[0] == 8 and (np.abs(frames).max(axis=(1, 2)) > 0).all()
    np.testing.assert_array_equal(frames, package.rollout(model, start, 8).numpy())
    assert [path.name for path in tmp_path.iterdir() if path != run] == [name]
