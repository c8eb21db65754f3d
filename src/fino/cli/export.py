"""`fino export`: a trained step as files for other languages and runtimes."""

from __future__ import annotations

from pathlib import Path

from fino.cli.console import say, say_json

__all__ = ["export"]


def export(
    run: Path,
    *,
    to: str,
    out: Path | None = None,
    overwrite: bool = False,
    json: bool = False,
) -> None:
    """Take a model out of Python: `fino export shallow-water --to c --out swe.c`.

    Args:
        run: A run folder, a model folder, or the name of a pretrained model.
        to: `onnx` for other runtimes; `c` for one C99 file and its header; `page` for an HTML file
            to play with.
        out: The file to write; the run's name if not given.
        overwrite: Replace files that exist.
        json: Print what was written as JSON.
    """
    from fino.export.write import export as write
    from fino.training.run import find_run

    done = write(find_run(run), to, out, overwrite=overwrite)
    if json:
        facts = {"files": done.files, "sizes": done.rule, "difference": done.difference}
        say_json({**facts, "notes": done.notes})
        return
    for path in done.files:
        say(f"{path}: {path.stat().st_size / 1e3:.0f} kB")
    say(f"It runs on {done.rule}.")
    if done.difference is not None:
        say(f"A step on random numbers differs from torch by {done.difference:.0e}.")
    for note in done.notes:
        say(note)
