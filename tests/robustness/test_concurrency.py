"""Two commands at once on one folder, with kills: nothing is lost and nothing is corrupted."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from answers import Answer, fino

import fino as package
from fino.inference import store
from fino.model.store import model_hash

STEPS = 14


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def start(words: list[object], answer: Path) -> int:
    """A command in a copy of this process; it leaves its answer in a file."""
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            os.setsid()
            found = fino(*words)
            answer.write_text(json.dumps([found.code, found.out, found.err]))
        os._exit(0)
    return child


class Folder:
    """A run, data and rollouts that commands work on at once, and what all should come to."""

    def __init__(self, place: Path, finished: Path) -> None:
        self.place, self.run = place, place / "run"
        self.data, self.out = place / "a.h5", place / "frames.npy"
        self.start = place / "start.npy"
        shutil.copytree(finished / "fino", self.run)
        settings = json.loads((self.run / "settings.json").read_text())
        settings |= {"steps": STEPS, "checkpoint_seconds": 0.0, "validations": 3}
        (self.run / "settings.json").write_text(json.dumps(settings))
        data = package.open(finished / "data" / "advection.h5")
        np.save(self.start, data.test[0].history.numpy())
        made = ["generate", "advection", "--samples", 6, "--set", "points=32", "--set", "frames=5"]
        rolled = ["rollout", finished / "fino", "--history", self.start, "--out", self.out]
        rolled += ["--engine", "torch"]
        self.verbs: dict[str, list[object]] = {
            "resume": ["train", "--resume", self.run],
            "evaluate": ["evaluate", self.run],
            "compare": ["compare", self.run],
            "show": ["rollout", self.run, "--steps", 2],
            "generate": [*made, "--out", self.data],
            "overwrite": [*made, "--out", self.data, "--overwrite"],
            "rollout": [*rolled, "--steps", 200],
            "shorter": [*rolled, "--steps", 150],
        }

    def finish(self, verb: str) -> Answer:
        """The command once more, with nobody beside it."""
        return fino(*self.verbs[verb])

    def results(self) -> dict[str, str]:
        state = json.loads((self.run / "last" / "state.json").read_text())
        found = {"weights": model_hash(self.run / "model"), "state": state["sha256"]}
        found |= {"data": digest(self.data)} if self.data.exists() else {}
        found |= {str(len(np.load(self.out))): digest(self.out)} if self.out.exists() else {}
        return found


@pytest.fixture(scope="module")
def wanted(finished, tmp_path_factory):
    """What every command comes to when it is alone."""
    folder = Folder(tmp_path_factory.mktemp("alone"), finished)
    answers = {}
    for verb in ("resume", "generate", "rollout", "shorter"):
        assert folder.finish(verb).code == 0
        answers |= folder.results()
    return answers


def pair(number: int, place: Path, finished: Path, wanted: dict[str, str]) -> None:
    draw = random.Random(number)
    folder = Folder(place, finished)
    (place / "notes.txt").write_text("mine")
    (folder.run / ".notes").mkdir()
    verbs = [draw.choice(sorted(folder.verbs)) for _ in range(2)]
    if draw.random() < 0.4:  # the pairs that would do the most harm
        verbs = draw.choice([["resume"] * 2, ["generate", "overwrite"], ["rollout", "shorter"]])
    told = [place / f"answer-{i}" for i in range(2)]
    children = [start(folder.verbs[v], t) for v, t in zip(verbs, told, strict=True)]
    killed = draw.choice([None, None, 0, 1])
    if killed is not None:
        time.sleep(draw.uniform(0, 0.6))
        with contextlib.suppress(ProcessLookupError):
            os.kill(children[killed], draw.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGHUP]))
    for child in children:
        os.waitpid(child, 0)
    what = f"pair {number}: {verbs}, killed {killed}"
    for i, path in enumerate(told):
        if path.exists():
            answer = Answer(*json.loads(path.read_text()))
            ended = answer.is_polite or (i == killed and answer.code in (129, 130, 143))
            assert ended, f"{what}: {verbs[i]} exit {answer.code}\n{answer.err[-2000:]}"
        else:
            assert i == killed, f"{what}: {verbs[i]} left no answer"
    for name, found in folder.results().items():
        if name not in ("weights", "state"):
            assert found == wanted[name], f"{what}: {name} is not what it should be"
    for verb in dict.fromkeys(["resume", "compare", *verbs]):
        assert folder.finish(verb).code == 0, f"{what}: then {verb}"
    for name, found in folder.results().items():
        assert found == wanted[name], f"{what}: in the end {name} is not what it should be"
    assert (place / "notes.txt").read_text() == "mine" and (folder.run / ".notes").is_dir()
    left = [path.name for path in (*place.iterdir(), *folder.run.iterdir()) if _is_ours(path)]
    assert not left, f"{what}: {left} left behind"


def _is_ours(path: Path) -> bool:
    hidden = path.name.startswith(".") and path.name != ".notes"
    return hidden or path.name.endswith(".parts")


@pytest.fixture
def often(monkeypatch):
    monkeypatch.setattr(store, "_MARK_SECONDS", 0.02)


@pytest.mark.parametrize("number", range(4))
def test_two_commands_at_once(number, finished, wanted, tmp_path, often):
    pair(number, tmp_path / "pair", finished, wanted)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(4, 104))
def test_a_hundred_pairs_of_commands_at_once(number, finished, wanted, tmp_path, often):
    pair(number, tmp_path / "pair", finished, wanted)
