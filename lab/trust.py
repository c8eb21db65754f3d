"""`python -m lab trust`: bands, guards, mirror images and spot checks of the shipped models.

    python -m lab trust --calibrated     solve training and validation data again, write trust.json
    python -m lab trust --mirrored       the same for mirror images alone
    python -m lab trust                  measure on test data, and write the tables of docs/trust.md

Bands and mirror images are calibrated on the validation part, solved for several times the length
of the training data, and measured on the test part.  Guards are measured on the test part and on
shifted sets: other parameters and initial conditions, another resolution, noise, another equation;
by the start alone, with the mirror image, and with what the card of the data gives away.  A
trajectory counts as bad if its error is more than three times the median of the test part.
"""

from __future__ import annotations

import json as jsonlib
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from fino.cli.console import progress, say, say_json
from fino.data.card import Card
from fino.data.dataset import Dataset, Part
from fino.data.frames import ArrayFrames
from fino.data.split import Split
from fino.durable import write_whole
from fino.evaluation.coverage import Coverage
from fino.evaluation.spot import spot_check
from fino.evaluation.worth import find_truth
from fino.given import Given
from fino.metrics import nrmse
from fino.model.pretrained import plan_again, solve_samples
from fino.model.store import save_trust
from fino.training.run import PRETRAINED, Run
from fino.training.run_data import check_fit
from fino.trust.bands import LEVELS, calibrate
from fino.trust.equation import compare_equations
from fino.trust.guards import Seen
from fino.trust.mirror import Mirror
from lab.bench_horizon import solve_longer
from lab.keep import RESULTS

__all__ = ["trust"]

Progress = Callable[[float], None]

#: What is measured is kept here, and shown there.
KEPT = RESULTS / "trust.json"
PAGE = Path(__file__).parents[1] / "docs" / "trust.md"

#: The error that counts as bad, in medians of the test part.
_BAD = 3.0
#: From which number on further test trajectories are drawn.
_FURTHER = 1000
#: Noise on what is given, in spreads of a field.
_NOISE = (0.01, 0.1)

#: Settings of shifted sets, for each problem.
SHIFTS: dict[str, dict[str, dict[str, Any]]] = {
    "advection": {
        "shorter waves": {"modes": 12},
        "half the speed": {"beta": 2.0},
        "half the cells": {"points": 512},
    },
    "diffusion-reaction-1d": {
        "shorter waves": {"modes": 12},
        "twice the diffusion": {"nu": 1.0},
        "five times the growth": {"rho": 5.0},
        "half the cells": {"points": 512},
    },
    "compressible-1d": {
        "shorter waves": {"modes": 8},
        "another gas": {"gamma": 1.3},
        "viscous": {"eta": 0.1, "zeta": 0.1},
        "one jump": {"start": "shock"},
        "half the cells": {"points": 512},
    },
    "diffusion-reaction-2d": {
        "stronger drive": {"k": 0.2},
        "three times the diffusion": {"diffusion_u": 3e-3, "diffusion_v": 15e-3},
        "half the cells": {"points": 64},
    },
    "shallow-water": {
        "a deeper dam": {"inside": 3.0},
        "twice the gravity": {"gravity": 2.0},
        "larger dams": {"radius": (1.0, 1.4)},
        "half the cells": {"points": 64},
    },
    "gray-scott": {
        "faster diffusion": {"diffusion_a": 4e-5, "diffusion_b": 2e-5},
        "half the cells": {"points": 64},
    },
    "shallow-water-dams": {
        "twice the gravity": {"gravity": 2.0},
        "higher dams": {"dams": (5.0, 8.0)},
        "deeper water": {"depth": (3.0, 5.0)},
        "half the cells": {"points": 16},
    },
    "euler-2d": {
        "other gases": {"gas": "own", "vary": {"gamma": "2:2.2"}},
        "half the cells": {"points": 16},
    },
    "heart": {
        "another tissue": {"tissue": "set3"},
        "twice the diffusion": {"diffusion": 0.002},
        "half the cells": {"points": 32},
    },
}
#: Marks a set in the table whose card gives it away.
_GIVEN_AWAY = "†"
#: Whose frames are given to a model as another equation's.
_OTHER = {
    "advection": "diffusion-reaction-1d",
    "diffusion-reaction-1d": "advection",
    "shallow-water": "diffusion-reaction-2d",
    "diffusion-reaction-2d": "shallow-water",
}


