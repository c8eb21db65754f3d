"""What the documents name exists."""

import re
from importlib import import_module
from pathlib import Path

import pytest

import fino

ROOT = Path(__file__).parents[2]
ROWS = [
    (row[1], row[3].strip("` "), row[4].strip("` "))
    for line in (ROOT / "docs/paper-to-code.md").read_text().splitlines()
    if len(row := [cell.strip() for cell in line.split("|")]) == 6 and row[1][:1].isdigit()
]


def named(path: str) -> object:
    """fino.model.fino.FinoBlock.forward → the function."""
    parts = path.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            thing = import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[cut:]:
            thing = getattr(thing, attribute)
        return thing
    raise ModuleNotFoundError(path)


@pytest.mark.parametrize(("equation", "code", "test"), ROWS)
def test_every_row_from_paper_to_code_leads_somewhere(equation, code, test):
    assert callable(named(code))
    file, name = test.split("::")
    assert f"def {name}(" in (ROOT / file).read_text()


def test_every_equation_of_the_network_has_a_row():
    assert {row[0] for row in ROWS} >= {str(n) for n in range(1, 11)}


@pytest.mark.parametrize("page", sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").glob("*.md")))
def test_links_between_pages_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)#:\s]+)\)", page.read_text())
    assert not [target for target in targets if not (page.parent / target).exists()]


def test_the_version_is_the_same_everywhere():
    version = re.search(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.M)[1]
    assert fino.__version__ == version
    assert f"version: {version}" in (ROOT / "CITATION.cff").read_text()
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text()


def test_every_test_that_robustness_names_exists():
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs" / "robustness.md").read_text()))
    tests = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert len(named) > 50
    assert not {name for name in named if f"def {name}(" not in tests}


def test_every_name_of_the_front_door_is_on_the_reference_page():
    page = (ROOT / "docs" / "reference.md").read_text()
    assert not [name for name in fino.__all__ if name[0] != "_" and f"fino.{name}" not in page]
