"""What a trajectory costs: networks are built again from kept settings and timed in turn."""

import json
from dataclasses import replace

import pytest

from fino.metrics.scores import Score, Scores
from lab import front, keep
from lab.front import front_words, load_seconds, on_front
from lab.keep import keep_scores
from lab.standing import standings


@pytest.fixture(scope="module")
def scores(finished):
    return Scores.load(finished / "fino")


def at(scores, nrmse):
    return replace(scores, metrics={**scores.metrics, "nrmse": Score(nrmse, nrmse, nrmse)})


@pytest.fixture
def rows(scores):
    return standings({"fino": at(scores, 0.1), "fno": at(scores, 0.2), "unet": at(scores, 0.05)})


def test_what_is_dearer_and_worse_is_not_on_the_front(rows):
    seconds = {"fino": 1.0, "fno": 2.0, "unet": 3.0}
    assert on_front(rows, seconds) == ["fino", "unet"]
    assert on_front(rows, {**seconds, "fno": 0.5}) == ["fno", "fino", "unet"]
    assert on_front(rows, {"fno": 2.0}) == ["fno"], "what was not timed has no place"


def test_wins_and_losses_on_the_front_are_told(rows):
    tasks = {"advection": rows, "darcy": rows}
    ahead, behind = {"fino": 1.0, "unet": 3.0}, {"fino": 4.0, "unet": 2.0}
    assert front_words(tasks, {"advection": ahead, "darcy": behind}) == [
        "By error and seconds of inference, no model is both cheaper and better than FINO on 1 of "
        "2 tasks; on the others: darcy (unet 0.05 at 0.5 of the time)."
    ]
    assert front_words(tasks, {}) == []


def test_every_kept_network_is_timed_whatever_its_weights_were(scores, tmp_path, monkeypatch):
    monkeypatch.setattr(keep, "RESULTS", tmp_path)
    monkeypatch.setattr(front, "load_shipped", lambda: {"advection": scores})
    keep_scores(scores, "advection", "fino")
    keep_scores(scores, "advection", "fino-seed-1")
    keep_scores(scores, "short-advection", "fino")
    assert load_seconds() == {}
    front.front(repeats=1, json=True)
    seconds = load_seconds()
    assert {task: [*cases] for task, cases in seconds.items()} == {
        "advection": ["fino", "fino, shipped"],
        "short-advection": ["fino"],
    }
    assert seconds["advection"]["fino"] > 0
    assert json.loads((tmp_path / front.KEPT).read_text())["batch"] == 16
