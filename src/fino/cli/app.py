"""The command line's front door: verbs by name, each imported only when it is called."""

from __future__ import annotations

import sys

from cyclopts import App

import fino

__all__ = ["app", "main"]

#: Verb → where its function lives.  Strings, so that `fino --help` imports none of them.
VERBS: dict[str, str] = {}

app = App(
    name="fino",
    help="Learned PDE solvers that are strictly local and say how far they see.",
    version=fino.__version__,
)
for _verb, _home in VERBS.items():
    app.command(_home, name=_verb)


def main() -> None:
    """Run the verb; a user's mistake becomes one line and exit code 2."""
    try:
        app()
    except (ValueError, OSError) as error:
        message = " ".join(str(error).split())
        print(f"fino: {message}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("fino: interrupted.", file=sys.stderr)
        sys.exit(130)
