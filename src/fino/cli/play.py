"""`fino play`: a trained step in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from fino.cli.console import say

__all__ = ["play"]


def play(
    run: Path,
    *,
    out: Path | None = None,
    open: Annotated[bool, Parameter(negative="--no-open")] = True,
) -> None:
    """Play with a trained step in the browser: `fino play shallow-water`.

    Writes one HTML file that needs no network, and opens it: the learned step runs in the browser,
    beside the classical solver where there is one.

    Args:
        run: A run folder, a model folder, or the name of a pretrained model.
        out: Where to keep the page; a temporary folder if not given.
        open: Open it in the browser, or only say where it is.
    """
    import tempfile
    import webbrowser

    from fino.export.write import export
    from fino.training.run import find_run

    found = find_run(run)
    path = out or Path(tempfile.mkdtemp(prefix="fino-")) / f"{found.name}.html"
    export(found, "page", path)
    say(f"{path}: {path.stat().st_size / 1e6:.2f} MB, without a network.")
    if open and not webbrowser.open(path.resolve().as_uri()):
        say("There is no browser to open it with here: open the file yourself.")
