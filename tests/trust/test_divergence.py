"""A rollout that leaves all bounds stops, says where and when, and keeps what came before."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import fino
from fino.grid import Grid
from fino.locality import Locality
from fino.trust.guards import Diverged, Watch


class Fuse:
    """Adds one everywhere a step, until the cell that reaches ten becomes infinite."""

    history, channels, locality = 1, 1, Locality((1, 1))
    grid = Grid((8, 6), ((0.0, 1.0),) * 2, ("periodic", "neumann"))

    def __call__(self, history: Tensor) -> Tensor:
        following = history[:, -1] + 1
        return torch.where(following >= 10, torch.inf, following)


def start(cell: tuple[int, int] = (5, 2), value: float = 6.0) -> Tensor:
    """Zero but for one cell, which burns through in the fourth step."""
    state = torch.zeros(2, 1, 1, 8, 6)
    state[1, 0, 0][cell] = value
    return state


@pytest.mark.parametrize("ways", [{}, {"tile": 4}, {"tile": (8, 2)}, {"region": ((4, 9), (1, 4))}])
def test_it_names_field_cell_sample_and_step_and_keeps_the_frames_before(ways: dict) -> None:
    with pytest.raises(Diverged) as stopped:
        fino.rollout(Fuse(), start(), 9, **ways)
    assert str(stopped.value) == (
        "The rollout diverged in step 4 of 9: channel 0 is inf at cell (5, 2) of sample 1. "
        "The 3 frames kept before it are in `.frames` of this error."
    )
    whole = fino.rollout(Fuse(), start(), 3, **ways)
    torch.testing.assert_close(stopped.value.frames, whole)


def test_the_first_in_time_is_named_also_where_another_tile_is_computed_before() -> None:
    state = start((7, 5))
    state[0, 0, 0, 0, 0] = 5.0
    with pytest.raises(Diverged, match=r"step 4 of 9: channel 0 is inf at cell \(7, 5\)"):
        fino.rollout(Fuse(), state, 9, tile=4)


@pytest.mark.parametrize("name", ["out.npy", "out.h5"])
def test_what_was_written_before_is_in_a_file_that_says_how_many(name: str, tmp_path: Path) -> None:
    with pytest.raises(Diverged, match=r"The 1 frames kept before it are in .*out-first-1\."):
        fino.rollout(Fuse(), start(), 9, tile=4, out=tmp_path / name, every=2)
    (kept,) = tmp_path.iterdir()
    assert kept.name == name.replace("out", "out-first-1")
    again = fino.rollout(Fuse(), kept if name.endswith("y") else f"{kept}:u", 1)
    torch.testing.assert_close(torch.as_tensor(again), fino.rollout(Fuse(), start(), 3)[:, 2:])


def test_an_update_stops_too() -> None:
    before = torch.zeros(2, 1, 1, 8, 6)
    old = fino.rollout(Fuse(), before, 9)
    with pytest.raises(Diverged, match=r"step 4 of 9"):
        fino.update(Fuse(), start(), old, patch=((5, 6), (2, 3)))


def test_the_verb_says_it_in_one_line_and_does_not_end_with_zero(
    tmp_path: Path, make_model: Callable[..., fino.model.emulator.Emulator]
) -> None:
    model = make_model((16,), dtype=torch.float32)
    model.output_std.fill_(1e20)
    fino.save(model, tmp_path / "model")
    np.save(tmp_path / "start.npy", torch.randn(2, 1, 16).numpy())
    words = ["rollout", "model", "--history", "start.npy", "--steps", "40", "--out", "out.npy"]
    done = subprocess.run(
        [sys.executable, "-m", "fino", *words, "--movie", "out.gif"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 2
    line = done.stderr.strip().splitlines()[-1]
    assert line.startswith("fino: The rollout diverged in step ")
    kept = next(tmp_path.glob("out-first-*.npy"))
    assert line.endswith(f"frames kept before it are in {kept.name}.")
    assert np.isfinite(np.load(kept)).all()
    assert not (tmp_path / "out.npy").exists() and (tmp_path / "out.gif").exists()


def test_a_value_that_rounds_to_the_limit_does_not_cross_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Rounded:
        """A limit of 0.1 in double precision, which 0.1 in single precision is above."""

        range = ((0.0, 0.1),)

        def bounds(self, factor: float) -> tuple[Tensor, Tensor]:
            return torch.zeros(1).double(), torch.full((1,), 0.1, dtype=torch.double)

        def holds(self, low: Tensor, high: Tensor, factor: float) -> bool:
            least, most = self.bounds(factor)
            return bool(((low.double() >= least) & (high.double() <= most)).all())

    watch = Watch(Fuse(), 1, (8, 6), strict=True)
    monkeypatch.setattr(watch, "seen", Rounded())
    frame = torch.full((1, 1, 8, 6), 0.1)
    assert not watch.seen.holds(frame.amin((0, 2, 3)), frame.amax((0, 2, 3)), 0.0)
    watch(frame, 0, [(0, ((0, 8), (0, 6)))])
    with pytest.raises(Diverged, match="The rollout diverged in step 1 of 1"):
        watch(frame + 1, 0, [(0, ((0, 8), (0, 6)))])
