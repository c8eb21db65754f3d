"""One noun for a trained thing, and one place that finds it."""

from __future__ import annotations

import json

import pytest
import torch
from little_data import little_fino, waves

import fino
from fino.data.store import save as save_data
from fino.training import run as run_module
from fino.training.run import PRETRAINED, find_run

QUICK = {"steps": 4, "batch": 4, "validations": 2, "validation_samples": 2, "threads": 1}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run folder whose data are a file."""
    place = tmp_path_factory.mktemp("found")
    data = save_data(waves(), place / "waves.h5")
    return fino.fit(little_fino(data), data, out=place / "run", **QUICK).folder


def test_a_fitted_run_is_used_without_reading_anything_again(tmp_path, monkeypatch):
    data = waves()  # an array in memory, which no file could give back
    run = fino.fit(little_fino(data), data, out=tmp_path / "run", **QUICK)
    kept = fino.load(run.folder / "model").state_dict()

    def refuse(*arguments, **options):
        raise AssertionError("the process holds this already")

    monkeypatch.setattr(run_module, "load", refuse)
    monkeypatch.setattr(run_module, "reopen_data", refuse)
    assert run.data is data
    assert all(torch.equal(kept[name], value) for name, value in run.model.state_dict().items())
    scores = fino.evaluate(run)
    assert run.scores is scores
    assert fino.rollout(run, data.test[0].history, steps=3).shape == (3, 1, 32)
    assert fino.inspect(run).data == "waves"
    assert (tmp_path / "run" / "report.html").samefile(fino.report(run)["page"])
    assert repr(run).startswith(f"Run(run, {tmp_path / 'run'}, 4 steps, validation nRMSE ")


def test_everything_that_means_a_run_is_found(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = fino.Run(folder)
    assert find_run(run) is run
    assert run.data is run.data and run.model is run.model
    for thing in (folder, str(folder), folder / "model", run.model):
        found = find_run(thing, run.data)
        assert found.model_name == "fino" and found.data is run.data
    assert find_run(folder).name == "run" and find_run(run.model).name == "fino"
    stepper = find_run(lambda history: history[:, -1])
    assert stepper.folder is None and not stepper.has_data and stepper.metrics == []
    assert find_run(next(iter(PRETRAINED))).is_shipped
    with pytest.raises(ValueError, match=r"a run or model folder, .* got int"):
        find_run(3)


def test_other_data_are_checked_and_have_no_scores_yet(folder):
    fino.evaluate(folder)
    assert find_run(folder).scores is not None
    assert find_run(folder, fino.Run(folder).data).scores is not None
    other = find_run(folder, waves(seed=1))
    assert other.scores is None
    assert find_run(folder).model.grid == other.model.grid
    with pytest.raises(ValueError, match="another spacing"):
        find_run(folder, waves(points=16))


def test_a_model_alone_knows_no_data_and_no_training(folder):
    alone = find_run(folder / "model")
    assert alone.results_folder is None and alone.recorded_settings is None
    for name in ("data", "data_card", "settings"):
        with pytest.raises(ValueError, match="A model alone does not know"):
            getattr(alone, name)
    fino.evaluate(alone, fino.Run(folder).data)
    assert not (folder / "model" / "scores.json").exists()


def test_a_run_in_the_package_has_a_card_and_is_never_written_to():
    run = find_run("advection")
    assert run.card["title"] == run.data_card.title
    assert run.settings.seed == run.card["recipe"]["training"]["seed"]
    assert run.scores["nrmse"].value == run.card["scores"]["nrmse"]["value"]
    assert run.results_folder is None
    assert repr(run) == "Run(advection, shipped)"
    fino.evaluate(run.with_data(run.test_data(samples=1)), baselines=False)
    assert {path.name for path in run.folder.iterdir()} == {
        *("card.json", "config.json", "model.safetensors", "scores.json", "trust.json")
    }


@pytest.mark.parametrize("choose_by", ["nrmse", "full"])
def test_the_best_row_is_the_one_whose_weights_were_kept(choose_by, folder, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "settings.json").write_text(json.dumps({"choose_by": choose_by}))
    rows = [
        {"step": 1, "nrmse": None, "validation": None},
        {"step": 2, "nrmse": 0.2, "validation": 1.0},
        {"step": 3, "nrmse": 0.1, "validation": 2.0},
    ]
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert fino.Run(tmp_path).best["step"] == {"nrmse": 3, "full": 2}[choose_by]
    kept = fino.Run(folder)
    improved = [row["step"] for row in kept.metrics if row["improved"]]
    assert kept.best["step"] == improved[-1]


def test_nothing_there_is_answered_in_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    nothing = "There is no run, model or shipped model"
    for verb in (find_run, fino.evaluate, fino.inspect, fino.report, fino.Run):
        with pytest.raises(
            ValueError, match=rf"^{nothing} 'advectio'. Did you mean 'advection'\?$"
        ):
            verb("advectio")
    with pytest.raises(ValueError, match=rf"^{nothing} 'x'\. `fino train` makes a run; "):
        fino.rollout("x", torch.zeros(1, 1, 1, 8), steps=1)
