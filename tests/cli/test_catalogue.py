"""The catalogue: every table is in it, with what a reader needs to choose."""

from __future__ import annotations

import json

import pytest

from fino.cli.list import _list_tables
from fino.metrics import METRICS
from fino.model import MODELS
from fino.model.baselines import BASELINES
from fino.pde import PROBLEMS


@pytest.fixture(scope="module")
def tables() -> dict:
    return _list_tables()


def test_every_table_is_listed(tables: dict) -> None:
    names = {kind: [row["name"] for row in rows] for kind, rows in tables.items()}
    assert names["problems"] == list(PROBLEMS)
    assert names["models"] == list(MODELS)
    assert names["baselines"] == list(BASELINES)
    assert names["metrics"] == list(METRICS)


def test_every_row_says_what_it_is(tables: dict) -> None:
    for kind, rows in tables.items():
        for row in rows:
            assert row.get("title") or row.get("paper"), f"{kind}: {row['name']}"


def test_reach_is_inf_where_a_model_sees_the_whole_field(tables: dict) -> None:
    reach = {row["name"]: row["2d"]["reach"] for row in tables["models"]}
    assert reach["fno"] == reach["transolver"] == "inf"
    assert isinstance(reach["fino"], int) and isinstance(reach["unet"], int)


def test_costs_are_counted_for_every_model(tables: dict) -> None:
    for row in tables["models"]:
        assert 0 < row["1d"]["multiply_adds"] < row["2d"]["multiply_adds"], row["name"]
        assert row["1d"]["parameters"] > 0


def test_the_catalogue_survives_json(tables: dict) -> None:
    assert json.loads(json.dumps(tables)) == tables
