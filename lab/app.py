"""`python -m lab …`, from a clone: measure, keep scores, build the results page, ship weights."""

from __future__ import annotations

from cyclopts import App, Parameter

from fino.cli.app import run_app

__all__ = ["BENCHES", "VERBS", "app", "main"]

#: Verb → (where its function lives, what it does).
VERBS: dict[str, tuple[str, str]] = {
    "compare": ("lab.compare:compare", "Runs or kept scores beside the paper's numbers."),
    "keep": ("lab.keep:keep", "Keep the scores of finished runs in lab/results."),
    "results": ("lab.results:results", "Build docs/results.md from the kept scores."),
    "sweep": ("lab.sweep:sweep", "Run the cells of the results that are missing, in order."),
    "search": ("lab.search:search", "Sizes and rates, the same search for every model."),
    "front": ("lab.front:front", "What a trajectory costs with every kept model, in seconds."),
    "audit": ("lab.audit:audit", "Compute random cells of the results again from weights."),
    "baselines": ("lab.audit:baselines", "Score baselines again, beside all kept scores."),
    "ship": ("lab.ship:ship", "Put a trained run in the package, by name."),
    "pages": ("lab.pages:pages", "Build docs/pages: the shipped weights, to play with."),
    "trust": ("lab.trust:trust", "Bands and guards for the shipped models."),
    "radar": ("lab.radar:radar", "Rain of the next hour from radar images, beside pysteps."),
    "gallery": ("lab.gallery:gallery", "One sample of each problem in one picture."),
    "worth": ("lab.worth:worth", "Models beside the solver of the same error: docs/worth.md."),
    "heart": ("lab.heart:heart", "Waves and spirals on a sheet four times as large."),
    "notebooks": ("lab.notebooks:notebooks", "The gallery: examples as pages and notebooks."),
    "house": ("lab.house:house", "Build docs/house.md: the size of the code, before and after."),
}

#: The same for `python -m lab bench …`.
BENCHES: dict[str, tuple[str, str]] = {
    "tiles": ("lab.bench_tiles:tiles", "Memory and time a cell from 1024² to 8192²."),
    "patterns": ("lab.bench_patterns:patterns", "Gray–Scott's six patterns, 30 steps."),
    "parameters": ("lab.bench_parameters:parameters", "One model over many θ beside single ones."),
    "conditions": ("lab.bench_conditions:conditions", "What parameters, forcing and masks bring."),
    "ranks": ("lab.bench_ranks:ranks", "The speedup of several processes and the cost of halos."),
    "speed": ("lab.bench_speed:speed", "Cost of a step of every model, as ratios."),
    "engine": ("lab.bench_engine:engine", "Rollouts by compiled C against torch."),
    "train": ("lab.bench_train:train", "Error against CPU-seconds of training."),
    "generate": ("lab.bench_generate:generate", "Trajectories a second, time for 1 000."),
    "vrmse": ("lab.bench_vrmse:vrmse", "Errors over The Well's stretches, and conservation."),
    "transfer": ("lab.bench_transfer:transfer", "Models on cells half as wide."),
    "horizon": ("lab.bench_horizon:horizon", "Rollouts far past the end of training."),
}


app = App(
    name="lab",
    help="Benches, kept scores, the results page, shipping of weights.",
    default_parameter=Parameter(negative="", consume_multiple=True),
)
bench = App(name="bench", help="Measure speed and accuracy on this machine.")
for _verb, (_home, _help) in VERBS.items():
    app.command(_home, name=_verb, help=_help)
for _verb, (_home, _help) in BENCHES.items():
    bench.command(_home, name=_verb, help=_help)
app.command(bench)


def main() -> None:
    """The command line of the lab."""
    run_app(app, "lab", [*VERBS, "bench"])
