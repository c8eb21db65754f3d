"""Many processes give the answer of one, and a dead one ends the job by name."""

import os
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
import rank_worker
import torch

import fino
from fino.inference.process_group import ProcessGroup, is_launched, join_group
from fino.model.rollout import rollout

TORCHRUN = ["-m", "torch.distributed.run", "--standalone"]


def run(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize("processes", [2, 4])
def test_processes_give_the_answer_of_one(processes: int, tmp_path: Path) -> None:
    done = run([rank_worker.__file__, "compute", str(tmp_path), str(processes)])
    assert done.returncode == 0, done.stderr
    for number, (mesh, boundary, *_) in enumerate(rank_worker.WAYS[processes]):
        model = rank_worker.model(len(mesh), boundary)
        whole = rollout(model, rank_worker.history(model), rank_worker.STEPS)
        joint = torch.full_like(whole, torch.nan)
        for rank in range(processes):
            part = np.load(tmp_path / f"{number}_{rank}.npz")
            place = (..., *(slice(*span) for span in part["block"]))
            joint[place] = torch.from_numpy(part["frames"])
        assert float((joint - whole).abs().max() / whole.abs().max()) < 1e-5, (mesh, boundary)
        moved = float((whole[:, -1] - whole[:, 0]).abs().max())
        assert moved > 1e-3, "a rollout in which nothing happens proves nothing"


def test_two_ranks_are_one_with_all_that_a_model_may_be_given(tmp_path: Path) -> None:
    done = run([rank_worker.__file__, "condition", str(tmp_path), "2"])
    assert done.returncode == 0, done.stderr
    whole = rollout(*rank_worker.conditioned(), 8)
    joint = torch.full_like(whole, torch.nan)
    for rank in range(2):
        part = np.load(tmp_path / f"conditions_{rank}.npz")
        joint[(..., *(slice(*span) for span in part["block"]))] = torch.from_numpy(part["frames"])
    torch.testing.assert_close(joint, whole, rtol=1e-12, atol=1e-12)


def test_processes_stop_together_where_one_of_them_diverges(tmp_path: Path) -> None:
    done = run([rank_worker.__file__, "diverge", str(tmp_path), "2"])
    assert done.returncode == 0, done.stderr
    for overlap in (False, True):
        kept = tmp_path / f"out-{overlap}-first-9.npy"
        for rank in range(2):
            assert (tmp_path / f"{overlap}-{rank}").read_text() == (
                "The rollout diverged in step 20 of 30: channel 0 is inf at cell (20) of sample 0. "
                f"The 9 frames kept before it are in {kept}."
            )
        whole = rollout(rank_worker.Runaway(), rank_worker.runaway_start(), 19)[:, 1::2]
        np.testing.assert_array_equal(np.load(kept), whole)


def test_the_verb_shares_the_work_and_one_process_speaks(tmp_path: Path) -> None:
    model = rank_worker.model(2, "periodic")
    history = rank_worker.history(model)[0]
    fino.save(model, tmp_path / "model")
    np.save(tmp_path / "start.npy", history.numpy())
    done = run([rank_worker.__file__, "verb", str(tmp_path), "2"])
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("2 processes as 2 × 1: the least halo for the largest block.") == 1
    assert "waiting for halos" in done.stdout
    with h5py.File(tmp_path / "out.h5") as file:
        written = torch.from_numpy(file["u"][:])
    torch.testing.assert_close(written, rollout(model, history, 10), rtol=0, atol=1e-5)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".part")]


def test_a_killed_process_ends_the_job_and_is_named(tmp_path: Path) -> None:
    done = run([rank_worker.__file__, "die", str(tmp_path), "3"])
    assert time.time() - (tmp_path / "death").stat().st_mtime < 30
    assert done.returncode == 2
    assert sorted(done.stderr.splitlines()) == [
        f"fino: rank 2 of 3 ended or cannot be reached: its connection closed; rank {rank} stops."
        for rank in (0, 1)
    ]


def test_a_neighbour_that_only_lost_another_is_not_named() -> None:
    store = torch.distributed.HashStore()
    store.set("lost/0", "2")
    closed = RuntimeError("Connection closed by peer")
    named = "rank 2 of 3 ended or cannot be reached: its connection closed; rank {} stops."
    assert str(ProcessGroup(1, 3, store).lost(0, closed)) == named.format(1)
    assert str(ProcessGroup(0, 3, store).lost(2, closed)) == named.format(0)


@pytest.mark.parametrize("loser", [0, 1])
def test_two_that_lost_each_other_both_stop_with_one_name(loser: int) -> None:
    store = torch.distributed.HashStore()
    store.set(f"lost/{1 - loser}", str(loser))
    line = str(ProcessGroup(loser, 2, store).lost(1 - loser, RuntimeError("Connection reset")))
    assert line.startswith(f"rank {loser} of 2 ended or cannot be reached")


@pytest.mark.slow
def test_torchrun_ends_what_is_left_of_a_job(tmp_path: Path) -> None:
    done = run([*TORCHRUN, "--nproc-per-node=2", rank_worker.__file__, "die", str(tmp_path)])
    assert time.time() - (tmp_path / "death").stat().st_mtime < 30
    assert done.returncode != 0
    assert "rank      : 1" in done.stderr.split("Root Cause")[1]


@pytest.mark.slow
def test_twenty_launches_neither_abort_nor_hang(tmp_path: Path) -> None:
    for _ in range(20):
        done = run(
            [*TORCHRUN, "--nproc-per-node=2", rank_worker.__file__, "compute", str(tmp_path)]
        )
        assert done.returncode == 0, done.stderr
        assert "terminate" not in done.stderr


def test_a_process_alone_is_told_how_to_start_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert not is_launched()
    with (
        pytest.raises(ValueError, match="torchrun --nproc-per-node 4 -m fino rollout"),
        join_group(),
    ):
        pass
