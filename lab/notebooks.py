"""`python -m lab notebooks`: the gallery, from the examples as they stand.

Every script of `examples` becomes a notebook in `examples/notebooks`, a picture in
`docs/figures/gallery` and a page in `docs/gallery`.  The text of a notebook is that of the script:
its docstring is the first cell, and a comment after an empty line begins a new one.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import runpy
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from fino.cli.console import say
from fino.report.look import FIELD_MAP, drawn, save

__all__ = ["EXAMPLES", "make_notebook", "make_page", "notebooks", "split_cells"]

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

#: What a script leaves behind → a picture of it, in two panels.
Draw = Callable[[Mapping[str, Any], Axes, Axes], None]


def notebooks(*, pictures: bool = True) -> None:
    """Write the notebooks, pages and pictures of the examples.

    Parameters
    ----------
    pictures
        Run the examples again, half a minute, and draw what they computed.
    """
    for path in EXAMPLES:
        name = path.stem
        (ROOT / "examples/notebooks").mkdir(exist_ok=True)
        (ROOT / f"examples/notebooks/{name}.ipynb").write_text(make_notebook(path.read_text()))
        printed = ROOT / f"docs/gallery/{name}.txt"
        printed.parent.mkdir(exist_ok=True)
        if pictures:
            printed.write_text(run_example(path))
        (ROOT / f"docs/gallery/{name}.md").write_text(make_page(path))
        say(f"Written: docs/gallery/{name}.md")


def split_cells(code: str) -> list[tuple[str, str]]:
    """The cells of a script: ("markdown" or "code", text)."""
    docstring, rest = re.match(r'"""(.*?)"""\n(.*)', code, re.S).groups()  # type: ignore[union-attr]
    pieces = re.split(r"\n\n+(?=# |[a-z]+\.|class )", rest.strip("\n"))
    return [("markdown", docstring.strip()), *(("code", piece.strip("\n")) for piece in pieces)]


def make_notebook(code: str) -> str:
    """A script as a notebook, in Jupyter's format 4."""
    cells = []
    for number, (kind, words) in enumerate(split_cells(code)):
        lines = words.splitlines(keepends=True)
        cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}}
        cell |= {"execution_count": None, "outputs": []} if kind == "code" else {}
        cells.append({**cell, "source": lines})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    book = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(book, indent=1, ensure_ascii=False) + "\n"


def make_page(path: Path) -> str:
    """The page of an example: what it shows, its picture, the script and what it prints."""
    name = path.stem
    title, _, _ = split_cells(path.read_text())[0][1].partition(": ")
    words = split_cells(path.read_text())[0][1]
    return "\n".join(
        [
            f"# {title.rstrip('.')}",
            *([words] if words.rstrip(".") != title.rstrip(".") else []),
            "",
            f"![What the example computes](../figures/gallery/{name}.png)",
            "",
            f"```{{literalinclude}} ../../examples/{path.name}",
            ":language: python",
            "```",
            "",
            "It prints:",
            f"```{{literalinclude}} {name}.txt",
            ":language: text",
            "```",
            "",
            f"Run it with `python examples/{path.name}` from a clone, or open the notebook "
            f"{{download}}`{name}.ipynb <../../examples/notebooks/{name}.ipynb>`.",
            "",
        ]
    )


def run_example(path: Path) -> str:
    """Run a script, draw what it computed, and return what it printed."""
    printed, old = io.StringIO(), tempfile.tempdir
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(printed):
        tempfile.tempdir = folder
        try:
            found = runpy.run_path(str(path), run_name="__main__")
            with drawn(7.6, 2.7) as figure:
                PICTURES[path.stem](found, *figure.subplots(1, 2))
        finally:
            tempfile.tempdir = old
        out = ROOT / f"docs/figures/gallery/{path.stem}.png"
        out.parent.mkdir(exist_ok=True)
        save(figure, out)
    words = re.sub(re.escape(folder) + r"/\w+", "/tmp/folder", printed.getvalue())
    return "\n".join(line.rstrip() for line in words.splitlines()) + "\n"


