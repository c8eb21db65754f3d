"""An inspection as files: numbers, pictures and a section that the report can show.

RUN/inspection/inspection.json   the numbers
RUN/inspection/*.png             the pictures
RUN/inspection/section.html      both, as a part of a page
"""

from __future__ import annotations

import json
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from fino.inspection.inspect import Inspection
from fino.inspection.words import sections
from fino.report import look
from fino.report.inspection_figures import draw

__all__ = ["inspection_section", "write_figures", "write_inspection"]


def write_figures(found: Inspection, folder: str | Path) -> list[Path]:
    """Every picture of an inspection as a PNG file."""
    return [
        look.save(figure, Path(folder) / f"{name}.png") for name, (figure, _) in draw(found).items()
    ]


def write_inspection(found: Inspection, folder: str | Path) -> Path:
    """Write numbers, pictures and the section into a folder."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_figures(found, folder)
    text = json.dumps(found.to_dict(), indent=1, ensure_ascii=False)
    (folder / "inspection.json").write_text(text + "\n", encoding="utf-8")
    (folder / "section.html").write_text(section_html(found), encoding="utf-8")
    return folder


def section_html(found: Inspection) -> str:
    """The inspection as a part of a page, its pictures inside."""
    environment = Environment(
        loader=PackageLoader("fino.report"),
        autoescape=select_autoescape(["html.j2"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pictures = [
        {
            "name": f"inspection-{name}",
            "caption": caption,
            "svg": Markup(look.inline(figure, f"inspection-{name}")),
        }
        for name, (figure, caption) in draw(found).items()
    ]
    template = environment.get_template("inspection.html.j2")
    return template.render(sections=sections(found)[1:], pictures=pictures)


def inspection_section(run: str | Path | None) -> Markup | None:
    """The section that `fino inspect RUN` left in a run, None if it left none."""
    if run is None:
        return None
    path = Path(run) / "inspection" / "section.html"
    return Markup(path.read_text(encoding="utf-8")) if path.is_file() else None
