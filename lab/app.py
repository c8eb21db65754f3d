"""`python -m lab …`, from a clone: what made the results, and what keeps them honest."""

from __future__ import annotations

from cyclopts import App

from fino.cli.app import run_app

__all__ = ["app", "main"]

#: Verb → (where its function lives, what it does).
VERBS: dict[str, tuple[str, str]] = {
    "compare": ("lab.cli_compare:compare", "Runs or kept scores beside the paper's numbers."),
    "keep": ("lab.cli_keep:keep", "Keep the scores of finished runs in lab/results."),
    "results": ("lab.cli_results:results", "Build docs/results.md from the kept scores."),
    "ship": ("lab.cli_ship:ship", "Put a trained run in the package, by name."),
    "gallery": ("lab.cli_gallery:gallery", "One sample of each problem in one picture."),
}

#: The same for `python -m lab bench …`.
BENCHES: dict[str, tuple[str, str]] = {
    "tiles": ("lab.cli_bench_tiles:tiles", "Memory and time a cell from 1024² to 8192²."),
    "ranks": ("lab.cli_bench_ranks:ranks", "What processes bring and what halos cost."),
    "speed": ("lab.cli_bench_speed:speed", "Cost of a step of every model, as ratios."),
    "train": ("lab.cli_bench_train:train", "Error against CPU-seconds of training."),
    "generate": ("lab.cli_bench_generate:generate", "Trajectories a second, time for 1 000."),
    "horizon": ("lab.cli_bench_horizon:horizon", "Rollouts far past the end of training."),
}

app = App(name="lab", help="Benches, kept scores, the results page, shipping of weights.")
bench = App(name="bench", help="Measure on this machine: speed, and what speed buys.")
for _verb, (_home, _help) in VERBS.items():
    app.command(_home, name=_verb, help=_help)
for _verb, (_home, _help) in BENCHES.items():
    bench.command(_home, name=_verb, help=_help)
app.command(bench)


def main() -> None:
    """The command line of the lab."""
    run_app(app, "lab", [*VERBS, "bench"])
