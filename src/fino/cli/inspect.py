"""`fino inspect`: does it see far enough, what did it learn, will it stay stable?"""

from __future__ import annotations

from pathlib import Path

from fino.cli.console import progress, say, say_json, table

__all__ = ["inspect"]


def inspect(
    model: Path,
    *,
    data: Path | None = None,
    figures: Path | None = None,
    json: bool = False,
) -> None:
    """Look inside a model: `fino inspect runs/swe`.

    How far it sees against how far its data move, what its stencils, time steps and gates do, and
    how it grows errors.  A run keeps the result in RUN/inspection, and `fino report` shows it.

    Args:
        model: A run folder, a model folder that fino.save wrote, or the name of a pretrained model.
        data: The data to measure on; the run's own if not given.
        figures: Also write the pictures as PNG files into this folder.
        json: Print the numbers as JSON.
    """
    from fino.inspection.inspect import inspect as inspect_model
    from fino.report.inspection_page import write_figures, write_inspection
    from fino.report.inspection_words import inspection_json, inspection_sections
    from fino.training.run import find_run

    run = find_run(model)
    with progress("looking inside", quiet=json) as show:
        found = inspect_model(run, data, progress=show)
    place = run.results_folder
    kept = None if place is None else write_inspection(found, place / "inspection")
    pictures = write_figures(found, figures) if figures is not None else []
    if json:
        say_json(inspection_json(found))
        return
    for section in inspection_sections(found):
        say(f"[bold]{section.title}[/bold]")
        for line in section.lines:
            say(line.replace("[", "\\["))
        for part in section.tables:
            table(part.title, part.columns, part.rows)
        say()
    if kept is not None:
        say(f"Numbers and pictures are in {kept}. Next: fino report {model}")
    if pictures:
        say(f"Pictures: {', '.join(str(path) for path in pictures)}")
