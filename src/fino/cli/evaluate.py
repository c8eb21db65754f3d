"""`fino evaluate`: score a run on its test data, next to the floors."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

__all__ = ["evaluate"]


def evaluate(
    run: Path,
    *,
    data: Path | None = None,
    part: str = "test",
    samples: int | None = None,
    convention: str = "fino",
    batch: int = 50,
    out: Path | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Score a run: `fino evaluate runs/swe`.

    The first frames are shown, the rest is rolled out, and every metric is given with a 95 %
    interval over samples, next to predictions that need no learning.  Writes scores.json.

    Parameters
    ----------
    run
        The folder that `fino train` wrote.
    data
        Another file to score it on; its own data if not given.
    part
        test, validation or train.
    samples
        Score only the first so many.
    convention
        `fino`, or `pdebench` for PDEBench's own numbers, quirks included.
    batch
        The batch size that PDEBench's numbers depend on.
    out
        Where to write the scores; RUN/scores.json if not given.
    json
        Print the scores as JSON.
    """
    from fino.cli.console import progress, say, table
    from fino.evaluation.evaluate import evaluate as scored
    from fino.evaluation.runs import subject_of

    subject = subject_of(run, data)
    with progress("scoring", quiet=json) as show:
        scores = scored(
            subject,
            part=part,
            samples=samples,
            convention=convention,
            batch=batch,
            out=out,
            command=shlex.join(["fino", *sys.argv[1:]]),
            progress=show,
        )
    if json:
        print(scores.to_json(), end="")
        return
    table(scores.question, *scores.summary())
    if scores.floors:
        table("Floors: predictions that need no learning", *scores.floor_rows())
    say(scores.verdict["sentence"])
    for name, reason in scores.verdict["skipped"].items():
        say(f"No {name} floor: {reason}")
    say(f"Scores are in {out or run / 'scores.json'}. Next: fino report {run}")
