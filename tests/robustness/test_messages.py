"""A disk that fails is named, and what is asked is not ignored."""

import errno
import os
import shutil

import pytest
from answers import fino

from fino import durable


def test_a_full_disk_names_the_file_and_what_to_do(run, monkeypatch):
    def full(path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(durable, "flush", full)
    line = fino("evaluate", run).line
    place = run / "scores.json"
    assert (
        line
        == f"fino: {place}: No space left on device. Free some space, or write to another disk."
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_is_named(run):
    run.chmod(0o555)
    try:
        assert "Permission denied. Change its permissions" in fino("evaluate", run).line
    finally:
        run.chmod(0o755)


def test_a_missing_folder_for_the_result_is_named(run, tmp_path):
    place = tmp_path / "none" / "table.md"
    line = fino("compare", run, "--out", place).line
    assert line == f"fino: {place}: No such file or directory. Check the path."


def test_other_data_for_a_run_that_goes_on_are_refused(run, waves, tmp_path):
    words = ["generate", "advection", "--samples", 30, "--seed", 7, "--set", "points=32"]
    words += ["--set", "frames=12", "--set", "duration=0.2", "--stride-space", 2]
    assert fino(*words, "--out", tmp_path / "other.h5").code == 0
    line = fino("train", "--resume", run, "--data", tmp_path / "other.h5").line
    assert f"other.h5 is not what {run} was trained on" in line


def test_data_that_have_moved_are_named_to_a_run_that_goes_on(run, waves, tmp_path):
    shutil.copy(waves, tmp_path / "moved.h5")
    line = fino("train", "--resume", run, "--data", tmp_path / "none.h5").line
    assert "none.h5" in line
    assert fino("train", "--resume", run, "--data", tmp_path / "moved.h5", "--steps", 6).code == 0


@pytest.mark.parametrize("option", ["model", "out"])
def test_what_a_run_that_goes_on_cannot_change_is_refused(option, run):
    line = fino("train", "--resume", run, f"--{option}", "fno").line
    assert line == f"fino: --resume goes on with {run} as it is: leave out --{option}."