def trust(
    *names: str,
    calibrated: bool = False,
    bands: bool = False,
    mirrored: bool = False,
    learned: int = 256,
    validated: int = 128,
    fewest: int = 20,
    ahead: int = 5,
    samples: int = 100,
    shifted: int = 12,
    far: int = 25,
    times: int = 5,
    further: bool = False,
    only: str = "",
    json: bool = False,
) -> None:
    """Measure shipped models, or calibrate them: `python -m lab trust advection --calibrated`.

    Parameters
    ----------
    names
        Pretrained models of data that move; all of them if none is named.
    calibrated
        Calibrate, and write trust.json beside the weights, before anything is measured.
    bands
        Calibrate the bands alone, which needs validation trajectories only, and keep what training
        saw as it is.
    mirrored
        Calibrate mirror images alone, likewise.
    learned
        Training trajectories that are solved again for that.
    validated
        Validation trajectories at the most.
    fewest
        Validation trajectories at the least, if need be further ones than the part has.
    ahead
        How many times as long as the data of the training they are solved for.
    samples
        Test trajectories at the most; further ones are drawn where the part has fewer and
        `further` says so.
    shifted
        Trajectories of every shifted set.
    far
        Test trajectories that are solved for several times as long; 0 leaves that out.
    times
        How many times as long as the data of the training.
    further
        Draw test trajectories that the part does not have, up to `samples`.
    only
        coverage, guards, mirror or spots: measure this, and keep what is known of the others.
    json
        Print what was found as JSON.
    """
    if only not in ("", "coverage", "guards", "mirror", "spots"):
        raise ValueError(f"only should be coverage, guards, mirror or spots, got '{only}'.")
    moving = [name for name in PRETRAINED if not PRETRAINED[name].data_card.steady]
    kept: dict[str, Any] = {}
    for name in names or moving:
        with progress(name, quiet=json) as show:
            if calibrated or bands or mirrored:
                parts = () if calibrated else ("bands",) * bands + ("mirror",) * mirrored
                counts = (learned, validated, fewest, ahead)
                _calibrate(PRETRAINED[name], parts, *counts, show)
            run = PRETRAINED[name]
            data = _test_data(run, samples, further, lambda share: show(0.3 * share))
            found = _measure(run, data, shifted, far, times, show, only)
        kept = jsonlib.loads(KEPT.read_text()) if KEPT.is_file() else {}
        kept[name] = kept.get(name, {}) | found
        write_whole(KEPT, (jsonlib.dumps(_rounded(kept), indent=1) + "\n").encode())
        if not json and not only:
            say(f"{name}: {jsonlib.dumps(_rounded(_summary(kept[name])))}")
    _write_tables(
        {name: kept[name] for name in moving if {"guards", "coverage"} <= {*kept.get(name, {})}}
    )
    if json:
        say_json(kept)


def _calibrate(
    run: Run,
    parts: tuple[str, ...],
    learned: int,
    validated: int,
    fewest: int,
    ahead: int,
    show: Progress,
) -> None:
    """What training saw, bands and mirror images into trust.json; only some `parts`, if named."""
    learned = 1 if parts else learned
    short, long = _solve(run.data_card, learned, validated, fewest, ahead, show)
    model, before = run.model, run.model.trust or {}
    found = calibrate(model, short, long=long)
    only = {name: found[name] for name in parts if name in found}
    model.trust = before | only if parts else found
    assert run.folder is not None
    save_trust(model.trust, run.folder)


