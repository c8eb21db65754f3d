"""One HTML file that shows what a run did: no network, nothing beside it needed.

    report("runs/swe")                  → runs/swe/report.html and runs/swe/figures/

The page is a template filled with words and pictures; every number in it comes from
`scores.json`, the data card, the model or the run folder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from markupsafe import Markup
from matplotlib.figure import Figure

import fino
from fino.data.dataset import Dataset
from fino.durable import check_no_link, write_whole
from fino.evaluation.compare import Comparison, compare
from fino.evaluation.coverage import CLOSE
from fino.evaluation.evaluate import evaluate
from fino.metrics import METRICS
from fino.metrics.scores import Scores
from fino.report import curves, look, tables, words
from fino.report.inspection_page import inspection_section
from fino.report.movie import gradient, player_content, write_movie
from fino.report.scene import Scene, draw_fields, draw_space_time
from fino.report.words import describe_few_tested, describe_verdict
from fino.training.run import Run, find_run
from fino.trust.bands import Bands
from fino.trust.equation import check_equation

__all__ = ["Picture", "report", "scene_of"]

#: The band that is drawn.
_BAND = 0.9
#: Fields drawn in full; more than these would be a long page.
_CHANNELS = 3


@dataclass(frozen=True)
class Picture:
    """A figure with what is seen on it."""

    name: str
    figure: Figure
    title: str
    caption: str = ""


def report(
    run: Any,
    data: Dataset | str | Path | None = None,
    *,
    rivals: Sequence[str | Path] = (),
    more: Sequence[Picture] = (),
    out: str | Path | None = None,
    movie: str | Path | None = None,
    sample: int = 0,
    progress: Callable[[float], None] | None = None,
) -> dict[str, str]:
    """Write one HTML page about a run, and its figures as files; returns where they are.

    A run that was not scored yet is scored first.

    run         a run, its folder, a model, or the name of a pretrained model
    data        the data, if the run cannot open its own; a model alone needs them
    rivals      folders of other evaluated runs on the same data, set beside it
    more        pictures to show before the others
    out         the page; RUN/report.html if not given
    movie       also write the rollout as this .gif or .mp4 file
    sample      the test sample to draw
    progress    called with the share that is done, 0 … 1
    """
    show = progress or (lambda share: None)
    run = find_run(run, data)
    page = _page_path(run, out)
    folder = page.parent / "figures"
    check_no_link(folder)
    scores = _scores(run, page)
    show(0.3)
    scene = scene_of(run, sample)
    others = [Scores.load(Path(rival)) for rival in rivals]
    comparison = _comparison(scores, others)
    pictures = [*more, *_pictures(run, scene, scores, others, comparison)]
    drawings: dict[str, dict[str, Any]] = {}
    for i, picture in enumerate(pictures):
        name = look.as_file_name(picture.name, drawings)
        look.save(picture.figure, folder / f"{name}.png")
        svg = look.save(picture.figure, folder / f"{name}.svg").read_text(encoding="utf-8")
        shown = {"name": name, "title": picture.title, "caption": picture.caption}
        drawings[name] = {**shown, "svg": Markup(look.inline(svg, name))}
        show(0.3 + 0.6 * (i + 1) / len(pictures))
    html = _html(run, scene, scores, comparison, list(drawings.values()), page)
    write_whole(page, html.encode())
    written = {"page": str(page), "figures": str(folder)}
    if movie is not None:
        written["movie"] = str(write_movie(scene, movie))
    show(1.0)
    return written


def scene_of(run: Run, sample: int = 0) -> Scene:
    """One test trajectory and its prediction."""
    data, part = run.data, run.data.test
    if not 0 <= sample < len(part):
        raise ValueError(f"The test part has samples 0 to {len(part) - 1}, not {sample}.")
    task = data.task(getattr(run.model, "history", None))
    shown, steps = task.shown, task.steps
    given, future = part.begin([sample], shown)
    predicted = run.predict(given, steps)
    # cells outside of a mask are no part of the domain, and are left blank
    blank = torch.zeros(1) if given.mask is None else torch.where(given.mask[0] > 0, 0.0, torch.nan)
    theta = [] if given.parameters is None else given.parameters[0].tolist()
    return Scene(
        truth=(future[0] + blank).numpy(),
        prediction=(predicted[0] + blank).numpy(),
        times=data.card.start + data.dt * np.arange(shown, shown + steps),
        grid=data.grid,
        fields=data.fields,
        units=data.card.units,
        given=given.history[0, 0].numpy() if data.steady else None,
        steady=data.steady,
        sphere=data.card.area_weighted,
        model=run.model_name,
        sample=sample,
        parameters=dict(zip(data.card.varying, theta, strict=True)),
        is_masked=given.mask is not None,
        axis_names=data.card.axes,
        time_unit=data.card.time_unit,
    )


def _page_path(run: Run, out: str | Path | None) -> Path:
    if out is not None:
        page = Path(out)
    elif run.results_folder is not None:
        page = run.results_folder / "report.html"
    else:
        raise ValueError("A model alone has no folder: say where to write, as out='report.html'.")
    page.parent.mkdir(parents=True, exist_ok=True)
    return page


def _scores(run: Run, page: Path) -> Scores:
    known = run.scores
    if known is not None and (run.is_shipped or known.data["sha256"] == run.data.hash):
        check_equation(run.model, run.data.card, level=3)
        return known
    return evaluate(run, out=None if run.results_folder else page.parent / "scores.json")


def _comparison(scores: Scores, others: Sequence[Scores]) -> Comparison | None:
    if not others:
        return None
    found = compare([scores, *others])
    if len(found) > 1:
        names = sorted({other.data["name"] for other in others} - {scores.data["name"]})
        which = f"{scores.data['name']} against {', '.join(names)}" if names else "other samples"
        raise ValueError(
            f"The rivals were not scored on the same data: {which}. Report them one by one."
        )
    return found[0]


def _pictures(
    run: Run, scene: Scene, scores: Scores, others: Sequence[Scores], comparison: Comparison | None
) -> list[Picture]:
    pictures, many = _race(scores, others), len(scene.fields) > 1
    last = scores.over_time["nrmse"]["model"][-1]
    when = "The error is" if scene.steady else "At the last step the error is"
    ending = "" if last is None else f"{when} {100 * last:.2g} % of the field."
    for channel, name in enumerate(scene.fields[:_CHANNELS]):
        title, figure = "Truth, prediction, error", draw_fields(scene, channel)
        title += f": {name}" if many else ""
        pictures.append(Picture(f"fields-{name}", figure, title, ending if channel == 0 else ""))
        if scene.dims == 1 and not scene.steady:
            title = f"The whole history{f' of {name}' if many else ''} at once"
            figure = draw_space_time(scene, channel)
            pictures.append(Picture(f"space-time-{name}", figure, title))
    if not scene.steady:
        pictures.append(_errors(run, scores, others))
        pictures += _bands(run, scene, scores)
    pictures += _over_parameters(scores)
    pictures += _spectra(run, scores)
    if records := run.metrics:
        title = f"Training: {words.duration(records[-1]['cpu_seconds'])} of processor time"
        caption = "Where a dotted line stands, longer rollouts are asked for and the loss rises."
        caption = caption if len({record.get("horizon") for record in records}) > 1 else ""
        pictures.append(Picture("training", curves.training_curve(records), title, caption))
    if comparison is not None:
        figure = curves.cost_and_error(comparison)
        pictures.append(Picture("cost", figure, "Error against the cost of a step"))
    return pictures


def _race(scores: Scores, others: Sequence[Scores]) -> list[Picture]:
    """Error against seconds beside the classical solver, where the equation is known."""
    every = {each.model["name"]: each.cost.get("worth") for each in (scores, *others)}
    measured = {name: found for name, found in every.items() if found and found["curve"]}
    if scores.model["name"] not in measured:
        return []
    figure = curves.error_against_seconds(measured)
    caption = (
        "Lower and farther to the left is better: a dot below the line is cheaper than the solver "
        "of its error, one above it dearer. One thread, processor time."
    )
    return [Picture("worth", figure, "Beside the classical solver", caption)]


def _errors(run: Run, scores: Scores, others: Sequence[Scores]) -> Picture:
    series = scores.over_time["nrmse"]
    named = {run.model_name: series["model"]}
    for rival in others:
        named.setdefault(rival.model["name"], rival.over_time["nrmse"]["model"])
    named |= {name: values for name, values in series.items() if name != "model"}
    most = scores.over_time["nrmse_of_most"]
    figure = curves.error_over_time(scores.over_time["time"], named, (most["low"], most["high"]))
    caption = "The shade holds nine test samples in ten; dashed lines are the baselines."
    return Picture("error-over-time", figure, "How the error grows", caption)


def _bands(run: Run, scene: Scene, scores: Scores) -> list[Picture]:
    """The band around the cell that the truth moves most, and what bands held on the test part."""
    bands, pictures = Bands.of(run.model), []
    if bands is not None and bands.allows(_BAND) and len(scene.times) > 1:
        travel = np.nan_to_num(np.abs(np.diff(scene.truth[:, 0], axis=0)).sum(axis=0))
        cell = tuple(int(i) for i in np.unravel_index(travel.argmax(), travel.shape))
        frames, wraps = torch.from_numpy(scene.prediction), scene.grid.is_periodic
        half = [
            float(bands.width(frame[None], step, _BAND, wraps)[(0, 0, *cell)])
            for step, frame in enumerate(torch.nan_to_num(frames), start=1)
        ]
        one: Any = (slice(None), 0, *cell)
        truth, predicted = scene.truth[one], scene.prediction[one]
        band = (predicted - half, predicted + half)
        figure = curves.band_over_time(scene.times, truth, predicted, band, scene.fields[0])
        title = f"The {100 * _BAND:.0f} % band at cell ({', '.join(map(str, cell))})"
        caption = (
            "It holds nine cells in ten of trajectories like the validation ones, taken together."
        )
        pictures.append(Picture("band", figure, title, caption))
    if "coverage" in scores.trust:
        found = scores.trust["coverage"]
        times = scores.over_time["time"]
        figure = curves.coverage_over_time(times, found["levels"], found["over_time"])
        caption = "Pale lines are what the bands promise."
        pictures.append(Picture("coverage", figure, "What the bands held", caption))
    if "mirror" in scores.trust:
        found = scores.trust["mirror"]
        figure = curves.estimated_errors(found["estimates"], found["errors"], CLOSE)
        caption = (
            "One dot for each test trajectory: its error as the mirror image of its start has it, "
            f"without the truth. {found['within']:.0%} are within a factor of {CLOSE:g}, the shade."
        )
        pictures.append(Picture("estimates", figure, "Errors as they were estimated", caption))
    return pictures


def _over_parameters(scores: Scores) -> list[Picture]:
    pictures = []
    for name, found in scores.over_parameters.items():
        values, errors, trained = found["values"], found["nrmse"], found["trained"]
        figure = curves.error_over_parameter(name, values, errors, trained)
        caption = "One dot for each trajectory; the shade is the range of the training part."
        if trained is not None and (outside := curves.is_outside(values, trained)).any():
            y = np.array(errors, dtype=float)
            far = f"{len(y[outside])} of {len(y)} trajectories lie outside of it"
            caption += f" {far}, with a median nRMSE of {np.median(y[outside]):.3g}"
            inside = y[~outside]
            caption += f"; inside it is {np.median(inside):.3g}." if len(inside) else "."
        pictures.append(Picture(f"error-over-{name}", figure, f"Error over {name}", caption))
    return pictures


def _spectra(run: Run, scores: Scores) -> list[Picture]:
    pictures = []
    for name, energy in list(scores.spectra["fields"].items())[:_CHANNELS]:
        truth, model, error = (energy[name] for name in ("truth", "model", "error"))
        series = {"truth": truth, run.model_name: model, "error": error}
        if any(value is None for values in series.values() for value in values):
            continue
        of_field = f" of {name}" if len(scores.spectra["fields"]) > 1 else ""
        figure = curves.spectra(scores.spectra["wavenumber"], series)
        title = f"Energy at each wavenumber{of_field}"
        title += ", last step" if len(scores.over_time["time"]) > 1 else ""
        caption = "Where the error line meets the truth, those waves are wrong altogether."
        pictures.append(Picture(f"spectrum-{name}", figure, title, caption))
    return pictures


def _html(
    run: Run,
    scene: Scene,
    scores: Scores,
    comparison: Comparison | None,
    pictures: list[dict[str, Any]],
    page: Path,
) -> str:
    card, folder, rivals = run.data.card, run.results_folder or page.parent, []
    if comparison is not None:
        errors = tables.comparison(comparison, costs=False, intervals=False)
        rivals = [errors, tables.costs(comparison)]
    return look.render_page(
        "report.html.j2",
        title=f"{run.model_name} on {card.title or card.name}",
        scores=scores,
        best=tables.best_columns(scores),
        order=words.baseline_order(scores),
        by_field=tables.field_table(scores),
        verdict=f"{describe_verdict(scores)} {describe_few_tested(scores)}".strip(),
        worth=words.describe_worth(scores),
        trust=[
            *([scores.trust["equation"]] if "equation" in scores.trust else []),
            *words.describe_trust(scores, has_data=not run.is_shipped),
        ],
        asked=words.describe_question(run.data, scores),
        tiles=words.headline_tiles(scores),
        shown=words.describe_sample(scene.sample, scene.parameters, scene.is_masked),
        player=None if scene.steady else player_content(scene),
        field_gradient=gradient(look.FIELD_MAP),
        error_gradient=gradient(look.ERROR_MAP),
        pictures=pictures,
        metrics=METRICS,
        comparison=rivals,
        reach=words.reach_bars(run),
        steps=words.learned_steps(run.model),
        card=card,
        commands=words.reproduce_commands(card, scores.data["path"], scores.model, folder),
        inspection=inspection_section(run.results_folder),
        version=fino.__version__,
    )
