"""`python -m lab house`: the size and shape of the code, before and after the rebuild.

Files are counted with `ast` and `tokenize`.  Code lines are lines that hold something other than
comments and docstrings.  A signature's arguments do not count self and cls.
"""

from __future__ import annotations

import ast
import inspect
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from pydoc import locate
from statistics import median
from typing import Any

import fino
from fino.cli.console import say, say_json

__all__ = ["BEFORE", "HOMES", "Home", "Size", "house", "measure", "missing_homes", "write_house"]

ROOT = Path(__file__).parents[1]
_GROUND = "ground"
#: Rooms of both times, downstairs first.
_ORDER = (
    *(_GROUND, "metrics", "pde", "data", "model", "trust", "export", "inference", "training"),
    *("evaluation", "inspection", "report", "experiment", "recipe", "cli"),
)
#: What the package could not do before, and the modules that only this needs.
NEW = {
    "export to C, ONNX and a page": ("export/*.py", "cli/export.py", "cli/play.py"),
    "intervals, guards, spot checks": (
        *("trust/*.py", "inference/band.py", "evaluation/coverage.py", "evaluation/spot*.py"),
    ),
    "parameters, known fields, forcing, masks, strides": (
        *("data/conditions.py", "model/conditioning.py", "inspection/held.py"),
    ),
    "common files of one's own": ("data/arrange.py", "data/readers.py", "data/trial.py"),
    "radar rain": ("data/radar.py",),
    "the error-matched solver": ("evaluation/worth.py",),
    "lookup baselines": ("model/lookup.py",),
    "rivals that isolate the idea": (
        *("model/plain.py", "model/percnn.py", "model/dilated_resnet.py", "model/cnext_unet.py"),
    ),
    "Euler, dams, heart, Gray–Scott, MP-PDE": (
        *("pde/euler.py", "pde/exponential.py", "pde/fenton_karma.py", "pde/finite_volumes.py"),
        *("pde/gray_scott.py", "pde/heart.py", "pde/mp_pde.py", "pde/weno.py"),
    ),
}
#: Lines that a function may have to fit on a screen.
_SCREEN = 40


@dataclass(frozen=True)
class Size:
    """How much code there is in a room, and its largest pieces."""

    files: int
    lines: int
    code: int
    median_file: int
    longest_file: int
    longest_function: int
    long_functions: int
    functions: int
    widest_signature: int
    widest_call: int


@dataclass(frozen=True)
class Home:
    """Where an idea is written: `before` counts its places at 00d530e, `after` names the one.

    `after` is a dotted name, such as `fino.given.Given.step`.
    """

    idea: str
    count: int
    before: str
    after: str
    note: str = ""


def house(
    *, source: Path | None = None, out: Path = Path("docs/house.md"), json: bool = False
) -> None:
    """Measure the package and build the page: `python -m lab house`.

    Parameters
    ----------
    source
        Measure this folder of modules instead, such as src/fino of another commit, and only
        print it.
    out
        The page.
    json
        Print the numbers of every room as JSON and write nothing.
    """
    if json or source is not None:
        say_json({room: asdict(size) for room, size in measure(source or _package()).items()})
        return
    say(f"{write_house(out)} is written.")


def measure(source: Path) -> dict[str, Size]:
    """The size of each room of a package, and of the whole as `all`; ground is what has no room."""
    modules = sorted(source.rglob("*.py"))
    if not modules:
        raise ValueError(f"There are no Python files in {source}.")
    rooms: dict[str, list[Path]] = {}
    for path in modules:
        parts = path.relative_to(source).parts
        rooms.setdefault(parts[0] if len(parts) > 1 else _GROUND, []).append(path)
    return {room: _size(paths) for room, paths in {**rooms, "all": modules}.items()}


def missing_homes() -> list[str]:
    """Homes that the page names and that do not exist."""
    return [home.after for home in HOMES if locate(home.after) is None]


