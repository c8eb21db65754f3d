"""`fino list` from the command line."""

from __future__ import annotations

import json

import pytest

from fino.cli.list import show


def test_it_prints_every_model_with_its_reach(capsys: pytest.CaptureFixture[str]) -> None:
    show("models")
    words = capsys.readouterr().out
    for name in ("fino", "unet", "fno", "transolver", "inf"):
        assert name in words


def test_json_is_one_object_with_the_table_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    show("baselines", json=True)
    tables = json.loads(capsys.readouterr().out)
    assert list(tables) == ["baselines"]
    assert tables["baselines"][0]["name"] == "persistence"
