"""`fino inspect` on a model folder and on a run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import fino
from fino.cli.results import inspect


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    u = np.random.default_rng(0).standard_normal((6, 6, 1, 8))
    data = fino.from_array(u, 0.1, (0, 1), "periodic", speed=1.0)
    place = tmp_path_factory.mktemp("inspect") / "model"
    return fino.save(fino.build("fino", data, history=1, width=2, levels=0), place)


def test_the_page_answers_the_three_questions(folder: Path, capsys) -> None:
    inspect(folder)
    printed = capsys.readouterr().out
    for title in ("Does it see far enough?", "What did it learn?", "Will it stay stable?"):
        assert title in printed
    assert "This model sees 2 cells a step" in printed


def test_json_is_only_json(folder: Path, capsys) -> None:
    inspect(folder, json=True)
    content = json.loads(capsys.readouterr().out)
    assert content["model"] == "fino"
    assert content["reach"]["radius"] == [2]


def test_pictures_are_written_where_asked(folder: Path, tmp_path: Path, capsys) -> None:
    inspect(folder, figures=tmp_path / "pictures")
    assert {p.name for p in (tmp_path / "pictures").iterdir()} == {"stencils.png", "waves.png"}
    assert "Pictures:" in capsys.readouterr().out


def test_a_folder_that_is_no_model_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"is not a whole run: it has no model"):
        inspect(tmp_path)
