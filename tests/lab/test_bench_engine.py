"""The race of the engines measures what it says."""

import shutil

import pytest

from lab.bench_engine import race

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


def test_both_engines_roll_out_the_same_and_are_timed_in_turn(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("fino.export.library._FLAGS", ("-O1", "-march=native", "-shared", "-fPIC"))
    (row,) = race({"little": (((16, 16), 2), 1.0)}, rounds=2, steps=2)
    assert row.case == "little" and row.wanted == 1.0
    assert row.torch > 0 and row.c > 0 and row.ratio > 0
    assert row.torch_share > 0 and row.c_share > 0
    assert 0 < row.difference < 1e-5
