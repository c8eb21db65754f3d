"""What several processes bring on this machine, what their halos cost, and what a model expects.

Every number of processes rolls out the same field.  The costs that the model needs (a call, a
cell, a message, a byte) are measured in the same job, so its prediction can be held against what
happened; then it is asked about more processes than there are cores here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

__all__ = ["CLUSTER", "RankCost", "on_paper", "rank_costs"]

#: An ordinary cluster: seconds a message, seconds a byte (10 gigabit Ethernet).
CLUSTER = (3e-5, 1 / 1.25e9)


@dataclass(frozen=True)
class RankCost:
    """Seconds a step with so many processes, measured and as the model expects."""

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


def rank_costs(
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


def on_paper(
    costs: dict[str, float], points: int, most: int = 1024, network: tuple[float, float] = CLUSTER
) -> list[Any]:
    """Strong scaling of a square field over 1 … `most` processes joined by a network."""
    from fino.inference.costs import Costs
    from fino.inference.local import local_stepper
    from fino.inference.plan_ranks import predict_scaling
    from lab.bench_tiles import bench_model

    step = local_stepper(bench_model(), (points, points))
    known = replace(Costs(**costs), message=network[0], wire_byte=network[1])
    return predict_scaling(step, known, channels=1, most=most)


def work(points: int, steps: int, steps_per_halo: int | None, answer: str) -> None:
    """What every process of a job does; the first writes what was found."""
    import torch

    from fino.inference.costs import measured
    from fino.inference.decomposed import rollout_share
    from fino.inference.local import local_stepper
    from fino.inference.mesh import best_mesh
    from fino.inference.plan_ranks import plan_ranks
    from fino.inference.processes import alone_or_joined
    from fino.inference.tiles import shape
    from fino.machine import keep_freed_memory
    from lab.bench_tiles import bench_model

    torch.set_num_threads(1)
    keep_freed_memory()
    model = bench_model()
    history = torch.randn(1, 1, points, points, generator=torch.Generator().manual_seed(0))
    step = local_stepper(model, (points, points))
    with alone_or_joined("gloo") as company:
        message, byte = _wire(company)
        in_cache = measured(step, 1, (256, 256))
        block = shape(best_mesh(step.domain, company.size, step.locality.halo()).block(0))
        costs = replace(measured(step, 1, block), message=message, wire_byte=byte)
        costs = type(costs)(**company.agree(asdict(costs)))
        plan = plan_ranks(
            step, company.size, costs, channels=1, steps=steps, steps_per_halo=steps_per_halo
        )
        rollout_share(company, model, history, 2, plan=plan)
        share = rollout_share(company, model, history, steps, plan=plan, every=steps)
    best = plan.best
    if company.rank == 0 and best is not None:
        found = RankCost(
            ranks=company.size,
            mesh=plan.mesh.shape,
            steps_per_halo=plan.steps_per_halo,
            overlap=plan.overlap,
            seconds=share.seconds / steps,
            halo_share=share.halo_share,
            extra=best.extra,
            expected_seconds=best.seconds,
            expected_halo_share=best.halo_share,
            costs=asdict(in_cache),
        )
        Path(answer).write_text(json.dumps(asdict(found)))


def _wire(company: Any) -> tuple[float, float]:
    """Seconds a message and seconds a byte between the first two processes."""
    import torch
    import torch.distributed as dist

    if company.size == 1:
        return 0.0, 0.0
    seconds = []
    for numbers in (16, 2**20):
        mine, theirs = torch.zeros(numbers), torch.zeros(numbers)
        times = []
        for _ in range(12):
            dist.barrier()
            begin = time.perf_counter()
            if company.rank < 2:
                other = 1 - company.rank
                both = [dist.P2POp(dist.isend, mine, other), dist.P2POp(dist.irecv, theirs, other)]
                for message in dist.batch_isend_irecv(both):
                    message.wait()
            times.append(time.perf_counter() - begin)
        seconds.append(sorted(times)[len(times) // 2])
    byte = max(0.0, seconds[1] - seconds[0]) / (4 * 2**20)
    return seconds[0], byte


if __name__ == "__main__":
    work(**json.loads(sys.argv[1]))
