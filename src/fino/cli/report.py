"""`fino report`: one page that shows what a run did."""

from __future__ import annotations

from pathlib import Path

from fino.cli.console import progress, say, say_json

__all__ = ["report"]


def report(
    *runs: Path,
    data: Path | None = None,
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
        out: The page; RUN/report.html if not given, NAME-report/report.html for a pretrained model.
        movie: Also write the rollout as this GIF or mp4 file.
        sample: The test sample to draw.
        json: Print where everything was written as JSON.
    """
    from fino.report.page import report as write_report
    from fino.training.run import find_run

    if not runs:
        raise ValueError("report should be given a run folder, such as `fino report runs/swe`.")
    run = find_run(runs[0], data)
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
