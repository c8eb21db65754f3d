"""The house: imports go downstairs, every module says what it offers, nothing heavy at the door."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fino
from fino.model.baselines import BASELINES

SOURCE = Path(fino.__file__).parent
ROOT = Path(__file__).parents[2]
ROOMS = [
    "ground",
    "metrics",
    "pde",
    "data",
    "model",
    "trust",
    "export",
    "inference",
    "training",
    "evaluation",
    "inspection",
    "report",
    "recipe",
    "cli",
]
MODULES = sorted(p for p in SOURCE.rglob("*.py") if p.parent != SOURCE or p.stem[0] != "_")
#: Names that only users import, and why they are there.
MEANT = {
    "FFNOSettings": "what can be set about a network",
    "FinoBlockStack": "a row of docs/paper-to-code.md",
    "PATTERNS": "the feed and kill rates of gray-scott by name",
    "PeRCNNSettings": "what can be set about a network",
    "Soap": "an optimizer for anybody's loop",
    "Stepper": "the type of a step",
    "boundary_rmse": "a metric as a function of two tensors",
    "correlation": "a metric as a function of two tensors",
    "correlation_time": "a metric as a function of two tensors",
    "fourier_error": "a metric as a function of two tensors",
}


def room_of(module: str) -> str:
    """fino.model.fino → model; fino.grid → ground."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in ROOMS else "ground"


def home_of(name: str) -> str:
    """What `fino.NAME` reaches: fino.open → fino.data.open, fino.report → fino.report."""
    return f"fino.{fino._HOME.get(name, name)}"


def reached_by_import(tree: ast.AST) -> set[str]:
    """Modules that are imported, the front door's names by where they live."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "fino":
            found.update(home_of(alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "fino":
            found.add(home_of(node.attr))
    return {name for name in found if name.startswith("fino.") and name != "fino.__version__"}


def reached_by_path(tree: ast.AST) -> set[str]:
    """Rooms that strings name: a module or a folder as text, or a part of a path from here."""
    found, places = set(), {"__file__", "files"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            named = re.fullmatch(r"(?:.*/)?fino[./](\w+)[\w./-]*|(?:\.\./)+(\w+)\S*", node.value)
            found.update(named.groups() if named else ())
        if isinstance(node, ast.Assign | ast.Expr | ast.Return | ast.For | ast.With):
            parts = list(ast.walk(node))
            if places & {part.id for part in parts if isinstance(part, ast.Name)}:
                found.update(part.value for part in parts if isinstance(part, ast.Constant))
                targets = node.targets if isinstance(node, ast.Assign) else []
                places.update(target.id for target in targets if isinstance(target, ast.Name))
    return {f"fino.{name}" for name in found if name in ROOMS}


def upstairs(module: str, text: str) -> list[str]:
    """What a module with that text reaches in rooms above its own."""
    tree = ast.parse(text)
    here = ROOMS.index(room_of(module))
    reached = reached_by_import(tree) | reached_by_path(tree)
    return sorted(other for other in reached if ROOMS.index(room_of(other)) > here)


def test_imports_and_paths_go_only_downstairs():
    wrong = []
    for path in MODULES:
        module = ".".join(("fino", *path.relative_to(SOURCE).with_suffix("").parts))
        wrong += [f"{module} reaches {other}" for other in upstairs(module, path.read_text())]
    assert not wrong


@pytest.mark.parametrize(
    "text",
    [
        "from fino.report.page import report",
        "import fino.report",
        "import fino\nfino.report(run)",
        "import fino\nfino.evaluation",
        "from fino import fit",
        "page = import_module('fino.report.page')",
        "found = files('fino.recipe')",
        "found = Path(__file__).parents[1] / 'recipe' / 'recipes'",
        "HERE = Path(__file__).parent\nfound = HERE.parent / 'cli'",
        "found = open('src/fino/report/page.html')",
    ],
)
def test_every_way_upstairs_is_seen(text):
    assert upstairs("fino.data.open", text)


def test_the_way_downstairs_is_free():
    text = (
        "import fino\nfino.__version__\nfino.Grid\nfolder = run / 'report'\nsay('see fino.report')"
    )
    assert not upstairs("fino.data.open", text)


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


def words_of(path: Path) -> set[str]:
    """Every name that a module's code uses, and the words of strings that may be names.

    What an __init__ only imports, to pass it on, is not used there.
    """
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif path.stem != "__init__" and isinstance(node, ast.alias):
            found.add(node.name)
        elif path.stem != "__init__" and isinstance(node, ast.Constant):
            found.update(re.split(r"[.:]", str(node.value)))
    return found


def signatures_of(tree: ast.Module) -> set[str]:
    """The names in the annotations of what a module offers: part of how it is called."""
    found: set[str] = set()
    for part in tree.body:
        if isinstance(part, ast.FunctionDef | ast.ClassDef) and part.name[0] != "_":
            for node in ast.walk(part):
                for name in ("annotation", "returns"):
                    noted = getattr(node, name, None)
                    words = ast.walk(noted) if noted is not None else ()
                    found.update(word.id for word in words if isinstance(word, ast.Name))
    return found


def offered_by(tree: ast.Module) -> list[str]:
    """What `__all__` lists."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return ast.literal_eval(node.value)
    return []


