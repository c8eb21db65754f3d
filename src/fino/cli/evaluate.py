"""`fino evaluate`: score a run on its test data, next to the baselines."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

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
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Score a run: `fino evaluate runs/swe`.

    The first frames are shown, the rest is rolled out, and every metric is given with a 95 %
    interval over samples, next to predictions that need no learning.  Writes scores.json.

    `fino evaluate --pretrained shallow-water` solves the test data of a model that came with the
    package again, scores it, and says whether the scores are those that were shipped.

    Parameters
    ----------
    run
        The folder that `fino train` wrote.
    pretrained
        Instead of a run: the name of a pretrained model.
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
    from fino.allocator import keep_freed_memory
    from fino.cli.console import progress, say, table
    from fino.evaluation.evaluate import evaluate as scored
    from fino.evaluation.runs import subject_of

    keep_freed_memory()
    shelved = _shelved(run, pretrained)
    if shelved is not None:
        _again(shelved, data, samples, out, quiet=json)
        return
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
    if scores.baselines:
        table("Baselines: predictions that need no learning", *scores.baseline_rows())
    say(scores.verdict["sentence"])
    for name, reason in scores.verdict["skipped"].items():
        say(f"No {name} baseline: {reason}")
    say(f"Scores are in {out or Path(str(run)) / 'scores.json'}. Next: fino report {run}")


def _shelved(run: Path | None, name: str | None) -> Any:
    """The pretrained model that was asked for, if one was."""
    from fino.model.pretrained import PRETRAINED, on_shelf

    if (run is None) == (name is None):
        raise ValueError("evaluate should be given a run folder or --pretrained NAME.")
    return PRETRAINED[name] if name is not None else on_shelf(run)


def _again(
    shelved: Any, data: Path | None, samples: int | None, out: Path | None, quiet: bool
) -> None:
    """Score a pretrained model on its test data, solved again."""
    from fino.cli.console import progress, say, say_json, table
    from fino.evaluation.reproduce import reproduce

    with progress("solving and scoring", quiet=quiet) as show:
        both = reproduce(shelved, data, samples, show)
    if out is not None:
        both.today.save(out)
    if quiet:
        say_json(both.content())
    else:
        table(both.today.question, *both.rows())
        say(both.sentence)
    if both.agrees is False:
        raise ValueError(f"the scores of '{both.name}' could not be reproduced.")
