"""Score a model on the test part of its data, next to the baselines that need no learning.

The paper's protocol: the first K frames are shown, all the others are predicted one after the
other from the model's own output, and every predicted frame counts.  A model that needs fewer
frames than K is scored on the same frames as one that needs them all.
"""

from __future__ import annotations

import hashlib
import math
import platform
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import fino
from fino.data.dataset import Dataset, Part
from fino.evaluation.cost import cost_of, machine, training_cpu_seconds
from fino.evaluation.runs import Subject, subject_of
from fino.evaluation.tally import Predict, Tally, tallied
from fino.metrics import METRICS, area_weights
from fino.metrics.bootstrap import resampled
from fino.metrics.scores import Scores
from fino.model.baselines import baselines_for

__all__ = ["evaluate", "protocol"]

#: The metric that the verdict is about.
_JUDGE = "nrmse"


def evaluate(
    run_or_model: Any,
    data: Dataset | str | Path | None = None,
    *,
    part: str = "test",
    samples: int | None = None,
    baselines: bool = True,
    convention: str = "fino",
    batch: int | None = None,
    out: str | Path | None = None,
    command: str = "",
    progress: Callable[[float], None] | None = None,
) -> Scores:
    """Score a run folder, a model or any stepper on the test part of the data.

    A run knows its own data.  Its scores are written to `scores.json` in its folder; those of a
    model alone are written where `out` says.  `samples` takes the first so many; PDEBench's
    `convention` needs a `batch`.
    """
    if convention not in ("fino", "pdebench"):
        raise ValueError(f"Unknown convention '{convention}'. Use 'fino' or 'pdebench'.")
    subject = subject_of(run_or_model, data)
    tested = _chosen(subject.data, part, samples)
    shown, steps = protocol(subject.model, tested)
    began = time.perf_counter()
    # Baselines are fitted on the training part, which test data solved again do not have.
    fitted = baselines_for(subject.data, shown) if baselines and len(subject.data.train) else {}
    predictors: dict[str, Predict] = {"model": subject.predict}
    predictors |= {name: baseline.trajectory for name, baseline in fitted.items()}
    tallies, truth_energy, skipped = tallied(
        predictors,
        tested,
        (shown, steps),
        area_weights(subject.data.grid) if subject.data.card.area_weighted else None,
        batch if convention == "pdebench" else None,
        progress,
    )
    scores = Scores(
        model=_model_facts(subject),
        data=_data_facts(subject.data, tested, shown, steps),
        metrics=tallies["model"].scores(subject.data.fields),
        baselines={n: t.scores(subject.data.fields) for n, t in tallies.items() if n != "model"},
        over_time=_over_time(tallies, subject.data, shown, steps),
        spectra=_spectra(tallies["model"], truth_energy, subject.data),
        verdict=_verdict(tallies, subject.name, skipped),
        diverged=tallies["model"].broken,
        convention=convention if convention == "fino" else f"pdebench, batch {batch}",
        versions=_versions(),
        command=command,
        cost=_cost(subject, tested, shown, fitted),
        when={
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "seconds": round(time.perf_counter() - began, 3),
        },
    )
    place = Path(out) if out else (subject.folder / "scores.json" if subject.folder else None)
    if place is not None:
        scores.save(place)
    return scores


def protocol(model: Any, part: Part) -> tuple[int, int]:
    """How many frames are shown and how many are predicted."""
    shown = max(part.history, int(getattr(model, "history", part.history)))
    if shown >= part.frames:
        raise ValueError(
            f"The model needs {shown} frames and the data have {part.frames}: nothing is left to "
            f"predict. Use data with more frames."
        )
    return shown, part.frames - shown


def _chosen(data: Dataset, part: str, samples: int | None) -> Part:
    if part not in ("train", "validation", "test"):
        raise ValueError(f"part should be train, validation or test, got '{part}'.")
    whole: Part = getattr(data, part)
    count = len(whole) if samples is None else min(samples, len(whole))
    if count < 1:
        raise ValueError(f"The {part} part of {data.card.name} has no samples to score.")
    return Part(data, whole.name, whole.samples[:count], whole.history)


def _over_time(tallies: dict[str, Tally], data: Dataset, shown: int, steps: int) -> dict[str, Any]:
    """Errors step by step; for the model also what nine samples in ten stay within."""
    times = data.card.start + data.dt * np.arange(shown, shown + steps)
    content: dict[str, Any] = {"time": [float(t) for t in times]}
    for name in ("rmse", "nrmse"):
        content[name] = {who: tally.over_time(name) for who, tally in tallies.items()}
    spread = tallies["model"].values(_JUDGE).mean(dim=2)
    ends = torch.quantile(spread, torch.tensor([0.05, 0.95], dtype=spread.dtype), dim=0)
    content["nrmse_of_most"] = {"low": ends[0].tolist(), "high": ends[1].tolist()}
    return content