def test_every_public_name_is_used():
    """By another module, from the front door, or by users for the reason that MEANT gives."""
    tables = (fino.MODELS, fino.PROBLEMS, BASELINES)
    known = {cls.__name__ for table in tables for cls in table.values() if isinstance(cls, type)}
    words = {path: words_of(path) for path in (*SOURCE.rglob("*.py"), *(ROOT / "lab").glob("*.py"))}
    dead = []
    for path in MODULES:
        tree = ast.parse(path.read_text())
        used = set().union(*(found for other, found in words.items() if other != path))
        used |= known | signatures_of(tree) | {*fino.__all__, *MEANT}
        place = path.relative_to(SOURCE)
        dead += [f"{place}: {name}" for name in offered_by(tree) if name not in used]
    assert not dead, "make them private, or delete them"


#: Where the field's words are spoken, as patterns from the root of the project.
SPOKEN = ("src/**/*.*", "lab/**/*.py", "lab/**/*.toml", "examples/**/*.py", "docs/*.md", "*.md")
KINDS = (".py", ".toml", ".j2", ".md")
#: History keeps its words, and the page that measures the house names what stood there before.
EXCEPTED = ("CHANGELOG.md", "docs/log.md", "docs/house.md", "lab/house.py")
OLD_WORDS = re.compile(
    r"(?<![a-z])(floors?|judge[ds]?|judging|judge?ments?|films?|shelf|shelves|company|heed(?:s|ed)?"
    r"|obey(?:s|ed)?|complaints?|swept|settled|brought)(?![a-z])",
    re.IGNORECASE,
)
#: Rounding down, the key of scores in files that were written before it was "baselines", and a
#: module of that time in docs/house.md.
ALLOWED = re.compile(r"""\.floor_?\(|["`]floors["`]|model/steady_floors""")


def test_old_words_are_gone():
    found = []
    for path in sorted(path for pattern in SPOKEN for path in ROOT.glob(pattern)):
        place = path.relative_to(ROOT).as_posix()
        if place in EXCEPTED or path.suffix not in KINDS:
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            words = OLD_WORDS.findall(ALLOWED.sub("", line))
            # FiLM, feature-wise linear modulation, is a layer of models, and inspected as one.
            rooms = ("src/fino/model/", "src/fino/export/", "src/fino/inspection/")
            known = ("film",) if place.startswith(rooms) else ()
            found += [
                f"{place}:{number}: {word}"
                for word in words
                if word.lower() not in known and word != "FiLM"
            ]
    assert not found
