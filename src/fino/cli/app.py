"""The command line's front door: verbs by name, each imported only when it is called."""

from __future__ import annotations

import sys
from difflib import get_close_matches

from cyclopts import App, CycloptsError

import fino

__all__ = ["app", "main"]

#: Verb → (where its function lives, what it does).  Strings, so that `fino --help` imports
#: none of them.
VERBS: dict[str, tuple[str, str]] = {
    "list": ("fino.cli.list:show", "Problems, models, floors, metrics, recipes, weights."),
    "run": ("fino.cli.run:run", "A recipe, from nothing to a page; or your own file."),
    "generate": ("fino.cli.generate:generate", "Make data: solve a problem many times."),
    "export-data": (
        "fino.cli.export_data:export_data",
        "Write data in another format: PDEBench's, or ours.",
    ),
    "gallery": ("fino.cli.gallery:gallery", "One sample of each problem in one picture."),
    "train": ("fino.cli.train:train", "Train a model on a data file."),
    "evaluate": ("fino.cli.evaluate:evaluate", "Score a run next to its floors."),
    "compare": ("fino.cli.compare:compare", "Many runs in one table, beside the paper."),
    "report": ("fino.cli.report:report", "One page that shows what a run did."),
    "rollout": ("fino.cli.rollout:rollout", "Predict: any size, any length, many processes."),
    "inspect": ("fino.cli.inspect:inspect", "Reach, stencils, stability of a model."),
    "keep": ("fino.cli.keep:keep", "Put the scores of finished runs in the package."),
    "results": ("fino.cli.results:results", "The page of results, from the kept scores."),
    "ship": ("fino.cli.ship:ship", "Put a trained run in the package, by name."),
}

#: The same for `fino bench …`.
BENCHES: dict[str, tuple[str, str]] = {
    "tiles": ("fino.cli.bench_tiles:tiles", "Memory and time a cell from 1024² to 8192²."),
    "ranks": ("fino.cli.bench_ranks:ranks", "What processes bring and what halos cost."),
    "speed": ("fino.cli.bench_speed:speed", "Cost of a step of every model, as ratios."),
    "train": ("fino.cli.bench_train:train", "Error against CPU-seconds of training."),
    "generate": ("fino.cli.bench_generate:generate", "Trajectories a second, time for 1 000."),
    "horizon": ("fino.cli.bench_horizon:horizon", "Rollouts far past the end of training."),
}

app = App(
    name="fino",
    help="Learned PDE solvers that are strictly local and say how far they see.",
    version=fino.__version__,
)
bench = App(name="bench", help="Measure on this machine: speed, and what speed buys.")
for _verb, (_home, _help) in VERBS.items():
    app.command(_home, name=_verb, help=_help)
for _verb, (_home, _help) in BENCHES.items():
    bench.command(_home, name=_verb, help=_help)
app.command(bench)


def main() -> None:
    """Run the verb; a user's mistake becomes one line and exit code 2."""
    try:
        _check_verb(sys.argv[1:])
        app(exit_on_error=False, print_error=False)
    except (ValueError, OSError, CycloptsError) as error:
        message = " ".join(str(error).split())
        _complain(message)
        sys.exit(2)
    except KeyboardInterrupt as stop:
        _complain(str(stop) or "interrupted.")
        sys.exit(130)


def _complain(message: str) -> None:
    """One line in one piece, so that processes that end together do not mix theirs."""
    sys.stderr.write(f"fino: {message}\n")


def _check_verb(words: list[str]) -> None:
    """Refuse a misspelt verb before any of them is imported."""
    known = [*VERBS, "bench"]
    if words[:1] == ["bench"]:
        words, known = words[1:], [*BENCHES]
    if words and not words[0].startswith("-") and words[0] not in known:
        near = get_close_matches(words[0], known, n=1)
        hint = f"Did you mean '{near[0]}'?" if near else f"Known: {', '.join(known)}."
        raise ValueError(f"Unknown verb '{words[0]}'. {hint}")