def _solve(found: Mapping[str, Any], left: Axes, right: Axes) -> None:
    left.imshow(found["u"][0], aspect="auto", origin="lower", cmap=FIELD_MAP, extent=(0, 1, 0, 1))
    left.set(xlabel="x", ylabel="t", title="one trajectory")
    right.plot(found["u"][0, 0], label="start, and the exact solution after one turn")
    right.plot(found["u"][0, -1], "--", label="the solver after one turn")
    right.legend(fontsize=7)


def _train(found: Mapping[str, Any], left: Axes, right: Axes) -> None:
    left.imshow(found["u"][:, 0].numpy(), aspect="auto", origin="lower", cmap=FIELD_MAP)
    left.set(xlabel="cell", ylabel="frame", title="100 predicted frames")
    last = len(found["sample"].future) - 1
    right.plot(found["sample"].future[last, 0].numpy(), label="truth")
    right.plot(found["u"][last, 0].numpy(), "--", label=f"prediction, frame {last + 1}")
    right.legend(fontsize=7)


def _array(found: Mapping[str, Any], left: Axes, right: Axes) -> None:
    for axes, frame in ((left, 0), (right, -1)):
        axes.imshow(found["array"][0, frame, 0], cmap=FIELD_MAP, vmin=-0.6, vmax=0.6)
        axes.set(title="first frame" if frame == 0 else "last frame", xticks=[], yticks=[])


def _tile(found: Mapping[str, Any], left: Axes, right: Axes) -> None:
    whole = found["whole"][-1, 0].numpy()
    left.imshow(whole, cmap=FIELD_MAP)
    for edge in range(64, 256, 64):
        left.axhline(edge, color="w", lw=0.6)
        left.axvline(edge, color="w", lw=0.6)
    left.set(title="computed in 16 tiles", xticks=[], yticks=[])
    changed = (found["after"].trajectory[-1, 0] - found["whole"][-1, 0]).abs().numpy()
    right.imshow(changed > 0, cmap="Greys")
    right.set(title="what an edit changed after 5 steps", xticks=[], yticks=[])


def _problem(found: Mapping[str, Any], left: Axes, right: Axes) -> None:
    u = found["fino"].generate("heat", samples=1, nu=0.005).read([0])[0, :, 0].numpy()
    left.imshow(u, aspect="auto", origin="lower", cmap=FIELD_MAP, extent=(0, 1, 0, 1))
    left.set(xlabel="x", ylabel="t", title="uₜ = ν uₓₓ")
    for frame in (0, 5, 20):
        right.plot(np.linspace(0, 1, u.shape[1]), u[frame], label=f"t = {frame / 20:g}")
    right.legend(fontsize=7)


def _model(found: Mapping[str, Any], left: Axes, right: Axes) -> None:
    fino, sample = found["fino"], found["data"].test[0]
    u = fino.rollout(found["run"], sample, steps=len(sample.future))[:, 0].numpy()
    for axes, frame in ((left, 0), (right, len(u) - 1)):
        axes.plot(sample.future[frame, 0].numpy(), label="truth")
        axes.plot(u[frame], "--", label="prediction")
        axes.set(title=f"step {frame + 1}")
        axes.legend(fontsize=7)


def _inverse(found: Mapping[str, Any], left: Axes, right: Axes) -> None:
    sample, frames = found["sample"], found["frames"].detach()[0, :, 0].numpy()
    for axes, frame in ((left, 0), (right, 7)):
        axes.plot(sample.future[frame, 0].numpy(), label="observed" if frame else "truth")
        axes.plot(frames[frame], "--", label=f"rollout with nu = {found['guess'].item():.4f}")
        axes.set(title=f"step {frame + 1}")
        axes.legend(fontsize=7)


PICTURES: dict[str, Draw] = {
    "1_solve": _solve,
    "2_train": _train,
    "3_your_array": _array,
    "4_tile": _tile,
    "5_your_problem": _problem,
    "6_your_model": _model,
    "7_inverse": _inverse,
}
