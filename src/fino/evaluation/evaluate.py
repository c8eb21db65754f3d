"""Score a run on the test part of its data, next to the baselines that need no learning.

The paper's protocol: the first K frames are shown, all the others are predicted one after the
other from the model's own output, and every predicted frame counts.  A model that needs fewer
frames than K is scored on the same frames as one that needs them all.
"""

from __future__ import annotations

import hashlib
import math
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import fino
from fino.data.dataset import Dataset, Part, Task
from fino.evaluation.coverage import Coverage
from fino.evaluation.tally import Predict, Tally, tally_all
from fino.evaluation.worth import measure_worth
from fino.given import Given
from fino.machine import describe_machine, peak_memory
from fino.metrics import METRICS, area_weights
from fino.metrics.scores import Scores
from fino.model.baselines import Baseline, Solver, baselines_for
from fino.model.cost import multiply_adds, parameters
from fino.model.rollout import take_step
from fino.training.run import Run, find_run
from fino.trust.equation import check_equation

__all__ = ["COMPARED", "TOLERANCE", "Reproduction", "evaluate", "reproduce"]

#: The metric by which models and baselines are compared.
_DECISIVE = "nrmse"
#: How far a shipped score may come out otherwise on another machine, which adds in another order.
TOLERANCE = 0.01
#: The metrics that have to agree with the shipped ones; others, such as the worst point, are shown.
COMPARED = ("rmse", "nrmse")
#: Steps that are timed.
_REPEATS = 7


