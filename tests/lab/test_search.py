"""The same search for every model."""

from __future__ import annotations

import json

import pytest

import lab.search
from lab.keep import TASKS
from lab.results_page import results_page
from lab.results_words import EXPECTED
from lab.search import Trial, load_trials, run_trial, search, trials


@pytest.mark.parametrize("task", [task for task in TASKS if task != "climate"])
def test_nobody_has_fewer_trials_than_another_and_none_is_there_twice(task):
    for model in EXPECTED:
        found = trials(task, model)
        assert len({(trial.size, trial.rate) for trial in found}) == len(found) == 6
        shapes = {tuple(trial.changes[2:-1]) for trial in found}
        assert len(shapes) >= 3


def test_a_trial_is_trained_and_written_down_once(tmp_path, monkeypatch):
    monkeypatch.setattr(lab.search, "KEPT", tmp_path / "search.json")
    small = ("data.samples=12", "train.cpu_seconds=null", "train.steps=2", "jobs=1")
    trial = Trial("advection", "plain", "small", 3e-3)
    found = run_trial(trial, tmp_path, small)
    assert found["validation"] > 0 and found["parameters"] > 0
    assert load_trials() == {"advection": {"plain": [found]}}
    settings = (tmp_path / "advection" / "plain-small-3e-03" / "settings.json").read_text()
    assert json.loads(settings)["learning_rate"] == 3e-3


def test_the_page_names_what_is_not_finished(tmp_path, monkeypatch):
    row = {"size": "recipe", "rate": 0.01, "validation": 1.0, "parameters": 9}
    content = {"advection": {"fino": [{**row, "training_cpu_seconds": 120.0}]}}
    (tmp_path / "search.json").write_text(json.dumps(content))
    monkeypatch.setattr(lab.search, "KEPT", tmp_path / "search.json")
    page = results_page({}, {}, {}, {}, {}, {}, {}, {})
    assert "Not finished: fino (1 of 6), plain (0 of 6)" in page


def test_mistakes_are_told():
    with pytest.raises(ValueError, match=r"'advektion'\. Did you mean 'advection'\?"):
        search("advektion")
    with pytest.raises(ValueError, match=r"'plian'\. Did you mean 'plain'\?"):
        search("advection", only=("plian",))
