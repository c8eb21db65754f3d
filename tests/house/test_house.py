"""The house: imports go downstairs, every module says what it offers, nothing heavy at the door."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import fino

SOURCE = Path(fino.__file__).parent
ROOMS = [
    "ground",
    "metrics",
    "pde",
    "data",
    "model",
    "inference",
    "training",
    "evaluation",
    "inspection",
    "report",
    "recipe",
    "cli",
]
MODULES = sorted(p for p in SOURCE.rglob("*.py") if p.parent != SOURCE or p.stem[0] != "_")


def room_of(module: str) -> str:
    """fino.model.fino → model; fino.grid → ground."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in ROOMS else "ground"


def imported_by(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
    return {name for name in found if name.split(".")[0] == "fino" and name != "fino"}


def test_imports_go_only_downstairs():
    wrong = []
    for path in MODULES:
        module = ".".join(("fino", *path.relative_to(SOURCE).with_suffix("").parts))
        here = ROOMS.index(room_of(module))
        wrong += [
            f"{module} imports {other} from upstairs"
            for other in imported_by(path)
            if ROOMS.index(room_of(other)) > here
        ]
    assert not wrong


def test_every_module_opens_with_words_and_lists_what_it_offers():
    lacking = []
    for path in MODULES:
        tree = ast.parse(path.read_text())
        names = {
            t.id
            for n in tree.body
            if isinstance(n, ast.Assign)
            for t in n.targets
            if isinstance(t, ast.Name)
        }
        if not ast.get_docstring(tree):
            lacking.append(f"{path.relative_to(SOURCE)}: no docstring")
        if "__all__" not in names and path.stem != "__init__":
            lacking.append(f"{path.relative_to(SOURCE)}: no __all__")
    assert not lacking


@pytest.mark.parametrize("name", sorted(fino.__all__))
def test_the_front_door_leads_somewhere(name):
    assert getattr(fino, name) is not None


def test_importing_fino_and_its_command_line_loads_nothing_heavy_and_prints_nothing():
    code = (
        "import sys, fino, fino.cli.app; heavy = {'torch', 'numpy', 'numba', 'scipy', 'h5py', "
        "'matplotlib', 'pydantic', 'jinja2'} & set(sys.modules); assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_no_room_is_called_utils():
    assert not [p for p in MODULES if p.stem in ("utils", "util", "common", "base", "misc")]


def test_test_files_have_names_of_their_own():
    """Two files of one name in two rooms cannot be collected together."""
    names = [path.name for path in Path(__file__).parents[1].rglob("test_*.py")]
    assert len(names) == len(set(names))
