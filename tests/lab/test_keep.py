"""Kept scores: short files from which the tables can be printed without the runs."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest

from fino.metrics.scores import Scores
from lab import keep as module
from lab.app import app
from lab.keep import (
    RESULTS,
    SHIPPED,
    compare_cases,
    compare_kept,
    group_seeds,
    keep_folder,
    load_kept,
)


@pytest.fixture
def results(tmp_path, monkeypatch):
    """An empty folder instead of the package's own."""
    monkeypatch.setattr(module, "RESULTS", tmp_path / "results")
    return tmp_path / "results"


def call(*words):
    app(list(words), exit_on_error=False, result_action="return_value")


def reseeded(scores, seed, factor):
    """The same scores as another seed would have them."""
    training = {**scores.model["training"], "seed": seed}
    nrmse = replace(scores["nrmse"], value=scores["nrmse"].value * factor)
    return replace(
        scores,
        model={**scores.model, "training": training, "sha256": str(seed)},
        metrics={**scores.metrics, "nrmse": nrmse},
    )


def test_a_folder_of_runs_is_kept_by_task_and_case(finished, results):
    written = keep_folder(finished)
    assert [f"{p.parent.name}/{p.name}" for p in written] == [
        "advection/fino.json",
        "advection/fno.json",
    ]
    for path in written:
        assert path.stat().st_size < 30_000
        own = Scores.load(finished / path.stem)
        assert Scores.load(path)["nrmse"].value == pytest.approx(own["nrmse"].value, rel=1e-5)
        assert Scores.load(path).data["path"] is None


def test_a_command_travels_without_the_folders_of_its_machine(finished):
    command = "fino run mine.toml --out /home/me/a/b --set 'data.air=/data/air.nc' --set x=a/b"
    scores = replace(Scores.load(finished / "fino"), command=command).without_place()
    assert scores.command == "fino run mine.toml --out b --set 'data.air=air.nc' --set x=a/b"
    assert scores.without_place() == scores


def test_keeping_again_gives_the_same_bytes(finished, results):
    before = [path.read_bytes() for path in keep_folder(finished)]
    assert before == [path.read_bytes() for path in keep_folder(finished)]


def test_a_single_run_is_kept_under_a_name_that_is_given(finished, results):
    (path,) = keep_folder(finished / "fno", task="ablation-blocks", case="fno-wide")
    assert path == results / "ablation-blocks" / "fno-wide.json"
    assert load_kept() == {}
    assert list(load_kept("ablation-")) == ["ablation-blocks"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nothing",), "is neither a folder of `fino run` nor a run with scores"),
        (("laptop-advection/fino",), "does not say its task: pass --task"),
        (("laptop-advection", "--case", "x"), "has 2 runs: --case is for a single one"),
        (("laptop-advection/fino", "--task", "a/b"), "letters, digits, dots and dashes"),
        ((), "keep should be given folders"),
    ],
)
def test_mistakes_are_answered_with_one_line(finished, results, words, message, monkeypatch):
    monkeypatch.chdir(finished.parent)
    with pytest.raises(ValueError, match=message) as answer:
        call("keep", *words)
    assert "\n" not in str(answer.value)


def test_long_scores_lose_their_spectra(finished, results, monkeypatch):
    monkeypatch.setattr(module, "_LARGEST", 2000)
    kept = Scores.load(keep_folder(finished)[0])
    assert kept.spectra["fields"] == {} and kept.over_time["nrmse"]["model"]


def test_seeds_of_a_case_are_one_row(finished):
    first, rival = Scores.load(finished / "fino"), Scores.load(finished / "fno")
    cases = {"fino": first, "fino-seed-1": reseeded(first, 1, 1.2), "fno": rival}
    (joined,) = compare_cases(cases)
    assert [(row.name, row.runs) for row in joined.rows] == [("fino", 2), ("fno", 1)]
    assert joined.rows[0].values["nrmse"].mean == pytest.approx(1.1 * first["nrmse"].value)
    assert joined.baselines


def test_cases_on_other_data_stand_in_a_table_of_their_own(finished):
    first, rival = Scores.load(finished / "fino"), Scores.load(finished / "fno")
    other = replace(rival, data={**rival.data, "sha256": "other"})
    assert len(compare_cases({"fino": first, "fno": other})) == 2


def test_groups_of_seeds_put_fino_first():
    assert group_seeds(["a", "fino-seed-0", "fino-seed-10", "fno"]) == {
        "fino": ["fino-seed-0", "fino-seed-10"],
        "a": ["a"],
        "fno": ["fno"],
    }


def test_an_ablation_is_kept_with_the_name_of_its_data(finished, results, tmp_path):
    copied = shutil.copytree(finished, tmp_path / "copy")
    recipe = json.loads((copied / "recipe.json").read_text())
    (copied / "recipe.json").write_text(json.dumps({**recipe, "name": "ablation-gate"}))
    assert keep_folder(copied)[0].parent.name == "ablation-gate-advection"


def test_the_shipped_model_stands_beside_the_others(finished, results, shipped):
    keep_folder(finished)
    ((joined,),) = compare_kept().values()
    assert [row.name for row in joined.rows] == ["fino", SHIPPED, "fno"]


def test_compare_prints_the_kept_scores_beside_the_paper(finished, results, weights_folder, capsys):
    with pytest.raises(ValueError, match="no scores are kept in lab/results"):
        call("compare")
    call("keep", str(finished), "--json")
    assert len(json.loads(capsys.readouterr().out)) == 2
    call("compare", "--format", "json")
    (table,) = json.loads(capsys.readouterr().out)
    rows = {row["model"]: row for row in table["rows"]}
    assert rows["fino"]["seeds"] == 1 and rows["fino"]["CPU-min"] > 0
    assert rows["fino †"]["rmse"] == 0.00296
    assert "baseline: persistence" in rows
    call("compare")
    assert "CPU-min" in capsys.readouterr().out


def test_a_damaged_file_is_named(finished, results, weights_folder):
    path = keep_folder(finished)[0]
    path.write_text("{")
    with pytest.raises(ValueError, match=r"advection/fino.json is damaged"):
        compare_kept()


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*/*.json")) or [None])
def test_every_kept_file_can_be_read_and_is_short(path):
    if path is None:
        assert not list(RESULTS.glob("*/*.json"))
        return
    assert path.stat().st_size < 60_000
    scores = Scores.load(path)
    assert scores.metrics and scores == scores.without_place()
