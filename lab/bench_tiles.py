"""`python -m lab bench tiles`: peak memory and time a cell, in tiles and undivided.

Each size is measured in a process of its own, from disk to disk.  Without tiles the memory grows
with the field; that way is measured too, as far as the machine's memory reaches.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from fino.cli.console import progress, say, say_json, table

__all__ = ["TileCost", "bench_model", "measure_rollout", "measure_tiles", "tiles"]

#: Compute at least so many tiles, or a small field ends before memory and caches are steady.
_CALLS = 64
#: A process that has imported everything and computed nothing takes about this much.
_IDLE = 3.5e8


@dataclass(frozen=True)
class TileCost:
    """Peak memory in bytes and seconds of one way to step one size of field."""

    points: int
    tile: int | None
    memory: float
    seconds_per_cell: float
    fits: bool = True


def tiles(
    *,
    sizes: tuple[int, ...] = (1024, 2048, 4096, 8192),
    tile: int = 512,
    steps: int = 2,
    rounds: int = 3,
    threads: int | None = None,
    folder: Path | None = None,
    json: bool = False,
) -> None:
    """Measure: `python -m lab bench tiles`, or `… tiles --sizes 1024 2048 --tile 256`.

    Parameters
    ----------
    sizes
        Cells along each side of a square field.
    tile
        Cells along each side of a tile.
    steps
        Steps of the rollout; small fields take more, until memory is steady.
    rounds
        Measure everything so often, in turn, and take the median time.
    threads
        How many cores to use.
    folder
        Where the fields are put while they are measured.
    json
        Print the figures as JSON.
    """
    with progress("measuring", quiet=json) as show:
        measured = measure_tiles(sizes, tile, steps, threads, folder, rounds, show)
    if json:
        say_json([asdict(cost) for cost in measured])
        return
    table(
        "FINO of width 16 and 1 level, from disk to disk",
        ["field", "way", "peak memory", "time a cell and step"],
        [
            (
                f"{c.points}²",
                "undivided" if c.tile is None else f"tiles of {c.tile}²",
                f"{c.memory / 1e6:.0f} MB" if c.fits else f"≈ {c.memory / 1e9:.0f} GB: too much",
                f"{1e9 * c.seconds_per_cell:.0f} ns" if c.fits else "–",
            )
            for c in measured
        ],
    )
    tiled = [c for c in measured if c.tile is not None]
    for what, values in (
        ("memory", [c.memory for c in tiled]),
        ("time a cell", [c.seconds_per_cell for c in tiled]),
    ):
        say(f"In tiles, {what} varies by {max(values) / min(values) - 1:.1%} over these sizes.")


def measure_tiles(
    sizes: Sequence[int],
    tile: int,
    steps: int,
    threads: int | None,
    folder: Path | None = None,
    rounds: int = 1,
    progress: Callable[[float], None] | None = None,
) -> list[TileCost]:
    """Every size in tiles, and undivided while that is expected to fit in memory.

    A machine wanders while it is measured.  So the sizes take turns, `rounds` times, and the
    median time is kept, beside the largest memory.
    """
    if any(size % 2 or size < 2 * tile for size in sizes):
        raise ValueError(
            f"sizes should be even and at least twice the tile of {tile}, got {list(sizes)}."
        )
    seen: dict[tuple[int, int | None], list[TileCost]] = {}
    for turn in range(rounds):
        for number, cost in enumerate(_one_round(sorted(sizes), tile, steps, threads, folder)):
            seen.setdefault((cost.points, cost.tile), []).append(cost)
            if progress is not None:
                progress((turn + (number + 1) / (2 * len(sizes))) / rounds)
    return [_typical(costs) for costs in seen.values()]


def _one_round(
    sizes: Sequence[int], tile: int, steps: int, threads: int | None, folder: Path | None
) -> Iterator[TileCost]:
    undivided: TileCost | None = None
    for size in sizes:
        with tempfile.TemporaryDirectory(dir=folder) as place:
            start = _write_start(Path(place), size)
            request = {"start": str(start), "steps": steps, "threads": threads}
            enough = max(steps, -(-_CALLS * tile**2 // size**2))
            yield _in_a_process({**request, "tile": tile, "steps": enough})
            expected = 0.0
            if undivided is not None:
                growth = (size / undivided.points) ** 2
                expected = _IDLE + growth * (undivided.memory - _IDLE)
            if expected < 0.8 * _free_memory():
                undivided = _in_a_process({**request, "tile": None})
                yield undivided
            else:
                yield TileCost(size, None, expected, float("nan"), fits=False)


def _typical(costs: Sequence[TileCost]) -> TileCost:
    """The median time and the largest memory of the same thing measured again and again."""
    return replace(
        costs[0],
        memory=max(cost.memory for cost in costs),
        seconds_per_cell=median(cost.seconds_per_cell for cost in costs),
    )


def measure_rollout(start: Path, tile: int | None, steps: int, threads: int | None) -> TileCost:
    """One rollout in this process; its memory is that of the whole process at its peak."""
    import torch

    import fino
    from fino.machine import keep_freed_memory

    if threads is not None:
        torch.set_num_threads(threads)
    keep_freed_memory()
    model = bench_model()
    size = np.load(start, mmap_mode="r").shape[-1]
    fino.rollout(model, torch.zeros(1, 1, 128, 128), 1)
    begin = time.perf_counter()
    out = start.with_name("out.npy")
    fino.rollout(model, start, steps, tile=tile, out=out, every=steps)
    seconds = time.perf_counter() - begin
    return TileCost(size, tile, _peak_memory(), seconds / (steps * size**2))


def bench_model() -> Any:
    """An untrained model of modest size whose rollouts stay bounded."""
    import torch

    from fino.grid import Grid
    from fino.model.emulator import Emulator, EmulatorSettings
    from fino.model.fino import Fino

    torch.manual_seed(0)
    grid = Grid((128, 128), ((0.0, 1.0), (0.0, 1.0)), ("periodic", "periodic"))
    settings = EmulatorSettings(model="fino", fields=("u",), history=1, predict="increment")
    network = Fino(dims=2, inputs=1, outputs=1, width=16, levels=1)
    model = Emulator(network, settings, grid).eval()
    model.output_std.fill_(0.01)
    return model


def _write_start(folder: Path, size: int) -> Path:
    """Waves on a square, written row by row."""
    path = folder / "start.npy"
    array = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(1, 1, size, size))
    y = np.sin(np.arange(size, dtype=np.float32) * (2 * np.pi / 64))
    for row in range(size):
        array[0, 0, row] = np.cos(row * (2 * np.pi / 96)) * y
    del array
    return path


def _in_a_process(request: dict[str, Any]) -> TileCost:
    done = subprocess.run(
        [sys.executable, "-m", __name__, json.dumps(request)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it was ended by the system"])[-1]
        raise ValueError(f"the measurement of {request} failed: {last}")
    return TileCost(**json.loads(done.stdout.splitlines()[-1]))


def _peak_memory() -> float:
    """Bytes: of this program alone where Linux says so, else what the process ever had."""
    status = Path("/proc/self/status")
    if status.is_file():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return 1024.0 * int(line.split()[1])
    return 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _free_memory() -> float:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return 1024.0 * int(line.split()[1])
    return 8e9


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    cost = measure_rollout(Path(asked.pop("start")), **asked)
    sys.stdout.write(json.dumps(asdict(cost)) + "\n")
