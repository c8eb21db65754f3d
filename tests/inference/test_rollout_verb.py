"""`fino rollout` and the benches of this room, called as the command line calls them."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

import fino
from fino.cli.rollout import rollout
from fino.data import store
from fino.grid import Grid
from fino.model.emulator import Emulator
from fino.report.movie import write_rollout_movie

Make = Callable[..., Emulator]
History = Callable[..., Tensor]


@pytest.fixture
def place(tmp_path: Path, make_model: Make, make_history: History) -> Path:
    model = make_model((96, 64), ("neumann", "periodic"), dtype=torch.float32)
    fino.save(model, tmp_path / "model")
    np.save(tmp_path / "start.npy", make_history(model).numpy())
    return tmp_path


def test_the_verb_says_what_it_will_do_and_writes_it(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start = place / "start.npy"
    rollout(
        place / "model",
        steps=4,
        history=str(start),
        tile=16,
        out=place / "out.npy",
        movie=place / "out.gif",
        why=True,
    )
    said = capsys.readouterr().out
    assert said.startswith("4 steps of 1 field on 96 × 64 cells.")
    assert "with a halo of 10 × 10." in said
    model = fino.load(place / "model")
    whole = fino.rollout(model, torch.from_numpy(np.load(start)), 4)
    np.testing.assert_allclose(np.load(place / "out.npy"), whole, rtol=0, atol=1e-6)
    with Image.open(place / "out.gif") as movie:
        assert movie.n_frames == 4  # type: ignore[attr-defined]


def test_the_verb_answers_in_json(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rollout(
        place / "model", steps=3, history=str(place / "start.npy"), region="8:12,-2:4", json=True
    )
    told = json.loads(capsys.readouterr().out)
    assert told["shape"] == [3, 1, 4, 6]
    assert told["plan"][0].startswith("Only the region's light cone is computed: ")


def test_the_verb_begins_where_the_task_does(tmp_path: Path) -> None:
    u = np.random.default_rng(0).normal(size=(30, 9, 1, 16))
    array = fino.from_array(u, dt=0.1, extent=(0, 1), boundary="periodic", history=5)
    data = store.save(array, tmp_path / "data.h5")
    model = fino.build("fino", data, history=2, width=4, levels=0)
    fino.save(model, tmp_path / "model")
    made = {"out": tmp_path / "out.npy", "movie": tmp_path / "out.gif"}
    rollout(tmp_path / "model", data=tmp_path / "data.h5", sample=1, **made)
    given, future = data.test.begin([1], model.history)
    written = np.load(tmp_path / "out.npy")
    assert len(written) == future.shape[1] == 4
    np.testing.assert_array_equal(written, fino.rollout(model, given, 4)[0])
    with Image.open(tmp_path / "out.gif") as movie:
        beside_truth = movie.size
    rollout(
        tmp_path / "model", data=tmp_path / "data.h5", steps=6, region="4:12", movie=made["movie"]
    )
    with Image.open(tmp_path / "out.gif") as movie:
        assert movie.n_frames == 6 and movie.size == beside_truth


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"history": None}, "is a model, not a run: say where to start"),
        ({"region": "8-12"}, "--region should be start:stop for each axis"),
        ({"device": "tpu"}, "--device should be cpu, or cuda where there is one, got 'tpu'"),
        ({"mesh": "2x2"}, "--mesh is for several processes"),
        ({"movie": Path("out.avi")}, "should end in .gif, got 'out.avi'"),
    ],
)
def test_the_verb_answers_mistakes_in_one_line(
    place: Path, wrong: dict[str, object], words: str
) -> None:
    request = {"steps": 2, "history": str(place / "start.npy"), "json": True, **wrong}
    with pytest.raises(ValueError, match=words):
        rollout(place / "model", **request)  # type: ignore[arg-type]


@pytest.mark.parametrize("space", [(40,), (24, 16), (8, 8, 8)])
def test_a_movie_shows_lines_planes_and_volumes(space: tuple[int, ...], tmp_path: Path) -> None:
    grid = Grid(space, ((0.0, 1.0),) * len(space), "periodic")
    frames, path = torch.randn(3, 2, *space), tmp_path / "out.gif"
    write_rollout_movie(frames, path, grid, [0.1, 0.2, 0.3], ("u", "v"))
    with Image.open(path) as movie:
        assert movie.n_frames == 3  # type: ignore[attr-defined]
