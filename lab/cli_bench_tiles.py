"""`python -m lab bench tiles`: memory and time a cell, in tiles and undivided."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

__all__ = ["tiles"]


def tiles(
    *,
    sizes: Annotated[tuple[int, ...], Parameter(negative="", consume_multiple=True)] = (
        1024,
        2048,
        4096,
        8192,
    ),
    tile: int = 512,
    steps: int = 2,
    rounds: int = 3,
    threads: int | None = None,
    folder: Path | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Measure: `python -m lab bench tiles`, or `… tiles --sizes 1024 2048 --tile 256`.

    Parameters
    ----------
    sizes
        Cells along each side of a square field.
    tile
        Cells along each side of a tile.
    steps
        Steps of the rollout; small fields take more, until memory has settled.
    rounds
        Measure everything so often, in turn, and take the median time.
    threads
        How many cores to use.
    folder
        Where the fields are put while they are measured.
    json
        Print the figures as JSON.
    """
    from fino.cli.console import progress, say, say_json, table
    from lab.bench_tiles import tile_costs

    with progress("measuring", quiet=json) as show:
        measured = tile_costs(sizes, tile, steps, threads, folder, rounds, show)
    if json:
        say_json([asdict(cost) for cost in measured])
        return
    table(
        "FINO of width 16 and 1 level, from disk to disk",
        ["field", "way", "peak memory", "time a cell and step"],
        [
            (
                f"{c.points}²",
                "undivided" if c.tile is None else f"tiles of {c.tile}²",
                f"{c.memory / 1e6:.0f} MB" if c.fits else f"≈ {c.memory / 1e9:.0f} GB: too much",
                f"{1e9 * c.seconds_per_cell:.0f} ns" if c.fits else "–",
            )
            for c in measured
        ],
    )
    tiled = [c for c in measured if c.tile is not None]
    for what, values in (
        ("memory", [c.memory for c in tiled]),
        ("time a cell", [c.seconds_per_cell for c in tiled]),
    ):
        say(f"In tiles, {what} varies by {max(values) / min(values) - 1:.1%} over these sizes.")
