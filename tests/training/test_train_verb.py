"""`fino train` from data file to run folder, and back with --resume."""

from __future__ import annotations

import json

import pytest

import fino
from fino.cli.app import app
from fino.model.store import model_hash


def fino_train(*words: str) -> None:
    app(["train", *words], exit_on_error=False, result_action="return_value")


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "waves.h5"
    fino.generate("advection", samples=8, out=path, stride_space=32, stride_time=20)
    return path


def test_train_says_what_it_chose_and_why_and_resume_goes_on(file, tmp_path, capsys):
    out = tmp_path / "run"
    common = ["--set", "model.width=4", "--set", "model.levels=1", "--set", "model.history=3"]
    common += ["--set", "train.batch=2", "--set", "model.predict=increment"]
    fino_train("--data", str(file), "--steps", "4", "--out", str(out), *common)
    said = capsys.readouterr().out
    assert "it sees 9 cells a step" in said
    assert "budget: 4 steps" in said
    assert "Next: fino evaluate" in said
    assert fino.Run(out).settings.batch == 2
    fino_train("--resume", str(out), "--steps", "6", "--json")
    answer = json.loads(capsys.readouterr().out)
    assert answer["steps"] == 6
    assert answer["weights_sha256"] == model_hash(out / "model")


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ([], "fino train needs --data FILE, or --resume RUN"),
        (["--resume", "nowhere"], "There is no run, model or shipped model 'nowhere'"),
        (
            ["--data", "FILE", "--set", "model.widht=3"],
            "Unknown key 'model.widht' for model fino. Did you mean 'width'?",
        ),
        (["--data", "FILE", "--model", "finoo"], "Did you mean 'fino'"),
        (["--resume", "x", "--set", "model.width=3"], "leave out [model]"),
        (["--data", "FILE", "--set", "jobs=2"], "--set jobs=2 is for `fino run`"),
        (["--recipe", "quickstart"], "needs --data FILE, or --resume RUN, or make them: fino run"),
        (["--data", "FILE", "--recipe", "quickstrat"], "Did you mean 'quickstart'?"),
        (["--data", "FILE", "--stride-time", "two"], "auto or a whole number, got 'two'"),
        (["--resume", "x", "--stride-time", "2"], "leave out --stride-time"),
    ],
)
def test_mistakes_get_one_line(file, words, answer):
    with pytest.raises(ValueError) as caught:
        fino_train(*[str(file) if word == "FILE" else word for word in words])
    assert answer in str(caught.value)


def test_train_takes_what_any_recipe_has_for_the_model(file, tmp_path, capsys):
    recipe = tmp_path / "mine.toml"
    recipe.write_text(
        f"""
        models = ["fno", "wide"]
        seeds = [3, 4]
        [data]
        file = "{file}"
        train = 4
        [model]
        history = 3
        levels = 0
        [model.wide]
        name = "fino"
        width = 6
        [train]
        cpu_seconds = 1000
        batch = 2
        [train.wide]
        loss = "root"
        [sweep]
        "model.wide.width" = [2, 4]
        """
    )
    out = tmp_path / "run"
    common = ["--recipe", str(recipe), "--model", "wide", "--steps", "2", "--out", str(out)]
    fino_train(*common, "--set", "model.wide.radius=2", "--json")
    assert json.loads(capsys.readouterr().out)["steps"] == 2
    run = fino.Run(out)
    network = run.model.network.settings
    assert (run.model.settings.model, network.width, network.radius) == ("fino", 6, 2)
    assert (run.settings.seed, run.settings.loss, run.settings.cpu_seconds) == (3, "root", None)
    assert len(run.data.train) == 4


def test_train_reads_the_small_files_and_the_shipped_recipes(file, tmp_path, capsys):
    small = tmp_path / "small.toml"
    small.write_text("[model]\nwidth = 4\nlevels = 0\nhistory = 2\n[train]\nsteps = 2\nseed = 7\n")
    fino_train("--data", str(file), "--recipe", str(small), "--out", str(tmp_path / "a"), "--json")
    run = fino.Run(tmp_path / "a")
    assert run.model.network.settings.width == 4 and run.settings.seed == 7
    common = ["--data", str(file), "--recipe", "quickstart", "--steps", "1", "--json"]
    fino_train(*common, "--set", "model.history=2", "--out", str(tmp_path / "b"))
    assert fino.Run(tmp_path / "b").settings.threads == 1


@pytest.mark.parametrize(("asked", "stride"), [("auto", 4), ("2", 2)])
def test_long_steps_are_learned_and_known_to_the_run(tmp_path, capsys, asked, stride):
    file = tmp_path / "slow.h5"
    fino.generate("advection", 8, out=file, points=32, frames=33, duration=0.5, beta=1.0)
    words = ["--set", "model.width=4", "--set", "model.history=1", "--stride-time", asked]
    fino_train("--data", str(file), "--steps", "2", "--out", str(tmp_path / "run"), *words)
    run = fino.Run(tmp_path / "run")
    assert run.data.dt == pytest.approx(stride * 0.5 / 32) == pytest.approx(run.model.settings.dt)
    assert run.data.frames == 32 // stride + 1
    fino_train("--resume", str(tmp_path / "run"), "--steps", "3", "--json")
