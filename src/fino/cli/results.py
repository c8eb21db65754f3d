"""`fino evaluate`, `calibrate`, `compare`, `report`, `inspect`: how good runs are, and why."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fino.cli.console import progress, say, say_json, show_table, table
from fino.cli.data import FileOptions, SplitOptions, options_of, tell_data
from fino.durable import write_whole

if TYPE_CHECKING:
    from fino.training.run import Run

__all__ = ["calibrate", "compare", "evaluate", "inspect", "report"]


def evaluate(
    run: Path | None = None,
    *,
    pretrained: str | None = None,
    data: Path | None = None,
    options: SplitOptions | None = None,
    part: str | None = None,
    samples: int | None = None,
    convention: str = "fino",
    batch: int = 50,
    out: Path | None = None,
    strict: bool = False,
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
        data: Another file to score it on, all of it; its own data if not given.
        options: What that file does not say; as in the file of the training, if not given.
        part: test, validation, train or all; the test part of its own data, all of another file.
        samples: Score only the first so many.
        convention: `fino`, or `pdebench` for PDEBench's own numbers, quirks included.
        batch: The batch size that PDEBench's numbers depend on.
        out: Where to write the scores; if not given, RUN/scores.json, or RUN/scores-NAME.json for
            another file.
        strict: Refuse data that were made with another equation or other coefficients than those
            of the training, instead of warning of it.
        json: Print the scores as JSON.
    """
    from fino.evaluation.evaluate import evaluate as score
    from fino.machine import keep_freed_memory
    from fino.report.tables import field_table, score_table
    from fino.report.words import baseline_table, describe_trust, describe_verdict, describe_worth
    from fino.training.run import PRETRAINED, find_run

    if (run is None) == (pretrained is None):
        raise ValueError("evaluate should be given a run folder or --pretrained NAME.")
    keep_freed_memory()
    found = PRETRAINED[pretrained] if pretrained is not None else find_run(run)
    if found.is_shipped:
        _reproduce(found, data, samples, out, quiet=json)
        return
    found = find_run(found, data, **options_of(options))
    found.check()
    if data is not None and not json:
        say(f" from {data}", bold=found.data.card.title or found.data.card.name)
        tell_data(found.data, parts=part not in (None, "all"))
    with progress("scoring", quiet=json) as show:
        scores = score(
            found,
            part=part,
            samples=samples,
            convention=convention,
            batch=batch,
            out=out,
            strict=strict,
            command=shlex.join(["fino", *sys.argv[1:]]),
            progress=show,
        )
    if json:
        print(scores.to_json(), end="")
        return
    show_table(score_table(scores))
    by_field = field_table(scores, ("rmse", "nrmse"))
    if by_field is not None:
        show_table(by_field)
    if scores.baselines:
        table("Baselines: predictions that need no learning", *baseline_table(scores))
    say(describe_verdict(scores))
    if worth := describe_worth(scores):
        say(worth)
    for line in describe_trust(scores):
        say(line)
    for name, reason in scores.verdict["skipped"].items():
        say(f"No {name} baseline: {reason}")
    place = out or (found.results_folder and found.results_folder / found.scores_name)
    if place is not None:
        say(f"Scores are in {place}. Next: fino report {run}")


def _reproduce(
    run: Run, data: Path | None, samples: int | None, out: Path | None, quiet: bool
) -> None:
    """Score a shipped model on its test data, solved again."""
    from fino.evaluation.evaluate import reproduce
    from fino.report.words import describe_reproduction, describe_task, reproduction_table

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


def compare(
    *runs: Path,
    metrics: tuple[str, ...] = (),
    format: str = "text",
    figure: Path | None = None,
    out: Path | None = None,
    json: bool = False,
) -> None:
    """Compare runs: `fino compare runs/*`.

    Runs that differ only in their seed become one row, mean ± standard deviation.

    Args:
        runs: Folders that were evaluated, folders of `fino run`, or a scores.json.
        metrics: A metric to show; may be repeated.
        format: text, markdown, csv, latex or json.
        figure: Draw error against cost into this PNG or SVG file.
        out: Write the table to this file instead of printing it.
        json: The same as --format json.
    """
    from fino.evaluation.compare import compare as compare_runs
    from fino.metrics import metric_named
    from fino.report import tables

    for name in metrics:
        metric_named(name)
    shown = metrics or tables.METRICS_SHOWN
    results = compare_runs(runs)
    form = "json" if json else format
    brief = form == "text" and out is None
    written: list[tables.Table] = []
    for result in results:
        written.append(tables.comparison(result, shown, costs=not brief, intervals=not brief))
        written += [tables.costs(result)] if brief else []
    if figure is not None:
        from fino.report.curves import cost_and_error
        from fino.report.look import save

        save(cost_and_error(results[0]), figure)
    if out is not None:
        text = tables.rendered(written, "markdown" if form == "text" else form)
        write_whole(out, text.encode())
        say(f"{len(written)} tables are in {out}.")
    elif not brief:
        print(tables.rendered(written, form))
    else:
        for one in written:
            show_table(one)


