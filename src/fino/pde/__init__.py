"""The truth: problems, their initial conditions and their solvers."""

from __future__ import annotations

from fino.pde.problem import Problem

__all__ = ["PROBLEMS", "Problem"]

#: Every problem by name.  To add one: a file, an import and a line here.
PROBLEMS: dict[str, Problem] = {}