def _spectra(tally: Tally, truth: Tensor, data: Dataset) -> dict[str, Any]:
    """The energy at each wavenumber in the last frame, mean over samples, for each field."""
    content: dict[str, Any] = {"wavenumber": list(range(truth.shape[-1])), "fields": {}}
    predicted = torch.cat(tally.energy).mean(0)
    error = torch.cat([tally.values(n) for n in METRICS if n in tally.chunks and "frmse" in n], -1)
    for channel, field in enumerate(data.fields):
        content["fields"][field] = {
            "truth": truth.mean(0)[channel].tolist(),
            "model": predicted[channel].tolist(),
            "error": error[:, -1, channel].square().mean(0).tolist(),
        }
    return content


def _verdict(tallies: dict[str, Tally], name: str, skipped: dict[str, str]) -> dict[str, Any]:
    """Which baselines the model beats, and in how many of the draws of samples it does."""
    metric = METRICS[_JUDGE]
    ours = tallies["model"].values(_JUDGE)
    own = float(metric.join(ours).mean())
    drawn = resampled(metric, ours)
    baselines: dict[str, Any] = {}
    for baseline, tally in tallies.items():
        if baseline != "model":
            theirs = float(metric.join(tally.values(_JUDGE)).mean())
            better = (drawn < resampled(metric, tally.values(_JUDGE))).double().mean()
            baselines[baseline] = {
                "value": theirs,
                "beaten": own < theirs,
                "certainty": float(better),
            }
    return {
        "metric": _JUDGE,
        "baselines": baselines,
        "skipped": skipped,
        "sentence": _sentence(name, own, baselines),
    }


def _sentence(name: str, own: float, baselines: dict[str, Any]) -> str:
    if not math.isfinite(own):
        return f"{name} diverges: it is of no use on these data."
    if not baselines:
        return f"{name} has nRMSE {own:.3g}; no baseline was measured beside it."
    lost = [
        f"{baseline} ({f['value']:.3g})" for baseline, f in baselines.items() if not f["beaten"]
    ]
    if lost:
        return f"{name} (nRMSE {own:.3g}) does not beat {' or '.join(lost)}."
    best = min(baselines, key=lambda baseline: baselines[baseline]["value"])
    ratio = baselines[best]["value"] / own if own > 0 else math.inf
    return (
        f"{name} beats every baseline: nRMSE {own:.3g}, {ratio:.3g} times below the best of them, "
        f"{best} ({baselines[best]['value']:.3g})."
    )


def _model_facts(subject: Subject) -> dict[str, Any]:
    model = subject.model
    facts: dict[str, Any] = {"name": subject.name, "history": getattr(model, "history", None)}
    if isinstance(model, torch.nn.Module):
        from safetensors.torch import save as bytes_from_tensors

        state = {
            key: value.detach().cpu().contiguous() for key, value in model.state_dict().items()
        }
        facts["sha256"] = hashlib.sha256(bytes_from_tensors(state)).hexdigest()
    if hasattr(model, "settings"):
        facts["emulator"] = model.settings.model_dump(mode="json")
        facts["network"] = model.network.settings.model_dump(mode="json")
    if hasattr(model, "locality"):
        facts["reach"] = [float(r) for r in model.locality.radius]
    if subject.training:
        facts["training"] = subject.training
    if subject.learned_from is not None:
        facts["learned_from"] = {"trajectories": subject.learned_from}
    return facts


def _data_facts(data: Dataset, part: Part, shown: int, steps: int) -> dict[str, Any]:
    return {
        "name": data.card.name,
        "title": data.card.title,
        "sha256": data.hash,
        "path": str(data.path) if data.path else None,
        "part": part.name,
        "samples": len(part),
        "shown": shown,
        "steps": steps,
        "points": list(data.grid.points),
        "fields": list(data.fields),
        "dt": data.dt,
        "steady": data.steady,
    }


def _cost(subject: Subject, part: Part, shown: int, baselines: dict[str, Any]) -> dict[str, Any]:
    cost = cost_of(subject.model, part.read([0], 0, shown))
    if subject.folder is not None:
        cost["training_cpu_seconds"] = training_cpu_seconds(subject.folder)
    seconds = {name: getattr(baseline, "seconds", None) for name, baseline in baselines.items()}
    cost["baselines"] = {
        name: {"seconds_per_step": value} for name, value in seconds.items() if value is not None
    }
    return {**cost, "machine": machine()}


def _versions() -> dict[str, str]:
    return {
        "fino": fino.__version__,
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
