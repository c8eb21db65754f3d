"""The command line's front door: verbs by name, each imported only when it is called."""

from __future__ import annotations

import re
import shlex
import sys
from difflib import get_close_matches

from cyclopts import App, CycloptsError, Parameter, UnusedCliTokensError

import fino

__all__ = ["app", "main", "run_app"]

#: Verb → (where its function lives, what it does).  Strings, so that `fino --help` imports
#: none of them.
VERBS: dict[str, tuple[str, str]] = {
    "list": ("fino.cli.list:show", "Problems, models, baselines, metrics, recipes, weights."),
    "run": ("fino.cli.run:run", "A recipe, from nothing to a page; or your own file."),
    "generate": ("fino.cli.data:generate", "Make data: solve a problem many times."),
    "import": ("fino.cli.data:import_data", "Convert data of any common kind to a file of fino."),
    "export-data": (
        "fino.cli.data:export_data",
        "Write data in another format: PDEBench's, or ours.",
    ),
    "train": ("fino.cli.train:train", "Train a model on a data file."),
    "evaluate": ("fino.cli.results:evaluate", "Score a run next to its baselines."),
    "compare": ("fino.cli.results:compare", "Many runs in one table, over seeds."),
    "report": ("fino.cli.results:report", "One page that shows what a run did."),
    "rollout": ("fino.cli.rollout:rollout", "Predict: any size, any length, many processes."),
    "export": ("fino.cli.export:export", "A trained step as ONNX, one C file or a page."),
    "inspect": ("fino.cli.results:inspect", "Reach, stencils, stability of a model."),
    "play": ("fino.cli.play:play", "Play with a trained step in the browser."),
}

#: Verbs of earlier versions that are run from a clone now.
_MOVED = ("bench", "gallery", "keep", "results", "ship")

app = App(
    name="fino",
    help="Learned PDE solvers that are strictly local and say how far they see.",
    version=fino.__version__,
    default_parameter=Parameter(negative=""),
)
for _verb, (_home, _help) in VERBS.items():
    app.command(_home, name=_verb, help=_help)


def main() -> None:
    """The command line of the package."""
    run_app(app, "fino", list(VERBS))


def run_app(app: App, name: str, verbs: list[str]) -> None:
    """Run a verb; a user's mistake becomes one line and exit code 2."""
    try:
        _check_verb(sys.argv[1:], verbs)
        _check_settings(sys.argv[1:])
        app(sys.argv[1:], exit_on_error=False, print_error=False)
    except UnusedCliTokensError as error:
        words, verb = " ".join(error.unused_tokens or ()), sys.argv[1]
        _write_error(name, f"{words!r} stands without an option. See `{name} {verb} --help`.")
        sys.exit(2)
    except (ValueError, OSError, CycloptsError) as error:
        _write_error(name, " ".join(str(error).split()))
        sys.exit(2)
    except KeyboardInterrupt as stop:
        _write_error(name, str(stop) or "interrupted.")
        sys.exit(130)


def _write_error(name: str, message: str) -> None:
    """One line in one piece, so that processes that end together do not mix theirs."""
    sys.stderr.write(f"{name}: {message}\n")


def _check_verb(words: list[str], known: list[str]) -> None:
    """Refuse a misspelt verb before any of them is imported."""
    if words and not words[0].startswith("-") and words[0] not in known:
        if words[0] in _MOVED:
            raise ValueError(f"Run `python -m lab {words[0]}` in a clone of the repository.")
        near = get_close_matches(words[0], known, n=1)
        hint = f"Did you mean '{near[0]}'?" if near else f"Known: {', '.join(known)}."
        raise ValueError(f"Unknown verb '{words[0]}'. {hint}")


def _check_settings(words: list[str]) -> None:
    """Answer the older form --model.width 48 with the one that there is, --set model.width=48."""
    instead = []
    for word, following in zip(words, [*words[1:], "--"], strict=True):
        found = re.fullmatch(r"--((?:data|model|train)\.[^=]+)(?:=(.*))?", word)
        if found:
            text = found[2] or ("VALUE" if following.startswith("--") else following)
            instead.append("--set " + shlex.quote(f"{found[1].replace('-', '_')}={text}"))
    if instead:
        raise ValueError(f"Write {' '.join(instead)}.")
