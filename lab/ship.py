"""`python -m lab ship`: put a trained run in the package, for everybody to use by name.

    ship_run("runs/laptop-shallow-water/fino", "shallow-water")
    → src/fino/model/weights/shallow-water/

Everything on the card is read from the run folder, so the same run gives the same bytes.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fino.cli.console import say, say_json
from fino.data.card import Card
from fino.durable import write_folder
from fino.metrics.scores import Score, Scores
from fino.model import pretrained
from fino.model.emulator import Emulator
from fino.model.pretrained import CARD, FORMAT
from fino.model.store import CONFIG, TRUST, WEIGHTS, load, model_hash
from fino.report.words import describe_verdict
from fino.training.run import PRETRAINED, Run
from fino.training.run_data import read_json

__all__ = ["LARGEST", "plain_score", "ship", "ship_run"]

#: Bytes that a folder may have.
LARGEST = 2_000_000


def ship(
    run: Path,
    name: str,
    *,
    limits: tuple[str, ...] = (),
    began_from: tuple[Path, ...] = (),
    overwrite: bool = False,
    json: bool = False,
) -> None:
    """Ship a run: `python -m lab ship runs/laptop-shallow-water/fino shallow-water`.

    Writes weights, card and scores into the package's own folder.

    Parameters
    ----------
    run
        A run folder with scores of its whole test part.
    name
        What it will be called, such as shallow-water.
    limits
        A sentence about where the model fails; may be repeated.
    began_from
        The run whose weights this one began from, and those before it: what their trainings and
        data cost is added.
    overwrite
        Replace the model of that name.
    json
        Print the card as JSON.
    """
    folder = ship_run(run, name, limits, began_from=began_from, overwrite=overwrite)
    card = PRETRAINED[name].card
    if json:
        say_json(card)
        return
    size = sum(path.stat().st_size for path in folder.iterdir())
    say(f"{name}: {PRETRAINED[name].title}")
    say(f"{folder}: {size / 1e3:.0f} kB. Try: fino evaluate --pretrained {name}")


def ship_run(
    run: str | Path,
    name: str,
    limits: Sequence[str] = (),
    *,
    began_from: Sequence[Path] = (),
    overwrite: bool = False,
) -> Path:
    """Copy a scored run's best model into the package, with its card; returns the new folder.

    `limits` are sentences: where the model is known to fail.
    """
    run = Path(run)
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        raise ValueError(f"a name should be small letters, digits and dashes, got '{name}'.")
    for words in limits:
        if not words.endswith("."):
            raise ValueError(f"a limit should be a sentence with a full stop, got '{words}'.")
    folder = pretrained.WEIGHTS / name
    if folder.exists() and not overwrite:
        raise ValueError(f"There is a pretrained model '{name}' already. Pass --overwrite.")
    if not (run / "model").is_dir():
        raise ValueError(f"{run} is not a run folder: it has no model.")
    scores = Scores.load(run)
    _check(run, scores)
    card = _card(run, scores, limits)
    card["cost"] |= _cost_before(began_from, run, card["cost"]) if began_from else {}
    found = [file for file in (WEIGHTS, CONFIG, TRUST) if (run / "model" / file).exists()]
    files = {file: (run / "model" / file).read_bytes() for file in found}
    files[CARD] = (json.dumps(card, indent=1, ensure_ascii=False) + "\n").encode()
    files["scores.json"] = scores.without_place().to_json().encode()
    size = sum(map(len, files.values()))
    if size > LARGEST:
        raise ValueError(
            f"{run} would take {size / 1e6:.1f} MB, and a model in the package at most "
            f"{LARGEST / 1e6:g} MB. Train a smaller one."
        )
    return write_folder(folder, files, overwrite=overwrite)


def _card(run: Path, scores: Scores, limits: Sequence[str] = ()) -> dict[str, Any]:
    """What a user should know about a run before using its model."""
    facts = read_json(run / "data.json")
    model, data = load(run / "model"), Card(**facts["card"])
    spent = scores.cost.get("training_cpu_seconds")
    return {
        "format": FORMAT,
        "title": data.title,
        "date": str(scores.when.get("date", ""))[:10],
        "data": {"card": data.model_dump(mode="json"), "sha256": facts["hash"]},
        "recipe": {
            "model": scores.model["name"],
            "network": scores.model["network"],
            "emulator": scores.model["emulator"],
            "training": read_json(run / "settings.json"),
        },
        "scores": {
            "samples": scores.data["samples"],
            "shown": scores.data["shown"],
            "steps": scores.data["steps"],
            **{metric: plain_score(score) for metric, score in scores.metrics.items()},
            "baselines": {
                baseline: {m: plain_score(values[m]) for m in ("rmse", "nrmse") if m in values}
                for baseline, values in scores.baselines.items()
            },
            "sentence": describe_verdict(scores),
        },
        "cost": {
            "cpu_minutes": None if spent is None else float(f"{spent / 60:.3g}"),
            "parameters": scores.cost.get("parameters"),
            "multiply_adds": scores.cost.get("multiply_adds"),
        },
        "reach": _reach(model),
        "versions": scores.versions,
        "limits": [*limits, *_limits(model, scores), *data.flaws],
    }


def _cost_before(before: Sequence[Path], run: Path, cost: dict[str, Any]) -> dict[str, Any]:
    """CPU-minutes with those of earlier trainings, and the seconds that their own data took."""
    minutes = (cost["cpu_minutes"] or 0.0) + sum(
        Run(one).metrics[-1]["cpu_seconds"] / 60 for one in before
    )
    found = {"cpu_minutes": float(f"{minutes:.3g}")}
    facts = {data["hash"]: data for data in (read_json(one / "data.json") for one in before)}
    facts.pop(read_json(run / "data.json")["hash"], None)
    costs = [Card(**data["card"]).cost for data in facts.values()]
    seconds = sum(one.seconds for one in costs if one is not None)
    return {**found, "earlier_data_seconds": seconds} if seconds else found


def _check(run: Path, scores: Scores) -> None:
    """Refuse scores that are not those of this model on its own test part."""
    if scores.model.get("sha256") != model_hash(run / "model"):
        raise ValueError(
            f"{run / 'scores.json'} was measured with other weights. Run `fino evaluate {run}`."
        )
    facts = read_json(run / "data.json")
    split = Card(**facts["card"]).split
    whole = split is not None and scores.data["samples"] == len(split.samples("test"))
    own = scores.data["part"] == "test" and scores.data["sha256"] == facts["hash"]
    if not (whole and own and scores.convention == "fino"):
        raise ValueError(
            f"{run / 'scores.json'} should be of the run's own whole test part, in fino's "
            f"convention. Run `fino evaluate {run}`."
        )
    if scores.diverged or not math.isfinite(scores["nrmse"].value):
        raise ValueError(f"{run} diverges on its test part: it cannot be shipped.")


def _limits(model: Emulator, scores: Scores) -> list[str]:
    """What follows from how it was trained, and the baselines that it does not beat."""
    spacing = ", ".join(f"{s:.4g}" for s in dict.fromkeys(model.grid.spacing))
    step = "" if model.settings.steady else f" and a time step of {model.settings.dt:.4g}"
    known = [f"It knows data of the kind on its card, on cells of {spacing}{step}, and no others."]
    baselines = scores.verdict["baselines"].values()
    return known if all(f["beaten"] for f in baselines) else [*known, describe_verdict(scores)]


def _reach(model: Emulator) -> dict[str, Any]:
    """Cells and length that a step sees in each direction; null is the whole field."""
    radius = [float(r) for r in model.locality.radius]
    return {
        "cells": [int(r) if math.isfinite(r) else None for r in radius],
        "length": [
            round(r * s, 6) if math.isfinite(r) else None
            for r, s in zip(radius, model.grid.spacing, strict=True)
        ],
    }


def plain_score(score: Score) -> dict[str, float | None]:
    value = score.value if math.isfinite(score.value) else None
    return {"value": value, "low": score.low, "high": score.high}
