"""How figures and pages look: colours that everybody can tell apart, ink that fits the page.

Lines take the colours of Okabe and Ito, fields viridis, errors a diverging map about zero.  A
figure is drawn once; on a page its ink becomes `currentColor`, so that it is dark on light paper
and light on dark.
"""

from __future__ import annotations

import base64
import hashlib
import io
import math
import re
import warnings
from collections.abc import Container, Iterator
from contextlib import contextmanager
from itertools import chain, count
from pathlib import Path
from typing import Any

import matplotlib as mpl
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter

from fino.durable import whole_file, write_whole

__all__ = [
    "ERROR_MAP",
    "FIELD_MAP",
    "INK",
    "as_file_name",
    "color_of",
    "dashes_of",
    "drawn",
    "inline",
    "line_style",
    "logarithmic",
    "plotted",
    "render_page",
    "save",
    "short",
]

FIELD_MAP = "viridis"
ERROR_MAP = "RdBu_r"
#: The colour of text and axes.  No data are drawn in it but the truth.
INK = "#1b1f24"

_MODEL = "#0072B2"
_COLORS = ("#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#9A8F00", "#6A3D9A", "#7F4F24")
_DASHES = ((6, 2), (3, 1.5), (1, 1.5), (6, 2, 1, 2), (4, 1), (8, 1.5, 2, 1.5), (10, 3), (2, 4))

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
    "text.parse_math": False,  # a name such as "$u" is a name
}


@contextmanager
def _styled(more: dict[Any, Any] | None = None) -> Iterator[None]:
    """The house's look; letters that the font lacks are drawn as boxes, without a warning."""
    with mpl.rc_context({**_STYLE, **(more or {})}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


@contextmanager
def drawn(width: float, height: float) -> Iterator[Figure]:
    """An empty figure in the house's look; nothing outside of it is changed."""
    with _styled():
        yield Figure(figsize=(width, height))


@contextmanager
def plotted(
    width: float, height: float, legend: Any = None, **properties: Any
) -> Iterator[tuple[Figure, Axes]]:
    """A figure of one plot with a grid and the given properties, as `Axes.set` takes them.

    `legend` is its place inside of the plot, or "beside" it.
    """
    with drawn(width, height) as figure:
        axes = figure.subplots()
        axes.grid(True)
        axes.set(**properties)
        yield figure, axes
        for side, smallest in (("x", axes.dataLim.minposx), ("y", axes.dataLim.minposy)):
            if properties.get(f"{side}scale") != "log":
                continue
            if math.isfinite(smallest):
                logarithmic(axes, side)
            else:  # nothing positive to show, as of a diverged run
                axes.set(**{f"{side}scale": "linear"})
        if legend == "beside":
            axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
        elif legend:
            axes.legend(loc=legend)


def color_of(place: int) -> str:
    """The colour of the place-th line; the first, the model's own, is blue."""
    return _MODEL if place == 0 else _COLORS[(place - 1) % len(_COLORS)]


def dashes_of(place: int) -> Any:
    """The dashes of the place-th line, so that colour is never the only difference."""
    return "-" if place == 0 else (0, _DASHES[(place - 1) % len(_DASHES)])


def line_style(place: int) -> dict[str, Any]:
    """Colour and dashes of the place-th line, as `plot` takes them."""
    return {"color": color_of(place), "linestyle": dashes_of(place)}


def logarithmic(axes: Axes, side: str) -> None:
    """Few, plain labels for a logarithmic axis, unless it has its own: 0.01, 0.1, 10⁻⁷."""
    axis = axes.xaxis if side == "x" else axes.yaxis
    if isinstance(axis.get_major_locator(), FixedLocator):
        return
    low, high = axes.get_xlim() if side == "x" else axes.get_ylim()
    narrow = low > 0 and high / low < 40
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if narrow else (1.0,), numticks=9))
    axis.set_major_formatter(FuncFormatter(lambda value, _: _plain_power(value)))
    axis.set_minor_formatter(NullFormatter())