def _solve(
    card: Card, learned: int, validated: int, fewest: int, ahead: int, show: Progress
) -> tuple[Dataset, Dataset]:
    """Some training and validation trajectories, and the latter over a longer time."""
    assert card.split is not None
    train, own = (card.split.samples(part) for part in ("train", "validation"))
    # A validation part of a few trajectories allows no wide bands: further ones are drawn, which
    # were not learned from either.
    more = range(card.samples, card.samples + max(0, min(validated, fewest) - len(own)))
    samples = (*train[:learned], *own[:validated], *more)
    card = card.changed(samples=card.samples + len(more))
    short = solve_samples(plan_again(card), samples, lambda share: show(0.3 * share))
    count = min(learned, len(train))
    parts = {"train": range(count), "validation": range(count, len(samples))}
    short = short.with_split(Split.of("solved again", **parts))
    if ahead == 1:
        return short, short
    rest = card.changed(split=Split.of("ahead", validation=samples[count:]))
    long = solve_longer(rest, ahead, len(samples), lambda s: show(0.3 + 0.7 * s), "validation")
    return short, long.with_split(Split.of("solved again", validation=range(len(long))))


def _test_data(run: Run, samples: int, further: bool, show: Progress) -> Dataset:
    """The test part, with further trajectories that nothing was learned or chosen from."""
    card = run.data_card
    assert card.split is not None
    own = card.split.samples("test")[:samples]
    if not further or len(own) == samples:
        return run.test_data(samples, show)
    first = card.samples + _FURTHER
    more = range(first, first + samples - len(own))
    return solve_samples(plan_again(card.changed(samples=more.stop)), (*own, *more), show)


