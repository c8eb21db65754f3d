"""What a step sees is a pure function of (seed, step), and stays inside the data's symmetries."""

from __future__ import annotations

import pytest
import torch
from little_data import blobs, little_fino, waves
from windows import moved_window

from fino.training.batch import draw_batch
from fino.training.processes import Processes
from fino.training.settings import TrainingSettings


def with_symmetries(data, *names):
    return data.card.changed(symmetries=names)


def test_the_same_step_sees_the_same_numbers_and_another_step_others():
    data = waves()
    model = little_fino(data)
    settings = TrainingSettings(batch=4, noise=0.1)
    first, again, other = (
        draw_batch(data.train, model, settings, step, horizon=2) for step in (17, 17, 18)
    )
    assert torch.equal(first.given.history, again.given.history)
    assert first.samples == again.samples
    assert not torch.equal(first.given.history, other.given.history)


def test_processes_share_the_batch_that_one_would_take_whole():
    data = blobs()
    model = little_fino(data)
    settings = TrainingSettings(batch=4, noise=0.1)
    whole = draw_batch(data.train, model, settings, 5, 2)
    parts = [
        draw_batch(data.train, model, settings, 5, 2, Processes(rank, 2).rows(4)) for rank in (0, 1)
    ]
    assert torch.equal(torch.cat([p.given.history for p in parts]), whole.given.history)
    assert torch.equal(torch.cat([p.future for p in parts]), whole.future)
    assert parts[0].samples + parts[1].samples == whole.samples
    with pytest.raises(ValueError, match=r"multiple of the 2 processes. Try 4\."):
        Processes(0, 2).rows(5)


def test_samples_are_named_by_their_number_in_the_data_set():
    data = waves()
    batch = draw_batch(data.train, little_fino(data), TrainingSettings(batch=9), 0, 1)
    assert set(batch.samples) <= set(data.train.samples)
    assert not set(batch.samples) & set(data.test.samples)


def test_a_short_history_learns_only_what_comes_after_the_frames_that_are_given():
    data = waves()
    settings = TrainingSettings(batch=64)
    for history in (2, data.history, data.history + 2):
        batch = draw_batch(data.train, little_fino(data, history=history), settings, 0, 1)
        assert min(batch.starts) == max(0, data.history - history)
        assert max(batch.starts) == data.frames - history - 1


def test_noise_is_in_units_of_the_fields_spread_and_never_in_the_target():
    data = waves(samples=40)
    model = little_fino(data)
    quiet, noisy = (
        draw_batch(data.train, model, TrainingSettings(batch=32, noise=noise), 0, 2)
        for noise in (0.0, 0.5)
    )
    assert torch.equal(quiet.future, noisy.future)
    size = (noisy.given.history - quiet.given.history).std() / model.input_std
    assert float(size) == pytest.approx(0.5, rel=0.05)


def test_shifted_and_mirrored_data_keep_every_value_and_the_order_of_time():
    data = blobs()
    window = data.train.all()
    moved = moved_window(window, with_symmetries(data, "flip", "rotate", "sign"), seed=0, step=1)
    assert moved.shape == window.shape
    assert not torch.equal(moved, window)

    def size(u):
        return u.abs().flatten(3).sort(dim=3)[0]

    assert torch.equal(size(moved), size(window))


def test_only_the_symmetries_of_the_card_are_used():
    line, square = waves(), blobs()
    window = square.train.all()
    assert torch.equal(moved_window(window, with_symmetries(square), 0, 1), window)
    # A card that says "shift" moves nothing across walls.
    assert torch.equal(moved_window(window, with_symmetries(square, "shift"), 0, 1), window)
    shifted = moved_window(line.train.all(), with_symmetries(line, "shift"), 0, 1)
    for before, after in zip(line.train.all(), shifted, strict=True):
        rolls = [torch.equal(before.roll(k, -1), after) for k in range(32)]
        assert any(rolls)


def test_mirroring_and_turning_are_drawn_for_each_sample_by_itself():
    data = blobs(samples=30)
    window = data.train.all()
    moved = moved_window(window, with_symmetries(data, "flip"), 0, 1)
    ways = set()
    for before, after in zip(window, moved, strict=True):
        for axes in ((), (2,), (3,), (2, 3)):
            if torch.equal(before.flip(axes), after):
                ways.add(axes)
    assert len(ways) == 4


def test_a_velocity_turns_with_its_mirror_and_changes_places_with_the_axes():
    """Fields (u, v) on a square: a mirror across x turns u, a swap of axes exchanges u and v."""
    data = blobs(samples=60)
    window = data.train.all()
    card = with_symmetries(data, "flip", "rotate").changed(directions=(0, 1))
    signs = torch.tensor([-1.0, 1.0]).view(1, 2, 1, 1)
    ways = {
        (x, y, swap): _turned(window, signs, x, y, swap)
        for x in (False, True)
        for y in (False, True)
        for swap in (False, True)
    }
    seen = set()
    for row, after in enumerate(moved_window(window, card, 0, 1)):
        mine = [way for way, moved in ways.items() if torch.equal(moved[row], after)]
        assert len(mine) == 1
        seen.update(mine)
    assert len(seen) == 8


def _turned(u, signs, x, y, swap):
    u = u.flip(3) * signs if x else u
    u = u.flip(4) * signs.flip(1) if y else u
    return u.transpose(3, 4).flip(2) if swap else u
