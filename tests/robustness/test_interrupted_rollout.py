"""A rollout to disk that was stopped goes on where it was and ends with the same bytes."""

import numpy as np
import pytest
from answers import fino

import fino as package
from fino.inference import store
from fino.inference.tiles import Plan

STEPS = 24
TILES = Plan((8,), steps_per_halo=2)
REGION = {"region": ((2, 9),)}


@pytest.fixture(autouse=True)
def marks_after_every_step(monkeypatch):
    monkeypatch.setattr(store, "_MARK_SECONDS", 0.0)


@pytest.fixture
def start(run, waves):
    return package.load(run / "model"), package.open(waves).test[0]


def stop_at(share):
    def progress(done):
        if done >= share:
            raise KeyboardInterrupt

    return progress


@pytest.mark.parametrize("name", ["out.npy", "out.h5"])
@pytest.mark.parametrize(
    "options",
    [{}, {"every": 4}, {"tile": TILES}, {"tile": TILES, "every": 4}, {"tile": TILES, **REGION}],
    ids=["whole", "every fourth", "tiles", "tiles, every fourth", "region"],
)
def test_it_goes_on_where_it_stopped(name, options, start, tmp_path):
    whole = package.rollout(*start, STEPS, out=tmp_path / f"whole-{name}", **options)
    out, begun = tmp_path / name, []
    for share in (0.3, 0.6):
        with pytest.raises(KeyboardInterrupt, match=r"stopped at step \d+ and kept; the same"):
            package.rollout(*start, STEPS, out=out, progress=stop_at(share), **options)
    frames = package.rollout(*start, STEPS, out=out, progress=begun.append, **options)
    assert begun[0] > 0.5
    np.testing.assert_array_equal(frames, whole)
    assert out.read_bytes() == (tmp_path / f"whole-{name}").read_bytes()
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_another_rollout_of_that_name_begins_anew(start, tmp_path):
    out, begun = tmp_path / "out.npy", []
    with pytest.raises(KeyboardInterrupt):
        package.rollout(*start, STEPS, out=out, progress=stop_at(0.5))
    assert (tmp_path / ".part.out.npy").exists()
    package.rollout(*start, STEPS - 2, out=out, progress=begun.append)
    assert begun[0] == 1 / (STEPS - 2)
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_damaged_note_of_how_far_it_came_is_no_hindrance(start, tmp_path):
    out = tmp_path / "out.npy"
    with pytest.raises(KeyboardInterrupt):
        package.rollout(*start, STEPS, out=out, progress=stop_at(0.5))
    (tmp_path / ".part.out.npy.state").write_bytes(b"nothing")
    assert package.rollout(*start, STEPS, out=out).shape[0] == STEPS


def test_what_fails_leaves_no_parts(start, tmp_path):
    def fail(done):
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        package.rollout(*start, STEPS, out=tmp_path / "out.npy", progress=fail)
    assert not [path.name for path in tmp_path.iterdir() if "out" in path.name]


def test_frames_that_do_not_fit_on_the_disk_are_refused(run, tmp_path):
    words = ["rollout", run, "--steps", 10**15, "--out", tmp_path / "out.npy"]
    assert "GB are free on the disk. Keep fewer with --every" in fino(*words).line