def report(
    *runs: Path,
    data: Path | None = None,
    options: FileOptions | None = None,
    out: Path | None = None,
    movie: Path | None = None,
    sample: int = 0,
    json: bool = False,
) -> None:
    """Write a report: `fino report runs/swe`, or `fino report runs/*` to set rivals beside it.

    One HTML file with everything in it: the data, the training, pictures, an animation, the
    scores, and how to reproduce them.  The figures are also written as files beside it.

    Args:
        runs: Evaluated runs; the first is the one reported, the others are its rivals.  The name of
            a pretrained model may stand for the first.
        data: The data, if the run was trained on an array in memory or the file has moved.
        options: What that file does not say; as in the file of the training, if not given.
        out: The page; RUN/report.html if not given, NAME-report/report.html for a pretrained model.
        movie: Also write the rollout as this GIF or mp4 file.
        sample: The test sample to draw.
        json: Print where everything was written as JSON.
    """
    from fino.report.page import report as write_report
    from fino.training.run import find_run

    if not runs:
        raise ValueError("report should be given a run folder, such as `fino report runs/swe`.")
    run = find_run(runs[0], data, **options_of(options))
    if out is None and run.is_shipped:
        out = Path(f"{runs[0]}-report") / "report.html"
    with progress("report", quiet=json) as show:
        written = write_report(
            run, rivals=runs[1:], out=out, movie=movie, sample=sample, progress=show
        )
    if json:
        say_json(written)
        return
    say(f"The report is {written['page']}; its figures are in {written['figures']}.")
    if "movie" in written:
        say(f"The movie is {written['movie']}.")


def calibrate(
    run: Path,
    *,
    data: Path | None = None,
    options: FileOptions | None = None,
    json: bool = False,
) -> None:
    """Calibrate a run: `fino calibrate runs/swe`.

    Measures what the training part looked like and how far off predictions of the validation part
    are, and keeps it with the model, for `fino rollout --interval 0.9`, `--check mirror` and its
    warnings.  `fino train` does it when it ends; this is for models of earlier versions, and to
    say afterwards that data have a symmetry: `--data mine.nc --symmetries flip`.

    Args:
        run: A run folder, or a model folder with --data.
        data: The data; the run's own if not given.
        options: What that file does not say; as in the file of the training, if not given.
        json: Print what was found as JSON.
    """
    from fino.training.fit import calibrate as measure
    from fino.training.run import find_run

    with progress("calibrating", quiet=json) as show:
        found = find_run(run) if data is None else find_run(run, data, **options_of(options))
        trust = measure(found, progress=show).model.trust
    bands = trust.get("bands", {})
    if json:
        limit = trust["seen"]["limit"]
        said = {"trajectories": bands.get("trajectories"), "follows": bands.get("activity")}
        moves = (trust.get("mirror") or {}).get("symmetries", [])
        say_json({"run": run, **said, "limit": limit, "symmetries": moves})
    elif bands:
        follows = f"their width follows: {bands['activity']}"
        say(f"Bands from {bands['trajectories']} validation trajectories; {follows}.")
        if mirror := trust.get("mirror"):
            moves = ", ".join(mirror["symmetries"])
            say(f"Errors are estimated by symmetries: {moves} (fino rollout {run} --check mirror).")
        say(f"Next: fino rollout {run} --interval 0.9")
    else:
        say("There is no validation part, so there are no bands; what training saw is kept.")


def inspect(
    model: Path,
    *,
    data: Path | None = None,
    options: FileOptions | None = None,
    parameters: tuple[str, ...] = (),
    figures: Path | None = None,
    json: bool = False,
) -> None:
    """Look inside a model: `fino inspect runs/swe`.

    How far it sees against how far its data move, what its stencils, time steps and gates do, and
    how it grows errors.  A run keeps the result in RUN/inspection, and `fino report` shows it.

    Args:
        model: A run folder, a model folder that fino.save wrote, or the name of a pretrained model.
        data: The data to measure on; the run's own if not given.
        options: What that file does not say; as in the file of the training, if not given.
        parameters: A parameter that Δt, stencils and waves are looked at with, as nu=0.03; may be
            repeated.  Those that are not named are in the middle of the trained range.
        figures: Also write the pictures as PNG files into this folder.
        json: Print the numbers as JSON.
    """
    from fino.inspection.inspect import inspect as inspect_model
    from fino.report.inspection_words import inspection_json, inspection_sections
    from fino.training.run import find_run

    run = find_run(model, data, **options_of(options))
    theta = dict(_parameter(word) for word in parameters)
    with progress("looking inside", quiet=json) as show:
        found = inspect_model(run, parameters=theta, progress=show)
    place, kept, pictures = run.results_folder, None, []
    if place is not None or figures is not None:  # drawing takes a second to import
        from fino.report.inspection_page import write_figures, write_inspection

        kept = None if place is None else write_inspection(found, place / "inspection")
        pictures = [] if figures is None else write_figures(found, figures)
    if json:
        say_json(inspection_json(found))
        return
    for section in inspection_sections(found):
        say(bold=section.title)
        for line in section.lines:
            say(line)
        for part in section.tables:
            show_table(part)
        say()
    if kept is not None:
        say(f"Numbers and pictures are in {kept}. Next: fino report {model}")
    if pictures:
        say(f"Pictures: {', '.join(str(path) for path in pictures)}")


def _parameter(word: str) -> tuple[str, float]:
    """nu=0.03 as a name and a number."""
    name, _, number = word.partition("=")
    try:
        return name.strip(), float(number)
    except ValueError:
        raise ValueError(
            f"--parameters should be NAME=NUMBER, such as nu=0.03, got '{word}'."
        ) from None
