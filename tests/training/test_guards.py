"""A number that is not finite is caught in its step and named; the last good checkpoint stays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from little_data import little_fino, waves

import fino
from fino.data.frames import ArrayFrames
from fino.training.checkpoint import read_checkpoint
from fino.training.guards import NotFinite
from fino.training.loop import begin, train
from fino.training.settings import TrainingSettings

SETTINGS = TrainingSettings(steps=6, batch=3, validations=1, validation_samples=1, horizon=2)


def spoilt_data(sample: int, frame: int, value: float):
    """Waves of which one number is bad, as a file on disk might have it."""
    data = waves()
    numbers = data.read(range(len(data))).numpy().copy()
    numbers[sample, frame, 0, 5] = value
    return replace(data, source=ArrayFrames(numbers), recorded_hash="-")


def run_until_caught(state, data, settings=SETTINGS):
    """The step in which a guard spoke, and its words."""
    with pytest.raises(NotFinite) as caught:
        for _ in train(state, data, settings):
            pass
    return state.step, str(caught.value)


def test_a_hundred_injected_nans_are_caught_in_the_step_where_they_appear():
    draw = np.random.default_rng(0)
    clean = waves()
    for trial in range(100):
        kind = ("data", "weight", "gradient", "rollout")[trial % 4]
        bad = float(draw.choice([np.nan, np.inf, -np.inf]))
        step = int(draw.integers(1, 5))
        model = little_fino(clean, width=2, levels=0, history=clean.history)
        state = begin(model, SETTINGS)
        data = clean
        if kind == "data":
            sample, frame = int(draw.choice(clean.train.samples)), int(draw.integers(clean.frames))
            data = spoilt_data(sample, frame, bad)
            settings = SETTINGS.changed(batch=10, windows="first", horizon=None, grow_from=0.0)
            caught, words = run_until_caught(state, data, settings)
            assert caught == 0
            assert f"sample {sample}, frame {frame}" in words
            continue
        grow_from = 0.0 if kind == "rollout" else 0.6
        happening = train(state, data, SETTINGS.changed(grow_from=grow_from))
        for _ in range(step):
            next(happening)
        weight = next(p for p in model.parameters() if p.dim() > 1)
        if kind == "weight":
            weight.data.view(-1)[0] = bad
        elif kind == "gradient":
            weight.register_hook(lambda g, bad=bad: torch.full_like(g, bad))
        else:
            model.output_std.fill_(3e38)
        before = {n: p.detach().clone() for n, p in model.named_parameters()}
        with pytest.raises(NotFinite, match=f"^Step {step}:") as caught_here:
            next(happening)
        named = {"weight": "the weight ", "gradient": "the gradient of ", "rollout": "diverged"}
        assert named[kind] in str(caught_here.value)
        assert state.step == step
        for name, p in model.named_parameters():
            assert torch.equal(p.nan_to_num(7), before[name].nan_to_num(7)), "a bad step was taken"


def test_a_diverging_rollout_names_the_sample_and_how_far_ahead():
    data = waves()
    model = little_fino(data, predict="increment")
    model.output_std.fill_(1e25)
    _, words = run_until_caught(begin(model, SETTINGS), data, SETTINGS.changed(grow_from=0.0))
    assert "the rollout diverged" in words
    assert "sample" in words
    assert "smaller learning rate" in words


def test_the_last_good_checkpoint_stays_when_a_guard_speaks(tmp_path):
    data = waves()
    model = little_fino(data)
    calls = []

    def spoil(gradient):
        calls.append(1)
        return gradient * float("nan") if len(calls) == 5 else gradient

    next(model.parameters()).register_hook(spoil)
    folder = tmp_path / "run"
    with pytest.raises(NotFinite, match=r"^Step 4: the gradient of .* is NaN"):
        fino.fit(
            model,
            data,
            out=folder,
            steps=8,
            batch=3,
            checkpoint_seconds=0.0,
            validations=8,
            validation_samples=1,
        )
    state = begin(fino.load(folder / "start"), TrainingSettings(steps=8, batch=3))
    read_checkpoint(state, folder / "last")
    assert state.step == 4
    assert all(torch.isfinite(p).all() for p in state.emulator.parameters())
    assert all(torch.isfinite(p).all() for p in fino.load(folder / "model").parameters())


def test_weights_that_an_update_broke_are_caught_before_anybody_sees_them():
    data = waves()
    model = little_fino(data)
    state = begin(model, SETTINGS)
    happening = train(state, data, SETTINGS)
    next(happening)
    for part in state.optimizer.parts:
        for entries in part.state.values():
            entries["first"].fill_(float("inf"))
    with pytest.raises(NotFinite, match=r"^Step 1: the update made the weight .* NaN or infinite"):
        next(happening)
