"""A rollout in tiles, from disk, or of a region is the rollout."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

import fino
from fino.data.dataset import Sample
from fino.given import Given
from fino.grid import BOUNDARIES
from fino.inference.rollout import light_cone
from fino.inference.tiles import Plan
from fino.model.emulator import Emulator, EmulatorSettings
from fino.model.fno import FNO
from fino.model.rollout import rollout as plain_rollout
from fino.training.run import Run

TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-12}
Make = Callable[..., Emulator]
History = Callable[..., Tensor]


@dataclass(frozen=True)
class Case:
    """A model, a domain, and a way to march it."""

    points: tuple[int, ...]
    boundary: tuple[str, ...]
    plan: Plan
    levels: int
    upsample: str
    predict: str
    history: int
    channels: int
    positions: bool
    dtype: torch.dtype
    steps: int
    region: tuple[tuple[int, int], ...] | None


@st.composite
def cases(draw: st.DrawFn) -> Case:
    dims = draw(st.sampled_from([1, 1, 2, 2, 3]))
    levels = draw(st.integers(0, 1))
    stride, most = 2**levels, {1: 200, 2: 48, 3: 16}[dims]
    points = tuple(stride * draw(st.integers(4, most // stride)) for _ in range(dims))
    boundary = tuple(draw(st.sampled_from(BOUNDARIES)) for _ in range(dims))
    region = []
    for n, name in zip(points, boundary, strict=True):
        start = draw(st.integers(0, n - 1))
        room = n if name == "periodic" else n - start
        region.append((start, start + draw(st.integers(1, room))))
    return Case(
        points=points,
        boundary=boundary,
        plan=Plan(
            tile=tuple(draw(st.integers(n // 4, n)) for n in points),
            steps_per_halo=draw(st.integers(1, 4)),
            batch=draw(st.integers(1, 5)),
        ),
        levels=levels,
        upsample=draw(st.sampled_from(["nearest", "linear"])),
        predict=draw(st.sampled_from(["frame", "increment", "linear"])),
        history=draw(st.integers(1, 3)),
        channels=draw(st.integers(1, 2)),
        positions=draw(st.booleans()),
        dtype=draw(st.sampled_from([torch.float32, torch.float64])),
        steps=draw(st.integers(1, 5)),
        region=tuple(region) if draw(st.booleans()) else None,
    )


def wrapped(u: Tensor, region: tuple[tuple[int, int], ...]) -> Tensor:
    """The cells of a region that may wrap: (…, *space) → (…, *region)."""
    for axis, (start, stop) in enumerate(region):
        place = u.dim() - len(region) + axis
        u = u.index_select(place, torch.arange(start, stop) % u.shape[place])
    return u


def difference(a: Tensor, b: Tensor) -> float:
    return float((a - b).abs().max() / b.abs().max())


@settings(
    max_examples=70,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(case=cases())
def test_a_tiled_rollout_is_the_rollout(
    case: Case, make_model: Make, make_history: History
) -> None:
    model = make_model(
        case.points,
        case.boundary,
        history=case.history,
        channels=case.channels,
        positions=case.positions,
        dtype=case.dtype,
        predict=case.predict,
        levels=case.levels,
        upsample=case.upsample,
    )
    history = make_history(model, samples=2)
    whole = plain_rollout(model, history, case.steps)
    tiled = fino.rollout(model, history, case.steps, tile=case.plan, region=case.region)
    wanted = whole if case.region is None else wrapped(whole, case.region)
    assert difference(tiled, wanted) < TOLERANCE[case.dtype]


@pytest.mark.parametrize("out", ["out.npy", "out.h5"])
@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("tile", [None, 16, Plan((16, 16), steps_per_halo=3)])
def test_a_rollout_from_file_to_file_is_the_rollout(
    tmp_path: Path, out: str, every: int, tile: object, make_model: Make, make_history: History
) -> None:
    model = make_model((64, 48), ("periodic", "neumann"), channels=2, history=3)
    history = make_history(model)
    whole = fino.rollout(model, history, 7)
    np.save(tmp_path / "start.npy", history.numpy())
    target = tmp_path / out
    read = fino.rollout(model, tmp_path / "start.npy", 7, tile=tile, out=target, every=every)
    np.testing.assert_allclose(read, whole[every - 1 :: every], rtol=0, atol=1e-12)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([out, "start.npy"])


def test_a_compressed_file_can_be_the_start(
    tmp_path: Path, make_model: Make, make_history: History
) -> None:
    model = make_model((32, 32))
    history = make_history(model, samples=2)
    with h5py.File(tmp_path / "start.h5", "w") as file:
        file.create_dataset("group/u", data=history.numpy(), chunks=True, compression="gzip")
        file.create_dataset("other", data=np.zeros(3))
    start = f"{tmp_path / 'start.h5'}:group/u"
    tiled = fino.rollout(model, start, 3, tile=8)
    torch.testing.assert_close(tiled, fino.rollout(model, history, 3), rtol=0, atol=1e-12)
    with pytest.raises(
        ValueError, match=r"holds group/u, other. Name one of them as .*start.h5:NAME"
    ):
        fino.rollout(model, tmp_path / "start.h5", 3, tile=8)


def test_a_memory_map_can_be_the_start(
    tmp_path: Path, make_model: Make, make_history: History
) -> None:
    model = make_model((32, 32))
    history = make_history(model)
    np.save(tmp_path / "start.npy", np.concatenate([history.numpy()] * 2))
    mapped = np.load(tmp_path / "start.npy", mmap_mode="r")
    whole = fino.rollout(model, history, 3)
    for start in (mapped, mapped[model.history :]):
        torch.testing.assert_close(fino.rollout(model, start, 3, tile=8), whole)


@pytest.mark.parametrize("tile", [None, 8])
def test_an_array_of_another_precision_is_converted_for_the_model(
    tile: int | None, make_model: Make, make_history: History
) -> None:
    model = make_model((32,), dtype=torch.float32)
    history = make_history(model)
    with pytest.warns(UserWarning, match="the history is float64, the model computes in float32"):
        rolled = fino.rollout(model, history.double().numpy(), 3, tile=tile)
    whole = fino.rollout(model, history, 3)
    torch.testing.assert_close(rolled, whole.double(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("tile", [None, 8, Plan((8, 8), steps_per_halo=3)])
def test_a_start_is_a_sample_or_all_that_a_step_is_given(
    tile: object, make_model: Make, make_history: History
) -> None:
    model = make_model((32, 24), ("neumann", "periodic"), positions=True)
    history = make_history(model, samples=2)
    whole = fino.rollout(model, history, 4)
    start = Sample(Given(history[:1]), history[0], 0)
    torch.testing.assert_close(fino.rollout(model, start, 4, tile=tile), whole[0])
    moved = Given(history, model.positions().flip(1))
    shown = [Given(history), Given(history, model.positions()), moved]
    same, placed, elsewhere = (fino.rollout(model, start, 4, tile=tile) for start in shown)
    torch.testing.assert_close(same, whole)
    torch.testing.assert_close(placed, whole)
    assert difference(elsewhere, whole) > 1e-3
    torch.testing.assert_close(elsewhere, plain_rollout(model, moved, 4))
    start = Sample(moved.rows(slice(1)), history[0], 0)
    torch.testing.assert_close(fino.rollout(model, start, 4, tile=tile), elsewhere[0])


def test_a_run_rolls_its_model_out(make_model: Make, make_history: History) -> None:
    model = make_model((32,))
    history = make_history(model)
    run = Run(model=model)
    torch.testing.assert_close(fino.rollout(run, history, 3), fino.rollout(model, history, 3))
    old = fino.rollout(run, history, 2)
    after = fino.update(run, history, old, ((0, 4),))
    torch.testing.assert_close(after.trajectory, old)


def test_an_interrupted_rollout_leaves_no_file(
    tmp_path: Path, make_model: Make, make_history: History
) -> None:
    model = make_model((32, 32))

    def stop(share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fino.rollout(
            model, make_history(model), 4, tile=8, every=2, out=tmp_path / "o.npy", progress=stop
        )
    assert list(tmp_path.iterdir()) == []


def test_progress_rises_to_one(make_model: Make, make_history: History) -> None:
    model = make_model((64,))
    seen: list[float] = []
    fino.rollout(model, make_history(model, 2), 4, tile=Plan((16,), 2, 3), progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == pytest.approx(1)


def test_a_larger_domain_than_the_model_was_built_for(
    make_model: Make, make_history: History
) -> None:
    small, large = make_model((32, 32)), make_model((96, 64))
    history = make_history(large)
    tiled = fino.rollout(small, history, 3, tile=24)
    torch.testing.assert_close(tiled, fino.rollout(large, history, 3), rtol=0, atol=1e-12)


def test_a_region_costs_its_light_cone(make_model: Make) -> None:
    model = make_model((256, 256), levels=0)
    radius = model.locality.radius[0]
    work = light_cone(model, ((100, 104), (100, 104)), steps=2)
    widths = [4 + 2 * radius * steps for steps in (2, 1)]
    assert work.computed == sum(width**2 for width in widths)
    assert (
        str(work) == f"{work.computed / (2 * 256**2):.1%} of the cells of a full run were computed."
    )


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"tile": 8, "steps": -1}, "steps should be 0 or more, got -1."),
        ({"every": 5}, "every should be between 1 and the 4 steps, got 5."),
        ({"region": ((0, 8),)}, r"region should be a \(start, stop\) pair for each of 2 axes"),
        (
            {"region": ((0, 40), (0, 8))},
            "region should cover 1 to 32 cells on axis 0, got 0 to 40.",
        ),
        ({"region": ((0, 8), (28, 36))}, "region should lie within 0 to 32 on axis 1, which does"),
        ({"tile": 8, "out": "movie.txt"}, "out should end in .npy or .h5, got 'movie.txt'."),
        ({"tile": 8, "history": "nothing.npy"}, "There is no file nothing.npy."),
        ({"tile": 8, "history": torch.zeros(3, 32)}, r"should be \(t, c, \*space\) or"),
        ({"tile": 8, "history": torch.zeros(1, 1, 32, 32)}, "at least 2 frames, got 1."),
        ({"tile": 8, "history": torch.zeros(2, 3, 32, 32)}, "c should be 1 but is 3."),
    ],
)
def test_mistakes_are_answered_in_one_line(
    wrong: dict[str, object], words: str, make_model: Make, make_history: History
) -> None:
    model = make_model((32, 32), ("periodic", "dirichlet"))
    request = {"history": make_history(model), "steps": 4, **wrong}
    with pytest.raises(ValueError, match=words) as mistake:
        fino.rollout(model, **request)
    assert "\n" not in str(mistake.value)


def test_a_global_model_is_refused_tiles_and_regions_but_streams(
    tmp_path: Path, make_model: Make
) -> None:
    local = make_model((16,), history=1, dtype=torch.float32)
    settings = EmulatorSettings(model="fno", fields=("u",), history=1)
    model = Emulator(FNO(dims=1, inputs=1, outputs=1, modes=2), settings, local.grid)
    history = torch.zeros(1, 1, 16)
    for way in ({"tile": 8}, {"region": ((0, 4),)}):
        with pytest.raises(ValueError, match=r"FNO sees the whole field \(radius inf\)"):
            fino.rollout(model, history, 2, **way)
    whole = fino.rollout(model, history, 4)
    kept = fino.rollout(model, history, 4, out=tmp_path / "out.npy", every=2)
    np.testing.assert_allclose(kept, whole[1::2])
