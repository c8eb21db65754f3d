"""A rollout over many processes: each marches its block, and a wide halo travels every k steps.

    read own block → exchange K frames → ( step k times → keep own block → exchange k frames )*

Frames whose halo came with an earlier exchange are not sent again.  Where the plan says that it
pays, the cells that need nothing from others are computed while the halo is under way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from fino.durable import replace
from fino.inference.costs import assumed
from fino.inference.disk import lay_out, open_film, opened, part_of
from fino.inference.films import Film, TensorFilm
from fino.inference.halo import Halo
from fino.inference.local import LocalStep, check_history, local_stepper
from fino.inference.plan_ranks import RankPlan, inner_and_shell, plan_ranks
from fino.inference.processes import Company
from fino.inference.tiled import compute, groups
from fino.inference.tiles import Box, per_axis, shape

__all__ = ["Share", "plan_company", "rollout_share"]


@dataclass(frozen=True, eq=False)
class Share:
    """What one rank has when the rollout is over.

    `frames` (b, t, c, *block) unless they went to a file; seconds of the whole and of waiting
    for halos.
    """

    block: Box
    frames: Tensor | None
    seconds: float
    halo_seconds: float
    plan: RankPlan

    @property
    def halo_share(self) -> float:
        return self.halo_seconds / self.seconds if self.seconds else 0.0


def rollout_share(
    company: Company,
    stepper: Any,
    history: Any,
    steps: int,
    *,
    plan: RankPlan | None = None,
    mesh: tuple[int, ...] | None = None,
    tile: int | Sequence[int] | None = None,
    out: str | Path | None = None,
    every: int = 1,
    progress: Callable[[float], None] | None = None,
) -> Share:
    """This rank's part of a rollout that all ranks call with the same arguments.

    `history` is a file, or a tensor of the whole domain of which each rank takes its block.
    With `out`, each rank writes its block into one file.  A `tile` bounds the memory of a rank.
    """
    film, alone = open_film(history, stepper.grid.dims)
    step = local_stepper(stepper, film.shape[3:])
    check_history(step, film, stepper)
    if plan is None:
        plan = plan_company(company, step, film, steps, mesh)
    rank = Rank(company, step, plan, film, tile)
    kept = (film.shape[0], steps // every, film.shape[2])
    if out is None:
        block = rank.halo.block
        mine = torch.empty(*kept, *shape(block), dtype=film.dtype)
        timing = rank.march(steps, TensorFilm(mine, tuple(a for a, _ in block)), every, progress)
        return Share(block, mine[0] if alone else mine, *timing, plan)
    whole = (*kept, *film.shape[3:])
    file_shape = whole[1:] if alone else whole
    with (
        _common_file(company, out, file_shape, film.dtype) as part,
        opened(part, step.domain.dims) as file,
    ):
        timing = rank.march(steps, file, every, progress)
    return Share(rank.halo.block, None, *timing, plan)


def plan_company(
    company: Company,
    step: LocalStep,
    film: Film,
    steps: int,
    mesh: tuple[int, ...] | None = None,
) -> RankPlan:
    """The same plan on every rank, because it is made from the network's arithmetic alone."""
    samples, _, channels = film.shape[:3]
    return plan_ranks(
        step,
        company.size,
        assumed(step),
        channels=channels,
        samples=samples,
        steps=steps,
        mesh=mesh,
    )


@contextmanager
def _common_file(
    company: Company, out: str | Path, shape: Sequence[int], dtype: torch.dtype
) -> Iterator[Path]:
    """One file for all ranks: the first lays it out, and names it when all have written."""
    part = part_of(out)
    first = company.rank == 0
    try:
        if first:
            lay_out(part, shape, dtype)
        dist.barrier()
        yield part
        dist.barrier()
        if first:
            replace(part, Path(out))
    finally:
        if first:
            part.unlink(missing_ok=True)


