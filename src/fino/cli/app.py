"""The command line's front door: verbs by name, each imported only when it is called."""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, NoReturn

from cyclopts import (
    App,
    CycloptsError,
    MissingArgumentError,
    Parameter,
    UnusedCliTokensError,
)

import fino
from fino.cli.console import printable
from fino.durable import explain

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
    "calibrate": ("fino.cli.results:calibrate", "Bands and guards for a model without them."),
    "compare": ("fino.cli.results:compare", "Many runs in one table, over seeds."),
    "report": ("fino.cli.results:report", "One page that shows what a run did."),
    "rollout": ("fino.cli.rollout:rollout", "Predict: any size, any length, many processes."),
    "export": ("fino.cli.export:export", "A trained step as ONNX, one C file or a page."),
    "inspect": ("fino.cli.results:inspect", "Reach, stencils, stability of a model."),
    "play": ("fino.cli.play:play", "Play with a trained step in the browser."),
}

#: Verbs of earlier versions that are run from a clone now.
_MOVED = ("bench", "gallery", "keep", "results", "ship")


def _shown(default: Any) -> str | None:
    """A default as `--help` shows it; an empty one, or a flag that is off, says nothing."""
    return None if default in ((), "", False) else str(default)


app = App(
    name="fino",
    help="Learned PDE solvers that are strictly local and say how far they see.",
    version=fino.__version__,
    default_parameter=Parameter(negative="", show_default=_shown),
)
for _verb, (_home, _help) in VERBS.items():
    app.command(_home, name=_verb, help=_help)


app.register_install_completion_command(name="--install-completion")


def main() -> None:
    """The command line of the package."""
    run_app(app, "fino", list(VERBS))


def run_app(app: App, name: str, verbs: list[str]) -> None:
    """Run a verb; a user's mistake becomes one line and exit code 2.

    A mistake of ours becomes one line and exit code 1; FINO_TRACEBACK=1 shows where it is.
    """
    app.suppress_keyboard_interrupt = False  # else it ends without a word
    try:
        with _stopped_by_signals(), _warnings_as_lines(name):
            _check_verb(sys.argv[1:], verbs)
            _check_settings(sys.argv[1:])
            app(sys.argv[1:], exit_on_error=False, print_error=False)
    except UnusedCliTokensError as error:
        words, verb = " ".join(error.unused_tokens or ()), sys.argv[1]
        _end(name, f"{words!r} stands without an option. See `{name} {verb} --help`.", 2)
    except MissingArgumentError as error:
        _end(name, _missing(name, error), 2)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nobody reads on, as in `fino list | head`
        sys.exit(141)
    except OSError as error:
        _end(name, explain(error), 2)
    except (ValueError, CycloptsError) as error:
        _end(name, str(error), 2)
    except KeyboardInterrupt as stop:
        words = str(stop) or f"interrupted. {_AGAIN.get(sys.argv[1], _AGAIN[''])}"
        _end(name, words, getattr(stop, "code", 130))
    except Exception as error:
        if _is_lack_of_memory(error):
            _end(name, f"there is not enough memory. Choose smaller sizes. {error}", 2)
        if os.environ.get("FINO_TRACEBACK"):
            raise
        kind = type(error).__name__
        hint = "This is a mistake in fino: please report it with what FINO_TRACEBACK=1 shows"
        _end(name, f"{hint}. {kind}: {error}", 1)


def _missing(name: str, error: MissingArgumentError) -> str:
    """Which option has to be given, or has been given without its value."""
    verb, option = sys.argv[1], error.argument.name if error.argument else "an argument"
    option = option if option.startswith("-") else option.upper()
    if option in sys.argv:
        return f"{option} needs a value. See `{name} {verb} --help`."
    return f"`{name} {verb}` needs {option}. See `{name} {verb} --help`."


#: What to do after an interruption, by verb.
_AGAIN = {
    "generate": "What is done is kept; the same command goes on.",
    "run": "What is done is kept; the same command goes on.",
    "rollout": "The same command goes on with what is in --out; without --out it begins again.",
    "evaluate": "No scores were written; the same command begins again.",
    "": "Nothing that was there before is changed; run the same command again.",
}


class _Stopped(KeyboardInterrupt):
    """A signal asked the process to end."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.code = 128 + number


@contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end a verb as Ctrl-C does, unless they are ignored, as by nohup."""

    def stop(number: int, frame: Any) -> None:
        raise _Stopped(number)

    numbers = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) == signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread():
        numbers = []
    for number in numbers:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def _warnings_as_lines(name: str) -> Iterator[None]:
    """Say a warning in a line, without the place in the code."""

    def show(message: Warning | str, *place: Any, **more: Any) -> None:
        sys.stderr.write(f"{name}: warning: {' '.join(str(message).split())}\n")

    before, warnings.showwarning = warnings.showwarning, show
    try:
        yield
    finally:
        warnings.showwarning = before


def _is_lack_of_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError) or "allocate memory" in str(error)


def _end(name: str, message: str, code: int) -> NoReturn:
    """One line in one piece, so that processes that end together do not mix theirs."""
    sys.stderr.write(f"{name}: {printable(' '.join(message.split()))}\n")
    sys.exit(code)


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
    for word, following in zip(words, [*words[1:], "--"], strict=False):
        found = re.fullmatch(r"--((?:data|model|train)\.[^=]+)(?:=(.*))?", word)
        if found:
            text = found[2] or ("VALUE" if following.startswith("--") else following)
            instead.append("--set " + shlex.quote(f"{found[1].replace('-', '_')}={text}"))
    if instead:
        raise ValueError(f"Write {' '.join(instead)}.")