def _measure(
    run: Run, data: Dataset, shifted: int, far: int, times: int, show: Progress, only: str
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if only in ("", "coverage"):
        found["samples"] = len(data.test)
        found["coverage"] = _coverage(run.with_data(data), data.test)
        if far:
            later = solve_longer(run.data_card, times, far, lambda share: show(0.3 + 0.3 * share))
            found["far"] = len(later.test)
            found["coverage_far"] = _coverage(run.with_data(later), later.test)
    if only in ("", "mirror") and Mirror.of(run.model) is not None:
        found["mirror"] = _estimates(run.with_data(data), data.test)
    others = {} if only in ("coverage", "mirror") else _shift(run, shifted)
    show(0.7)
    if only in ("", "guards"):
        found["guards"] = _guards(run, data, others, shifted)
    show(0.9)
    if only in ("", "spots"):
        found["spots"] = _spots(run, data, others, shifted)
    return found


def _shift(run: Run, count: int) -> dict[str, Dataset]:
    """Test trajectories with other settings, for each shifted set."""
    card = run.data_card
    assert card.split is not None
    samples = card.split.samples("test")[:count]
    return {
        title: solve_samples(plan_again(card, **changes), samples)
        for title, changes in SHIFTS.get(card.name, {}).items()
    }


def _coverage(run: Run, part: Part) -> dict[str, Any]:
    """Cells held and widths, over the test part and at its end, and widths in typical errors."""
    counted, errors, ends = Coverage(run), [], []
    for rows in _rows(part):
        given, future = part.begin(rows, run.model.history)
        predicted = run.predict(given, future.shape[1])
        counted.add(given, predicted, future)
        errors.append((predicted - future).abs().double().mean())
        ends.append(nrmse(predicted, future)[:, -1].mean())
    content = counted.content()["coverage"]
    content["last"] = [row[-1] for row in content.pop("over_time")]
    content["mean_error"] = float(torch.stack(errors).mean())
    content["nrmse_last"] = float(torch.stack(ends).mean())
    return content


def _estimates(run: Run, part: Part) -> dict[str, Any]:
    """Errors of the test part as mirror images have them, beside the true ones."""
    counted = Coverage(run)
    for rows in _rows(part):
        given, future = part.begin(rows, run.model.history)
        counted.add(given, run.predict(given, future.shape[1]), future)
    found: dict[str, Any] = counted.content()["mirror"]
    pairs = zip(found.pop("estimates"), found.pop("errors"), strict=True)
    ratios = np.array([math.inf if guess is None else guess / true for guess, true in pairs])
    among = {"median": float(np.median(ratios)), "samples": len(part)}
    return found | among | {"correlation": _rank_correlation(counted)}


def _rank_correlation(counted: Coverage) -> float:
    """Spearman's: of the ranks of estimates and errors."""
    pairs = [torch.cat(values).nan_to_num(1e30) for values in (counted.estimates, counted.errors)]
    ranks = torch.stack([values.argsort().argsort().double() for values in pairs])
    return float(torch.corrcoef(ranks)[0, 1])


def _rows(part: Part) -> Iterator[range]:
    size = max(1, 2**22 // math.prod(part.shape[1:]))
    return (range(i, min(i + size, len(part))) for i in range(0, len(part), size))


def _guards(run: Run, data: Dataset, others: dict[str, Dataset], count: int) -> dict[str, Any]:
    """Distances and errors of the test part and of every shifted set, and what they say."""
    seen = Seen.of(run.model)
    assert seen is not None
    sets, said = {"test": _score_starts(run, seen, data.test)}, _say_of(run, others)
    few = data.test[:count]
    for share in _NOISE:
        sets[f"noise of {share:.0%}"] = _score_starts(run, seen, few, noise=share)
    for title, other in others.items():
        sets[title] = _score_starts(run, seen, other.test)
    if run.name in _OTHER:
        sets["another equation"] = _score_starts(run, seen, _foreign(run, data, count).test)
    median = float(np.median(sets["test"].error))
    error = np.concatenate([found.error for found in sets.values()])
    bad = ~(error <= _BAD * median)
    scores: dict[str, list[np.ndarray]] = {"auc": [], "auc_mirror": [], "auc_card": []}
    table = {}
    for title, found in sets.items():
        scores["auc"].append(found.start)
        scores["auc_mirror"].append(found.both)
        scores["auc_card"].append(np.where(said.get(title, ""), np.inf, found.both))
        table[title] = {
            "alarms": float((found.start > 1).mean()),
            "alarms_mirror": float((found.both > 1).mean()),
            "card": said.get(title, ""),
            "error": float(np.median(np.nan_to_num(found.error, nan=np.inf)) / median),
        }
    areas = {name: area(np.concatenate(values), bad) for name, values in scores.items()}
    if Mirror.of(run.model) is None:
        del areas["auc_mirror"]
    return {**areas, "sets": table}


class _Starts(NamedTuple):
    """How unlike the training data starts are, what mirror images say, and the errors: (n,).

    The former two are zero where a typical validation trajectory is and one at the limit.
    """

    start: np.ndarray
    mirror: np.ndarray | None
    error: np.ndarray

    @property
    def both(self) -> np.ndarray:
        """The mirror image where the start is like the training data, else the larger."""
        if self.mirror is None:
            return self.start
        return np.where(self.start > 1, np.maximum(self.start, self.mirror), self.mirror)


def _say_of(run: Run, others: dict[str, Dataset]) -> dict[str, str]:
    """What the cards of shifted sets give away: a warning of the equation, or why it is refused."""
    said = {}
    for title, other in others.items():
        try:
            check_fit(run.model, other)
            said[title] = compare_equations(run.model, other.card)
        except ValueError as refused:
            said[title] = str(refused)
    if run.name in _OTHER:
        foreign = PRETRAINED[_OTHER[run.name]].data_card
        said["another equation"] = compare_equations(run.model, foreign)
    return said


def _score_starts(run: Run, seen: Seen, part: Part, noise: float = 0.0) -> _Starts:
    """Starts of a part, with noise of so many spreads, and the errors of their rollouts."""
    given, future = part.begin(range(len(part)), run.model.history)
    if noise:
        draw = torch.Generator().manual_seed(0)
        spread = run.model.input_std.view(-1, *[1] * part.data.grid.dims)
        more = torch.randn(given.history.shape, generator=draw)
        given = replace(given, history=given.history + noise * spread * more)
    predicted = run.predict(given, future.shape[1])
    low, high = seen.bounds(0.0)
    flat = predicted.double().movedim(2, 1).flatten(2)
    beyond = torch.maximum(low - flat.amin(2), flat.amax(2) - high) / (high - low)
    beyond = beyond.amax(1).nan_to_num(nan=1e9)
    # A rollout that leaves the range of training alarms too.
    left = torch.where(beyond > 0, 1 + 10 * beyond, 0.0)
    distance = torch.maximum(seen.distance(given, run.model), left)
    distance = torch.maximum(distance, _parameters_outside(run, given))
    errors = nrmse(predicted, future).flatten(1).mean(1)
    mirror, asked = Mirror.of(run.model), None
    if mirror is not None:
        estimate = mirror.estimate(run.model, given, predicted)
        asked = (mirror.in_usual_errors(estimate).log() / math.log(mirror.limit)).numpy()
    return _Starts(distance.numpy(), asked, errors.double().numpy())


def _parameters_outside(run: Run, given: Given) -> torch.Tensor:
    """Above one where a parameter lies outside of its range, as the model warns: (b,)."""
    if given.parameters is None:
        return torch.zeros(len(given.history), dtype=torch.float64)
    beside, theta = run.model.conditioning, given.parameters.double()
    low, high = (end.double()[: theta.shape[1]] for end in (beside.theta_low, beside.theta_high))
    away = torch.maximum(low - theta, theta - high) / (high - low).clamp_min(1e-12)
    return torch.where(away > 1e-3, 1 + 10 * away, 0.0).amax(1)


def _foreign(run: Run, data: Dataset, count: int) -> Dataset:
    """Another problem's test frames with the mean and the spread of this one's fields."""
    other = PRETRAINED[_OTHER[run.name]].test_data(count)
    frames = other.read(range(count))[:, :, [0] * data.channels]
    frames = frames[:, : data.frames]
    over = (1, 1, -1, *[1] * data.grid.dims)
    centre = frames.mean((0, 1, *range(3, frames.dim()))).view(over)
    size = frames.std((0, 1, *range(3, frames.dim()))).view(over)
    mean, std = (u.view(over) for u in (run.model.input_mean, run.model.input_std))
    moved = (frames - centre) / size * std + mean
    split = Split.of("another equation", test=range(count))
    card = data.card.changed(samples=count, frames=moved.shape[1], split=split)
    return Dataset(card, ArrayFrames(moved.numpy()))


def area(score: np.ndarray, bad: np.ndarray) -> float | None:
    """The area under the curve: how often a bad one scores above a good one, ties as halves."""
    high, low = score[bad], score[~bad]
    if not len(high) or not len(low):
        return None
    above = (high[:, None] > low[None]).mean() + 0.5 * (high[:, None] == low[None]).mean()
    return float(above)


def _spots(run: Run, data: Dataset, others: dict[str, Dataset], count: int) -> list[dict[str, Any]]:
    """Spot checks of the test part and of shifted sets beside the true errors."""
    rows = []
    sets = {"test": (run.with_data(data), data.test)}
    same = {title: other for title, other in others.items() if other.grid == data.grid}
    sets |= {title: (run.with_data(other), other.test) for title, other in same.items()}
    for title, (own, part) in sets.items():
        # A solution takes about as long from every start.
        seconds = _seconds_of_a_solution(own, part, 0)
        for sample in range(min(count if title == "test" else 4, len(part))):
            given, future = part.begin([sample], run.model.history)
            predicted = own.predict(given, future.shape[1])
            if not predicted.isfinite().all():
                continue
            check = spot_check(own, sample, predicted[0], part=part)
            errors = nrmse(predicted, future)[0].mean(1)
            rows.append(
                {
                    "set": title,
                    "true": float(errors.mean()),
                    "estimate": check.estimate,
                    "true_there": float(errors[: check.lead].mean()),
                    "found": float(np.mean(check.found)),
                    "lead": check.lead,
                    "steps": check.steps,
                    "cost": check.cost,
                    "cost_seconds": check.seconds / seconds,
                }
            )
    return rows


def _seconds_of_a_solution(run: Run, part: Part, sample: int) -> float:
    truth = find_truth(run, part[sample : sample + 1], part.data.task(run.model.history), 1)
    assert truth is not None
    return truth.solve(0, truth.full, {})[1]


def _summary(found: dict[str, Any]) -> dict[str, Any]:
    spots = found["spots"]
    return {
        "held at 90 %": found["coverage"]["held"][2],
        "far": found["coverage_far"]["held"][2] if "coverage_far" in found else None,
        "auc": found["guards"]["auc"],
        "false alarms": found["guards"]["sets"]["test"]["alarms"],
        "spots within 1.5": _within(spots, "estimate", "true"),
        "there": _within(spots, "found", "true_there"),
    }


def _within(spots: list[dict[str, Any]], guess: str, true: str, factor: float = 1.5) -> float:
    close = [1 / factor <= row[guess] / row[true] <= factor for row in spots if row[guess]]
    return float(np.mean(close)) if close else math.nan


def _rounded(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: _rounded(value) for key, value in content.items()}
    if isinstance(content, list):
        return [_rounded(value) for value in content]
    return float(f"{content:.4g}") if isinstance(content, float) else content


def _write_tables(kept: dict[str, Any]) -> None:
    """Put the measured tables between the marks of the page."""
    if not PAGE.is_file():
        return
    text = PAGE.read_text(encoding="utf-8")
    for name, rows in _tables(kept).items():
        begin, end = f"<!-- {name} -->\n", f"\n<!-- end of {name} -->"
        before, after = text.split(begin)[0], text.split(end)[1]
        text = before + begin + "\n".join(rows) + end + after
    write_whole(PAGE, text.encode())


def _held(coverage: dict[str, Any] | None) -> dict[float, str]:
    """What the band of each level held, in per cent; few trajectories do not allow all levels."""
    if coverage is None:
        return {}
    pairs = zip(coverage["levels"], coverage["held"], strict=True)
    return {level: f"{100 * share:.1f}" for level, share in pairs}


def _alarms(row: dict[str, Any], digits: int) -> str:
    """The share of a set that alarms, by its starts and with mirror images, in per cent."""
    shares = (row.get(key) for key in ("alarms", "alarms_mirror"))
    return ", ".join(f"{100 * share:.{digits}f} %" for share in shares if share is not None)


def _tables(kept: dict[str, Any]) -> dict[str, list[str]]:
    bands = ["| model | 50 % | 80 % | 90 % | 95 % | 90 % at five times | width ÷ mean error |"]
    mirror = [
        "| model | test trajectories | within a factor of 1.5 | estimate ÷ error, median "
        "| rank correlation |"
    ]
    guards = [
        "| model | area: start alone | area: with the mirror image | area: with the card as well "
        "| false alarms: start, with the mirror image "
        "| sets: alarms by the start, with the mirror image (error in medians) |"
    ]
    spots = [
        "| model | steps checked | cost | of CPU time | error there within 1.5 "
        "| whole error within 1.5: test, shifted |"
    ]
    tables = {"bands": bands, "mirror": mirror, "guards": guards, "spots": spots}
    for rows in tables.values():
        rows.append("|" + " --- |" * (rows[0].count("|") - 1))
    for name, found in kept.items():
        near, far = (_held(found.get(key)) for key in ("coverage", "coverage_far"))
        held = " | ".join(near.get(level, "–") for level in LEVELS)
        width = found["coverage"]["width"][LEVELS.index(0.9)] / found["coverage"]["mean_error"]
        bands.append(f"| {name} | {held} | {far.get(0.9, '–')} | {width:.1f} |")
        sets = found["guards"]["sets"]
        said = ", ".join(
            f"{title}{_GIVEN_AWAY if row.get('card') else ''} {_alarms(row, 0)} "
            f"({row['error']:.2g})"
            for title, row in sets.items()
            if title != "test"
        )
        areas = (found["guards"].get(key) for key in ("auc", "auc_mirror", "auc_card"))
        written = " | ".join("–" if value is None else f"{value:.3f}" for value in areas)
        guards.append(f"| {name} | {written} | {_alarms(sets['test'], 1)} | {said} |")
        if asked := found.get("mirror"):
            mirror.append(
                f"| {name} | {asked['samples']} | {100 * asked['within']:.0f} % "
                f"| {asked['median']:.2f} | {asked['correlation']:.2f} |"
            )
        rows = found.get("spots")
        if not rows:
            continue
        inside = [row for row in rows if row["set"] == "test"]
        outside = [row for row in rows if row["set"] != "test"]
        lead, cost = rows[0]["lead"], np.median([row["cost"] for row in rows])
        spent = np.median([row["cost_seconds"] for row in rows])
        there = _within(rows, "found", "true_there")
        whole = [_within(part, "estimate", "true") for part in (inside, outside)]
        shares = ", ".join(f"{share:.0%}" for share in whole)
        spots.append(
            f"| {name} | {lead} of {rows[0]['steps']} | {cost:.1%} | {spent:.1%} | {there:.0%} "
            f"| {shares} |"
        )
    return tables