class Rank:
    """One process at work: its window of the recent frames, and the exchange that renews it."""

    def __init__(
        self,
        company: Company,
        step: LocalStep,
        plan: RankPlan,
        film: Film,
        tile: int | Sequence[int] | None = None,
    ) -> None:
        self.step, self.plan = step, plan
        self.tile = step.domain.points if tile is None else per_axis(tile, step.domain.dims)
        self.halo = Halo(
            plan.mesh, company.rank, step.locality.halo(plan.steps_per_halo), company.lost
        )
        self.samples = range(film.shape[0])
        first = film.shape[1] - step.history
        known = [
            torch.stack([film.read(s, first + t, self.halo.block) for t in range(step.history)])
            for s in self.samples
        ]
        self.recent = self.halo.room(step.brought(torch.stack(known)))
        self.waited = 0.0

    def march(
        self,
        steps: int,
        result: Film,
        every: int = 1,
        progress: Callable[[float], None] | None = None,
    ) -> tuple[float, float]:
        """All steps; (seconds, of which waiting for halos)."""
        begin = perf_counter()
        with ThreadPoolExecutor(max_workers=1) as messenger:
            renewed = self._renew(self.recent, messenger)
            for start in range(0, steps, self.plan.steps_per_halo):
                count = min(self.plan.steps_per_halo, steps - start)
                frames = self._block_of_steps(count, renewed)
                if start + count < steps:
                    renewed = self._renew(self._shifted(frames), messenger)
                self._keep(frames, start, result, every)
                if progress:
                    progress((start + count) / steps)
            self._wait(renewed)
        return perf_counter() - begin, self.waited

    def _block_of_steps(self, count: int, renewed: Future[None] | None) -> Tensor:
        """Some steps of the own block: (b, count, c, *block)."""
        block = self.halo.block
        frames = self.recent.new_empty(
            len(self.samples), count, self.recent.shape[2], *shape(block)
        )
        width = self.step.locality.halo(count)
        inner: list[Box] = []
        shell: list[Box] = [block]
        if self.plan.overlap:
            inner, shell = inner_and_shell(self.plan.mesh, self.halo.rank, width)
        self._compute(inner, frames)
        self._wait(renewed)
        self._compute(shell, frames)
        return frames

    def _compute(self, boxes: Sequence[Box], frames: Tensor) -> None:
        count = frames.shape[1]
        window = TensorFilm(self.recent, tuple(a for a, _ in self.halo.window))
        target = TensorFilm(frames, tuple(a for a, _ in self.halo.block))

        def read(sample: int, box: Box) -> Tensor:
            return torch.stack([window.read(sample, t, box) for t in range(self.step.history)])

        width = self.step.locality.halo(count)
        tiles = [t for box in boxes for t in self.step.domain.tiles(box, self.tile, width)]
        for group in groups(self.step, tiles, self.samples, count, batch=len(self.samples)):
            compute(self.step, group, count, read, target.write)

    def _shifted(self, frames: Tensor) -> Tensor:
        """Move on in time; returns the frames whose halo is still missing."""
        fresh = frames[:, -self.step.history :]
        kept = self.recent[:, fresh.shape[1] :]
        self.recent = torch.cat([kept, self.halo.room(fresh)], dim=1)
        return self.recent[:, kept.shape[1] :]

    def _keep(self, frames: Tensor, start: int, result: Film, every: int) -> None:
        for time in range(start, start + frames.shape[1]):
            if (time + 1) % every == 0:
                for sample in self.samples:
                    values = frames[sample, time - start]
                    result.write(sample, (time + 1) // every - 1, self.halo.block, values)

    def _renew(self, window: Tensor, messenger: ThreadPoolExecutor) -> Future[None] | None:
        """Exchange halos: at once, or by the messenger while this thread goes on."""
        if self.plan.overlap:
            return messenger.submit(self.halo.exchange, window)
        begin = perf_counter()
        self.halo.exchange(window)
        self.waited += perf_counter() - begin
        return None

    def _wait(self, renewed: Future[None] | None) -> None:
        if renewed is not None:
            begin = perf_counter()
            renewed.result()
            self.waited += perf_counter() - begin
