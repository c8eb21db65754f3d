"""The command line's front door."""

import subprocess
import sys
from importlib import import_module

import pytest

from fino.cli import app


@pytest.mark.parametrize(("home", "what"), list(app.VERBS.values()))
def test_every_verb_leads_to_a_function_and_says_what_it_does(home, what):
    module, _, name = home.partition(":")
    assert callable(getattr(import_module(module), name))
    assert what.endswith(".")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["genrate"], "fino: Unknown verb 'genrate'. Did you mean 'generate'?\n"),
        (["bench", "speed"], "fino: Run `python -m lab bench` in a clone of the repository.\n"),
        (["list", "--jsn"], "fino: Unknown option: --jsn. Did you mean --json?\n"),
        (["generate", "advection", "--samples", "many"], None),
        (
            ["generate", "advection"],
            "fino: `fino generate` needs --samples. See `fino generate --help`.\n",
        ),
        (
            ["train", "--data", "u.npy", "--minutes"],
            "fino: --minutes needs a value. See `fino train --help`.\n",
        ),
        (
            ["train", "mine.h5"],
            "fino: 'mine.h5' stands without an option. See `fino train --help`.\n",
        ),
        (["train", "--model.width", "48"], "fino: Write --set model.width=48.\n"),
        (
            ["train", "--train.learning-rate=1e-3", "--model.head", "[1, 2]", "--train.batch"],
            "fino: Write --set train.learning_rate=1e-3 --set 'model.head=[1, 2]' "
            "--set train.batch=VALUE.\n",
        ),
    ],
)
def test_a_mistake_is_answered_with_one_line(words, message):
    done = subprocess.run([sys.executable, "-m", "fino", *words], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("fino: ")
    if message:
        assert done.stderr == message


@pytest.mark.parametrize("words", [["--help"], []], ids=["--help", "nothing"])
def test_help_lists_the_verbs(words):
    done = subprocess.run([sys.executable, "-m", "fino", *words], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == ""
    assert all(verb in done.stdout for verb in app.VERBS)


def test_help_leaves_out_defaults_that_say_nothing():
    words = [sys.executable, "-m", "fino", "run", "--help"]
    shown = subprocess.run(words, capture_output=True, text=True).stdout
    assert "--set" in shown and "default: ()" not in shown and "default: False" not in shown
