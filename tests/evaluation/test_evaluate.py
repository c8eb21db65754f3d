"""From a run folder to scores.json: the protocol, the baselines, the words for mistakes."""

import json
import math

import pytest
import torch

import fino
from fino.data.store import save as save_data
from fino.evaluation.evaluate import evaluate
from fino.metrics import METRICS
from fino.metrics.scores import Scores
from fino.report.words import describe_verdict
from fino.training.run_data import describe_data


class Shift:
    """The exact step of the waves: one cell to the right."""

    history = 1

    def __call__(self, history):
        return history[:, -1].roll(1, dims=2)


class Silence:
    """A stepper that remembers how it was asked."""

    history = 2

    def __init__(self):
        self.seen = []

    def __call__(self, history):
        self.seen.append(history.shape)
        return torch.zeros_like(history[:, -1])


def test_the_exact_step_is_perfect_and_beats_every_baseline(make_waves):
    scores = evaluate(Shift(), make_waves())
    assert scores["rmse"].value < 1e-6
    assert scores["correlation_time"].value == 4
    # Waves of one shape and any phase are found in the training part: lookups come near.
    looked_up = {"nearest-trajectory", "blended-trajectories"}
    others = [scores.baselines[name] for name in set(scores.baselines) - looked_up]
    assert all(baseline["nrmse"].value > 0.1 for baseline in others)
    assert "beats every baseline" in describe_verdict(scores)
    assert scores.verdict["baselines"]["persistence"]["certainty"] == 1.0


def test_predicting_zero_has_relative_error_one(make_waves):
    model = Silence()
    scores = evaluate(model, make_waves())
    assert scores["nrmse"].value == pytest.approx(1.0, abs=1e-6)
    assert "does not beat" in describe_verdict(scores)
    # Eight frames: four are shown, the last two of them to this model; four are predicted.
    assert (scores.data["shown"], scores.data["steps"]) == (4, 4)
    assert {shape[1] for shape in model.seen} == {2}


def test_every_metric_that_applies_is_scored_for_model_and_baselines(make_waves):
    scores = evaluate(Shift(), make_waves(channels=2))
    expected = {n for n, m in METRICS.items() if m.applies_to((16,), 4, False)}
    assert set(scores.metrics) == expected
    assert "frmse_high" not in expected and "rmse_area" not in expected
    for baseline in scores.baselines.values():
        assert set(baseline) == expected
    assert set(scores["rmse"].channels) == {"u", "v"}
    assert scores["rmse"].value == pytest.approx(sum(scores["rmse"].channels.values()) / 2)


def test_a_sphere_is_scored_by_area_too(make_waves):
    data = make_waves(points=(8, 4), boundary="neumann", area_weighted=True)
    scores = evaluate(Silence(), data)
    assert {"rmse_area", "nrmse_area", "crmse_area"} <= set(scores.metrics)


def test_steady_data_are_scored_in_one_step(make_waves):
    data = make_waves(frames=2, steady=True)
    scores = evaluate(Shift(), data)
    assert (scores.data["shown"], scores.data["steps"]) == (1, 1)
    assert "correlation_time" not in scores.metrics
    assert list(scores.baselines) == ["training-mean", "analogue", "regression"]


def test_chunks_change_nothing(make_waves, monkeypatch):
    whole = evaluate(Silence(), make_waves(samples=40))
    monkeypatch.setattr("fino.evaluation.tally._CHUNK", 300)
    model = Silence()
    parts = evaluate(model, make_waves(samples=40))
    assert max(shape[0] for shape in model.seen) == 2
    for name in whole.metrics:
        assert parts[name].value == pytest.approx(whole[name].value, rel=1e-12, abs=1e-14)
        assert parts[name].low == pytest.approx(whole[name].low, rel=1e-12, abs=1e-14)


def test_pdebenchs_convention_divides_by_one_batch_less(make_waves):
    data = make_waves(samples=40)
    ours = evaluate(Silence(), data, baselines=False)
    theirs = evaluate(Silence(), data, baselines=False, convention="pdebench", batch=2)
    # Four test samples, two batches: twice our number.
    assert theirs["rmse"].value == pytest.approx(2 * ours["rmse"].value, rel=1e-6)
    assert theirs.convention == "pdebench, batch 2"
    assert "correlation_time" not in theirs.metrics


def test_a_rollout_that_blows_up_is_said_to(make_waves, tmp_path):
    class Bomb(Silence):
        def __call__(self, history):
            return history[:, -1] * torch.inf

    scores = evaluate(Bomb(), make_waves(), out=tmp_path / "scores.json")
    assert scores.diverged == scores.data["samples"]
    assert math.isinf(scores["nrmse"].value)
    assert "diverges" in describe_verdict(scores)
    content = json.loads((tmp_path / "scores.json").read_text())
    assert content["metrics"]["nrmse"]["value"] is None
    assert math.isinf(Scores.load(tmp_path / "scores.json")["nrmse"].value)
    assert "diverged" in str(scores)


def test_a_run_is_scored_into_its_folder_and_read_back(make_run):
    folder = make_run(training=True)
    scores = evaluate(folder)
    again = Scores.load(folder)
    assert again == scores
    assert scores.model["name"] == "fino"
    assert len(scores.model["sha256"]) == 64
    assert scores.model["sha256"] == fino.model.store.model_hash(folder / "model")
    assert scores.data["sha256"] == json.loads((folder / "data.json").read_text())["hash"]
    assert scores.cost["training_cpu_seconds"] == 2.0
    assert scores.cost["parameters"] > 0 and scores.cost["multiply_adds"] > 0
    assert scores.versions["fino"] == fino.__version__


