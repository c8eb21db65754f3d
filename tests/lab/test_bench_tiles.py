"""The bench of tiles measures memory and time."""

from pathlib import Path

import numpy as np
import pytest

from lab.bench_tiles import measure_rollout, measure_tiles


def test_memory_and_time_are_measured(tmp_path: Path) -> None:
    np.save(tmp_path / "start.npy", np.zeros((1, 1, 64, 64), dtype=np.float32))
    cost = measure_rollout(tmp_path / "start.npy", tile=32, steps=1, threads=1)
    assert cost.points == 64
    assert cost.memory > 1e7
    assert cost.seconds_per_cell > 0


@pytest.mark.slow
def test_memory_does_not_grow_with_the_field(tmp_path: Path) -> None:
    costs = measure_tiles([512, 1024, 2048], 256, 1, 1, tmp_path)
    tiled = [cost.memory for cost in costs if cost.tile is not None]
    whole = [cost.memory for cost in costs if cost.tile is None]
    assert max(tiled) < 1.1 * min(tiled)
    assert whole[-1] > 2 * whole[0]


def test_a_size_that_cannot_be_tiled_is_refused() -> None:
    with pytest.raises(ValueError, match="even and at least twice the tile of 512"):
        measure_tiles([512], 512, 1, 1)
