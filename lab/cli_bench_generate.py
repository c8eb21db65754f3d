"""`python -m lab bench generate`: trajectories a second for every problem, time for a thousand."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

__all__ = ["generate"]


def generate(
    problem: Annotated[list[str] | None, Parameter(negative="", consume_multiple=True)] = None,
    *,
    samples: int = 16,
    seconds: float = 5.0,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Time the solvers: `python -m lab bench generate`, or some: `… generate advection darcy`.

    Parameters
    ----------
    problem
        Problems to time; all if not given.
    samples
        Trajectories to solve at once.
    seconds
        Repeat until this much time has passed.
    json
        Print the figures as JSON.
    """
    from fino.cli.console import progress, say_json, table
    from fino.pde import PROBLEMS
    from fino.pde.problem import cores
    from lab.bench_generate import paces

    count = len(problem or PROBLEMS)
    measured = []
    with progress("solving", quiet=json) as show:
        for pace in paces(problem, samples, seconds):
            measured.append(pace)
            show(len(measured) / count)
    if json:
        figures = {
            p.problem: {
                "samples": p.samples,
                "seconds": p.seconds,
                "per_second": p.per_second,
                "seconds_for_1000": p.seconds_for_1000,
            }
            for p in measured
        }
        say_json({"cores": cores(), "problems": figures})
        return
    table(
        f"Full resolution, all saved frames, {cores()} cores",
        ["problem", "solved", "a second", "1 000 take"],
        [
            (p.problem, p.samples, f"{p.per_second:.2f}", f"{p.seconds_for_1000:.0f} s")
            for p in measured
        ],
    )
