"""Signals and lost processes: what is done is saved, and a line says what happened."""

import json
import os
import signal
import socket
import subprocess
import sys
import time

import pytest
from answers import fino

from fino.data.generate import Plan
from fino.inference.store import Unfinished
from fino.training.checkpoint import has_checkpoint
from fino.training.fit import Interrupted, resume
from fino.training.run import Run

SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]


@pytest.mark.parametrize("number", [number for number, _ in SIGNALS])
def test_a_training_that_is_told_to_end_saves(number, run):
    def send(happened):
        os.kill(os.getpid(), number)

    with pytest.raises(Interrupted, match=r"stopped at step 5, everything is saved\. Go on with"):
        resume(run, steps=9, progress=send)
    assert json.loads((run / "last" / "state.json").read_text())["step"] == 5
    assert has_checkpoint(run / "last") and not (run / ".lock").exists()


def test_a_signal_that_is_ignored_stays_so(run):
    """As after nohup: the training outlives its terminal."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        done = resume(run, steps=6, progress=lambda happened: os.kill(os.getpid(), signal.SIGHUP))
        assert done.metrics[-1]["step"] == 6
        assert fino("compare", run).code == 0
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_generating_that_is_told_to_end_says_how_to_go_on(number, code, tmp_path, monkeypatch):
    solve = Plan.solve

    def slow(self, *arguments, **options):
        os.kill(os.getpid(), number)
        return solve(self, *arguments, **options)

    words = ["generate", "advection", "--samples", 3, "--set", "points=32", "--set", "frames=4"]
    words += ["--out", tmp_path / "a.h5"]
    with monkeypatch.context() as patch:
        patch.setattr(Plan, "solve", slow)
        answer = fino(*words)
    assert answer.code == code
    last = answer.err.splitlines()[-1]
    assert last == "fino: interrupted. What is done is kept; the same command goes on."
    assert fino(*words).code == 0


@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_a_verb_that_is_told_to_end_says_so(number, code, run, monkeypatch):
    before = (run / "scores.json").read_bytes()
    monkeypatch.setattr(Run, "check", lambda self: os.kill(os.getpid(), number))
    answer = fino("evaluate", run)
    assert answer.code == code
    last = answer.err.splitlines()[-1]
    assert last == "fino: interrupted. No scores were written; the same command begins again."
    assert (run / "scores.json").read_bytes() == before


def test_a_rollout_that_is_told_to_end_goes_on_by_the_same_command(run, tmp_path, monkeypatch):
    words = ["rollout", run, "--steps", 6, "--engine", "torch", "--out"]
    assert fino(*words, tmp_path / "whole.npy").code == 0
    with monkeypatch.context() as patch:
        patch.setattr(Unfinished, "mark", lambda *_: os.kill(os.getpid(), signal.SIGINT))
        answer = fino(*words, tmp_path / "u.npy")
    assert answer.code == 130 and not (tmp_path / "u.npy").exists()
    assert answer.err.splitlines()[-1] == (
        "fino: interrupted. The same command goes on with what is in --out; "
        "without --out it begins again."
    )
    assert fino(*words, tmp_path / "u.npy").code == 0
    assert (tmp_path / "u.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes()


def test_a_killed_process_of_a_training_is_named(run):
    """The other one ends with one line, and the last checkpoint is whole."""
    settings = json.loads((run / "settings.json").read_text())
    settings |= {"steps": 10**6, "checkpoint_seconds": 0.0}
    (run / "settings.json").write_text(json.dumps(settings))
    state = run / "last" / "state.json"
    began = state.stat().st_mtime_ns
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    common = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    first, second = (
        subprocess.Popen(
            [sys.executable, "-m", "fino", "train", "--resume", str(run), "--json"],
            env={**os.environ, **common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in (0, 1)
    )
    while state.stat().st_mtime_ns == began and first.poll() is None:
        time.sleep(0.02)
    second.kill()
    _, said = first.communicate(timeout=120)
    second.communicate()
    assert first.returncode == 2, said
    assert said.splitlines() == [
        "fino: rank 1 of 2 ended or cannot be reached: its connection closed; rank 0 stops."
    ]
    assert fino("train", "--resume", run, "--steps", "1").code == 0


@pytest.mark.slow
def test_torchrun_lets_the_others_name_a_killed_process(run):
    settings = json.loads((run / "settings.json").read_text())
    (run / "settings.json").write_text(json.dumps(settings | {"steps": 10**6}))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node=2", "-m", "fino", "train", "--resume", str(run)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as job:
        while not (run / ".lock").exists():
            time.sleep(0.1)
        time.sleep(2)
        ours = f"/proc/{job.pid}/task/{job.pid}/children"
        with open(ours) as file:  # noqa: PTH123
            ranks = [int(process) for process in file.read().split()]
        os.kill(ranks[1], signal.SIGKILL)
        _, said = job.communicate(timeout=180)
    assert "fino: rank 1 of 2 ended or cannot be reached: its connection closed" in said
