"""The scales: metrics, intervals, costs, and one verdict against the baselines."""

from __future__ import annotations

from importlib import import_module
from typing import Any

#: Where each name of the room lives.  Nothing is imported before it is used.
_HOME = {
    "METRICS": "metrics",
    "Scores": "scores",
    "score": "metrics",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"fino.evaluation.{_HOME[name]}"), name)
    raise AttributeError(f"module 'fino.evaluation' has no attribute '{name}'")