def test_the_same_run_gives_the_same_scores_but_for_times_and_cost(make_run):
    folder = make_run()
    contents = []
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for _ in range(2):
            evaluate(folder)
            content = json.loads((folder / "scores.json").read_text())
            del content["cost"], content["when"]
            contents.append(json.dumps(content))
    finally:
        torch.set_num_threads(threads)
    assert contents[0] == contents[1]


def test_training_twice_with_one_seed_gives_the_same_scores(make_waves, tmp_path):
    data = save_data(make_waves(), tmp_path / "waves.h5")
    contents = []
    for name in ("first", "again"):
        model = fino.build("fino", data, width=4, levels=0, seed=3)
        run = fino.fit(model, data, steps=6, seed=3, threads=1, out=tmp_path / name)
        evaluate(run)
        content = json.loads((run.folder / "scores.json").read_text())
        del content["cost"], content["when"]
        contents.append(content)
    assert contents[0] == contents[1]


def test_a_model_is_scored_in_its_mode_for_use(make_waves):
    data = make_waves()
    model = fino.build("fino", data, width=4, levels=0)
    model.network = torch.nn.Sequential(model.network, torch.nn.Dropout(0.9)).train()
    settings = model.network[0].settings
    model.network.settings, model.network.locality = settings, model.network[0].locality
    first, again = (evaluate(model, data, baselines=False)["rmse"].value for _ in range(2))
    assert first == again
    assert model.network.training


def test_strided_data_are_found_again(make_run, make_waves):
    folder = make_run(data=make_waves(points=(32,), frames=9))
    path = json.loads((folder / "data.json").read_text())["path"]
    data = fino.open(path).strided(2, 2)
    fino.save(fino.build("fino", data, width=4, levels=0), folder / "model", overwrite=True)
    (folder / "data.json").write_text(json.dumps(describe_data(data)))
    scores = evaluate(folder)
    assert scores.data["points"] == [16]


def refused(thing, data=None, **options):
    with pytest.raises(ValueError) as caught:
        evaluate(thing, data, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_broken_runs_are_answered_in_one_line(make_run, tmp_path):
    assert "There is no run, model or shipped model" in refused(tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    assert "it has no model" in refused(tmp_path / "empty")
    folder = make_run()
    weights = folder / "model" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-3] ^= 4
    weights.write_bytes(content)
    assert "is damaged" in refused(folder)
    content[-3] ^= 4
    weights.write_bytes(content)
    whole = (folder / "data.json").read_text()
    (folder / "data.json").write_text(whole[:50])
    assert "data.json is damaged: it is not JSON." in refused(folder)
    (folder / "data.json").write_text("{}")
    assert "data.json is damaged: Setting 'name' is missing." in refused(folder)
    facts = {**json.loads(whole), "path": None}
    (folder / "data.json").write_text(json.dumps(facts))
    assert "names no file" in refused(folder)
    (folder / "data.json").write_text(json.dumps({**json.loads(whole), "hash": "0" * 64}))
    assert "is not what" in refused(folder)
    (folder / "data.json").write_text(json.dumps({**json.loads(whole), "path": "/no/where.h5"}))
    assert "are no longer at /no/where.h5" in refused(folder)
    (folder / "data.json").unlink()
    assert "data.json is missing" in refused(folder)


def test_other_data_are_answered_in_one_line(make_run, make_waves):
    folder = make_run()
    message = refused(folder, make_waves(channels=2))
    assert message == (
        "The model predicts 1 channels (u), the data have 2 (u, v). Use data with the same fields."
    )
    message = refused(folder, make_waves(points=(32,)))
    assert "made for a 16 grid (periodic, spacing 0.0625)" in message
    assert "on a 32 grid (periodic, spacing 0.03125): another spacing" in message
    assert "on a 16 × 16 grid" in refused(folder, make_waves(points=(16, 16)))
    assert "on a 16 grid (neumann" in refused(folder, make_waves(boundary="neumann"))
    assert "steps by 0.1, the data by 0.2" in refused(folder, make_waves(frames=16).strided(1, 2))


def test_other_mistakes_are_answered_in_one_line(make_waves):
    assert "pass data as well" in refused(Shift())
    assert "got int" in refused(3, make_waves())
    message = refused(Shift(), make_waves(), part="tset")
    assert "train, validation, test or all, got 'tset'" in message
    assert "Use 'fino' or 'pdebench'" in refused(Shift(), make_waves(), convention="mine")
    silent = Silence()
    silent.history = 8
    assert "history 8 leaves nothing to predict" in refused(silent, make_waves())


def test_damaged_scores_are_answered_in_one_line(tmp_path):
    path = tmp_path / "scores.json"
    with pytest.raises(ValueError, match=r"There are no scores at .* Run `fino evaluate"):
        Scores.load(tmp_path)
    for content, message in (
        ("{", "it is not JSON"),
        ("{}", "not a file of scores"),
        ('{"format": "fino scores 1"}', "parts are missing"),
    ):
        path.write_text(content)
        with pytest.raises(ValueError, match=message):
            Scores.load(path)
