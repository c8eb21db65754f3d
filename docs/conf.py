"""The site: `sphinx-build -W docs build/site`, then open build/site/index.html."""

from __future__ import annotations

import re
from typing import Any

import fino

project = "fino"
author = "The fino authors"
copyright = "the fino authors, MIT licence"
release = fino.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "sphinx_copybutton"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
# Pages link to source files, which are outside of the site; a page that no section names is
# still found by search.
suppress_warnings = ["myst.xref_missing", "toc.not_included"]
exclude_patterns = ["figures/**", "inspection/**", "pages/**"]

html_theme = "furo"
html_title = "fino"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_theme_options = {"navigation_with_keys": True}
# Read from disk and without a network: no fonts or scripts from elsewhere.
html_copy_source = False
# Summaries of what a search found would be fetched, which browsers forbid for files on disk.
html_show_search_summary = False

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True


def _inline(text: str) -> str:
    """`names` as code; stars and bars as they are written, outside of code."""
    parts = re.split(r"`+([^`]+)`+", text)
    return "".join(
        f"``{p}``" if i % 2 else re.sub(r"([*|])", r"\\\1", p) for i, p in enumerate(parts)
    )


def _plain_docstring(
    app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]
) -> None:
    """Our docstrings are plain text: `name   meaning` lines become lists, indented blocks stay."""
    out: list[str] = []
    before = ""  # what the last line was: "", "text", "item" or "block"
    for line in lines:
        item = re.match(r"(\w[\w, ]*?)\s{2,}(\S.*)", line)
        if item and not line.startswith(" "):
            out += ["", f"* ``{item[1]}``: {_inline(item[2])}"]
            before = "item"
        elif not line:
            out.append("")
            before = before if before == "block" else ""
        elif line.startswith("    ") and before == "item":
            out.append(f"  {_inline(line.strip())}")
        elif line.startswith("    "):
            out += [line] if before == "block" else ["", "::", "", line]
            before = "block"
        else:
            out += ["", _inline(line)] if before in ("item", "block") else [_inline(line)]
            before = "text"
    lines[:] = out


def setup(app: Any) -> None:
    for name in fino.__all__:  # names that are imported when they are used
        getattr(fino, name)
    app.connect("autodoc-process-docstring", _plain_docstring)
