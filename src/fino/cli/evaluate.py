"""`fino evaluate`: score a run on its test data, next to the baselines."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fino.cli.console import progress, say, say_json, table

if TYPE_CHECKING:
    from fino.training.run import Run

__all__ = ["evaluate"]


def evaluate(
    run: Path | None = None,
    *,
    pretrained: str | None = None,
    data: Path | None = None,
    part: str = "test",
    samples: int | None = None,
    convention: str = "fino",
    batch: int = 50,
    out: Path | None = None,
    json: bool = False,
) -> None:
    """Score a run: `fino evaluate runs/swe`.

    The first frames are shown, the rest is rolled out, and every metric is given with a 95 %
    interval over samples, next to predictions that need no learning.  Writes scores.json.

    `fino evaluate --pretrained shallow-water` solves the test data of a model that came with the
    package again, scores it, and says whether the scores are those that were shipped.

    Args:
        run: The folder that `fino train` wrote; a model folder needs --data.
        pretrained: Instead of a run: the name of a pretrained model.
        data: Another file to score it on; its own data if not given.
        part: test, validation or train.
        samples: Score only the first so many.
        convention: `fino`, or `pdebench` for PDEBench's own numbers, quirks included.
        batch: The batch size that PDEBench's numbers depend on.
        out: Where to write the scores; RUN/scores.json if not given.
        json: Print the scores as JSON.
    """
    from fino.evaluation.evaluate import evaluate as score
    from fino.machine import keep_freed_memory
    from fino.report.score_words import baseline_table, describe_task, describe_verdict
    from fino.training.run import PRETRAINED, find_run

    if (run is None) == (pretrained is None):
        raise ValueError("evaluate should be given a run folder or --pretrained NAME.")
    keep_freed_memory()
    found = PRETRAINED[pretrained] if pretrained is not None else find_run(run)
    if found.is_shipped:
        _reproduce(found, data, samples, out, quiet=json)
        return
    found = find_run(found, data)
    found.check()
    with progress("scoring", quiet=json) as show:
        scores = score(
            found,
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
    table(describe_task(scores.data), *scores.table())
    if scores.baselines:
        table("Baselines: predictions that need no learning", *baseline_table(scores))
    say(describe_verdict(scores))
    for name, reason in scores.verdict["skipped"].items():
        say(f"No {name} baseline: {reason}")
    place = out or (found.results_folder and found.results_folder / "scores.json")
    if place is not None:
        say(f"Scores are in {place}. Next: fino report {run}")


def _reproduce(
    run: Run, data: Path | None, samples: int | None, out: Path | None, quiet: bool
) -> None:
    """Score a shipped model on its test data, solved again."""
    from fino.evaluation.evaluate import reproduce
    from fino.report.score_words import describe_reproduction, describe_task, reproduction_table

    with progress("solving and scoring", quiet=quiet) as show:
        both = reproduce(run, data, samples, show)
    if out is not None:
        both.today.save(out)
    if quiet:
        say_json({**both.to_dict(), "sentence": describe_reproduction(both)})
    else:
        table(describe_task(both.today.data), *reproduction_table(both))
        say(describe_reproduction(both))
    if both.agrees is False:
        raise ValueError(f"the scores of '{both.name}' could not be reproduced.")
