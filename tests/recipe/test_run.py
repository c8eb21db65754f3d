"""`fino run`: from nothing to scores and a page, skipping what is done, surviving a kill."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import h5py
import little_runs
import numpy as np
import pytest
import torch
from scipy.io import netcdf_file

import fino
from fino.cli.app import app, main
from fino.data import dataset
from fino.metrics.scores import Scores
from fino.model.store import model_hash
from fino.recipe.recipe import read_recipe
from fino.recipe.run import carry_out, plan
from fino.streams import numpy_stream
from fino.training.fit import resume
from fino.training.run import Run

#: Six trajectories are enough here, and every step is a place to be killed at.
RECIPE = little_runs.RECIPE.replace("samples = 30", "samples = 6") + "checkpoint_seconds = 0\n"


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    path = tmp_path_factory.mktemp("recipe") / "tiny.toml"
    path.write_text(RECIPE)
    return path


@pytest.fixture(scope="module")
def finished(recipe):
    """A whole run, from nothing to a page."""
    out = recipe.parent / "finished"
    done = list(carry_out(plan(recipe, out)))
    assert not any(outcome.skipped for outcome in done)
    return out


@pytest.fixture
def copy(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "copy")


def again(recipe, out, *changes, until="report"):
    """Run the recipe in a folder; the names of the steps that were done and not skipped."""
    done = []
    for outcome in carry_out(plan(read_recipe(recipe, changes), out)):
        if not outcome.skipped:
            done.append(outcome.step.title)
        if outcome.step.title == until:
            break
    return done


def test_a_run_leaves_data_models_scores_and_a_page(finished):
    assert (finished / "data" / "advection.h5").is_file()
    for name in ("fino", "fno"):
        assert Run(finished / name).metrics[-1]["step"] == 4
        assert Scores.load(finished / name)["nrmse"].value > 0
    page = (finished / "report.html").read_text()
    assert "Beside its rivals" in page and "fno" in page
    assert json.loads((finished / "recipe.json").read_text())["data"]["samples"] == 6


def test_a_recipe_says_how_many_frames_are_shown(recipe, copy):
    """Other frames are scored then, by the run that is scored later too."""
    before = Scores.load(copy / "fino").data
    done = again(recipe, copy, "data.history=3", until="evaluate fno")
    assert "train fino" in done and "generate advection" not in done
    after = Scores.load(copy / "fino").data
    assert before["shown"] == 6 and after["shown"] == 3
    assert after["steps"] == before["steps"] + 3
    assert fino.evaluate(copy / "fino").data["steps"] == after["steps"]


def test_what_is_done_is_skipped(recipe, finished):
    before = {path: path.stat().st_mtime_ns for path in finished.rglob("*.*") if path.is_file()}
    assert again(recipe, finished) == []
    after = {path: path.stat().st_mtime_ns for path in finished.rglob("*.*") if path.is_file()}
    changed = [path.name for path in after if after[path] != before.get(path)]
    assert set(changed) <= {"recipe.json"}


@pytest.fixture
def opens(monkeypatch):
    """How often each HDF5 file was opened."""
    count = Counter()

    class Counted(h5py.File):
        def __init__(self, name, *rest, **more):
            count[str(name)] += 1
            super().__init__(name, *rest, **more)

    monkeypatch.setattr(h5py, "File", Counted)
    return count


def test_a_process_opens_the_data_once_and_a_finished_run_not_at_all(recipe, tmp_path, opens):
    file = str(tmp_path / "data" / "advection.h5")
    assert len(again(recipe, tmp_path)) == 6
    assert opens.pop(file) == 1
    assert again(recipe, tmp_path) == [] and opens[file] == 0
    (tmp_path / "steps" / "hashes.json").unlink()
    assert again(recipe, tmp_path) == [] and opens[file] == 1


def test_the_hash_of_your_own_file_is_remembered_until_it_changes(
    recipe, finished, tmp_path, opens, monkeypatch
):
    file = tmp_path / "mine.h5"
    shutil.copy(finished / "data" / "advection.h5", file)
    hashed = []
    compute = dataset.sample_digest
    monkeypatch.setattr(dataset, "sample_digest", lambda u: hashed.append(1) or compute(u))

    def run():
        changes = ["data.stride_space=2", "data.train=3", "seeds=[0, 1]", 'models=["fino"]']
        chosen = read_recipe(recipe, changes, data={"file": str(file)})
        hashed.clear()
        done = [o for o in carry_out(plan(chosen, tmp_path / "out")) if not o.skipped]
        return len(done), opens.pop(str(file)), len(hashed)

    assert run() == (5, 1, 6)
    assert run() == (0, 1, 0)
    fino.generate("advection", 6, 1, out=file, overwrite=True, points=32, frames=12, duration=0.2)
    done, _, samples = run()
    assert done == 5 and samples == 6
    assert (tmp_path / "out" / "set-aside" / "1" / "fino-seed-1").is_dir()


def test_only_what_depends_on_a_change_is_done_again(recipe, copy):
    todo = again(recipe, copy, "model.fno.width=6", until="evaluate fno")
    assert todo == ["train fno", "evaluate fno"]
    assert Run(copy / "fno").model.network.settings.width == 6


def test_other_data_mean_another_training(recipe, copy):
    todo = again(recipe, copy, "data.seed=5", until="evaluate fino")
    assert todo == ["generate advection", "train fino", "evaluate fino"]


def test_what_was_trained_otherwise_is_set_aside_and_not_thrown_away(recipe, copy):
    """Whoever changes a setting after an hour of training can have the hour's work back."""
    first = model_hash(copy / "fno" / "model")
    again(recipe, copy, "model.fno.width=6", until="evaluate fno")
    second = model_hash(copy / "fno" / "model")
    again(recipe, copy, "data.seed=5", until="evaluate fno")
    aside = copy / "set-aside"
    assert model_hash(aside / "1" / "fno" / "model") == first
    assert Scores.load(aside / "1" / "fno")["nrmse"].value > 0
    assert model_hash(aside / "2" / "fno" / "model") == second
    assert fino.open(aside / "1" / "advection.h5").card.seed == 0
    assert (aside / "1" / "fino").is_dir() and not (aside / "2" / "fino").exists()


