"""`python -m lab bench generate`: trajectories a second for every problem, time for a thousand.

Each problem is warmed up first, so that compiling its kernels is not counted, and then solved
batch by batch at its own resolution, with all its saved frames, until enough time has passed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from fino.cli.console import progress, say_json, table
from fino.pde import PROBLEMS, Problem, find_problem
from fino.pde.problem import cores

__all__ = ["Pace", "generate", "measure_paces"]


@dataclass(frozen=True)
class Pace:
    """How long some trajectories of a problem took to solve."""

    problem: str
    samples: int
    seconds: float

    @property
    def per_second(self) -> float:
        return self.samples / self.seconds

    @property
    def seconds_for_1000(self) -> float:
        return 1000 * self.seconds / self.samples


def generate(*problems: str, samples: int = 16, seconds: float = 5.0, json: bool = False) -> None:
    """Time the solvers: `python -m lab bench generate`, or some: `… generate advection darcy`.

    Parameters
    ----------
    problems
        Problems to time; all if not given.
    samples
        Trajectories to solve at once.
    seconds
        Repeat until this much time has passed.
    json
        Print the figures as JSON.
    """
    measured: list[Pace] = []
    with progress("solving", quiet=json) as show:
        for pace in measure_paces(problems, samples, seconds):
            measured.append(pace)
            show(len(measured) / len(problems or PROBLEMS))
    if json:
        figures = {
            p.problem: {
                **asdict(p),
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


def measure_paces(names: Sequence[str], samples: int, seconds: float) -> Iterator[Pace]:
    """One pace after the other, for the named problems or all; unknown names are refused first."""
    problems = [find_problem(name)() for name in names or PROBLEMS]
    if samples < 1:
        raise ValueError(f"samples should be a positive number of trajectories, got {samples}.")
    return (_measure(problem, samples, seconds) for problem in problems)


def _measure(problem: Problem, samples: int, seconds: float) -> Pace:
    """Solve batches of `samples` until `seconds` have passed, at least one."""
    grid, times = problem.grid, problem.times
    problem.solve(times=times[:2])
    began, done = time.perf_counter(), 0
    while True:
        batch = range(done, done + samples)
        problem.solve(grid, problem.draw(grid, 0, batch), times)
        done += samples
        passed = time.perf_counter() - began
        if passed >= seconds:
            return Pace(problem.name, done, passed)
