"""The lab's front door."""

import subprocess
import sys
from importlib import import_module

import pytest

from lab import app


@pytest.mark.parametrize(("home", "what"), [*app.VERBS.values(), *app.BENCHES.values()])
def test_every_verb_leads_to_a_function_and_says_what_it_does(home, what):
    module, _, name = home.partition(":")
    assert callable(getattr(import_module(module), name))
    assert what.endswith(".")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["galery"], "lab: Unknown verb 'galery'. Did you mean 'gallery'?\n"),
        (["bench", "speed", "--repeats", "many"], None),
    ],
)
def test_a_mistake_is_answered_with_one_line(words, message):
    done = subprocess.run([sys.executable, "-m", "lab", *words], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("lab: ")
    if message:
        assert done.stderr == message


def test_help_lists_the_verbs():
    done = subprocess.run([sys.executable, "-m", "lab", "--help"], capture_output=True, text=True)
    assert done.returncode == 0
    assert all(verb in done.stdout for verb in (*app.VERBS, "bench"))
