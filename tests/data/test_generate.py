"""Generating data: reproducible, strided, resumable, and never over somebody's file."""

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import fino
from fino.data import generate as generating
from fino.data.card import Card
from fino.data.store import read_native


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def small_shards(monkeypatch):
    monkeypatch.setattr(generating, "_SHARD_SAMPLES", 3)


def test_the_same_seed_gives_the_same_data_in_memory_and_on_disk(wave, tmp_path, small_shards):
    memory = fino.generate(wave, samples=10, seed=1)
    disk = fino.generate(wave, samples=10, seed=1, out=tmp_path / "a.h5")
    assert memory.shape == disk.shape == (10, 6, 2, 16)
    assert np.array_equal(memory.read(range(10)), disk.read(range(10)))
    assert memory.hash == disk.hash and disk.path == tmp_path / "a.h5"
    other = fino.generate(wave, samples=10, seed=2)
    assert other.hash != memory.hash
    first = fino.generate(wave, samples=4, seed=1)
    assert np.array_equal(first.read(range(4)), memory.read(range(4)))


def test_reduced_data_are_the_full_data_strided(wave, tmp_path):
    full = fino.generate(wave, samples=5, seed=0).strided(space=3, time=2)
    reduced = fino.generate(
        wave, samples=5, seed=0, stride_space=3, stride_time=2, out=tmp_path / "a.h5"
    )
    assert np.array_equal(full.read(range(5)), reduced.read(range(5)))
    assert reduced.card.changed(cost=None) == full.card.changed(cost=None)
    assert reduced.hash == full.hash


def test_the_card_tells_the_whole_story(wave, tmp_path):
    data = fino.generate(wave, samples=12, seed=3, out=tmp_path / "new" / "a.h5", beta=0.25)
    card = data.card
    assert card.parameters["beta"] == 0.25 and card.seed == 3 and card.solver == "exact"
    assert card.speed == 0.25 and card.flaws == ("a toy",) and card.version == fino.__version__
    assert card.cost is not None and card.cost.seconds >= 0 and card.cost.machine
    assert card.split is not None and len(data.test) == 1
    beside = Card.from_json((tmp_path / "new" / "a.h5.card.json").read_bytes())
    assert beside == card
    assert "# A sliding wave" in (tmp_path / "new" / "a.h5.card.md").read_text()
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == [
        "a.h5",
        "a.h5.card.json",
        "a.h5.card.md",
    ]


def test_the_same_call_returns_what_is_there_and_another_never_overwrites(wave, tmp_path):
    path = tmp_path / "a.h5"
    fino.generate(wave, samples=5, seed=0, out=path)
    before = path.stat().st_mtime_ns
    assert fino.generate(wave, samples=5, seed=0, out=path).card.samples == 5
    assert path.stat().st_mtime_ns == before
    with pytest.raises(ValueError, match=r"a\.h5 exists already and holds something else"):
        fino.generate(wave, samples=6, seed=0, out=path)
    assert fino.generate(wave, samples=6, seed=0, out=path, overwrite=True).card.samples == 6
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"notes\.txt exists already"):
        fino.generate(wave, samples=6, seed=0, out=tmp_path / "notes.txt")
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_an_interrupted_run_goes_on_and_ends_with_the_same_bytes(wave, tmp_path, small_shards):
    fino.generate(wave, samples=10, seed=0, out=tmp_path / "whole.h5")

    def stop_halfway(share):
        if share > 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fino.generate(wave, samples=10, seed=0, out=tmp_path / "a.h5", progress=stop_halfway)
    assert not (tmp_path / "a.h5").exists()
    assert len(list((tmp_path / "a.h5.parts").glob("*.shard"))) == 1
    with pytest.raises(ValueError, match="holds an unfinished file with other settings"):
        fino.generate(wave, samples=10, seed=1, out=tmp_path / "a.h5")
    shares = []
    fino.generate(wave, samples=10, seed=0, out=tmp_path / "a.h5", progress=shares.append)
    assert shares == pytest.approx([0.6, 0.9, 1.0])
    assert digest(tmp_path / "a.h5") == digest(tmp_path / "whole.h5")
    assert not (tmp_path / "a.h5.parts").exists()


def test_a_damaged_shard_is_solved_again(wave, tmp_path, small_shards):
    def stop(share):
        if share > 0.7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fino.generate(wave, samples=10, seed=0, out=tmp_path / "a.h5", progress=stop)
    shard = next(iter(sorted((tmp_path / "a.h5.parts").glob("*.shard"))))
    content = bytearray(shard.read_bytes())
    content[-5] ^= 1
    shard.write_bytes(content)
    fino.generate(wave, samples=10, seed=0, out=tmp_path / "a.h5")
    assert read_native(tmp_path / "a.h5").hash == fino.generate(wave, samples=10, seed=0).hash


def test_mistakes_are_answered_in_one_line(wave, tmp_path):
    with pytest.raises(ValueError, match=r"^Unknown problem 'wavy'\. "):
        fino.generate("wavy", samples=1)
    with pytest.raises(ValueError, match=r"^Unknown setting 'betta'. Did you mean 'beta'\?$"):
        fino.generate(wave, samples=1, betta=1.0)
    with pytest.raises(ValueError, match=r"^samples should be a positive number"):
        fino.generate(wave, samples=0)
    with pytest.raises(ValueError, match=r"^strides should be positive whole numbers"):
        fino.generate(wave, samples=1, stride_space=0)
    with pytest.raises(ValueError, match=r"^wave has one kind of initial conditions only"):
        fino.generate(wave, samples=1, initial="pdebench")
    with pytest.raises(ValueError, match=r"^wave: sample 0 is not a finite number .* frame 4"):
        fino.generate(wave, samples=2, burst=4)


_GENERATE = """
import sys, time
sys.path.insert(0, {tests!r})
from conftest import Wave
from fino.data import generate as generating
generating._SHARD_SAMPLES = 2
def slowly(share): time.sleep(0.003)
generating.generate(Wave(), samples=40, seed=0, out=sys.argv[1], progress=slowly)
"""


def kill_at_random(tmp_path: Path, kills: int) -> None:
    """Kill the process that writes a file again and again, at random moments of its life."""
    script = _GENERATE.format(tests=str(Path(__file__).parent))
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", script]
    began = time.monotonic()
    subprocess.run([*command, str(tmp_path / "whole.h5")], check=True, env=environment)
    life = time.monotonic() - began
    expected = digest(tmp_path / "whole.h5")
    moments = random.Random(0)
    path = tmp_path / "a.h5"
    for _ in range(kills):
        process = subprocess.Popen([*command, str(path)], env=environment)
        try:
            process.wait(timeout=life * moments.uniform(0.5, 1.0))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
        if path.exists():  # whole or not there, never half
            assert digest(path) == expected
            for leftover in (path, *tmp_path.glob("a.h5.card.*")):
                leftover.unlink(missing_ok=True)
    subprocess.run([*command, str(path)], check=True, env=environment)
    assert digest(path) == expected
    assert not (tmp_path / "a.h5.parts").exists()


def test_killed_at_random_it_still_ends_with_the_same_bytes(tmp_path):
    kill_at_random(tmp_path, kills=3)


@pytest.mark.slow
def test_killed_twenty_times_it_still_ends_with_the_same_bytes(tmp_path):
    kill_at_random(tmp_path, kills=20)
