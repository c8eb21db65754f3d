"""The lock of the tests: the versions of the constraints, each file by its hash."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def pins(name: str) -> dict[str, str]:
    found = re.findall(r"^([\w.-]+)==([^\s\\]+)", (ROOT / name).read_text(), re.MULTILINE)
    return {str(canonicalize_name(package)): version for package, version in found}


def test_the_lock_has_the_versions_of_the_constraints():
    lock, constraints = pins("requirements.lock"), pins("constraints.txt")
    build_only = {"editables", "hatchling", "tomlkit", "trove-classifiers"}
    assert set(lock) - set(constraints) == build_only
    assert {name: constraints[name] for name in set(lock) - build_only} == {
        name: version for name, version in lock.items() if name not in build_only
    }


def test_the_lock_covers_all_that_the_tests_import_but_torch():
    """Add a package with `pip download --no-deps NAME==VERSION` and `pip hash`."""
    table = PROJECT["project"]
    needed = [*table["dependencies"], *table["optional-dependencies"]["dev"]]
    names = {str(canonicalize_name(Requirement(line).name)) for line in needed}
    assert names - set(pins("requirements.lock")) == {"torch"}


def test_every_line_of_the_lock_is_a_pin_with_hashes():
    text = (ROOT / "requirements.lock").read_text().replace("\\\n", " ")
    for line in text.splitlines():
        assert line.startswith("#") or re.fullmatch(
            r"[\w.-]+==[\w.]+( +--hash=sha256:[0-9a-f]{64})+", line
        ), line


def test_constraints_are_versions_and_nothing_of_one_machine():
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        assert line.startswith("#") or re.fullmatch(r"[\w.-]+==[\w.!+]+", line), line
    assert not {"fino", "editables"} & set(pins("constraints.txt"))
