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
from little_data import little_fino, pushed, waves
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


@pytest.mark.parametrize(("file", "data"), [("gradient", waves), ("conditions", pushed)])
def test_gradients_of_two_processes_equal_those_of_one(two, file, data):
    folder, _ = two
    shared = load_file(folder / f"{file}.safetensors")
    for name, gradient in ranks.first_gradient(ALONE, data()).items():
        assert float((gradient - shared[name]).abs().max()) <= 1e-6 * max(
            1, float(gradient.abs().max())
        )


@pytest.mark.parametrize(("run", "data"), [("run", waves), ("pushed", pushed)])
def test_losses_of_a_run_in_two_processes_equal_those_of_one(two, tmp_path, run, data):
    """Also with parameters by FiLM, a known field, forcing and a mask."""
    folder, _ = two
    model = little_fino(data(), predict=ranks.PRIORS[run])
    alone = fino.fit(model, data(), out=tmp_path / "one", **ranks.SETTINGS.model_dump())
    both = fino.Run(folder / run)
    assert [row["step"] for row in both.metrics] == [row["step"] for row in alone.metrics]
    for ours, theirs in zip(both.metrics, alone.metrics, strict=True):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-5)
        assert ours["horizon"] == theirs["horizon"]
    given, future = data().test.begin([0], both.model.history)
    ours, theirs = (run.predict(given, future.shape[1]) for run in (both, alone))
    torch.testing.assert_close(ours, theirs, rtol=1e-2, atol=1e-3)
    if data is waves:  # weights that θ hardly moves may turn within what they do not decide
        for a, b in zip(both.model.parameters(), alone.model.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-2, atol=1e-3)


def test_a_bad_number_met_by_one_process_stops_both_with_its_name(two):
    _, said = two
    sample, frame = waves().train.samples[3], waves().history
    for words in said:
        assert f"NaN or infinite value in sample {sample}, frame {frame}" in words
