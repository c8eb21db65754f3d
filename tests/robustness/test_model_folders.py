"""A model folder that holds wrong numbers is refused; precision never changes without a word."""

import hashlib
import json
import struct

import numpy as np
import pytest
import torch
from answers import fino
from safetensors.torch import load as tensors_from_bytes
from safetensors.torch import save as bytes_from_tensors

import fino as package
from fino.model.store import _config_bytes


def rewrite(folder, weights=None, **changes):
    """The same folder with other weights or settings, its own checksums right."""
    weights = weights or (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(weights)
    config = json.loads((folder / "config.json").read_text())
    for key, value in changes.items():
        table, _, name = key.partition("__")
        config[table][name] = value
    config["weights_sha256"] = hashlib.sha256(weights).hexdigest()
    (folder / "config.json").write_bytes(_config_bytes(config))


@pytest.fixture
def folder(run):
    return run / "model"


def changed(folder, name, change):
    tensors = tensors_from_bytes((folder / "model.safetensors").read_bytes())
    tensors[name] = change(tensors[name])
    return bytes_from_tensors(tensors)


def refusal(folder):
    with pytest.raises(ValueError) as error:
        package.load(folder)
    assert str(error.value) in fino("rollout", folder, "--steps", "1", "--history", "x.npy").line
    return str(error.value)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_weights_that_are_no_numbers_are_refused(folder, bad):
    rewrite(folder, changed(folder, "input_mean", lambda value: value * bad))
    assert "'input_mean' has a NaN or infinite number. Restore" in refusal(folder)


def test_whole_numbers_for_weights_are_refused(folder):
    rewrite(folder, changed(folder, "input_std", lambda value: torch.ones_like(value).long()))
    assert refusal(folder).endswith("'input_std' should be float32, got int64.")


def test_a_tensor_that_stands_twice_is_refused(folder):
    content = (folder / "model.safetensors").read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    head = content[8 : 8 + size].decode().strip()
    entry = json.dumps(json.loads(head)["input_std"])
    head = (head[:-1] + f', "input_std": {entry}}}').encode()
    rewrite(folder, struct.pack("<Q", len(head)) + head + content[8 + size :])
    assert refusal(folder).endswith("is damaged: it holds 'input_std' twice.")


@pytest.mark.parametrize("dt", [float("nan"), float("inf"), -1.0, 0.0])
def test_a_time_step_that_is_none_is_refused(folder, dt):
    rewrite(folder, emulator__dt=dt)
    assert "Setting 'dt': input should be" in refusal(folder)


@pytest.mark.parametrize(("name", "value"), [("width", 10**8), ("levels", 10**6)])
def test_a_network_larger_than_its_weights_is_not_built(folder, name, value):
    rewrite(folder, **{f"network__{name}": value})
    assert "do not describe one model" in refusal(folder)


@pytest.mark.parametrize("tile", [None, 8])
@pytest.mark.parametrize(("kind", "kept"), [("float64", "float64"), ("float16", "float32")])
def test_a_history_of_another_precision_is_said_and_nothing_is_rounded(
    kind, kept, tile, folder, waves
):
    model = package.load(folder)
    history = package.open(waves).test[0].history.numpy().astype(kind)
    whole = package.rollout(model, history.astype(np.float32), 3, tile=tile)
    with pytest.warns(UserWarning, match=rf"history is {kind}, the model computes in float32"):
        frames = package.rollout(model, history, 3, tile=tile)
    assert frames.dtype == getattr(torch, kept)
    assert torch.equal(frames.float(), whole)


def test_a_warning_is_one_line_on_the_command_line(folder, waves, tmp_path):
    np.save(tmp_path / "start.npy", package.open(waves).test[0].history.numpy().astype("f8"))
    answer = fino("rollout", folder, "--steps", "2", "--history", tmp_path / "start.npy")
    said = [line for line in answer.err.splitlines() if line.startswith("fino:")]
    assert said == ["fino: warning: the history is float64, the model computes in float32."]
