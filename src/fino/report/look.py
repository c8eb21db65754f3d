"""How figures look: one set of colours that everybody can tell apart, and ink that fits the page.

Lines take the colours of Okabe and Ito, fields viridis, errors a diverging map about zero.  A
figure is drawn once; on a page its ink becomes `currentColor`, so that it is dark on light paper
and light on dark.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

__all__ = ["ERROR_MAP", "FIELD_MAP", "INK", "color_of", "dashes_of", "drawn", "inline", "save"]

FIELD_MAP = "viridis"
ERROR_MAP = "RdBu_r"
#: The colour of text and axes.  No data are drawn in it but the truth.
INK = "#1b1f24"

_MODEL = "#0072B2"
_COLORS = ("#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#9A8F00")
_DASHES: tuple[Any, ...] = ((0, (6, 2)), (0, (3, 1.5)), (0, (1, 1.5)), (0, (6, 2, 1, 2)), "-", "-")

_STYLE: dict[Any, Any] = {
    "figure.constrained_layout.use": True,
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.titleweight": "normal",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.grid": False,
    "grid.linewidth": 0.6,
    "grid.alpha": 0.18,
    "grid.color": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 1.8,
    "lines.solid_capstyle": "round",
    "image.interpolation": "nearest",
    "axes.formatter.useoffset": False,
    "axes.formatter.limits": (-3, 4),
    "axes.unicode_minus": True,
    "svg.fonttype": "path",
}


@contextmanager
def drawn(width: float, height: float) -> Iterator[Figure]:
    """An empty figure in the house's look; nothing outside of it is changed."""
    with mpl.rc_context(_STYLE):
        yield Figure(figsize=(width, height))


def color_of(place: int) -> str:
    """The colour of the place-th line; the first, the model's own, is blue."""
    return _MODEL if place == 0 else _COLORS[(place - 1) % len(_COLORS)]


def dashes_of(place: int) -> Any:
    """The dashes of the place-th line, so that colour is never the only difference."""
    return "-" if place == 0 else _DASHES[(place - 1) % len(_DASHES)]


def save(figure: Figure, path: str | Path) -> Path:
    """Write a figure as PNG or SVG, by the ending of the name."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context({**_STYLE, "svg.hashsalt": path.stem}):
        figure.savefig(path, dpi=160, facecolor="white", metadata=_no_date(path.suffix))
    return path


def inline(figure: Figure, name: str) -> str:
    """The figure as an <svg> element without a background, its ink that of the page.

    The page has to define the colours --model and --second.
    """
    buffer = io.StringIO()
    with mpl.rc_context({**_STYLE, "svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", dpi=160, transparent=True, metadata=_no_date(".svg"))
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :].replace(INK, "currentColor")
    svg = svg.replace(_MODEL.lower(), "var(--model)").replace(_COLORS[0].lower(), "var(--second)")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    # The page scales the figure: no fixed size, and names of parts that no other figure has.
    svg = re.sub(r'(<svg\b[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg\b[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    for attribute in (r'\bid="', r'href="#', r"url\(#"):
        svg = re.sub(attribute + r"(?=[\w.-])", lambda m: m.group(0) + f"{name}-", svg)
    return svg


def _no_date(suffix: str) -> dict[str, Any]:
    # The same numbers give the same bytes.
    return {"Date": None} if suffix == ".svg" else {"Software": None}
