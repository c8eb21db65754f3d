"""`python -m lab ship`: a run is shipped whole, once, small, and can be scored again from there."""

from __future__ import annotations

import json
import shutil

import pytest

import fino
from fino.cli.app import app as user_app
from fino.evaluation.evaluate import TOLERANCE, reproduce
from fino.metrics.scores import Scores
from fino.report.words import describe_reproduction
from fino.training.run import PRETRAINED
from lab import ship as shipping
from lab.app import app
from lab.ship import ship_run


@pytest.fixture
def run(finished, tmp_path):
    return shutil.copytree(finished / "fino", tmp_path / "run")


def call(verb, *words):
    """The lab ships, the package evaluates."""
    chosen = app if verb == "ship" else user_app
    chosen([verb, *words], exit_on_error=False, result_action="return_value")


def test_the_card_says_all_that_a_user_should_know(finished, shipped):
    card = json.loads((shipped / "card.json").read_text())
    assert card["data"]["card"]["name"] == "advection"
    assert card["data"]["card"]["samples"] == 30
    assert card["data"]["card"]["split"]["test"] == [[0, 3]]
    assert len(card["data"]["sha256"]) == 64
    assert card["recipe"]["network"]["width"] == 4
    assert card["recipe"]["training"]["steps"] == 4
    assert card["scores"]["samples"] == 3
    assert card["scores"]["nrmse"]["low"] <= card["scores"]["nrmse"]["value"]
    assert "persistence" in card["scores"]["baselines"]
    assert card["cost"]["cpu_minutes"] > 0
    (cells,), (length,) = card["reach"]["cells"], card["reach"]["length"]
    assert length == pytest.approx(cells / 16)
    assert card["versions"]["torch"] and card["date"]
    assert card["limits"][0] == "Trained for four steps."
    assert "cells of 0.0625 and a time step of 0.01818" in card["limits"][1]


def test_the_same_run_gives_the_same_bytes(finished, shipped):
    before = {path.name: path.read_bytes() for path in shipped.iterdir()}
    ship_run(finished / "fino", "advection", ["Trained for four steps."], overwrite=True)
    assert before == {path.name: path.read_bytes() for path in shipped.iterdir()}


def test_bands_and_guards_are_shipped_with_the_weights(finished, shipped):
    kept = finished / "fino" / "model" / "trust.json"
    assert (shipped / "trust.json").read_bytes() == kept.read_bytes()
    assert PRETRAINED["advection"].model.trust["seen"]["range"]


def test_the_scores_forget_where_the_data_were(shipped):
    assert Scores.load(shipped).data["path"] is None


def test_a_model_is_not_replaced_unless_asked(finished, shipped):
    with pytest.raises(ValueError, match=r"'advection' already. Pass --overwrite\.$"):
        ship_run(finished / "fno", "advection")


def test_what_the_run_before_cost_is_added(finished, weights_folder):
    ship_run(finished / "fino", "alone")
    ship_run(finished / "fino", "again", began_from=[finished / "fno"])
    alone, again = (PRETRAINED[name].card["cost"] for name in ("alone", "again"))
    assert again["cpu_minutes"] > alone["cpu_minutes"]
    assert set(again) == set(alone)  # the data were the same, and are paid for once


def test_a_model_that_sees_everything_says_so(finished, weights_folder):
    ship_run(finished / "fno", "spectral")
    assert PRETRAINED["spectral"].card["reach"] == {"cells": [None], "length": [None]}
    assert PRETRAINED["spectral"].title.endswith("sees the whole field")


def test_a_heavy_model_is_refused(run, weights_folder, monkeypatch):
    monkeypatch.setattr(shipping, "LARGEST", 1000)
    with pytest.raises(ValueError, match=r"would take .* MB, and a model in the package at most"):
        ship_run(run, "advection")
    assert not weights_folder.exists()