def test_before_anything_is_set_aside_it_is_said(recipe, copy, capsys):
    words = ["run", str(recipe), "--out", str(copy), "--set", "train.steps=5", "--model", "fino"]
    app(words, exit_on_error=False, result_action="return_value")
    told = " ".join(capsys.readouterr().out.split())
    assert "what is there was made otherwise and goes to set-aside/" in told
    assert Run(copy / "set-aside" / "1" / "fino").metrics[-1]["step"] == 4


def test_a_lost_result_is_made_again(recipe, copy):
    (copy / "fno" / "scores.json").unlink()
    (copy / "report.html").unlink()
    planned = plan(recipe, copy)
    states = {step.title: planned.ledger.state(step) for step in planned.steps}
    assert states == {
        "generate advection": "done",
        "train fino": "done",
        "evaluate fino": "done",
        "train fno": "done",
        "evaluate fno": "lost",
        "report": "changed",
    }


def test_a_damaged_record_is_a_step_to_do_again_not_an_error(recipe, copy):
    (copy / "steps" / "evaluate-fino.json").write_text("{")
    assert again(recipe, copy, until="evaluate fino") == ["evaluate fino"]


def test_a_folder_that_is_not_ours_is_left_alone(recipe, tmp_path):
    (tmp_path / "fino").mkdir()
    (tmp_path / "fino" / "thesis.txt").write_text("mine")
    for _ in range(2):
        with pytest.raises(ValueError, match="exists already and is not of this recipe"):
            again(recipe, tmp_path)
    assert (tmp_path / "fino" / "thesis.txt").read_text() == "mine"


