"""Killed again and again at random moments, a command ends with the bytes of one that was not."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import time

import numpy as np
import pytest
from answers import fino
from test_concurrency import digest, start

import fino as package
from fino.data import generate as generating
from fino.inference import store
from fino.model.store import model_hash


def kill_often(words, kills, progress, place):
    """Start, kill soon after it came on, start again …; then let it end."""
    draw = random.Random(0)
    hit = 0
    while hit < kills:
        before = progress()
        child = start(words, place / "answer")
        end = time.monotonic() + 60
        while progress() == before and time.monotonic() < end and not _has_ended(child):
            time.sleep(0.002)
        time.sleep(draw.uniform(0, 0.03))
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            hit += 1
        if (place / "answer").exists():
            told = json.loads((place / "answer").read_text())
            raise AssertionError(f"it ended after {hit} kills: {told}")
    assert fino(*words).code == 0
    return hit


def _has_ended(child):
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def training(finished, place, kills):
    runs = [place / "killed", place / "whole"]
    for run in runs:
        shutil.copytree(finished / "fino", run)
        settings = json.loads((run / "settings.json").read_text())
        settings |= {"steps": 6 * kills + 20, "checkpoint_seconds": 0.0, "validations": 9}
        (run / "settings.json").write_text(json.dumps(settings))
    state = runs[0] / "last" / "state.json"
    kill_often(["train", "--resume", runs[0]], kills, lambda: state.stat().st_mtime_ns, place)
    assert fino("train", "--resume", runs[1]).code == 0
    weights, states = zip(
        *((model_hash(r / "model"), json.loads((r / "last/state.json").read_text())) for r in runs),
        strict=True,
    )
    assert weights[0] == weights[1] and states[0]["sha256"] == states[1]["sha256"]
    names = [sorted(path.name for path in run.iterdir()) for run in runs]
    assert names[0] == names[1]


def generating_data(place, kills):
    words = ["generate", "advection", "--samples", 6 * kills + 20, "--set", "points=32"]
    words += ["--set", "frames=4", "--out"]
    parts = place / "killed.h5.parts"
    count = lambda: len(list(parts.glob("*.shard"))) if parts.exists() else 0  # noqa: E731
    kill_often([*words, place / "killed.h5"], kills, count, place)
    assert fino(*words, place / "whole.h5").code == 0
    assert digest(place / "killed.h5") == digest(place / "whole.h5")
    assert not parts.exists()


def rolling_out(finished, place, kills):
    data = package.open(finished / "data" / "advection.h5")
    np.save(place / "start.npy", data.test[0].history.numpy())
    words = ["rollout", finished / "fino", "--history", place / "start.npy"]
    words += ["--engine", "torch", "--steps", 60 * kills + 200, "--out"]
    state = place / ".part.killed.npy.state"
    when = lambda: state.stat().st_mtime_ns if state.exists() else 0  # noqa: E731
    kill_often([*words, place / "killed.npy"], kills, when, place)
    assert fino(*words, place / "whole.npy").code == 0
    assert digest(place / "killed.npy") == digest(place / "whole.npy")
    assert not list(place.glob(".part*"))


WAYS = {
    "train": training,
    "generate": lambda finished, place, kills: generating_data(place, kills),
    "rollout": rolling_out,
}


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(generating, "_SHARD_SAMPLES", 1)
    monkeypatch.setattr(store, "_MARK_SECONDS", 0.01)


def test_a_rollout_killed_some_times_ends_with_the_same_bytes(finished, tmp_path):
    """Training and generating have such tests in their own rooms."""
    rolling_out(finished, tmp_path, 3)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_killed_two_hundred_times_it_ends_with_the_same_bytes(way, finished, tmp_path):
    WAYS[way](finished, tmp_path, 200)
