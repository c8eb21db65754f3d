"""`python -m lab bench ranks`: the speedup of several processes, and what their halos cost.

Every number of processes rolls out the same field.  The costs that the scaling model needs (a
call, a cell, a message, a byte) are measured in the same job, so that its prediction can be
compared with the measurement; then it predicts more processes than there are cores here.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fino.cli.console import progress, say, say_json, table

if TYPE_CHECKING:
    from fino.inference.boxes import Box
    from fino.inference.local import LocalStep
    from fino.inference.process_group import ProcessGroup
    from fino.inference.ranks import Decomposition

__all__ = [
    "CLUSTER",
    "Costs",
    "Expected",
    "RankCost",
    "Scaling",
    "choose_cheapest",
    "expect_cost",
    "measure_costs",
    "measure_ranks",
    "predict_cluster",
    "predict_scaling",
    "ranks",
]

#: An ordinary cluster: seconds a message, seconds a byte (10 gigabit Ethernet).
CLUSTER = (3e-5, 1 / 1.25e9)
#: Numbers of steps a halo that the scaling model compares.
_STEPS_PER_HALO = (1, 2, 3, 4, 6, 8, 12, 16)


@dataclass(frozen=True)
class Costs:
    """What stepping costs, in seconds: a call, a cell, a message, a byte sent.

    time of a call  =  call + cell · cells      (fits a network on a CPU well)
    """

    call: float
    cell: float
    message: float = 1e-4
    wire_byte: float = 1e-9

    def compute(self, counts: list[int]) -> float:
        """Seconds for windows of so many cells, a call each."""
        return sum(self.call + self.cell * count for count in counts)


@dataclass(frozen=True)
class Expected:
    """What a rank's step is expected to cost, in seconds.

    seconds(k)  =  ( compute(k) + messages · message + bytes(k) · wire_byte ) / k    in turn
    seconds(k)  =  ( max(inner(k), exchange(k)) + shell(k) ) / k                     overlap
    """

    steps_per_halo: int
    overlap: bool
    seconds: float
    halo_seconds: float
    halo_bytes: float
    extra: float

    @property
    def halo_share(self) -> float:
        """The share of a step that the processes spend on the halo and do not hide."""
        return self.halo_seconds / self.seconds


@dataclass(frozen=True)
class Scaling:
    """What the scaling model expects of so many processes."""

    ranks: int
    mesh: tuple[int, ...]
    choice: Expected
    efficiency: float


@dataclass(frozen=True)
class RankCost:
    """Seconds a step with so many processes, measured and as the scaling model expects."""

    ranks: int
    mesh: tuple[int, ...]
    steps_per_halo: int
    overlap: bool
    seconds: float
    halo_share: float
    extra: float
    expected_seconds: float
    expected_halo_share: float
    costs: dict[str, float]


def ranks(
    *,
    ranks: tuple[int, ...] = (1, 2),
    points: int = 1024,
    steps: int = 20,
    steps_per_halo: int | None = None,
    predict: int = 8192,
    json: bool = False,
) -> None:
    """Measure: `python -m lab bench ranks`, or `python -m lab bench ranks --ranks 1 2 4`.

    Parameters
    ----------
    ranks
        Numbers of processes, one thread each.
    points
        Cells along each side of the square field that they share.
    steps
        Steps of the rollout.
    steps_per_halo
        Steps that one exchange carries; chosen if not given.
    predict
        Side of the field whose scaling to 1 024 processes is predicted.
    json
        Print the figures as JSON.
    """
    measured: list[RankCost] = []
    with progress("measuring", quiet=json) as show:
        for cost in measure_ranks(ranks, points, steps, steps_per_halo):
            measured.append(cost)
            show(len(measured) / len(ranks))
    predicted = predict_cluster(measured[0].costs, predict)
    if json:
        say_json(
            {
                "measured": [asdict(cost) for cost in measured],
                "predicted": [
                    {**asdict(p.choice), "ranks": p.ranks, "mesh": p.mesh} for p in predicted
                ],
            }
        )
        return
    latency, byte = CLUSTER
    table(f"{points}² cells, {steps} steps, one thread a process", *_measured(measured))
    table(
        f"Predicted: {predict}² cells, {1e6 * latency:.0f} µs a message, {1e-9 / byte:.2f} GB/s",
        *_predicted(predicted),
    )
    say("k: steps that a halo lasts.  halo: share of a step spent waiting for it.  cells: computed")
    say("beyond those that are kept.  The model assumes a core of its own for every process.")


def _measured(costs: Sequence[RankCost]) -> tuple[list[str], list[Sequence[Any]]]:
    """What each number of processes took, beside what the scaling model expects."""
    first = costs[0]
    columns = ["ranks", "mesh", "k", "a step", "halo", "cells", "speedup", "model", "its halo"]
    rows: list[Sequence[Any]] = [
        (
            c.ranks,
            "×".join(map(str, c.mesh)),
            c.steps_per_halo,
            f"{c.seconds:.3g} s",
            f"{c.halo_share:.1%}",
            f"+{c.extra:.0%}",
            f"{first.seconds * first.ranks / c.seconds:.2f}",
            f"{c.expected_seconds:.3g} s",
            f"{c.expected_halo_share:.1%}",
        )
        for c in costs
    ]
    return columns, rows


def _predicted(plans: Sequence[Scaling]) -> tuple[list[str], list[Sequence[Any]]]:
    """What the scaling model expects of many processes on a cluster."""
    columns = ["ranks", "mesh", "k", "a step", "halo", "cells", "efficiency"]
    rows: list[Sequence[Any]] = [
        (
            p.ranks,
            "×".join(map(str, p.mesh)),
            p.choice.steps_per_halo,
            f"{p.choice.seconds:.3g} s",
            f"{p.choice.halo_share:.1%}",
            f"+{p.choice.extra:.0%}",
            f"{p.efficiency:.0%}",
        )
        for p in plans
    ]
    return columns, rows


def measure_ranks(
    ranks: Sequence[int], points: int, steps: int, steps_per_halo: int | None = None
) -> Iterator[RankCost]:
    """One job after the other, a thread for each process."""
    for count in ranks:
        if count < 1:
            raise ValueError(f"ranks should be positive, got {list(ranks)}.")
        with tempfile.TemporaryDirectory() as folder:
            answer = Path(folder) / "answer.json"
            request = {
                "points": points,
                "steps": steps,
                "steps_per_halo": steps_per_halo,
                "answer": str(answer),
            }
            command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
            command += [f"--nproc-per-node={count}", "-m", __name__, json.dumps(request)]
            environment = {**os.environ, "OMP_NUM_THREADS": "1"}
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, check=False
            )
            if done.returncode or not answer.is_file():
                lines = [line for line in done.stderr.splitlines() if "Error" in line]
                raise ValueError(f"{count} processes failed: {(lines or ['no reason given'])[0]}")
            found = json.loads(answer.read_text())
            yield RankCost(**{**found, "mesh": tuple(found["mesh"])})


def predict_cluster(
    costs: dict[str, float], points: int, most: int = 1024, network: tuple[float, float] = CLUSTER
) -> list[Scaling]:
    """Strong scaling of a square field over 1 … `most` processes joined by a network."""
    from fino.inference.local import local_step
    from lab.bench_tiles import bench_model

    step = local_step(bench_model(), (points, points))
    known = replace(Costs(**costs), message=network[0], wire_byte=network[1])
    return predict_scaling(step, known, channels=1, most=most)


def predict_scaling(
    step: LocalStep, costs: Costs, *, channels: int, most: int = 1024
) -> list[Scaling]:
    """Strong scaling of this domain over 1, 2, 4 … processes, as far as blocks carry a halo."""
    from fino.inference.boxes import cells

    single = costs.compute([cells(step.domain.whole)])
    found = []
    for power in range(int(math.log2(most)) + 1):
        try:
            mesh, best = choose_cheapest(step, 2**power, costs, channels)
        except ValueError:
            break
        found.append(Scaling(2**power, mesh, best, single / (2**power * best.seconds)))
    return found


def choose_cheapest(
    step: LocalStep, ranks: int, costs: Costs, channels: int, steps: int = 16
) -> tuple[tuple[int, ...], Expected]:
    """The mesh with the least halo, and the cheapest steps a halo and overlap on it."""
    from fino.inference.ranks import Decomposition, decompose

    mesh = decompose(step, ranks, 1).mesh
    ways = [
        expect_cost(step, Decomposition(mesh, k, overlap), costs, channels)
        for k in _STEPS_PER_HALO
        if k == 1 or (k <= steps and mesh.carries(step.locality.halo(k)))
        for overlap in ((False, True) if ranks > 1 else (False,))
    ]
    # Ways that cost the same to rounding: the one with the fewest steps a halo.
    best = min(ways, key=lambda way: (float(f"{way.seconds:.6g}"), way.steps_per_halo))
    return mesh.shape, best


def expect_cost(step: LocalStep, cut: Decomposition, costs: Costs, values: int) -> Expected:
    """The cost for the rank with the largest window, `values` numbers in a cell."""
    from fino.inference.boxes import cells

    mesh, k = cut.mesh, cut.steps_per_halo
    halo = step.locality.halo(k)
    windows = [cells(mesh.domain.grow(mesh.block(rank), halo)) for rank in range(mesh.ranks)]
    rank = windows.index(max(windows))
    block = mesh.block(rank)
    sent = (windows[rank] - cells(block)) * min(k, step.history) * values * 4
    messages = sum(count > 1 for count in mesh.shape)
    exchange = messages * costs.message + sent * costs.wire_byte

    def counts(boxes: list[Box]) -> list[int]:
        return [cells(window) for box in boxes for window in step.windows(box, k)[:-1]]

    if cut.overlap:
        inner, shell = mesh.inner_and_shell(rank, halo)
        early, late = costs.compute(counts(inner)), costs.compute(counts(shell))
        total, boxes = max(early, exchange) + late, inner + shell
        waited = max(0.0, exchange - early)
    else:
        boxes = [block]
        total, waited = costs.compute(counts(boxes)) + exchange, exchange
    extra = sum(counts(boxes)) / (k * cells(block)) - 1
    return Expected(k, cut.overlap, total / k, waited / k, sent / k, extra)


def measure_costs(step: LocalStep, channels: int, tile: tuple[int, ...], repeats: int = 3) -> Costs:
    """A call and a cell from timing a small window and that of a `tile` on this machine.

    Cells of a window that leaves the cache cost more: ask with the tile that will be used.
    """
    small, large = (1,) * step.domain.dims, tile
    (few, a), (many, b) = (_seconds(step, channels, size, repeats) for size in (small, large))
    if many == few or b <= a:
        return Costs(0.0, b / many)
    cell = (b - a) / (many - few)
    return Costs(max(0.0, a - cell * few), cell)


def _seconds(
    step: LocalStep, channels: int, tile: tuple[int, ...], repeats: int
) -> tuple[int, float]:
    """Cells of the window of a tile of about this size, and seconds to step it."""
    import torch

    from fino.inference.boxes import cells, shape
    from fino.inference.tiles import compute

    domain = step.domain
    box = tuple(
        (0, min(n, -(-size // s) * s))
        for n, size, s in zip(domain.points, tile, domain.stride, strict=True)
    )
    window = step.windows(box, 1)[0]
    blank = torch.zeros(step.history, channels, *shape(window))
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        list(compute(step, [box], [0], range(1), lambda *_: blank, lambda *_: None))
        times.append(time.perf_counter() - start)
    return cells(window), min(times[1:])


def _work(points: int, steps: int, steps_per_halo: int | None, answer: str) -> None:
    """What every process of a job does; the first writes what was found."""
    import torch
    import torch.distributed as dist

    from fino.inference.boxes import shape
    from fino.inference.local import local_step
    from fino.inference.process_group import ProcessGroup, is_launched, join_group
    from fino.inference.ranks import decompose, rollout_ranks
    from fino.machine import keep_freed_memory
    from lab.bench_tiles import bench_model

    torch.set_num_threads(1)
    keep_freed_memory()
    model = bench_model()
    history = torch.randn(1, 1, points, points, generator=torch.Generator().manual_seed(0))
    step = local_step(model, (points, points))
    alone = nullcontext(ProcessGroup(0, 1, dist.HashStore()))
    with join_group("gloo") if is_launched() else alone as group:
        message, byte = _wire(group)
        cut = decompose(step, group.size, steps, steps_per_halo=steps_per_halo)
        in_cache = measure_costs(step, 1, (256, 256))
        costs = measure_costs(step, 1, shape(cut.mesh.block(0)))
        rollout_ranks(group, model, history, 2, cut)
        share = rollout_ranks(group, model, history, steps, cut, every=steps)
    if group.rank == 0:
        costs = replace(costs, message=message, wire_byte=byte)
        expected = expect_cost(step, cut, costs, 1)
        found = RankCost(
            ranks=group.size,
            mesh=cut.mesh.shape,
            steps_per_halo=cut.steps_per_halo,
            overlap=cut.overlap,
            seconds=share.seconds / steps,
            halo_share=share.halo_share,
            extra=expected.extra,
            expected_seconds=expected.seconds,
            expected_halo_share=expected.halo_share,
            costs=asdict(in_cache),
        )
        Path(answer).write_text(json.dumps(asdict(found)))


def _wire(group: ProcessGroup) -> tuple[float, float]:
    """Seconds a message and seconds a byte between the first two processes."""
    import torch
    import torch.distributed as dist

    if group.size == 1:
        return 0.0, 0.0
    seconds = []
    for numbers in (16, 2**20):
        mine, theirs = torch.zeros(numbers), torch.zeros(numbers)
        times = []
        for _ in range(12):
            dist.barrier()
            begin = time.perf_counter()
            if group.rank < 2:
                other = 1 - group.rank
                both = [dist.P2POp(dist.isend, mine, other), dist.P2POp(dist.irecv, theirs, other)]
                for message in dist.batch_isend_irecv(both):
                    message.wait()
            times.append(time.perf_counter() - begin)
        seconds.append(sorted(times)[len(times) // 2])
    byte = max(0.0, seconds[1] - seconds[0]) / (4 * 2**20)
    return seconds[0], byte


if __name__ == "__main__":
    _work(**json.loads(sys.argv[1]))