def spoil(run, **changes):
    content = json.loads((run / "scores.json").read_text())
    for key, value in changes.items():
        part, _, name = key.partition("__")
        content[part] = {**content[part], name: value} if name else value
    (run / "scores.json").write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model__sha256": "0"}, "was measured with other weights"),
        ({"data__part": "train"}, "whole test part"),
        ({"data__samples": 1}, "whole test part"),
        ({"convention": "pdebench, batch 50"}, "whole test part"),
        ({"diverged": 1}, "diverges on its test part"),
    ],
)
def test_scores_of_something_else_are_refused(run, weights_folder, changes, words):
    spoil(run, **changes)
    with pytest.raises(ValueError, match=words) as answer:
        ship_run(run, "advection")
    assert "\n" not in str(answer.value)


def test_a_baseline_that_is_not_beaten_is_a_limit(run, weights_folder):
    lost = {"solver": {"value": 0.01, "beaten": False, "certainty": 0.0}}
    spoil(run, verdict__baselines=lost, verdict__value=0.02)
    ship_run(run, "advection")
    limits = PRETRAINED["advection"].card["limits"]
    assert "fino (nRMSE 0.02) does not beat solver (0.01)." in limits


def test_a_run_without_scores_is_refused(run, weights_folder):
    (run / "scores.json").unlink()
    with pytest.raises(ValueError, match="There are no scores at"):
        ship_run(run, "advection")
    with pytest.raises(ValueError, match="it has no model"):
        ship_run(run / "model", "advection")
    with pytest.raises(ValueError, match=r"small letters, digits and dashes, got '../x'"):
        ship_run(run, "../x")
    with pytest.raises(ValueError, match="a sentence with a full stop, got 'slow'"):
        ship_run(run, "advection", ["slow"])


def test_the_verb_ships_and_evaluate_reproduces(finished, weights_folder, tmp_path, capsys):
    call("ship", str(finished / "fino"), "advection", "--limits", "Four steps.", "--json")
    assert json.loads(capsys.readouterr().out)["limits"][0] == "Four steps."
    call("evaluate", "--pretrained", "advection", "--json", "--out", str(tmp_path / "again.json"))
    answer = json.loads(capsys.readouterr().out)
    assert answer["agrees"] is True
    assert answer["metrics"]["nrmse"]["today"] == pytest.approx(
        answer["metrics"]["nrmse"]["shipped"]
    )
    assert Scores.load(tmp_path / "again.json")["nrmse"].value > 0
    call("evaluate", "advection", "--samples", "1")
    assert "1 of 3 test samples" in capsys.readouterr().out


def test_scores_that_cannot_be_reproduced_are_said_to_be_so(shipped):
    scores = json.loads((shipped / "scores.json").read_text())
    scores["metrics"]["nrmse"]["value"] *= 1 + 2 * TOLERANCE
    (shipped / "scores.json").write_text(json.dumps(scores))
    both = reproduce(PRETRAINED["advection"])
    assert both.agrees is False and "do NOT agree" in describe_reproduction(both)
    with pytest.raises(ValueError, match="the scores of 'advection' could not be reproduced"):
        call("evaluate", "advection", "--json")


def test_data_that_are_not_its_own_are_refused(finished, shipped, tmp_path):
    own = finished / "data" / "advection.h5"
    call("evaluate", "advection", "--data", str(own), "--json")
    settings = {"points": 32, "frames": 12, "duration": 0.2, "beta": 1.0}
    fino.generate("advection", 30, 1, stride_space=2, out=tmp_path / "other.h5", **settings)
    with pytest.raises(ValueError, match="These are not the data of 'advection'"):
        call("evaluate", "advection", "--data", str(tmp_path / "other.h5"))
    call("report", "advection", "--data", str(own), "--out", str(tmp_path / "page.html"))
    assert (tmp_path / "page.html").is_file()


def test_evaluate_wants_a_run_or_a_name():
    with pytest.raises(ValueError, match="a run folder or --pretrained NAME"):
        call("evaluate")
