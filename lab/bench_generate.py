"""How fast data are made on this machine: trajectories a second, drawn and solved in full.

Each problem is warmed up first, so that compiling its kernels is not counted, and then solved
batch by batch at its own resolution and saved frames until enough time has passed to tell.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fino.pde import PROBLEMS, Problem, find_problem

__all__ = ["Pace", "measure", "paces"]


@dataclass(frozen=True)
class Pace:
    """What making some trajectories of a problem took."""

    problem: str
    samples: int
    seconds: float

    @property
    def per_second(self) -> float:
        return self.samples / self.seconds

    @property
    def seconds_for_1000(self) -> float:
        return 1000 * self.seconds / self.samples


def paces(names: Sequence[str] | None, samples: int, seconds: float) -> Iterator[Pace]:
    """One pace after the other, for the named problems or all; unknown names are refused first."""
    chosen = list(names or PROBLEMS)
    problems = [find_problem(name)() for name in chosen]
    if samples < 1:
        raise ValueError(f"samples should be a positive number of trajectories, got {samples}.")
    return (measure(problem, samples, seconds) for problem in problems)


def measure(problem: Problem, samples: int, seconds: float) -> Pace:
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
