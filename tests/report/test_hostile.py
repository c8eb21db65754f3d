"""Texts from files stay texts: on pages, in figures, in tables, as file names and on the screen."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import fino
from fino.cli.console import say, show_table, table
from fino.cli.results import compare, evaluate, inspect
from fino.evaluation.compare import compare as compare_scores
from fino.metrics.scores import Scores
from fino.report import tables
from fino.report.inspection_page import write_inspection
from fino.report.page import report

IMAGE = "<img src=x onerror=document.title=1>"
BREAK = "\"'></title></script></style><script>document.title=2</script>"
COMMENT = "--><svg onload=document.title=3>"
MARKUP = "[/bold][red]{{ 7*7 }}"
FORMULA = r"$\frac{_^$ \input{secret} & # \\"
TERMINAL = "\x1b]0;owned\x07\x1b[2J\rgone"
PATH = "..\\..\\up"


class Elements(HTMLParser):
    """Every element of a page, with what could run on it."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts: list[str] = []
        self.wrong: list[str] = []
        self._inside: str | None = None

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self._inside = tag
        for name, value in attributes:
            if name.startswith("on") or "javascript:" in (value or ""):
                self.wrong.append(f"{tag} {name}={value}")
            if name in ("src", "href", "xlink:href") and not (value or "").startswith(
                ("data:", "#")
            ):
                self.wrong.append(f"{tag} {name}={value}")
        if tag in ("iframe", "object", "embed", "form", "base"):
            self.wrong.append(tag)

    def handle_data(self, data: str) -> None:
        if self._inside == "script" and data.strip():
            self.scripts.append(data)

    def handle_endtag(self, tag: str) -> None:
        self._inside = None


def elements(path: Path) -> Elements:
    found = Elements()
    found.feed(path.read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module")
def hostile(make_run_in, make_waves, tmp_path_factory):
    """A run whose card and scores say hostile things wherever they can, with its page."""
    place = tmp_path_factory.mktemp("hostile")
    nu = np.linspace(0.1, 0.3, 12)
    data = make_waves(channels=2, parameters={IMAGE: nu, "g": 9.81})
    words = {
        "name": f"{BREAK}",
        "title": f"{IMAGE}{MARKUP}",
        "fields": (f'">{IMAGE}{PATH}', f"{COMMENT}{FORMULA}"),  # files refuse '/'
        "units": (BREAK, FORMULA),
        "description": BREAK,
        "equation": COMMENT,
        "solver": IMAGE,
        "initial": MARKUP,
        "flaws": (IMAGE, BREAK, TERMINAL),
    }
    data = replace(data, card=data.card.model_copy(update=words))
    folder = make_run_in(place, data=data, training=True)
    scores = fino.evaluate(folder)
    content = json.loads((folder / "scores.json").read_text())
    content["model"]["name"] = f"{IMAGE}{MARKUP}"
    content["model"]["network"][IMAGE] = BREAK
    content["baselines"][f"{MARKUP}{IMAGE}"] = content["baselines"]["persistence"]
    verdict = content["verdict"]
    verdict["baselines"][f"{MARKUP}{IMAGE}"] = verdict["baselines"]["persistence"]
    verdict["skipped"] = {IMAGE: f"{BREAK}{MARKUP}"}
    content["command"], content["cost"]["machine"] = BREAK, IMAGE
    content["versions"][IMAGE] = BREAK
    (folder / "scores.json").write_text(json.dumps(content))
    write_inspection(fino.inspect(folder), folder / "inspection")
    report(folder, rivals=[folder])
    return folder, scores


def test_nothing_on_the_page_can_run_but_the_page_itself(hostile):
    page = elements(hostile[0] / "report.html")
    assert page.wrong == []
    runs = [script for script in page.scripts if "querySelector" in script]
    assert len(runs) == 1 and not any("document.title" in script for script in runs)


def test_the_policy_allows_the_pages_own_script_and_style_alone(hostile):
    text = (hostile[0] / "report.html").read_text()
    policy = unescape(re.search(r'Content-Security-Policy" content="(.*?)"', text).group(1))
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"].startswith("'sha256-") and "unsafe" not in rules["script-src"]
    assert rules["style-src-elem"].startswith("'sha256-")
    assert rules["base-uri"] == rules["form-action"] == "'none'"


def test_names_of_fields_cannot_choose_where_figures_are_written(hostile):
    folder = hostile[0]
    names = [path.name for path in (folder / "figures").iterdir()]
    assert len(names) == len(set(names)) and all(re.fullmatch(r"[\w.-]+", n) for n in names)
    assert sum(name.startswith("fields-") and name.endswith(".png") for name in names) == 2
    beside = {path.name for path in folder.parent.iterdir()}
    assert not any("up" in name for name in beside)


def test_a_run_folder_from_elsewhere_cannot_put_markup_into_the_page(hostile, words_alone):
    folder = hostile[0]
    place = folder / "inspection"
    for path in place.iterdir():
        if path.suffix in (".json", ".html"):
            swapped = path.read_text().replace("What did it learn?", IMAGE)
            path.write_text(swapped)
    (place / "section.html").write_text(IMAGE)
    report(folder)
    assert elements(folder / "report.html").wrong == []


def test_markup_and_control_characters_are_printed_as_they_are(capsys):
    say(f"{MARKUP} {TERMINAL}")
    table(MARKUP, [MARKUP, TERMINAL], [[MARKUP, TERMINAL]])
    show_table(tables.table_of(MARKUP, [MARKUP], [[MARKUP]]))
    printed = capsys.readouterr().out
    assert printed.count("[/bold][red]") >= 5
    assert "\x1b" not in printed and "\x07" not in printed and "\\x1b]0;owned" in printed


def test_every_verb_prints_what_files_say(hostile, capsys):
    folder = hostile[0]
    evaluate(folder, out=folder / "other.json")
    compare(folder / "scores.json")
    inspect(folder)
    printed = capsys.readouterr().out
    assert MARKUP.split("{")[0] in printed and "\x1b]0" not in printed


def test_tables_for_tex_hold_no_commands(hostile):
    scores = Scores.load(hostile[0])
    scores = replace(scores, model={**scores.model, "name": FORMULA})
    (found,) = compare_scores([scores])
    text = tables.comparison(found).latex()
    assert r"\input" not in text and r"\textbackslash{}input\{secret\}" in text
    row = next(line for line in text.splitlines() if "secret" in line)
    assert r"\$" in row and r"\#" in row and r"\&" in row


def test_a_page_names_long_texts_in_short(make_run, make_waves):
    data = make_waves()
    words = {"fields": ("n" * 5000,), "units": ("line\nbreak",)}
    folder = make_run(data=replace(data, card=data.card.model_copy(update=words)))
    report(folder)
    assert max(len(path.name) for path in (folder / "figures").iterdir()) < 100


@pytest.mark.browser
@pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium")
@pytest.mark.parametrize("policy", [True, False])
def test_nothing_runs_in_a_browser_with_or_without_the_policy(hostile, tmp_path, policy):
    page = tmp_path / "page.html"
    text = (hostile[0] / "report.html").read_text()
    if not policy:
        text = re.sub(r"<meta http-equiv[^>]*>", "", text, count=1)
    page.write_text(text)
    words = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
    words += ["--disable-background-networking", f"--user-data-dir={tmp_path / 'profile'}"]
    words += ["--virtual-time-budget=2000", "--dump-dom", f"file://{page}"]
    said = subprocess.run(words, capture_output=True, text=True, timeout=120)
    title = re.search(r"<title>(.*?)</title>", said.stdout).group(1)
    assert title.startswith("fino on")