def save(figure: Figure, path: str | Path) -> Path:
    """Write a figure as PNG or SVG, by the ending of the name."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".svg":
        write_whole(path, _svg(figure, path.stem).encode())
    else:
        _lay_out(figure)
        kind = path.suffix[1:] or "png"
        with _styled(), whole_file(path) as temporary:
            figure.savefig(
                temporary, format=kind, dpi=160, facecolor="white", metadata={"Software": None}
            )
    return path


def inline(figure: Figure | str, name: str) -> str:
    """A figure, or one saved as SVG, as an element without a background in the page's own ink.

    The page has to define the colours --model and --second.
    """
    svg = figure if isinstance(figure, str) else _svg(figure, name)
    svg = svg[svg.index("<svg") :].replace(INK, "currentColor")
    svg = svg.replace(_MODEL.lower(), "var(--model)").replace(_COLORS[0].lower(), "var(--second)")
    # A page has one style of its own, which says the same.
    svg = re.sub(r"<style type=\"text/css\">.*?</style>", "", svg, count=1, flags=re.DOTALL)
    # The page scales the figure: no fixed size, and names of parts that no other figure has.
    for side in ("width", "height"):
        svg = re.sub(rf'(<svg\b[^>]*?) {side}="[^"]*"', r"\1", svg, count=1)
    for attribute in (r'\bid="', r'href="#', r"url\(#"):
        svg = re.sub(attribute + r"(?=[\w.-])", lambda m: m.group(0) + f"{name}-", svg)
    return svg


def render_page(name: str, **content: Any) -> str:
    """A page of a template; what is put into it cannot become markup.

    Its content policy allows the page's own style and script alone, by their hashes, and loads
    nothing.  Styles of single elements cannot run or load anything, and figures need them.
    """
    folder = Path(__file__).parent / "templates"
    style, script = (
        (folder / file).read_text(encoding="utf-8") for file in ("report.css", "player.js")
    )
    environment = Environment(
        loader=PackageLoader("fino.report"),
        autoescape=select_autoescape(["html.j2"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src-elem {_hash(style)}; "
        "style-src-attr 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    own = {"style": Markup(style), "script": Markup(script), "policy": policy}
    return environment.get_template(name).render(**own, **content)


def _hash(text: str) -> str:
    """A text as a content policy names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def short(text: str, most: int = 48) -> str:
    """A text from a file as a label: one line, not too long."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def as_file_name(text: str, taken: Container[str] = ()) -> str:
    """A text from a file as the name of a file and of an element: letters, digits, '.', '-'."""
    name = re.sub(r"[^\w.-]+", "-", text)[:60].strip("-.") or "unnamed"
    others = (f"{name}-{number}" for number in count(2))
    return next(found for found in chain([name], others) if found not in taken)


def _svg(figure: Figure, name: str) -> str:
    """The figure as SVG without a background or a date: the same numbers give the same bytes."""
    _lay_out(figure)
    buffer = io.StringIO()
    with _styled({"svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", dpi=160, transparent=True, metadata={"Date": None})
    return re.sub(r"<metadata>.*?</metadata>", "", buffer.getvalue(), flags=re.DOTALL)


def _lay_out(figure: Figure) -> None:
    """Find the layout once: it takes longer than drawing, and every saving would find it again."""
    if figure.get_layout_engine() is not None and not getattr(figure, "_is_laid_out", False):
        with _styled():
            figure.draw_without_rendering()
            figure.set_layout_engine("none")
        figure._is_laid_out = True  # type: ignore[attr-defined]


def _plain_power(value: float) -> str:
    if value <= 0:
        return ""
    power = math.floor(math.log10(value) + 1e-9)
    if -3 <= power <= 3:
        return f"{value:g}"
    digits = str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    times = f"{value / 10.0**power:.3g}·" if abs(value / 10.0**power - 1) > 1e-6 else ""
    return f"{times}10{digits}"
