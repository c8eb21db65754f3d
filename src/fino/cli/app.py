"""The command line's front door: verbs by name, each imported only when it is called."""

from __future__ import annotations

import sys

from cyclopts import App

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
    "train": ("fino.cli.train:train", "Train a model on a data file."),
    "evaluate": ("fino.cli.evaluate:evaluate", "Score a run next to its floors."),
    "compare": ("fino.cli.compare:compare", "Many runs in one table, beside the paper."),
    "report": ("fino.cli.report:report", "One page that shows what a run did."),
    "rollout": ("fino.cli.rollout:rollout", "Predict: any size, any length, many processes."),
    "inspect": ("fino.cli.inspect:inspect", "Reach, stencils, stability of a model."),
}

#: The same for `fino bench …`.
BENCHES: dict[str, tuple[str, str]] = {
    "tiles": ("fino.cli.bench_tiles:tiles", "Memory and time a cell from 1024² to 8192²."),
    "ranks": ("fino.cli.bench_ranks:ranks", "What processes bring and what halos cost."),
    "speed": ("fino.cli.bench_speed:speed", "Cost of a step of every model, as ratios."),
    "train": ("fino.cli.bench_train:train", "Error against CPU-seconds of training."),
    "generate": ("fino.cli.bench_generate:generate", "Trajectories a second, time for 1 000."),
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
        app()
    except (ValueError, OSError) as error:
        message = " ".join(str(error).split())
        print(f"fino: {message}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("fino: interrupted.", file=sys.stderr)
        sys.exit(130)
