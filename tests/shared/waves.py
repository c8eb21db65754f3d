"""Tiny data with a known answer, and run folders as training leaves them."""

import json

import numpy as np
import pytest

import fino
from fino.data.arrays import from_array
from fino.data.store import save as save_data
from fino.streams import numpy_stream
from fino.training.run_data import describe_data


def waves(samples=12, frames=8, points=(16,), channels=1, seed=0, boundary="periodic", **facts):
    """Sine waves that move to the right by one cell a step, on any number of axes."""
    x = np.arange(points[0]) / points[0]
    phase = numpy_stream(seed, "waves").uniform(size=(samples, channels))
    time = np.arange(frames) / points[0]
    u = np.sin(
        2 * np.pi * (x - time[None, :, None, None] + phase[:, None, :, None])
    ) + 0.5 * np.cos(4 * np.pi * (x - time[None, :, None, None]))
    for n in points[1:]:
        u = np.repeat(u[..., None], n, axis=-1)
    facts = {"speed": 1.0 / points[0] / 0.1, "name": "waves", **facts}
    fields = tuple("uvw"[:channels])
    return from_array(u, 0.1, (0.0, 1.0), boundary, fields=fields, **facts)


def run_folder(
    base, name="run", seed=0, width=4, data=None, model="fino", training=False, **settings
):
    """A run folder: an untrained model, its data on disk, and the files that training writes."""
    folder, path = base / name, base / f"{name}.h5"
    data = save_data(data if data is not None else waves(), path)
    settings = {"width": width, "levels": 0, **settings} if model == "fino" else settings
    fino.save(fino.build(model, data, seed=seed, **settings), folder / "model")
    (folder / "data.json").write_text(json.dumps(describe_data(data)))
    (folder / "settings.json").write_text(json.dumps({"seed": seed, "minutes": 1.0}))
    lines = [
        {"step": i, "loss": 1 / (i + 1), "cpu_seconds": 0.5 * i, "nrmse": 1 / (i + 2)}
        for i in range(5 if training else 0)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


@pytest.fixture(scope="session")
def make_waves():
    return waves


@pytest.fixture
def make_run(tmp_path):
    return lambda *arguments, **settings: run_folder(tmp_path, *arguments, **settings)


@pytest.fixture(scope="session")
def make_run_in():
    return run_folder