def test_cases_trained_together_are_those_trained_one_by_one(recipe, finished, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(finished / "data", out / "data")
    done = carry_out(plan(recipe, out), jobs=2)
    titles = [next(done).step.title for _ in range(4)]
    done.close()
    assert titles[0] == "generate advection" and titles[3] == "evaluate fino"
    assert sorted(titles[1:3]) == ["train fino", "train fno"]
    for name in ("fino", "fno"):
        assert model_hash(out / name / "model") == model_hash(finished / name / "model")


@pytest.mark.slow
def test_a_mistake_in_one_of_several_trainings_is_told_in_one_line(recipe, finished, tmp_path):
    shutil.copytree(finished / "data", tmp_path / "data")
    wrong = read_recipe(recipe, ["model.fino.levels=9"])
    with pytest.raises(ValueError, match=r"2\^levels") as caught:
        list(carry_out(plan(wrong, tmp_path), jobs=2))
    assert "\n" not in str(caught.value)


def maps(path, name, units, level, seed):
    """Monthly maps of 1999 to 2009 on a coarse globe, as NOAA lays them out."""
    months = np.arange("1999-01", "2010-01", dtype="datetime64[M]").astype("datetime64[D]")
    sizes = {"time": len(months), "lat": 9, "lon": 8}
    with netcdf_file(path, "w") as file:
        for axis, size in sizes.items():
            file.createDimension(axis, size)
        file.createVariable("lat", "f4", ("lat",))[:] = np.linspace(90, -90, 9)
        file.createVariable("lon", "f4", ("lon",))[:] = np.arange(8) * 45
        time = file.createVariable("time", "f8", ("time",))
        time.units = "hours since 1800-01-01 00:00:0.0"
        time[:] = (months - np.datetime64("1800-01-01")).astype(float) * 24
        values = file.createVariable(name, "f4", tuple(sizes))
        values.units = units
        values[:] = level + numpy_stream(seed, "maps").normal(size=tuple(sizes.values()))


def test_weather_maps_are_paired_into_a_file_of_ours(tmp_path):
    maps(tmp_path / "air.mon.nc", "air", "degK", 280.0, 0)
    maps(tmp_path / "slp.mon.nc", "slp", "millibars", 1010.0, 1)
    places = [f"data.air={tmp_path}/air.*.nc", f"data.pressure={tmp_path}/slp.*.nc"]
    small = ['models=["fino"]', "model.width=4", "train.threads=1", "train.steps=2"]
    recipe = read_recipe("laptop-climate", [*places, *small, "train.cpu_seconds=none"])
    out = tmp_path / "out"
    done = [o.step.title for o in islice(carry_out(plan(recipe, out)), 3)]
    assert done == ["generate climate", "train fino", "evaluate fino"]
    data = fino.open(out / "data" / "climate.h5")
    assert data.steady and len(data.test) == 120 and data.shape[3:] == (8, 8)
    maps(tmp_path / "slp.mon.nc", "slp", "millibars", 1010.0, 2)
    again = plan(recipe, out)
    assert again.ledger.state(again.steps[0]) == "changed"


def test_a_second_run_in_the_same_folder_is_refused(recipe, copy):
    first = carry_out(plan(recipe, copy))
    next(first)
    with pytest.raises(ValueError, match="Another run is at work in"):
        next(carry_out(plan(recipe, copy)))
    first.close()


def without_times(path):
    """Everything in scores.json but what a clock or a meter said."""
    content = json.loads(path.read_text())
    content.pop("when")
    content["cost"] = {k: content["cost"][k] for k in ("parameters", "multiply_adds")}
    return content


def test_the_same_seed_gives_the_same_scores(recipe, finished, tmp_path):
    kept = finished.rename(tmp_path / "first")
    try:
        again(recipe, finished, until="evaluate fno")
        for name in ("fino", "fno"):
            first = without_times(kept / name / "scores.json")
            assert without_times(finished / name / "scores.json") == first
        again(recipe, finished, "seeds=[1]", until="evaluate fino")
        other = without_times(finished / "fino" / "scores.json")
        assert other["metrics"] != without_times(kept / "fino" / "scores.json")["metrics"]
    finally:
        shutil.rmtree(finished)
        kept.rename(finished)


class PowerCut(Exception):
    """What nobody expects."""


def test_a_run_that_broke_off_goes_on_to_the_same_weights(recipe, finished, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(finished / "data", out / "data")
    experiment = plan(read_recipe(recipe), out)

    @contextmanager
    def watch(steps):
        def look(happened):
            if steps[0].kind == "train" and happened.step == 3:
                raise PowerCut

        yield look

    with pytest.raises(PowerCut):
        list(carry_out(experiment, watch))
    assert [experiment.ledger.state(step) for step in experiment.steps[:2]] == ["done", "begun"]
    assert json.loads((out / "fino" / "last" / "state.json").read_text())["step"] == 2
    assert again(recipe, out, until="train fino") == ["train fino"]
    assert model_hash(out / "fino" / "model") == model_hash(finished / "fino" / "model")


@pytest.mark.slow
def test_a_killed_run_goes_on_to_the_same_weights(recipe, finished, tmp_path):
    out = tmp_path / "out"
    changes = ["--set", "train.steps=60", "--set", 'models=["fino"]']
    command = [sys.executable, "-m", "fino", "run", str(recipe), "--out", str(out), *changes]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    state = out / "fino" / "last" / "state.json"
    deadline = time.monotonic() + 300
    while not state.is_file() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert state.is_file() and not (out / "fino" / "scores.json").exists()
    asked = ["train.steps=60", 'models=["fino"]']
    planned = plan(read_recipe(recipe, asked), out)
    states = [planned.ledger.state(step) for step in planned.steps]
    assert states[:2] == ["done", "begun"]
    begun = json.loads(state.read_text())["step"]
    again(recipe, out, *asked, until="train fino")
    assert Run(out / "fino").metrics[0]["step"] == 1 and begun < 60
    again(recipe, tmp_path / "whole", *asked, until="train fino")
    assert model_hash(out / "fino" / "model") == model_hash(tmp_path / "whole" / "fino" / "model")


def test_more_training_by_hand_is_kept_and_scored(recipe, copy):
    resume(copy / "fino", fino.open(copy / "data" / "advection.h5"), steps=6)
    assert again(recipe, copy, until="evaluate fino") == ["evaluate fino"]
    assert Run(copy / "fino").metrics[-1]["step"] == 6


def test_a_recipe_for_a_gpu_is_refused_before_any_work(tmp_path):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    with pytest.raises(ValueError, match="paper-darcy is for a GPU and torch sees none here"):
        next(carry_out(plan("paper-darcy", tmp_path / "out")))
    assert not (tmp_path / "out").exists()


def test_your_own_file_is_run_the_same_way(finished, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(finished / "data" / "advection.h5", "mine.h5")
    words = ["run", "--data", "mine.h5", "--model", "fino", "--set", "model.fino.width=4"]
    words += ["--set", "model.history=3", "--set", "train.steps=2", "--json"]
    app(words, result_action="return_value")
    told = json.loads(capsys.readouterr().out)
    assert told["done"] == ["train-fino", "evaluate-fino", "report"]
    assert (tmp_path / "runs" / "mine" / "report.html").is_file()
    app(words, result_action="return_value")
    assert json.loads(capsys.readouterr().out)["skipped"] == told["done"]


def test_a_single_long_trajectory_is_refused_before_training(tmp_path, monkeypatch, capsys):
    np.save(tmp_path / "u.npy", np.random.default_rng(0).normal(size=(1, 40, 1, 16)))
    told = [
        "--dt",
        "0.1",
        "--extent",
        "0:1",
        "--boundary",
        "periodic",
        "--out",
        str(tmp_path / "r"),
    ]
    words = ["run", "--data", str(tmp_path / "u.npy"), "--axes", "sample time channel x", *told]
    for more in ([], ["--dry-run"]):
        with pytest.raises(ValueError, match=r"leaves no test part to score: cut .* --window 16"):
            app([*words, *more], exit_on_error=False, result_action="return_value")
    assert not (tmp_path / "r" / "fino").exists()
    app([*words, "--window", "16", "--dry-run"], result_action="return_value")
    assert "Data: 25 samples" in capsys.readouterr().out  # the plan says how the file is understood


# The whole front door is tested, which reads sys.argv; cyclopts suspects a mistake.
@pytest.mark.filterwarnings("ignore:Cyclopts application invoked")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "Which recipe?"),
        (["quickstat"], "Unknown recipe 'quickstat'. Did you mean 'quickstart'?"),
        (["--data", "no.h5"], "There is no data file no.h5."),
        (["--data", f"{Path(__file__).parent}/tst_run.py"], "Did you mean 'test_run.py'?"),
        (["quickstart", "--set", "data.smples=3"], "Did you mean 'samples'?"),
    ],
)
def test_mistakes_on_the_command_line_are_one_line(words, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["fino", "run", *words])
    with pytest.raises(SystemExit) as stopped:
        main()
    told = capsys.readouterr().err
    assert stopped.value.code == 2 and message in told and told.count("\n") == 1
