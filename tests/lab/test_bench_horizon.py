"""Past the training horizon: the same truth, only longer, and which rollouts stay bounded."""

from __future__ import annotations

import json
import math

import pytest
import torch

import fino
from fino.metrics.scores import Scores
from lab import keep
from lab.app import app
from lab.bench_horizon import find_runs, measure_far, score_runs, solve_longer


def test_the_longer_truth_begins_with_the_shorter(finished):
    own = fino.open(finished / "data" / "advection.h5")
    data = solve_longer(own.card, times=3, samples=2)
    assert data.frames == 3 * (own.frames - 1) + 1
    assert data.dt == pytest.approx(own.dt)
    together = data.test.all()[:, : own.frames]
    assert torch.allclose(together, own.test.read([0, 1]), atol=1e-5)


def test_data_without_time_are_refused():
    card = fino.generate("darcy", samples=12, points=8).card
    with pytest.raises(ValueError, match="darcy has no time to go on in"):
        solve_longer(card, times=5, samples=1)


def test_every_run_is_scored_to_the_end(finished):
    found = score_runs(find_runs(finished), times=3, samples=2)
    assert list(found) == ["fino", "fno", "persistence"]
    assert all(scores.data["steps"] == 34 - scores.data["shown"] for scores in found.values())
    seen = measure_far(found["persistence"], times=3)
    assert seen.bounded and 0 < seen.within <= seen.worst


def test_the_horizon_of_training_and_a_blow_up_are_read_from_the_errors(finished):
    scores = Scores.load(finished / "fino")
    shown = scores.data["shown"]
    errors = [0.1 * (step + 1) for step in range(31 - shown)]
    scores.over_time["nrmse"]["model"] = errors
    seen = measure_far(scores, times=3)
    # 31 frames are three horizons of eleven, whose last is frame 10.
    assert (seen.within, seen.end) == (errors[10 - shown], errors[-1])
    scores.over_time["nrmse"]["model"] = [*errors[:-1], None]
    assert measure_far(scores, times=3).end == math.inf and not measure_far(scores, times=3).bounded


def test_the_verb_prints_and_keeps(finished, shipped, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(keep, "RESULTS", tmp_path / "results")
    monkeypatch.chdir(tmp_path)
    words = ["bench", "horizon", str(finished / "fino"), "advection", "--times", "2", "--samples"]
    app([*words, "1", "--keep", "--json"], exit_on_error=False, result_action="return_value")
    answer = json.loads(capsys.readouterr().out)
    assert answer["fino"]["end"] == answer["fino-shipped"]["end"]
    kept = sorted(path.name for path in (tmp_path / "results" / "horizon-advection").iterdir())
    assert kept == ["fino-shipped.json", "fino.json", "persistence.json"]
    app([*words, "1"], exit_on_error=False, result_action="return_value")
    assert "bounded" in capsys.readouterr().out
