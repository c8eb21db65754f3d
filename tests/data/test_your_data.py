"""Your own file from the command line to scores, and a test file of your own beside them."""

from __future__ import annotations

import json

import numpy as np
import pytest

import fino
from fino.cli.app import app
from fino.metrics.scores import Scores
from fino.model.baselines import baselines_for


def waves(samples: int, seed: int) -> np.ndarray:
    """Waves of any phase that move by one cell a frame: (sample, time, x)."""
    phase = np.random.default_rng(seed).uniform(0, 2 * np.pi, (samples, 1, 1))
    x, t = np.arange(16)[None, None], np.arange(8)[None, :, None]
    return np.sin(2 * np.pi * (x - t) / 16 + phase).astype(np.float32)


def run_command(*words: object) -> None:
    app([str(word) for word in words], exit_on_error=False, result_action="return_value")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run of two steps on an .npz file that says nothing but its numbers."""
    folder = tmp_path_factory.mktemp("own")
    np.savez(folder / "mine.npz", u=waves(12, 0))
    np.savez(folder / "test.npz", u=waves(7, 1))
    words = ["--dt", 0.1, "--extent", "0:1", "--boundary", "periodic"]
    run_command(
        *("train", "--data", folder / "mine.npz", *words, "--test", 3, "--steps", 2),
        *("--set", "model.width=4", "--out", folder / "run"),
    )
    return folder


@pytest.fixture
def own(trained):
    """The same with scores of its own."""
    run_command("evaluate", trained / "run", "--json")
    return trained


def test_guesses_and_parts_are_said_before_training(trained, tmp_path, capsys):
    words = ["--dt", 0.1, "--extent", "0:1", "--boundary", "periodic", "--test", 3]
    run_command(
        *("train", "--data", trained / "mine.npz", *words, "--steps", 1),
        *("--set", "model.width=4", "--out", tmp_path / "run"),
    )
    said = capsys.readouterr().out
    assert said.index("Guessed: axes of u (12, 8, 16): sample time x (axes)") < said.index("budget")
    assert "Data: 12 samples of u; 16 points on [0, 1], periodic; 8 frames from 0, Δt = 0.1" in said
    assert "Parts: chosen by hand (train 8, validation 1, test 3)" in said


def test_what_models_are_given_beside_the_frames_is_said_with_its_range(tmp_path, capsys):
    np.savez(tmp_path / "mine.npz", u=waves(12, 0), nu=np.linspace(1, 2, 12))
    words = ["--dt", 0.1, "--extent", "0:1", "--boundary", "periodic", "--dry-run"]
    run_command("run", "--data", tmp_path / "mine.npz", *words)
    assert "Guessed: not given to models: nu, one number" in capsys.readouterr().out
    run_command("run", "--data", tmp_path / "mine.npz", *words, "--parameters", "nu")
    assert "Given to models beside the frames: nu from 1 to 2\n" in capsys.readouterr().out


def test_a_run_finds_its_file_again_with_all_that_was_said_about_it(own):
    data = fino.find_run(own / "run").data
    assert data.dt == 0.1 and data.grid.boundary == ("periodic",) and len(data.test) == 3
    assert Scores.load(own / "run").data["samples"] == 3
    run_command("train", "--resume", own / "run", "--steps", 3)


def test_another_file_is_scored_whole_and_beside_the_runs_own_scores(own):
    before = (own / "run" / "scores.json").read_bytes()
    run_command("evaluate", own / "run", "--data", own / "test.npz")  # no need to say it all again
    assert (own / "run" / "scores.json").read_bytes() == before
    scores = Scores.load(own / "run" / "scores-test.json")
    assert scores.data["samples"] == 7 and scores.data["part"] == "all"
    run_command("evaluate", own / "run", "--data", own / "test.npz", "--part", "test")
    assert Scores.load(own / "run" / "scores-test.json").data["samples"] == 1


def test_baselines_are_fitted_on_what_the_run_has_learned_from(own):
    run = fino.find_run(own / "run")
    scores = fino.evaluate(run, own / "test.npz")
    learned, test = run.data, fino.open(own / "test.npz", usual=run.data.opened)
    given, future = test.everything.begin(range(7), learned.task().shown)
    for name in ("training-mean", "nearest-trajectory"):
        baseline = baselines_for(learned, learned.task().shown)[name]
        predicted = baseline.trajectory(given.history, future.shape[1])
        rmse = float((predicted - future).square().mean(dim=(2, 3)).sqrt().mean())
        assert scores.baselines[name]["rmse"].value == pytest.approx(rmse, rel=1e-4)


def test_two_test_files_of_one_name_do_not_replace_each_other(own, tmp_path):
    run_command("evaluate", own / "run", "--data", own / "test.npz")
    np.savez(tmp_path / "test.npz", u=waves(5, 2))
    run_command("evaluate", own / "run", "--data", tmp_path / "test.npz")
    names = sorted(path.name for path in (own / "run").glob("scores-test*.json"))
    assert len(names) == 2
    assert Scores.load(own / "run" / "scores-test.json").data["samples"] == 7


def test_a_recipe_says_the_same_in_its_own_table(own, tmp_path):
    (tmp_path / "mine.toml").write_text(
        f'models = ["fino"]\n[data]\nfile = "{own / "mine.npz"}"\n[data.reading]\ndt = 0.1\n'
        'extent = "0:1"\nboundary = "periodic"\ntest = 4\n[model]\nwidth = 4\n[train]\nsteps = 1\n'
    )
    run_command("run", tmp_path / "mine.toml", "--out", tmp_path / "out", "--json")
    assert Scores.load(tmp_path / "out" / "fino").data["samples"] == 4
    facts = json.loads((tmp_path / "out" / "fino" / "data.json").read_text())
    assert facts["opened"]["dt"] == 0.1


def test_rollouts_start_from_your_file(own, capsys):
    words = ["--data", own / "test.npz", "--steps", 2, "--json"]
    run_command("rollout", own / "run", *words)
    assert json.loads(capsys.readouterr().out)["shape"] == [2, 1, 16]


def test_save_load_and_open_say_what_they_are_for(own, tmp_path):
    data = fino.open(own / "mine.npz", dt=0.1, extent=(0, 1), boundary="periodic")
    place = fino.save(data, tmp_path / "mine.h5")
    assert fino.open(place).hash == data.hash
    with pytest.raises(ValueError, match=r"mine\.h5 is a file: load is for models, .* open is for"):
        fino.load(place)
    with pytest.raises(ValueError, match=r"it is a run or a model, not data: open is for data"):
        fino.open(own / "run")
    with pytest.raises(ValueError, match="save writes a model or data, got ndarray"):
        fino.save(np.zeros(3), tmp_path / "x")
    with pytest.raises(ValueError, match=r"mine\.h5 exists already"):
        fino.save(data, tmp_path / "mine.h5")


def test_options_without_data_are_not_ignored(own):
    with pytest.raises(ValueError, match="dt would say how to read other data: pass --data"):
        run_command("evaluate", own / "run", "--dt", 0.2)
    with pytest.raises(ValueError, match="--dt would say how to read a file: add --data FILE"):
        run_command("train", "--recipe", "quickstart", "--dt", 0.2)
