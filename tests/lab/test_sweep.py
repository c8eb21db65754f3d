"""The sweep of cells that the results lack."""

from __future__ import annotations

import pytest

from lab.keep import TASKS, load_kept
from lab.results_words import EXPECTED
from lab.sweep import Cell, missing_cells, run_cell, sweep

SMALL = ("data.samples=12", "train.steps=2", "jobs=1")


def test_what_is_missing_comes_once_with_the_control_first_and_nothing_that_is_kept():
    cells, kept = missing_cells(), load_kept()
    assert len({*cells}) == len(cells)
    assert {c.task for c in cells} <= {*TASKS} - {"climate"}
    assert {c.model for c in cells} <= {*EXPECTED}
    assert not [c for c in cells if c.model in kept.get(c.task, {})]
    plain = [i for i, c in enumerate(cells) if c.model == "plain"]
    assert plain == [*range(len(plain))]


def test_a_cell_is_trained_scored_and_not_trained_twice(tmp_path):
    cell = Cell("advection", "plain")
    scores = run_cell(cell, tmp_path, SMALL)
    assert scores["nrmse"].value > 0
    weights = tmp_path / "advection" / "plain" / "model" / "model.safetensors"
    before = weights.stat().st_mtime_ns
    again = run_cell(cell, tmp_path, SMALL)
    assert again["nrmse"].value == scores["nrmse"].value
    assert weights.stat().st_mtime_ns == before


def test_a_misspelt_model_is_told():
    with pytest.raises(ValueError, match=r"tasks or models, got 'plian'\. Did you mean 'plain'\?"):
        sweep(only=("plian",))
