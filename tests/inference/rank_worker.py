"""What the processes of test_process_group.py do.

torchrun --nproc-per-node 2 rank_worker.py compute FOLDER      a process each, as users start them
python rank_worker.py compute FOLDER 4                         forks: torch is imported only once
"""

import os
import signal
import socket
import sys
from pathlib import Path

import numpy as np
import torch

from fino.cli.rollout import rollout
from fino.data.arrays import from_array
from fino.given import Given
from fino.grid import Grid
from fino.inference.boxes import Mesh
from fino.inference.local import local_step
from fino.inference.process_group import ProcessGroup, join_group
from fino.inference.ranks import Decomposition, rollout_ranks
from fino.locality import Locality
from fino.model.build import build
from fino.model.emulator import Emulator, EmulatorSettings
from fino.model.fino import Fino
from fino.trust.guards import Diverged

STEPS = 100
#: processes → (mesh, boundary, steps a halo, overlap, tile)
WAYS: dict[int, list[tuple[tuple[int, ...], str, int, bool, int | None]]] = {
    2: [
        ((2,), "periodic", 1, False, None),
        ((2,), "neumann", 4, True, None),
        ((2, 1), "periodic", 3, True, None),
        ((1, 2), "dirichlet", 1, False, 16),
        ((1, 1, 2), "periodic", 2, False, None),
    ],
    4: [
        ((4,), "periodic", 2, False, None),
        ((4,), "dirichlet", 1, True, None),
        ((2, 2), "periodic", 2, True, None),
        ((2, 2), "neumann", 1, False, 16),
    ],
}
POINTS = {1: (96,), 2: (48, 40), 3: (16, 12, 16)}


def model(dims: int, boundary: str) -> Emulator:
    torch.manual_seed(0)
    grid = Grid(POINTS[dims], ((0.0, 1.0),) * dims, boundary)  # type: ignore[arg-type]
    shown = EmulatorSettings(
        model="fino", fields=("u",), history=2, predict="increment", edges=True
    )
    network = Fino(
        dims=dims,
        inputs=shown.inputs(grid),
        outputs=1,
        width=2,
        levels=1 if dims == 1 else 0,
        boundary=grid.boundary,
    )
    emulator = Emulator(network, shown, grid).eval()
    emulator.output_std.fill_(0.05)
    return emulator


def history(emulator: Emulator) -> torch.Tensor:
    stream = torch.Generator().manual_seed(1)
    return torch.randn(1, 2, 1, *emulator.grid.points, generator=stream)


def compute(group: ProcessGroup, folder: Path) -> None:
    """Every way to share the work; each rank writes its block and what it found there."""
    for number, (mesh, boundary, steps_per_halo, overlap, tile) in enumerate(WAYS[group.size]):
        emulator = model(len(mesh), boundary)
        domain = local_step(emulator, emulator.grid.points).domain
        cut = Decomposition(Mesh(domain, mesh), steps_per_halo, overlap)
        share = rollout_ranks(group, emulator, history(emulator), STEPS, cut, tile=tile)
        assert share.frames is not None
        np.savez(
            folder / f"{number}_{group.rank}.npz",
            block=np.array(share.block),
            frames=share.frames.numpy(),
        )


def conditioned() -> tuple[Emulator, Given]:
    """A model that is given parameters, a known field, forcing and a mask, and a start for it."""
    draw = np.random.default_rng(0)
    outside = np.zeros((48, 40), dtype=bool)
    outside[20:26, 8:15] = True
    data = from_array(
        draw.normal(size=(6, 12, 1, 48, 40)).cumsum(axis=1),
        dt=0.1,
        extent=((0, 1), (0, 1)),
        boundary=("neumann", "periodic"),
        parameters={"nu": draw.uniform(size=6)},
        known={"depth": draw.normal(size=(48, 40))},
        forcing={"wind": draw.normal(size=(6, 12, 48, 40))},
        mask=outside,
        history=2,
    )
    emulator = build("fino", data, width=4, levels=1, predict="increment").eval()
    return emulator.double(), data.train.begin([0, 1], 2)[0].to(torch.float64)


def condition(group: ProcessGroup, folder: Path) -> None:
    """The rollout of a model with all that it may be given."""
    emulator, given = conditioned()
    share = rollout_ranks(group, emulator, given, 8)
    assert share.frames is not None
    block, frames = np.array(share.block), share.frames.numpy()
    np.savez(folder / f"conditions_{group.rank}.npz", block=block, frames=frames)


def die(group: ProcessGroup, folder: Path) -> None:
    """The last rank is killed in the middle of a rollout that would take very long."""
    emulator = model(2, "periodic")

    def kill(share: float) -> None:
        if group.rank == group.size - 1 and share > 1e-5:
            (folder / "death").touch()
            os.kill(os.getpid(), signal.SIGKILL)

    rollout_ranks(group, emulator, history(emulator), 10**6, every=10**6, progress=kill)


class Runaway:
    """Multiplies every cell by a hundred a step: the largest overflows first."""

    history, channels, locality = 1, 1, Locality((1,))
    grid = Grid((32,), ((0.0, 1.0),), ("periodic",))

    def __call__(self, history: torch.Tensor) -> torch.Tensor:
        return 100 * history[:, -1]


def runaway_start() -> torch.Tensor:
    """The largest cell belongs to the second of two processes."""
    return torch.where(torch.arange(32) == 20, 1.0, 1e-9).view(1, 1, 1, 32)


def diverge(group: ProcessGroup, folder: Path) -> None:
    """One process finds that the rollout runs away in the middle of a block of steps."""
    step = local_step(Runaway(), (32,))
    for overlap in (False, True):
        cut = Decomposition(Mesh(step.domain, (2,)), 5, overlap)
        try:
            out = folder / f"out-{overlap}.npy"
            rollout_ranks(group, Runaway(), runaway_start(), 30, cut, out=out, every=2)
        except Diverged as stop:
            (folder / f"{overlap}-{group.rank}").write_text(str(stop))


def verb(folder: Path) -> None:
    """`fino rollout` on a saved model, from file to file."""
    rollout(folder / "model", steps=10, history=str(folder / "start.npy"), out=folder / "out.h5")


def work(task: str, folder: Path) -> int:
    torch.set_num_threads(1)
    try:
        if task == "verb":
            verb(folder)
            return 0
        with join_group("gloo") as group:
            tasks = {"compute": compute, "condition": condition, "die": die, "diverge": diverge}
            tasks[task](group, folder)
    except (ValueError, OSError) as error:
        sys.stderr.write(f"fino: {error}\n")
        return 2
    return 0


def fork(task: str, folder: Path, processes: int) -> int:
    """Start the ranks as copies of this process, before torch has any threads."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), WORLD_SIZE=str(processes))
    children = []
    for rank in range(processes):
        child = os.fork()
        if child == 0:
            os.environ["RANK"] = str(rank)
            os._exit(work(task, folder))
        children.append(child)
    return max(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)


if __name__ == "__main__":
    task, folder = sys.argv[1], Path(sys.argv[2])
    sys.exit(fork(task, folder, int(sys.argv[3])) if len(sys.argv) > 3 else work(task, folder))