def write_house(out: Path) -> Path:
    """Write the page; a home that does not exist is refused."""
    if missing := missing_homes():
        raise ValueError(f"These homes do not exist: {', '.join(missing)}. Correct lab/house.py.")
    now = measure(_package())
    lab = measure(ROOT / "lab")["all"]
    parts = [
        "# The house, before and after\n",
        "For developers. Built by `python -m lab house`, which measures the code with `ast`; not "
        "written by hand. *Before* is commit 00d530e, where benches, kept scores and the paper's "
        "tables were part of the package; they are in `lab/` now and are not installed. Code "
        "lines hold something other than comments and docstrings.\n",
        "## The whole package\n",
        _whole(now["all"], lab),
        "## Room by room\n",
        _rooms(now),
        "`experiment` became `recipe` in the package and `lab/` outside of it; `metrics` was part "
        "of `evaluation`. A verb of `cli` has an argument for each of its options.\n",
        "## What was added since\n",
        "At most 21 000 lines were wanted for what the package could do before. It did not come to "
        "that: 22 040 were reached (commit 13cdb30 without its new capabilities). Modules that "
        "only a new capability needs are counted here; what it takes in other modules is not, and "
        "is part of the last row.\n",
        _added(now["all"]),
        "## Homes of each idea\n",
        "How many places of the code wrote an idea out, and the one that does today.\n",
        _homes(),
    ]
    out.write_text("\n".join(parts), encoding="utf-8")
    return out


def _package() -> Path:
    return Path(fino.__file__).parent


def _size(paths: list[Path]) -> Size:
    texts = [path.read_bytes() for path in paths]
    lengths = [text.count(b"\n") for text in texts]
    trees = [ast.parse(text) for text in texts]
    functions = [f for tree in trees for f in _functions(tree)]
    spans = [(f.end_lineno or f.lineno) - f.lineno + 1 for f in functions]
    calls = [n for tree in trees for n in ast.walk(tree) if isinstance(n, ast.Call)]
    return Size(
        files=len(paths),
        lines=sum(lengths),
        code=sum(len(_code_lines(*both)) for both in zip(texts, trees, strict=True)),
        median_file=round(median(lengths)),
        longest_file=max(lengths),
        longest_function=max(spans, default=0),
        long_functions=sum(span > _SCREEN for span in spans),
        functions=len(functions),
        widest_signature=max(map(_arguments, functions), default=0),
        widest_call=max((len(c.args) + len(c.keywords) for c in calls), default=0),
    )


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))


