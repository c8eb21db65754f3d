"""After an edit, what is recomputed is what can have changed."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import fino
from fino.inference.rollout import changed
from fino.model.emulator import Emulator

Make = Callable[..., Emulator]
History = Callable[..., Tensor]


@pytest.mark.parametrize("boundary", ["periodic", "dirichlet", "neumann", "reflect"])
@pytest.mark.parametrize("tile", [None, 24])
@pytest.mark.parametrize("corner", [(60, 60), (0, 120), (124, 2)])
def test_an_update_is_the_full_recomputation(
    boundary: str,
    tile: int | None,
    corner: tuple[int, int],
    make_model: Make,
    make_history: History,
) -> None:
    model = make_model((128, 128), boundary, positions=True, dtype=torch.float32)
    before = make_history(model)
    old = fino.rollout(model, before, 3)
    edited = before.clone()
    x, y = corner
    edited[-1, :, x : x + 4, y : y + 6] += 1
    patch = ((x, min(x + 4, 128)), (y, min(y + 6, 128)))
    after = fino.update(model, edited, old, patch, tile=tile)
    full = fino.rollout(model, edited, 3)
    assert float((after.trajectory - full).abs().max() / full.abs().max()) < 1e-6
    assert float((old - full).abs().max()) > 1e-3
    assert 0 < after.share < 1
    assert str(after) == f"{after.share:.1%} of the cells of a full run were computed."


@pytest.mark.parametrize(("points", "patch"), [((300,), (290,)), ((32, 24, 28), (4, 20, 10))])
def test_lines_and_volumes_are_updated_too(
    points: tuple[int, ...], patch: tuple[int, ...], make_model: Make, make_history: History
) -> None:
    model = make_model(points, levels=0)
    history = make_history(model, samples=2)
    old = fino.rollout(model, history, 2)
    box = tuple((a, a + 3) for a in patch)
    edited = history.clone()
    edited[(..., *(slice(*span) for span in box))] *= -1
    after = fino.update(model, edited, old, box)
    torch.testing.assert_close(after.trajectory, fino.rollout(model, edited, 2), rtol=0, atol=1e-12)
    assert after.share < 0.5


def test_less_is_computed_for_a_smaller_edit(make_model: Make, make_history: History) -> None:
    model = make_model((512,))
    history = make_history(model)
    old = fino.rollout(model, history, 4)
    shares = [fino.update(model, history, old, ((100, 100 + n),)).share for n in (2, 50, 200)]
    assert shares == sorted(shares)
    assert shares[0] < 0.2


def test_an_update_from_file_to_file(
    tmp_path: Path, make_model: Make, make_history: History
) -> None:
    model = make_model((96, 64))
    history = make_history(model)
    fino.rollout(model, history, 3, out=tmp_path / "old.npy")
    history[:, :, 10:12, 62:] = 0
    np.save(tmp_path / "start.npy", history.numpy())
    after = fino.update(
        model,
        tmp_path / "start.npy",
        tmp_path / "old.npy",
        ((10, 12), (62, 64)),
        tile=16,
        out=tmp_path / "new.h5",
    )
    np.testing.assert_allclose(
        after.trajectory, fino.rollout(model, history, 3), rtol=0, atol=1e-12
    )


def test_changed_finds_the_smallest_box() -> None:
    before = torch.zeros(2, 1, 20, 30)
    after = before.clone()
    assert changed(before, after, (True, False)) is None
    after[1, 0, 18, 4] = after[0, 0, 1, 27] = 1
    assert changed(before, after, (True, False)) == ((-2, 2), (4, 28))
    assert changed(before, after, (False, True)) == ((1, 19), (-3, 5))


def test_a_trajectory_of_another_domain_is_refused(make_model: Make, make_history: History) -> None:
    model = make_model((32,))
    with pytest.raises(ValueError, match="trajectory should continue the history"):
        fino.update(model, make_history(model), torch.zeros(3, 1, 64), ((0, 4),))
