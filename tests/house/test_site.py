"""The site builds without a warning and is read from disk: no request, no message, and search."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest
from chromium import Chromium, has_chromium

ROOT = Path(__file__).parents[2]
pytest.importorskip("sphinx")


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """Built as the README says; warnings are errors."""
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "-b", "html", "docs", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


@pytest.mark.slow
def test_links_of_the_site_lead_to_pages_files_and_headings(site):
    """Links into the site; those to source files of the repository are checked elsewhere."""
    pages = {p: p.read_text() for p in site.rglob("*.html") if "_modules" not in p.parts}
    names = {p: set(re.findall(r'\bid="([^"]+)"', text)) for p, text in pages.items()}
    lost = []
    for page, text in pages.items():
        for link in re.findall(r'(?:href|src)="([^"]+)"', text):
            place, _, heading = unquote(link).partition("#")
            if re.match(r"[a-z]+:", place):
                continue
            target = (page.parent / place.partition("?")[0]).resolve() if place else page
            if not target.exists() or (
                heading and target in names and heading not in names[target]
            ):
                lost.append(f"{page.relative_to(site)}: {link}")
    assert not lost


@pytest.mark.slow
def test_the_site_asks_for_nothing_from_elsewhere(site):
    wanted = r'<(?:script|link|img)[^>]+(?:src|href)="(https?:[^"]+)"'
    found = {url for p in site.rglob("*.html") for url in re.findall(wanted, p.read_text())}
    assert not found


@pytest.mark.browser
@pytest.mark.skipif(not has_chromium(), reason="needs Chromium")
def test_pages_open_from_disk_without_a_message_and_search_finds(site, tmp_path):
    with Chromium(tmp_path) as browser:
        for name in ("index.html", "radar.html", "gallery/2_train.html", "reference.html"):
            page = browser.open(site / name)
            assert page.messages == []
            assert all(url.startswith("file:") for url in page.requests)
        page = browser.open(site / "search.html", "?q=stencil")
        page.wait("document.querySelectorAll('#search-results li').length > 3")
        assert page.messages == []
        assert all(url.startswith("file:") for url in page.requests)