def evaluate(
    run: Any,
    data: Dataset | str | Path | None = None,
    *,
    part: str | None = None,
    samples: int | None = None,
    baselines: bool = True,
    worth: bool = True,
    convention: str = "fino",
    batch: int | None = None,
    out: str | Path | None = None,
    strict: bool = False,
    command: str = "",
    progress: Callable[[float], None] | None = None,
) -> Scores:
    """Score a run, a model, a folder of either, or a shipped model's name on its test data.

    data          other data than the run's own; a model alone needs some
    part          test, validation, train or all; the test part of the run's own data, and all of
                  other data, if None
    samples       only the first so many; all if None
    baselines     whether to score predictions that need no learning beside it
    worth         whether to look, beside baselines, for the classical solver of the same error,
                  which takes minutes where it needs fine cells
    convention    fino, or pdebench for PDEBench's own numbers, which need a `batch` (50 there)
    out           where to write; if None, a run's folder gets `scores.json`, or
                  `scores-NAME.json` for other data, and a bare model nothing
    strict        refuse data that were made with another equation or other coefficients than
                  those of the training, of which one line is warned otherwise
    command       what to note as the command that made the scores
    progress      called with the share that is done
    """
    if convention not in ("fino", "pdebench"):
        raise ValueError(f"Unknown convention '{convention}'. Use 'fino' or 'pdebench'.")
    run = find_run(run, data)
    run.check()
    differs = check_equation(run.model, run.data.card, strict)
    own = run.is_own_data
    scored = _choose_part(run.data, part or ("test" if own else "all"), samples)
    task = run.data.task(getattr(run.model, "history", None))
    began = time.perf_counter()
    fitted = _fit_baselines(run, task, scored) if baselines else {}
    predictors: dict[str, Predict] = {"model": run.predict}
    predictors |= {name: _predict_with(baseline) for name, baseline in fitted.items()}
    weights = area_weights(run.data.grid) if run.data.card.area_weighted else None
    batch = batch if convention == "pdebench" else None
    coverage = Coverage(run)
    tallies, truth_energy, skipped = tally_all(
        predictors, scored, task.shown, weights, batch, coverage.add, progress
    )
    fields = run.data.fields
    scores = Scores(
        model=_model_facts(run),
        data=_data_facts(run.data, scored, task),
        metrics=tallies["model"].scores(fields),
        baselines={n: t.scores(fields) for n, t in tallies.items() if n != "model"},
        over_time=_over_time(tallies, run.data, task),
        spectra=_spectra(tallies["model"], truth_energy, fields),
        verdict=_verdict(tallies, skipped),
        diverged=tallies["model"].broken,
        convention=convention if convention == "fino" else f"pdebench, batch {batch}",
        versions={
            "fino": fino.__version__,
            "torch": str(torch.__version__),
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        command=command,
        cost=_cost(run, scored.begin([0], task.shown)[0], fitted)
        | _worth(run, scored, task, baselines and worth),
        when={
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "seconds": round(time.perf_counter() - began, 3),
        },
        over_parameters=_over_parameters(tallies["model"], scored, run.model),
        trust=coverage.content() | ({"equation": differs} if differs else {}),
    )
    if out is not None:
        scores.save(out)
    elif run.results_folder is not None:
        scores.save(run.results_folder / run.scores_name)
        run.scores = scores
    return scores


def _fit_baselines(run: Run, task: Task, scored: Part) -> dict[str, Baseline]:
    """Baselines fitted on what the model has learned from, where that is at hand and on this grid.

    Else on the training part of the scored data, unless it is scored itself.
    """
    learned = run.learned_from
    if learned is None or learned.grid != run.data.grid or not len(learned.train):
        learned = run.data
    if not len(learned.train) or (learned is run.data and scored.name == "all"):
        return {}
    return baselines_for(learned, task.shown)


@dataclass(frozen=True)
class Reproduction:
    """The scores of today beside those that came with the package."""

    name: str
    today: Scores
    shipped: Scores

    @property
    def differences(self) -> dict[str, float]:
        """By how much of itself each metric differs."""
        found = {}
        for metric in (m for m in METRICS if m in self.today.metrics and m in self.shipped.metrics):
            new, old = self.today[metric].value, self.shipped[metric].value
            found[metric] = 0.0 if new == old else abs(new - old) / abs(old) if old else math.inf
        return found

    @property
    def agrees(self) -> bool | None:
        """Whether they are the same within the tolerance; None if fewer samples were scored."""
        if self.today.data["samples"] != self.shipped.data["samples"]:
            return None
        return all(self.differences[metric] <= TOLERANCE for metric in COMPARED)

    def to_dict(self) -> dict[str, Any]:
        """The same for a machine."""
        today, shipped = self.today, self.shipped
        return {
            "name": self.name,
            "samples": {"today": today.data["samples"], "shipped": shipped.data["samples"]},
            "metrics": {
                m: {"today": today[m].value, "shipped": shipped[m].value} for m in self.differences
            },
            "tolerance": TOLERANCE,
            "agrees": self.agrees,
        }


def reproduce(
    run: Run,
    data: Dataset | str | Path | None = None,
    samples: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> Reproduction:
    """Score a shipped model again on its test data, solved again.

    `data` are for models whose data cannot be solved again.
    """
    show = progress or (lambda share: None)
    known = run.scores
    if known is None:
        raise ValueError(f"There are no scores at {run.folder}. Install fino again.")
    if data is None:
        run = run.with_data(run.test_data(samples, lambda share: show(share / 2)))
    else:
        run = run.with_data(data)
        if run.data.hash != known.data["sha256"]:
            raise ValueError(
                f"These are not the data of '{run.name}': their SHA-256 differs. To score it on "
                f"others, load it with fino.pretrained and call fino.evaluate."
            )
    today = evaluate(run, samples=samples, baselines=False, progress=lambda s: show((1 + s) / 2))
    return Reproduction(run.name, today, known)


def _predict_with(baseline: Baseline) -> Predict:
    if isinstance(baseline, Solver):
        return lambda given, steps: baseline.trajectory(
            given.history, steps, given.parameters, given.forcing
        )
    return lambda given, steps: baseline.trajectory(given.history, steps)


def _choose_part(data: Dataset, part: str, samples: int | None) -> Part:
    if part not in ("train", "validation", "test", "all"):
        raise ValueError(f"part should be train, validation, test or all, got '{part}'.")
    whole: Part = data.everything if part == "all" else getattr(data, part)
    count = len(whole) if samples is None else min(samples, len(whole))
    if count < 1:
        raise ValueError(
            f"The {part} part of {data.card.name} has no samples to score. Open a single long "
            "trajectory with window=16 (--window 16), which cuts it in time."
        )
    return Part(data, whole.name, whole.samples[:count])


def _over_time(tallies: dict[str, Tally], data: Dataset, task: Task) -> dict[str, Any]:
    """Errors step by step; for the model also what nine samples in ten stay within."""
    times = data.card.start + data.dt * np.arange(task.shown, task.shown + task.steps)
    content: dict[str, Any] = {"time": [float(t) for t in times]}
    for name in ("rmse", "nrmse"):
        content[name] = {who: tally.over_time(name) for who, tally in tallies.items()}
    spread = tallies["model"].values(_DECISIVE).mean(dim=2)
    ends = torch.quantile(spread, torch.tensor([0.05, 0.95], dtype=spread.dtype), dim=0)
    content["nrmse_of_most"] = {"low": ends[0].tolist(), "high": ends[1].tolist()}
    return content


def _over_parameters(tally: Tally, part: Part, model: Any) -> dict[str, Any]:
    """The error of every sample beside its parameters, and the range that was trained on."""
    error = tally.values(_DECISIVE).flatten(1).mean(dim=1).tolist()
    conditioning: Any = getattr(model, "conditioning", None)
    names = conditioning.settings.parameters if conditioning is not None else ()
    content = {}
    for name, values in part.data.parameters.items():
        learned = values[list(part.data.train.samples)]
        trained = [float(learned.min()), float(learned.max())] if len(learned) else None
        if name in names:  # the model remembers it, whatever data it is scored on
            place = names.index(name)
            ends = (conditioning.theta_low, conditioning.theta_high)
            trained = [float(end[place]) for end in ends]
        content[name] = {
            "values": values[list(part.samples)].tolist(),
            _DECISIVE: error,
            "trained": trained,
        }
    return content


def _spectra(tally: Tally, truth: Tensor, fields: tuple[str, ...]) -> dict[str, Any]:
    """The energy at each wavenumber in the last frame, mean over samples, for each field."""
    errors = torch.cat([tally.values(m.name) for m in tally.metrics if m.band is not None], -1)
    energy = {
        "truth": truth.mean(0),
        "model": torch.cat(tally.energy).mean(0),
        "error": errors[:, -1].square().mean(0),
    }
    by_field = {
        field: {name: values[channel].tolist() for name, values in energy.items()}
        for channel, field in enumerate(fields)
    }
    return {"wavenumber": list(range(truth.shape[-1])), "fields": by_field}


def _verdict(tallies: dict[str, Tally], skipped: dict[str, str]) -> dict[str, Any]:
    """Which baselines the model beats, by how much, and in how many draws of samples it does."""
    metric = METRICS[_DECISIVE]
    ours = tallies["model"].values(_DECISIVE)
    own = float(metric.join(ours).mean())
    drawn = metric.resample(ours)
    baselines: dict[str, Any] = {}
    for baseline in (name for name in tallies if name != "model"):
        values = tallies[baseline].values(_DECISIVE)
        theirs = float(metric.join(values).mean())
        baselines[baseline] = {
            "value": theirs,
            "beaten": own < theirs,
            "ratio": theirs / own if own > 0 else None,
            "certainty": float((drawn < metric.resample(values)).double().mean()),
        }
    return {"metric": _DECISIVE, "value": own, "baselines": baselines, "skipped": skipped}


def _model_facts(run: Run) -> dict[str, Any]:
    model = run.model
    facts: dict[str, Any] = {"name": run.model_name, "history": getattr(model, "history", None)}
    if isinstance(model, torch.nn.Module):
        from safetensors.torch import save as bytes_from_tensors

        state = {key: w.detach().cpu().contiguous() for key, w in model.state_dict().items()}
        facts["sha256"] = hashlib.sha256(bytes_from_tensors(state)).hexdigest()
    if hasattr(model, "settings"):
        facts["emulator"] = model.settings.model_dump(mode="json")
        facts["network"] = model.network.settings.model_dump(mode="json")
    if hasattr(model, "locality"):
        facts["reach"] = [float(r) for r in model.locality.radius]
    if run.recorded_settings:
        facts["training"] = run.recorded_settings
    split = run.data_card.split if run.results_folder is not None else None
    if split is not None and (trained := len(split.samples("train"))):
        facts["learned_from"] = {"trajectories": trained}
    return facts


def _data_facts(data: Dataset, part: Part, task: Task) -> dict[str, Any]:
    return {
        "name": data.card.name,
        "title": data.card.title,
        "sha256": data.hash,
        "path": str(data.path) if data.path else None,
        "part": part.name,
        "samples": len(part),
        "shown": task.shown,
        "steps": task.steps,
        "points": list(data.grid.points),
        "fields": list(data.fields),
        "dt": data.dt,
        "steady": data.steady,
    }


def _cost(run: Run, given: Given, baselines: dict[str, Any]) -> dict[str, Any]:
    """What a step costs for one sample, and what training cost.

    Counts are exact.  Times are medians on this machine, which may be busy: compare them inside
    one run (`python -m lab bench speed`), not between runs.
    """
    model = run.model
    cost: dict[str, Any] = {"seconds_per_step": _seconds_per_step(model, given)}
    network = getattr(model, "network", None)
    if isinstance(network, torch.nn.Module):
        cost["parameters"] = parameters(network)
        inputs = model.settings.inputs(model.grid)
        cost["multiply_adds"] = multiply_adds(network, (1, inputs, *given.space))
    cost["peak_memory_bytes"] = peak_memory()
    if run.results_folder is not None:
        cost["training_cpu_seconds"] = run.metrics[-1]["cpu_seconds"] if run.metrics else None
    timed = {name: getattr(baseline, "seconds", None) for name, baseline in baselines.items()}
    cost["baselines"] = {n: {"seconds_per_step": s} for n, s in timed.items() if s is not None}
    return {**cost, "machine": describe_machine()}


def _worth(run: Run, part: Part, task: Task, wanted: bool) -> dict[str, Any]:
    """What the classical solver of the same error costs, where there is one."""
    found = measure_worth(run, part, task) if wanted else None
    return {} if found is None else {"worth": found.to_dict()}


def _seconds_per_step(stepper: Any, given: Given) -> float:
    """The median wall time of one step; the first, which warms up, is not counted."""
    history = given.history
    has_weights = isinstance(stepper, torch.nn.Module)
    weight = next(stepper.parameters(), history) if has_weights else history
    given = given.last(getattr(stepper, "history", history.shape[1])).to(weight.device)
    times = []
    with torch.no_grad():
        for _ in range(_REPEATS + 1):
            began = time.perf_counter()
            take_step(stepper, given)
            times.append(time.perf_counter() - began)
    return statistics.median(times[1:])
