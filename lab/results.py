"""`python -m lab results`: docs/results.md and its figures from the kept scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from matplotlib.figure import Figure

from fino.cli.console import progress, say, say_json
from fino.metrics.scores import Scores
from fino.report.page import scene_of
from fino.report.scene import Scene
from fino.training.run import PRETRAINED
from lab.bench_transfer import load_transfers
from lab.front import Seconds, load_seconds
from lab.keep import SHIPPED, TASKS, group_seeds, load_kept, load_shipped
from lab.readme import fill, readme_parts
from lab.results_figures import Dot, error_and_cost, errors_over_time, field_panels, save_small
from lab.results_page import results_page, spans
from lab.standing import Standing, lowest_baseline, mean_curve, standings, with_shipped

__all__ = ["results", "write_results"]

Tasks = Mapping[str, Mapping[str, Scores]]
Progress = Callable[[float], None]


def results(
    *,
    out: Path = Path("docs/results.md"),
    climate: Path | None = None,
    readme: Path | None = None,
    json: bool = False,
) -> None:
    """Build the page: `python -m lab results`.

    Tables, sentences and figures from the kept scores and the shipped models, about a minute.

    Parameters
    ----------
    out
        The page; its figures go into a folder beside it.
    climate
        The folder with the weather maps, to draw the picture of the fields again.
    readme
        A README whose tables are written again too.
    json
        Print the written files as JSON.
    """
    with progress("solving test samples", quiet=json) as show:
        written = write_results(out, climate, show, readme)
    if json:
        say_json([str(path) for path in written])
        return
    for path in written:
        say(f"{path}: {path.stat().st_size / 1e3:.0f} kB")


def write_results(
    out: str | Path,
    climate: str | Path | None = None,
    show: Progress | None = None,
    readme: Path | None = None,
) -> list[Path]:
    """Write the page, its figures beside it and the numbers of a README; returns them.

    `climate` is a folder with the weather maps.  Without it a picture of the fields that is there
    already stays as it is, because it may show them.
    """
    out = Path(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    tasks, models, horizons = load_kept(), load_shipped(), load_kept("horizon-")
    figures = out.parent / "figures"
    fields = figures / "results-fields.png"
    stays = climate is None and "climate" in models and fields.is_file()
    drawings: dict[str, Figure] = {}
    scenes = {} if stays else _scenes(models, climate, show)
    if scenes:
        drawings["fields"] = field_panels(scenes)
    seconds = load_seconds()
    if tasks and seconds:
        drawings["pareto"] = _pareto(tasks, models, seconds)
        moving = {task: cases for task, cases in tasks.items() if _moves(cases)}
        drawings["over-time"] = errors_over_time({t: _series(c) for t, c in moving.items()})
    if horizons:
        drawings["horizon"] = _far(horizons, tasks)
    written = {"fields": fields} if stays else {}
    for name, figure in drawings.items():
        written[name] = save_small(figure, figures / f"results-{name}.png")
    places = {name: f"figures/{path.name}" for name, path in written.items()}
    short, audited = _without("short-"), _without("retuned-")
    searched = _without("searched-")
    transfers = load_transfers()
    page = results_page(
        *(tasks, models, load_kept("ablation-"), horizons, short, searched, audited, places),
        seconds=seconds,
        transfers=transfers,
    )
    out.write_text(page, encoding="utf-8")
    if show:
        show(1.0)
    return [out, *written.values(), *_fill_readme(readme, tasks)]


def _fill_readme(readme: Path | None, tasks: Tasks) -> list[Path]:
    """The numbers of the README, if there is one to fill."""
    if readme is None:
        return []
    ablated, quick = load_kept("ablation-"), load_kept("quickstart").get("quickstart", {})
    parts = readme_parts(tasks, ablated, quick, _without("short-"))
    return [fill(readme, name, words) for name, words in parts.items()][:1]


def _without(beginning: str) -> Tasks:
    """What is kept under names with this beginning, by the paper's names."""
    return {task.removeprefix(beginning): cases for task, cases in load_kept(beginning).items()}


def _scenes(
    models: Mapping[str, Scores], climate: str | Path | None, show: Progress | None
) -> dict[str, Scene]:
    """One test sample of each shipped model, solved again; measured data only if given."""
    found = {}
    # Measured data first: a wrong folder is then found before minutes of solving.
    for number, task in enumerate(sorted(models, key=lambda task: task != "climate")):
        run = PRETRAINED[task]
        if task != "climate":
            found[task] = scene_of(run.with_data(run.test_data(samples=1)))
        elif climate is not None:
            found[task] = scene_of(run.with_data(climate))
        if show:
            show((number + 1) / len(models))
    return {task: found[task] for task in models if task in found}


def _pareto(tasks: Tasks, models: Mapping[str, Scores], seconds: Seconds) -> Figure:
    """Error against the seconds of a trajectory, all measured on one machine."""
    panels, baselines = {}, {}
    beside = with_shipped(tasks, models)
    for task in TASKS:
        rows, cost = standings(tasks.get(task, {})), seconds.get(task, {})
        dots = [_dot(row, cost[name]) for name, row in rows.items() if _has_place(name, row, cost)]
        if task in models:
            (star,) = standings({SHIPPED: models[task]}).values()
            if _has_place(SHIPPED, star, cost):
                dots.append(replace(_dot(star, cost[SHIPPED]), name="fino", shipped=True))
        panels[task] = dots
        lowest = lowest_baseline(beside.get(task, {}).values())
        if lowest is not None:
            baselines[task] = (lowest[0], lowest[1].value)
    return error_and_cost(panels, baselines)


def _has_place(name: str, row: Standing, seconds: Mapping[str, float]) -> bool:
    """Diverged rows have no place on an axis; the tables have them."""
    return name in seconds and math.isfinite(row.nrmse) and row.nrmse > 0


def _dot(row: Standing, seconds: float) -> Dot:
    return Dot(row.case, 1e3 * seconds, row.nrmse, row.low, row.high)


def _moves(cases: Mapping[str, Scores]) -> bool:
    return not any(scores.data["steady"] for scores in cases.values())


def _series(
    cases: Mapping[str, Scores],
) -> tuple[list[float], dict[str, list[float | None]]]:
    """Each model, its seeds averaged as in the tables, then the baselines of the first case."""
    first = next(iter(cases.values()))
    alike = {name: s for name, s in cases.items() if s.data["steps"] == first.data["steps"]}
    seeds = group_seeds(alike)
    series = {case: mean_curve([alike[name] for name in names]) for case, names in seeds.items()}
    baselines = {n: v for n, v in first.over_time["nrmse"].items() if n != "model"}
    return first.over_time["time"], {**series, **baselines}


def _far(horizons: Tasks, tasks: Tasks) -> Figure:
    panels, marks = {}, {}
    for task, cases in horizons.items():
        title = task.removeprefix("horizon-")
        panels[title] = _series(cases)
        first = next(iter(cases.values()))
        times = first.over_time["time"]
        start = times[0] - first.data["shown"] * first.data["dt"]
        marks[title] = start + (times[-1] - start) / spans(task, first, tasks)
    return errors_over_time(panels, marks)