def _arguments(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    known = function.args
    named = [*known.posonlyargs, *known.args, *known.kwonlyargs]
    gathered = [known.vararg, known.kwarg]
    own = [a for a in named if a.arg not in ("self", "cls")]
    return len(own) + sum(a is not None for a in gathered)


def _code_lines(text: bytes, tree: ast.Module) -> set[int]:
    empty = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    lines: set[int] = set()
    for token in tokenize.tokenize(BytesIO(text).readline):
        if token.type not in (*empty, tokenize.ENCODING, tokenize.ENDMARKER):
            lines.update(range(token.start[0], token.end[0] + 1))
    return lines - _docstring_lines(tree)


def _docstring_lines(tree: ast.Module) -> set[int]:
    lines: set[int] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            continue
        if ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            lines.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return lines


def _whole(now: Size, lab: Size) -> str:
    rows = [
        ("files", "files"),
        ("lines", "lines"),
        ("code lines", "code"),
        ("median file, lines", "median_file"),
        ("longest file, lines", "longest_file"),
        ("functions", "functions"),
        ("longest function, lines", "longest_function"),
        (f"functions longer than {_SCREEN} lines", "long_functions"),
        ("widest signature, arguments", "widest_signature"),
        ("widest call, arguments", "widest_call"),
    ]
    sizes = (BEFORE["all"], now, lab)
    return _table(
        ("", "src/fino before", "src/fino today", "lab today"),
        [
            (words, *(f"{getattr(s, name):,}".replace(",", " ") for s in sizes))
            for words, name in rows
        ],
    )


def _added(now: Size) -> str:
    """The lines of every new capability's own modules, and of everything else."""
    source, rows = _package(), []
    files, lines = now.files, now.lines
    for what, globs in NEW.items():
        found = sorted({path for pattern in globs for path in source.glob(pattern)})
        length = sum(path.read_bytes().count(b"\n") for path in found)
        rows.append((what, len(found), length))
        files, lines = files - len(found), lines - length
    rows.append(("everything else", files, lines))
    return _table(("capability", "files", "lines"), rows)


def _rooms(now: dict[str, Size]) -> str:
    columns = {
        "files": "files",
        "lines": "lines",
        "code lines": "code",
        "median file": "median_file",
        "longest function": "longest_function",
        "widest signature": "widest_signature",
        "widest call": "widest_call",
    }
    rows = []
    for room in sorted({*BEFORE, *now} - {"all"}, key=_ORDER.index):
        both = (BEFORE.get(room), now.get(room))
        changes = (
            " → ".join("–" if s is None else str(getattr(s, name)) for s in both)
            for name in columns.values()
        )
        rows.append((room, *changes))
    return _table(("before → today", *columns), rows)


def _homes() -> str:
    return _table(
        ("idea", "places before", "where", "its home today", "also in"),
        [(h.idea, h.count, h.before, _place(h.after), h.note or "–") for h in HOMES],
    )


def _place(name: str) -> str:
    """fino.given.Given.step → `Given.step` in given."""
    found: Any = locate(name)
    source = Path(inspect.getsourcefile(found) or "").relative_to(_package()).with_suffix("")
    return f"`{found.__qualname__}` in {source}"


def _table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


#: Commit 00d530e, measured by `python -m lab house --source src/fino` on a checkout of it.
BEFORE: dict[str, Size] = {
    "ground": Size(8, 438, 253, 46, 126, 21, 0, 32, 4, 5),
    "cli": Size(24, 2104, 1362, 72, 258, 80, 15, 65, 14, 8),
    "data": Size(21, 3714, 2691, 149, 332, 45, 4, 238, 8, 26),
    "evaluation": Size(12, 1648, 1165, 133, 250, 59, 1, 108, 10, 13),
    "experiment": Size(23, 3427, 2513, 152, 342, 45, 1, 197, 8, 11),
    "inference": Size(19, 2493, 1757, 144, 239, 51, 1, 168, 10, 7),
    "inspection": Size(21, 2854, 2016, 131, 269, 40, 0, 162, 7, 15),
    "model": Size(23, 3793, 2529, 156, 339, 55, 2, 260, 10, 12),
    "pde": Size(18, 2324, 1584, 122, 244, 40, 0, 144, 10, 10),
    "report": Size(19, 2770, 2162, 127, 284, 49, 3, 136, 8, 17),
    "training": Size(20, 2029, 1396, 101, 238, 54, 1, 122, 7, 10),
    "all": Size(208, 27594, 19428, 126, 342, 80, 28, 1632, 14, 26),
}

#: Checked by `missing_homes` whenever the page is built, and by a test.
HOMES: tuple[Home, ...] = (
    Home(
        "rolling buffer of a rollout",
        5,
        "model/rollout, inference/local, training/loss, training/guards, inspection/step",
        "fino.given.Given.step",
        "the block of a rank, which keeps several new frames at once (inference/ranks)",
    ),
    Home(
        "where the task begins: frames shown, frames to predict",
        8,
        "model/build, model/bases, training/batch, training/loss, evaluation/evaluate, "
        "inspection/rollouts, report/page, experiment/bench_train",
        "fino.data.dataset.Part.begin",
        "rollouts from the first frame on (inspection/stability)",
    ),
    Home(
        "finding a run by name, folder or object",
        5,
        "training/run, evaluation/runs, evaluation/compare, inspection/inspect, cli/rollout",
        "fino.find_run",
    ),
    Home(
        "nRMSE",
        4,
        "evaluation/metrics, evaluation/pdebench, training/loss, model/steady_floors",
        "fino.metrics.nrmse",
        "PDEBench's batch convention (metrics/pdebench); the choice of neighbours (model/lookup)",
    ),
    Home(
        "the text of a setting → its value",
        3,
        "training/overrides, experiment/recipe, cli/generate",
        "fino.recipe.recipe._parse_value",
    ),
    Home(
        "how many steps a halo carries",
        3,
        "inference/plan, inference/plan_ranks, inference/decomposed",
        "fino.inference.tiles.choose_steps_per_halo",
        "the scaling model of lab/bench_ranks",
    ),
    Home(
        "what the network adds to: `if predict == …`",
        7,
        "model/emulator, model/bases, model/build, training/choices, inspection/scheme, "
        "inspection/operator_norm, inspection/reach",
        "fino.model.prior.LinearPrior",
        "a leaner network on combined frames (model/build); sentences (report)",
    ),
)
