"""What an earlier version wrote still opens: a data file, a run folder, a model folder, scores.

tests/fixtures/before/       written by fino 0.1.0 before its modules were renamed
  advection.h5               eight samples
  run/                       twenty steps of a small FINO, with scores of the first format
  stencil-model/             an untrained model
  stencil-step.npy           its step from the first test sample
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import fino
from fino.metrics.scores import Scores
from fino.report.words import baseline_table, describe_verdict
from fino.training.fit import resume
from fino.training.run import find_run

BEFORE = Path(__file__).parents[1] / "fixtures" / "before"
NRMSE = 1.9005375395243593


@pytest.fixture
def before(tmp_path):
    """A copy whose run knows where its data are."""
    folder = shutil.copytree(BEFORE, tmp_path / "before")
    place = folder / "run" / "data.json"
    facts = json.loads(place.read_text())
    place.write_text(json.dumps({**facts, "path": str(folder / facts["path"])}))
    return folder


def test_an_old_data_file_opens(before):
    data = fino.open(before / "advection.h5")
    assert data.shape == (8, 11, 1, 16)
    assert data.hash == json.loads((before / "run" / "data.json").read_text())["hash"]


def test_an_old_run_evaluates_to_its_old_score(before):
    run = find_run(before / "run")
    assert run.settings.steps == 20 and run.metrics[-1]["step"] == 20
    assert fino.evaluate(run)["nrmse"].value == pytest.approx(NRMSE, rel=1e-6)
    assert json.loads((run.folder / "scores.json").read_text())["format"] == "fino scores 2"


def test_old_scores_are_read_in_the_words_of_today(before):
    scores = find_run(before / "run").scores
    assert scores == Scores.load(BEFORE / "run")
    assert scores["nrmse"].value == NRMSE
    assert "persistence" in scores.baselines and "persistence" in scores.verdict["baselines"]
    assert describe_verdict(scores) == scores.verdict["sentence"]
    assert len(baseline_table(scores)[1]) == len(scores.baselines)


def test_an_old_run_can_be_resumed(before):
    run = resume(before / "run", steps=24)
    assert [row["step"] for row in run.metrics][:3] == [1, 10, 20]
    assert run.metrics[-1]["step"] == 24


def test_an_old_run_can_be_reported(before):
    written = fino.report(before / "run")
    assert "1.9" in Path(written["page"]).read_text()


def test_an_old_model_folder_takes_the_same_step(before):
    data = fino.open(before / "advection.h5")
    for model in (fino.load(before / "stencil-model"), find_run(before / "stencil-model").model):
        with torch.no_grad():
            step = model(data.test[0].history[None]).numpy()
        np.testing.assert_allclose(step, np.load(before / "stencil-step.npy"), rtol=0, atol=1e-6)
