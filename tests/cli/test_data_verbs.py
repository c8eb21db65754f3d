"""`fino generate` and `fino export-data`, as a user calls them."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fino
from fino.cli.data import export_data, generate
from fino.recipe.recipe import change_tables

SMALL = ("points=32", "frames=6", "duration=0.1")


def test_generate_writes_a_file_with_its_card_and_says_so(tmp_path, capsys):
    path = tmp_path / "data" / "swe.h5"
    generate("shallow-water", samples=3, seed=1, out=path, stride_space=2, set=SMALL)
    said = capsys.readouterr().out
    assert "3 × 6 × 1 × 16 × 16" in said and "card is beside it" in said
    assert fino.open(path).shape == (3, 6, 1, 16, 16)
    assert Path(f"{path}.card.md").exists() and Path(f"{path}.card.json").exists()


def test_generate_answers_machines_in_json(tmp_path, capsys):
    path = tmp_path / "swe.h5"
    generate("shallow-water", samples=2, out=path, set=SMALL, json=True)
    answer = json.loads(capsys.readouterr().out)
    assert answer["shape"] == [2, 6, 1, 32, 32] and answer["hash"] == fino.open(path).hash


def test_generate_never_overwrites_unasked(tmp_path):
    path = tmp_path / "swe.h5"
    generate("shallow-water", samples=2, out=path, set=SMALL, json=True)
    with pytest.raises(ValueError, match=r"swe\.h5 exists already and holds something else"):
        generate("shallow-water", samples=3, out=path, set=SMALL, json=True)
    generate("shallow-water", samples=3, out=path, set=SMALL, json=True, overwrite=True)
    assert len(fino.open(path)) == 3


def test_settings_are_numbers_words_or_lists():
    words = ("beta=2", "kind=shock", "radius=[0.3, 0.7]", "distinct=true")
    assert change_tables({}, words) == {
        "beta": 2, "kind": "shock", "radius": [0.3, 0.7], "distinct": True,
    }  # fmt: skip
    with pytest.raises(ValueError, match=r"^--set should be NAME=VALUE, such as beta=2, got 'b'"):
        generate("shallow-water", samples=2, set=("b",))


def test_a_mistake_is_one_line_and_exit_code_2(tmp_path):
    command = [sys.executable, "-m", "fino", "generate", "shalow-water", "--samples", "3"]
    answer = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert answer.returncode == 2 and answer.stdout == ""
    assert answer.stderr == (
        "fino: Unknown problem 'shalow-water'. Did you mean 'shallow-water'?\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_data_are_exported_and_come_back(tmp_path, capsys):
    path = tmp_path / "swe.h5"
    data = fino.generate("shallow-water", samples=3, out=path, points=32, frames=6)
    export_data(path, to="pdebench", out=tmp_path / "swe.hdf5", stride_space=2)
    assert "layout groups" in capsys.readouterr().out
    export_data(tmp_path / "swe.hdf5", to="fino", out=tmp_path / "again.h5", json=True)
    again = fino.open(tmp_path / "again.h5")
    assert np.array_equal(again.read(range(3)), data.strided(space=2).read(range(3)))
    assert again.card.name == "shallow-water" and "flip" not in again.card.symmetries
    with pytest.raises(ValueError, match=r"swe\.hdf5 exists already"):
        export_data(path, to="pdebench", out=tmp_path / "swe.hdf5")
