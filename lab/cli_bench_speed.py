"""`python -m lab bench speed`: what a step costs, interleaved in one run, as ratios."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fino.cli.console import say, say_json, table

__all__ = ["speed"]


def speed(
    *models: str,
    repeats: int = 30,
    threads: int | None = None,
    grow: bool = True,
    json: bool = False,
) -> None:
    """Time FINO, FNO and the named models (all, if none is named), forward and with backward.

    Ratios are taken inside one run, so that they hold on a busy machine as well.  Two of them
    are shown: to our own FNO, which is engineered, and to the FNO as its paper writes it, both
    of PDEBench's size.

    Parameters
    ----------
    models
        Names from `fino list`.
    repeats
        Rounds; every model runs once in each, and medians are shown.
    threads
        How many cores to use.
    grow
        Also fit how the cost grows from 64² to 512².
    json
        Print for a machine.
    """
    import torch

    from lab.bench_speed import Growth, Speed, as_dict
    from lab.bench_speed import growth as grown
    from lab.bench_speed import speed as timed

    if threads is not None:
        torch.set_num_threads(threads)
    names = list(models) or None
    rows: list[Speed] = list(timed(names, repeats))
    sizes: list[Growth] = list(grown(names)) if grow else []
    if json:
        say_json(
            {
                "threads": torch.get_num_threads(),
                "speed": [as_dict(row) for row in rows],
                "growth": [as_dict(row) for row in sizes],
            }
        )
        return
    say(f"{torch.get_num_threads()} threads, float32, torch {torch.__version__}")
    for case in dict.fromkeys(row.case for row in rows):
        _speed_table(case, [row for row in rows if row.case == case])
    if sizes:
        _growth_table(sizes)


def _speed_table(case: str, rows: Sequence[Any]) -> None:
    columns = (
        *("model", "parameters", "M mult-adds", "forward ms", "fwd+bwd ms"),
        *("fwd ÷ our FNO", "f+b ÷ our FNO", "fwd ÷ textbook", "f+b ÷ textbook", "of peak"),
    )
    table(
        case,
        columns,
        [
            (
                r.model,
                f"{r.parameters:,}",
                f"{r.multiply_adds / 1e6:.0f}",
                f"{r.forward:.2f}",
                f"{r.training:.2f}",
                f"{r.forward_ratio:.2f}",
                f"{r.training_ratio:.2f}",
                f"{r.forward_textbook_ratio:.2f}",
                f"{r.training_textbook_ratio:.2f}",
                f"{r.peak_share:.0%}",
            )
            for r in rows
        ],
    )


def _growth_table(rows: Sequence[Any]) -> None:
    sizes = list(rows[0].times)
    table(
        "one frame, forward, ms; cost ~ cells^p",
        ("model", *(f"{n}²" for n in sizes), "p"),
        [(r.model, *(f"{r.times[n]:.1f}" for n in sizes), f"{r.exponent:.2f}") for r in rows],
    )
