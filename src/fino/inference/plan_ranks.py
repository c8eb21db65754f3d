"""How many steps a halo carries between processes, and whether to compute while it travels.

    seconds(k)  =  ( compute(k) + messages · latency + bytes(k) · wire ) / k           in turn
    seconds(k)  =  ( max(inner(k), exchange(k)) + shell(k) ) / k                       at once

A wide halo saves messages and costs cells.  Computing the inner cells while the halo travels
hides it, and costs the cells that inner part and shell both read.  The same model, on paper,
says how far adding processes pays.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from fino.inference.costs import Costs
from fino.inference.local import LocalStep
from fino.inference.mesh import HIGH, LOW, Mesh, best_mesh
from fino.inference.plan import counted
from fino.inference.tiles import Box, cells

__all__ = ["RankChoice", "RankPlan", "Scaling", "inner_and_shell", "plan_ranks", "predict_scaling"]

_STEPS_PER_HALO = (1, 2, 3, 4, 6, 8, 12, 16)


@dataclass(frozen=True)
class RankChoice:
    """What one way of stepping and exchanging costs a rank, in seconds a step."""

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

    def __str__(self) -> str:
        way = "computing meanwhile" if self.overlap else "in turn"
        return (
            f"{counted(self.steps_per_halo, 'step')} a halo, {way}: {self.seconds:.3g} s a step, "
            f"{self.halo_share:.1%} of it the halo of {self.halo_bytes / 1e3:.3g} kB; "
            f"{self.extra:.0%} more cells are computed than kept"
        )


@dataclass(frozen=True)
class RankPlan:
    """A mesh, the steps a halo carries, and whether computing goes on while it travels."""

    mesh: Mesh
    steps_per_halo: int = 1
    overlap: bool = False
    choices: tuple[RankChoice, ...] = ()

    @property
    def best(self) -> RankChoice | None:
        ways = (self.steps_per_halo, self.overlap)
        return next((c for c in self.choices if (c.steps_per_halo, c.overlap) == ways), None)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why this plan, a sentence each."""
        best = self.best
        if best is None:
            return ("The plan was given, not chosen.",)
        shape = " × ".join(map(str, self.mesh.shape))
        others = sorted((c for c in self.choices if c is not best), key=lambda c: c.seconds)
        return (
            f"{self.mesh.ranks} processes as {shape}: the least halo for the largest block.",
            f"{best}.",
            *(f"{c}: {c.seconds / best.seconds:.2f} times as long." for c in others),
        )


def plan_ranks(
    step: LocalStep,
    ranks: int,
    costs: Costs,
    *,
    channels: int,
    steps: int,
    samples: int = 1,
    mesh: tuple[int, ...] | None = None,
    steps_per_halo: int | None = None,
) -> RankPlan:
    """The cheapest way for so many processes to march the domain."""
    least = step.locality.halo(steps_per_halo or 1)
    shape = best_mesh(step.domain, ranks, least) if mesh is None else Mesh(step.domain, mesh)
    if shape.ranks != ranks:
        raise ValueError(f"a mesh of {mesh} needs {shape.ranks} processes, but there are {ranks}.")
    shape.check(least)
    options = [steps_per_halo] if steps_per_halo else _STEPS_PER_HALO
    choices = [
        rank_choice(step, shape, k, overlap, costs, channels * samples)
        for k in options
        if k == 1 or (k <= max(1, steps) and shape.carries(step.locality.halo(k)))
        for overlap in ((False, True) if ranks > 1 else (False,))
    ]
    # Ways that cost the same to rounding: the one with the fewest steps a halo.
    best = min(choices, key=lambda choice: (float(f"{choice.seconds:.6g}"), choice.steps_per_halo))
    return RankPlan(shape, best.steps_per_halo, best.overlap, tuple(choices))


def rank_choice(
    step: LocalStep, mesh: Mesh, k: int, overlap: bool, costs: Costs, values: int
) -> RankChoice:
    """The cost for the rank with the largest window, `values` numbers in a cell."""
    halo = step.locality.halo(k)
    rank = busiest(mesh, halo)
    block = mesh.block(rank)
    sent = halo_cells(mesh, rank, halo) * min(k, step.history) * values * 4
    messages = sum(count > 1 for count in mesh.shape)
    exchange = messages * costs.message + sent * costs.wire_byte

    def seconds(boxes: list[Box]) -> float:
        return costs.compute(
            [cells(window) for box in boxes for window in step.windows(box, k)[:-1]]
        )

    if overlap:
        inner, shell = inner_and_shell(mesh, rank, halo)
        early, late = seconds(inner), seconds(shell)
        total, boxes = max(early, exchange) + late, inner + shell
        waited = max(0.0, exchange - early)
    else:
        boxes = [block]
        total, waited = seconds(boxes) + exchange, exchange
    computed = sum(cells(w) for box in boxes for w in step.windows(box, k)[:-1])
    extra = computed / (k * cells(block)) - 1
    return RankChoice(k, overlap, total / k, waited / k, sent / k, extra)


def inner_and_shell(mesh: Mesh, rank: int, halo: tuple[int, ...]) -> tuple[list[Box], list[Box]]:
    """The block cut into cells that need no halo from others, and slabs that do."""
    inner = list(mesh.block(rank))
    shell: list[Box] = []
    for axis, width in enumerate(halo):
        for side in (LOW, HIGH):
            start, stop = inner[axis]
            if mesh.neighbour(rank, axis, side) is None or start == stop:
                continue
            cut = min(start + width, stop) if side == LOW else max(stop - width, start)
            slab, rest = ((start, cut), (cut, stop)) if side == LOW else ((cut, stop), (start, cut))
            shell.append((*inner[:axis], slab, *inner[axis + 1 :]))
            inner[axis] = rest
    return ([tuple(inner)] if all(a < b for a, b in inner) else []), [
        box for box in shell if cells(box)
    ]


def halo_cells(mesh: Mesh, rank: int, halo: tuple[int, ...]) -> int:
    """Cells that a rank receives in one exchange, corners included."""
    return cells(mesh.domain.grown(mesh.block(rank), halo)) - cells(mesh.block(rank))


def busiest(mesh: Mesh, halo: tuple[int, ...]) -> int:
    """A rank with the largest window: one in the middle of the mesh has every neighbour."""
    return max(_typical(mesh), key=lambda rank: cells(mesh.domain.grown(mesh.block(rank), halo)))


def _typical(mesh: Mesh) -> Iterator[int]:
    """The first, middle and last ranks along each axis stand for all."""
    axes = [sorted({0, 1 % count, count // 2, count - 1}) for count in mesh.shape]
    for place in product(*axes):
        number = 0
        for at, size in zip(place, mesh.shape, strict=True):
            number = number * size + at
        yield number


@dataclass(frozen=True)
class Scaling:
    """What so many processes would bring, on paper."""

    ranks: int
    mesh: tuple[int, ...]
    choice: RankChoice
    efficiency: float


def predict_scaling(
    step: LocalStep, costs: Costs, *, channels: int, most: int = 1024
) -> list[Scaling]:
    """Strong scaling of this domain over 1, 2, 4 … processes, as far as blocks carry a halo."""
    alone = cells(step.domain.whole)
    single = costs.compute([alone])
    found = []
    for power in range(int(math.log2(most)) + 1):
        try:
            plan = plan_ranks(step, 2**power, costs, channels=channels, steps=16)
        except ValueError:
            break
        assert plan.best is not None
        efficiency = single / (2**power * plan.best.seconds)
        found.append(Scaling(2**power, plan.mesh.shape, plan.best, efficiency))
    return found
