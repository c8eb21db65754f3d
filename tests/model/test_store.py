"""A saved model comes back bit for bit, or not at all."""

import json

import numpy as np
import pytest
import torch

import fino
from fino.grid import Grid
from fino.model.emulator import Emulator, EmulatorSettings
from fino.streams import numpy_stream


def emulator(**settings) -> Emulator:
    grid = Grid((16, 16), ((0.0, 1.0), (0.0, 1.0)), ("neumann", "periodic"))
    chosen = EmulatorSettings(
        model="fino",
        fields=("u", "v"),
        history=2,
        predict="increment",
        edges=True,
        coordinates=True,
        **settings,
    )
    torch.manual_seed(0)
    network = fino.Fino(
        dims=2, inputs=chosen.inputs(grid), outputs=2, width=4, levels=1, boundary=grid.boundary
    )
    model = Emulator(network, chosen, grid)
    model.output_std.copy_(torch.tensor([0.1, 3.0]))
    model.input_mean.copy_(torch.tensor([1.0, -2.0]))
    return model.eval()


def test_a_model_comes_back_bit_for_bit(tmp_path):
    model = emulator()
    history = torch.randn(3, 2, 2, 16, 16)
    loaded = fino.load(fino.save(model, tmp_path / "model"))
    assert torch.equal(fino.rollout(loaded, history, 5), fino.rollout(model, history, 5))
    assert loaded.grid == model.grid
    assert loaded.settings == model.settings
    assert loaded.network.settings == model.network.settings
    assert sorted(p.name for p in tmp_path.rglob("*") if p.is_file()) == [
        "config.json",
        "model.safetensors",
    ]


def test_float64_comes_back_as_float64(tmp_path):
    loaded = fino.load(fino.save(emulator().double(), tmp_path / "model"))
    assert {p.dtype for p in loaded.parameters()} == {torch.float64}


def test_nothing_is_overwritten_without_being_asked(tmp_path):
    folder = fino.save(emulator(), tmp_path / "model")
    with pytest.raises(ValueError, match="exists already"):
        fino.save(emulator(), folder)
    fino.save(emulator(), folder, overwrite=True)
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def corrupted(content: bytes, stream: np.random.Generator) -> bytes:
    """Flip a bit, change a byte, cut the end, drop or repeat a piece."""
    kind = stream.integers(5)
    place = int(stream.integers(len(content)))
    if kind == 0:
        flipped = content[place] ^ (1 << int(stream.integers(8)))
        return content[:place] + bytes([flipped]) + content[place + 1 :]
    if kind == 1:
        other = (content[place] + int(stream.integers(1, 256))) % 256
        return content[:place] + bytes([other]) + content[place + 1 :]
    if kind == 2:
        return content[:place]
    stop = min(len(content), place + int(stream.integers(1, 40)))
    return content[:place] + content[place:stop] * (0 if kind == 3 else 2) + content[stop:]


def test_a_thousand_corruptions_are_refused_with_one_line(tmp_path):
    folder = fino.save(emulator(), tmp_path / "model")
    intact = {p: p.read_bytes() for p in folder.iterdir()}
    for i in range(1000):
        stream = numpy_stream(0, "corruption", i)
        path = list(intact)[int(stream.integers(len(intact)))]
        path.write_bytes(corrupted(intact[path], stream))
        with pytest.raises(ValueError) as error:
            fino.load(folder)
        assert path.name in str(error.value)
        assert "\n" not in str(error.value)
        path.write_bytes(intact[path])
    fino.load(folder)


def test_a_configuration_of_another_version_is_named(tmp_path):
    folder = fino.save(emulator(), tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "version": 99}))
    with pytest.raises(ValueError, match=r"config.json has version 99, this fino reads 2"):
        fino.load(folder)


def test_what_is_not_a_model_is_said_to_be_none(tmp_path):
    with pytest.raises(ValueError, match="There is no model folder at"):
        fino.load(tmp_path / "nowhere")
    with pytest.raises(ValueError, match=r"config.json cannot be read: No such file"):
        fino.load(tmp_path)
    (tmp_path / "config.json").write_text('{"a": 1}')
    with pytest.raises(ValueError, match="is not a fino model configuration"):
        fino.load(tmp_path)
