"""`python -m lab bench ranks`: what processes bring, what halos cost, how far it scales."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

if TYPE_CHECKING:
    from lab.bench_ranks import RankCost

__all__ = ["ranks"]


def ranks(
    *,
    ranks: Annotated[tuple[int, ...], Parameter(negative="", consume_multiple=True)] = (1, 2),
    points: int = 1024,
    steps: int = 20,
    steps_per_halo: int | None = None,
    paper: int = 8192,
    json: Annotated[bool, Parameter(negative="")] = False,
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
    paper
        Side of the field whose scaling to 1 024 processes is predicted.
    json
        Print the figures as JSON.
    """
    from fino.cli.console import progress, say, say_json, table
    from lab.bench_ranks import CLUSTER, on_paper, rank_costs

    measured = []
    with progress("measuring", quiet=json) as show:
        for cost in rank_costs(ranks, points, steps, steps_per_halo):
            measured.append(cost)
            show(len(measured) / len(ranks))
    predicted = on_paper(measured[0].costs, paper)
    if json:
        say_json(
            {
                "measured": [asdict(cost) for cost in measured],
                "on_paper": [
                    {**asdict(p.choice), "ranks": p.ranks, "mesh": p.mesh} for p in predicted
                ],
            }
        )
        return
    latency, byte = CLUSTER
    table(f"{points}² cells, {steps} steps, one thread a process", *_measured(measured))
    table(
        f"On paper: {paper}² cells, {1e6 * latency:.0f} µs a message, {1e-9 / byte:.2f} GB/s",
        *_on_paper(predicted),
    )
    say("k: steps a halo carries.  halo: share of a step spent waiting for it.  cells: computed")
    say("beyond those that are kept.  The model assumes a core of its own for every process.")


def _measured(costs: Sequence[RankCost]) -> tuple[list[str], list[Sequence[Any]]]:
    """What each number of processes took, beside what the model of it expects."""
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


def _on_paper(plans: Sequence[Any]) -> tuple[list[str], list[Sequence[Any]]]:
    """What the model expects of many processes on a cluster."""
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
