"""The audit finds a changed number, and baselines are put beside every score of the same data."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from fino.metrics.scores import Score, Scores
from fino.model import pretrained
from fino.training.run import PRETRAINED
from lab import keep as module
from lab.app import app
from lab.audit import replace_baselines
from lab.keep import keep_folder, load_kept


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "RESULTS", tmp_path / "results")
    return tmp_path / "results"


def call(*words):
    app(list(words), exit_on_error=False, result_action="return_value")


def test_cells_are_computed_again_from_weights(shipped, results, capsys):
    call("audit", "--cells", "3", "--json")
    cells = json.loads(capsys.readouterr().out)
    assert len(cells) == 3 and all(cell["holds"] for cell in cells)
    assert {cell["row"] for cell in cells} == {"fino, shipped"}
    path = pretrained.WEIGHTS / "advection" / "scores.json"
    scores = Scores.load(path)
    wrong = {
        name: replace(score, value=1.02 * score.value) for name, score in scores.metrics.items()
    }
    replace(scores, metrics=wrong).save(path)
    with pytest.raises(ValueError, match=r"^4 of 4 cells differ from the kept scores\.$"):
        call("audit", "--cells", "4")
    assert "OFF by 1.96 %" in capsys.readouterr().out


def test_a_run_folder_is_audited_against_its_kept_score(finished, shipped, results, capsys):
    with pytest.raises(ValueError, match="No kept score is of the weights in"):
        call("audit", str(finished / "fno"))
    keep_folder(finished)
    call("audit", str(finished / "fno"), "--cells", "8", "--json")
    cells = json.loads(capsys.readouterr().out)
    assert {cell["row"] for cell in cells} == {"fino, shipped", "fno"}
    assert all(cell["holds"] for cell in cells)


def test_a_task_without_weights_is_refused(shipped, results):
    with pytest.raises(ValueError, match="no shipped model is of these tasks"):
        call("audit", "--tasks", "darcy")


def test_todays_baselines_stand_beside_every_score_of_the_same_data(finished, shipped, results):
    keep_folder(finished)
    today = Scores.load(finished / "fino")
    sharp = {name: Score(1e-9, 0.0, 2e-9) for name in ("rmse", "nrmse")}
    today = replace(today, baselines={**today.baselines, "solver": sharp})
    written = replace_baselines("advection", today)
    assert {path.name for path in written} == {"fino.json", "fno.json", "card.json", "scores.json"}
    kept = load_kept()["advection"]
    assert all(scores.baselines["solver"]["nrmse"].value == 1e-9 for scores in kept.values())
    assert not kept["fno"].verdict["baselines"]["solver"]["beaten"]
    card = PRETRAINED["advection"].card
    assert card["scores"]["baselines"]["solver"]["nrmse"]["value"] == 1e-9
    assert card["scores"]["sentence"] in card["limits"]
    # Scores of other samples are left alone.
    other = replace(today, data={**today.data, "samples": 1})
    assert replace_baselines("advection", other) == []
