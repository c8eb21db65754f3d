"""`fino bench speed`: what a step costs, interleaved in one run, as ratios."""

from __future__ import annotations

__all__ = ["speed"]


def speed(*, models: list[str] | None = None) -> None:
    """x"""
