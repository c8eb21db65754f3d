"""`fino bench ranks`: what processes bring, what halos cost, what a thousand would bring."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from cyclopts import Parameter

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
    """Measure: `fino bench ranks`, or `fino bench ranks --ranks 1 2 4`.

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
    from fino.experiment.bench_ranks import CLUSTER, on_paper, rank_costs

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
    first = measured[0]
    table(
        f"{points}² cells, {steps} steps, one thread a process",
        ["ranks", "mesh", "k", "a step", "halo", "cells", "speedup", "model", "its halo"],
        [
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
            for c in measured
        ],
    )
    latency, byte = CLUSTER
    table(
        f"On paper: {paper}² cells, {1e6 * latency:.0f} µs a message, {1e-9 / byte:.2f} GB/s",
        ["ranks", "mesh", "k", "a step", "halo", "cells", "efficiency"],
        [
            (
                p.ranks,
                "×".join(map(str, p.mesh)),
                p.choice.steps_per_halo,
                f"{p.choice.seconds:.3g} s",
                f"{p.choice.halo_share:.1%}",
                f"+{p.choice.extra:.0%}",
                f"{p.efficiency:.0%}",
            )
            for p in predicted
        ],
    )
    say("k: steps a halo carries.  halo: share of a step spent waiting for it.  cells: computed")
    say("beyond those that are kept.  The model assumes a core of its own for every process.")
