"""`python -m lab gallery`: one sample of each problem in one picture."""

from __future__ import annotations

from pathlib import Path

from fino.cli.console import say

__all__ = ["gallery"]


def gallery(out: Path = Path("problems.png"), *, seed: int = 0, overwrite: bool = False) -> None:
    """Solve one sample of each problem at full resolution and draw them all.

    Parameters
    ----------
    out
        A .png or .svg file.
    seed
        Which samples.
    overwrite
        Replace the file if it exists.
    """
    from fino.report.look import save
    from lab.gallery import gallery as draw

    if out.exists() and not overwrite:
        raise ValueError(f"{out} exists already. Choose another name, or pass --overwrite.")
    say("Solving one sample of each of six problems, about a minute the first time.")
    say(f"Written: {save(draw(seed), out)}")
