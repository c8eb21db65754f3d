"""Two processes train what one would."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import ranks
import torch
from little_data import little_fino, waves
from safetensors.torch import load_file

import fino
from fino.training.processes import ALONE


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """The folder that two processes filled, and what they said."""
    folder = tmp_path_factory.mktemp("two")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    common = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    started = [
        subprocess.Popen(
            [sys.executable, ranks.__file__, str(folder)],
            env={**os.environ, **common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            cwd=Path(ranks.__file__).parent,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in (0, 1)
    ]
    said = [process.communicate(timeout=300) for process in started]
    assert [process.returncode for process in started] == [0, 0], said
    return folder, [out for out, _ in said]


def test_gradients_of_two_processes_equal_those_of_one(two):
    folder, _ = two
    shared = load_file(folder / "gradient.safetensors")
    for name, gradient in ranks.first_gradient(ALONE).items():
        assert float((gradient - shared[name]).abs().max()) <= 1e-6 * max(
            1, float(gradient.abs().max())
        )


def test_losses_of_a_run_in_two_processes_equal_those_of_one(two, tmp_path):
    folder, _ = two
    alone = fino.fit(
        little_fino(waves()), waves(), out=tmp_path / "one", **ranks.SETTINGS.model_dump()
    )
    both = fino.Run(folder / "run")
    assert [row["step"] for row in both.metrics] == [row["step"] for row in alone.metrics]
    for ours, theirs in zip(both.metrics, alone.metrics, strict=True):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-5)
        assert ours["horizon"] == theirs["horizon"]
    for a, b in zip(both.model.parameters(), alone.model.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-2, atol=1e-3)


def test_a_bad_number_met_by_one_process_stops_both_with_its_name(two):
    _, said = two
    sample, frame = waves().train.samples[3], waves().history
    for words in said:
        assert f"NaN or infinite value in sample {sample}, frame {frame}" in words
