"""`python -m lab bench horizon`: roll out far past the end of training, beside the truth."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

__all__ = ["horizon"]


def horizon(
    *runs: Path,
    times: int = 5,
    samples: int = 10,
    keep: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Who stays stable: `python -m lab bench horizon runs/laptop-advection`.

    Test samples are solved again for several times as long, and every run is rolled out to the
    end.

    Parameters
    ----------
    runs
        Runs on the same data, folders of `fino run`, or names of pretrained models.
    times
        How many times as long as the data of the training.
    samples
        How many test samples.
    keep
        Write the scores into the package, for `python -m lab results`.
    json
        Print the numbers as JSON.
    """
    from fino.cli.console import progress, say, say_json, table
    from lab.horizon import LOST, far, horizons, runs_in
    from lab.saved import keep_scores

    if not runs:
        raise ValueError("horizon should be given a run, such as runs/laptop-advection.")
    found = {name: run for place in runs for name, run in runs_in(place).items()}
    with progress("solving and rolling out", quiet=json) as show:
        scored = horizons(found, times, samples, show)
    task = next(iter(scored.values())).data["name"]
    if keep:
        for name, scores in scored.items():
            keep_scores(scores, f"horizon-{task}", name)
    rows = {name: far(scores, times) for name, scores in scored.items()}
    if json:
        say_json({name: vars(row) for name, row in rows.items()})
        return
    table(
        f"{task}: nRMSE over {times} times the time of training, {samples} samples",
        ["run", "at the end of training", f"at {times} times", "worst", "bounded"],
        [
            [
                name,
                f"{r.within:.3g}",
                f"{r.end:.3g}",
                f"{r.worst:.3g}",
                "yes" if r.bounded else "NO",
            ]
            for name, r in rows.items()
        ],
    )
    say(f"Bounded: no sample diverged, and the error stayed below {LOST:g} times the truth.")
