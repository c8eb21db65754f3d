"""`fino list` from the command line."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from fino.cli.list import _list_tables, show
from fino.metrics import METRICS
from fino.model import MODELS
from fino.model.baselines import BASELINES
from fino.training.run import PRETRAINED


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


def test_the_whole_list_leaves_out_what_takes_long(capsys: pytest.CaptureFixture[str]) -> None:
    show()
    words = capsys.readouterr().out
    assert "quickstart" in words and "persistence" in words and "Ronneberger" in words
    assert "mult-adds" not in words and "`fino list models` adds" in words


def test_the_list_is_made_without_torch() -> None:
    code = (
        "import sys; from fino.cli.list import _list_tables; "
        "assert len(_list_tables(costs=False)['recipes']) > 10; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_is_read_from_the_source_is_what_the_tables_hold() -> None:
    tables = _list_tables(costs=False)
    known = {"baselines": BASELINES, "metrics": METRICS, "pretrained": PRETRAINED}
    for kind, table in known.items():
        rows = [{"name": name, "title": entry.title} for name, entry in table.items()]
        assert tables[kind] == rows
    assert tables["models"] == [{"name": n, "paper": cls.paper} for n, cls in MODELS.items()]
