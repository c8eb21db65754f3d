"""The sweep of cells that the results lack."""

from __future__ import annotations

import json

import pytest

from fino.recipe.recipe import read_recipe
from lab.keep import TASKS, load_kept
from lab.results_words import EXPECTED
from lab.sweep import Cell, missing_cells, run_cell, sweep

SMALL = ("data.samples=12", "train.steps=2", "jobs=1")


def test_what_is_missing_comes_once_with_the_control_first_and_nothing_that_is_kept():
    cells, kept = missing_cells(), load_kept()
    assert len({*cells}) == len(cells)
    assert {c.task for c in cells} <= {*TASKS}
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


def test_the_short_table_is_kept_apart_and_its_recipes_are_those_of_the_long_one_made_short():
    for cell in missing_cells(short=True):
        assert cell.short and cell.kept_as == f"short-{cell.task}"
        short = read_recipe(cell.recipe, cell.changes, models=[cell.model])
        long = read_recipe(cell.recipe, models=[cell.model])
        assert short.data == long.data
        assert short.train["cpu_seconds"] == long.train["cpu_seconds"] / 10


def test_other_seeds_are_cells_of_their_own_and_again_means_all_of_them():
    everything = missing_cells(again=True)
    assert len(everything) == len(TASKS) * len(EXPECTED)
    cell = next(c for c in missing_cells(short=True, seed=7) if c.model == "plain")
    assert cell.case == "plain-seed-7"
    assert [c.seed for c in missing_cells(short=True, seed=7)] == [7] * len(everything)
    assert read_recipe(cell.recipe, cell.changes, models=["plain"]).seeds == (7,)


def test_models_and_tasks_are_chosen_together_and_climate_needs_its_files(capsys):
    sweep(only=("plain", "darcy", "climate"), again=True, json=True)
    assert json.loads(capsys.readouterr().out) == [{"task": "darcy", "model": "plain"}]
    files = ("data.air=air.nc", "data.pressure=slp.nc")
    sweep(only=("fino", "climate"), again=True, set=files, json=True)
    assert json.loads(capsys.readouterr().out) == [{"task": "climate", "model": "fino"}]


def test_a_misspelt_model_is_told():
    with pytest.raises(ValueError, match=r"tasks or models, got 'plian'\. Did you mean 'plain'\?"):
        sweep(only=("plian",))
