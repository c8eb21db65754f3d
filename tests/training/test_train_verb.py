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
    common = ["--model.width", "4", "--model.levels", "1", "--model.history", "3"]
    fino_train("--data", str(file), "--steps", "4", "--out", str(out), *common, "--train.batch=2")
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
        (["--data", "FILE", "--model.widht", "3"], "Did you mean 'width'"),
        (["--data", "FILE", "--model", "finoo"], "Did you mean 'fino'"),
        (["--resume", "x", "--model.width", "3"], "leave out --model"),
    ],
)
def test_mistakes_get_one_line(file, words, answer):
    with pytest.raises(ValueError) as caught:
        fino_train(*[str(file) if word == "FILE" else word for word in words])
    assert answer in str(caught.value)
