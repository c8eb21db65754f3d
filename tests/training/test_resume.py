"""A run that was stopped, politely or not, ends with the weights of one that was not."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import time

import pytest
import torch
from killed import go_on
from little_data import little_fino, waves

import fino
from fino.model.store import model_hash
from fino.training.checkpoint import has_checkpoint, read_checkpoint, write_checkpoint
from fino.training.fit import Interrupted, resume
from fino.training.loop import begin, train
from fino.training.settings import TrainingSettings

COMMON = {"batch": 2, "validations": 7, "validation_samples": 1, "noise": 0.05, "average": 0.9}


def uninterrupted(folder, steps, **changes):
    model = little_fino(waves())
    return fino.fit(model, waves(), out=folder, steps=steps, threads=1, **{**COMMON, **changes})


def hashes(folder):
    state = json.loads((folder / "last" / "state.json").read_text())
    return model_hash(folder / "model"), state["sha256"]


@pytest.mark.parametrize("optimizer", ["soap", "adamw", "muon"])
def test_a_run_stopped_between_any_two_steps_ends_with_the_same_weights(tmp_path, optimizer):
    whole = uninterrupted(tmp_path / "whole", 12, optimizer=optimizer)
    folder = tmp_path / "parts"

    def stop(at):
        def progress(happened):
            if happened.step == at:
                os.kill(os.getpid(), signal.SIGINT)

        return progress

    with pytest.raises(Interrupted, match=r"stopped at step 5, .* fino train --resume .*parts"):
        fino.fit(
            little_fino(waves()),
            waves(),
            out=folder,
            steps=12,
            threads=1,
            progress=stop(5),
            **{**COMMON, "optimizer": optimizer},
        )
    with pytest.raises(Interrupted):
        resume(folder, waves(), progress=stop(9))
    run = resume(folder, waves())
    last = json.loads((folder / "last" / "state.json").read_text())
    assert last["step"] == 12
    assert hashes(folder) == hashes(whole.folder)
    timed = ("cpu_seconds", "wall_seconds")
    assert [{k: v for k, v in row.items() if k not in timed} for row in run.metrics] == [
        {k: v for k, v in row.items() if k not in timed} for row in whole.metrics
    ]


def kill_and_go_on(folder, kills, seed):
    """Start, kill at a random moment, start again …; returns how many kills hit a live process."""
    draw = random.Random(seed)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["fino.training.fit", "fino.model.fino", "torch._dynamo"])
    hit = 0
    while not (folder / "finished").exists():
        process = context.Process(target=go_on, args=(str(folder),))
        began = _step(folder)
        process.start()
        if hit < kills:
            while process.is_alive() and _step(folder) == began:
                time.sleep(0.005)
            time.sleep(draw.uniform(0, 0.05))
            if process.is_alive():
                os.kill(process.pid, signal.SIGKILL)
                hit += 1
        process.join(120)
        # Whatever the kill left behind can be read.
        state = begin(fino.load(folder / "start"), fino.Run(folder).settings)
        if has_checkpoint(folder / "last"):
            read_checkpoint(state, folder / "last")
    return hit


def _step(folder):
    path = folder / "last" / "state.json"
    return json.loads(path.read_text())["step"] if path.exists() else 0


def killed_often(tmp_path, steps, kills):
    whole = uninterrupted(tmp_path / "whole", steps, checkpoint_seconds=1e9)
    folder = tmp_path / "killed"
    model = little_fino(waves())

    def stop_at_once(happened):
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted):
        fino.fit(
            model,
            waves(),
            out=folder,
            steps=steps,
            threads=1,
            checkpoint_seconds=0.0,
            progress=stop_at_once,
            **COMMON,
        )
    hit = kill_and_go_on(folder, kills, seed=0)
    assert hit == kills
    assert hashes(folder) == hashes(whole.folder)


def test_a_run_killed_without_warning_ends_with_the_same_weights(tmp_path):
    killed_often(tmp_path, steps=30, kills=3)


@pytest.mark.slow
def test_a_run_killed_fifty_times_ends_with_the_same_weights(tmp_path):
    killed_often(tmp_path, steps=400, kills=50)


def test_a_damaged_checkpoint_is_refused_by_name(tmp_path):
    data = waves()
    settings = TrainingSettings(steps=2, batch=2, validations=1)
    state = begin(little_fino(data), settings)
    for _ in train(state, data, settings):
        pass
    write_checkpoint(state, tmp_path)
    tensors = next(tmp_path.glob("*.safetensors"))
    content = bytearray(tensors.read_bytes())
    content[-3] ^= 1
    tensors.write_bytes(content)
    with pytest.raises(ValueError, match=r"state-00000002.safetensors is damaged: its SHA-256"):
        read_checkpoint(begin(little_fino(data), settings), tmp_path)
    (tmp_path / "state.json").write_text("{")
    with pytest.raises(ValueError, match=r"state.json is not a fino checkpoint"):
        read_checkpoint(begin(little_fino(data), settings), tmp_path)


def test_a_checkpoint_has_no_pickle_and_no_leftovers(tmp_path):
    data = waves()
    settings = TrainingSettings(steps=3, batch=2, validations=1)
    state = begin(little_fino(data), settings)
    for _ in train(state, data, settings):
        write_checkpoint(state, tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "state-00000003.safetensors",
        "state.json",
    ]


def test_what_is_spent_is_remembered_so_a_budget_of_time_is_not_given_twice(tmp_path):
    data = waves()
    settings = TrainingSettings(cpu_seconds=1000, batch=2, validations=1)
    state = begin(little_fino(data), settings)
    next(train(state, data, settings))
    state.clock.cpu = 900.0
    write_checkpoint(state, tmp_path)
    again = begin(little_fino(data), settings)
    read_checkpoint(again, tmp_path)
    happened = next(train(again, data, settings))
    assert happened.share == pytest.approx(0.9, abs=0.01)
    assert happened.horizon > 1


def test_a_run_does_not_go_on_with_other_data(tmp_path):
    uninterrupted(tmp_path / "run", 2)
    with pytest.raises(ValueError, match=r"is not what .* was trained on"):
        resume(tmp_path / "run", waves(seed=1))
    with pytest.raises(ValueError, match="trained on an array in memory"):
        resume(tmp_path / "run")


def test_a_finished_run_resumed_with_a_larger_budget_goes_on(tmp_path):
    uninterrupted(tmp_path / "run", 3)
    run = resume(tmp_path / "run", waves(), steps=6)
    assert run.metrics[-1]["step"] == 6
    assert run.settings.steps == 6
    assert torch.isfinite(run.model(waves().test.all(0, 3))).all()
