"""A run in words: what training will do, the question, the verdict, reach, the commands."""

from __future__ import annotations

import json
import math
import shlex
from pathlib import Path
from typing import Any

from fino.data.card import Card
from fino.data.dataset import Dataset
from fino.data.lightcone import LightCone, light_cone
from fino.evaluation.coverage import CLOSE
from fino.evaluation.evaluate import COMPARED, TOLERANCE, Reproduction
from fino.inspection.reach import Reach, reach
from fino.metrics.scores import Scores
from fino.model import MODELS
from fino.model.build import longest_stride
from fino.model.emulator import Emulator
from fino.pde import PROBLEMS
from fino.training.run import Run
from fino.training.settings import TrainingSettings

__all__ = [
    "baseline_table",
    "cells",
    "counted",
    "describe_few",
    "describe_few_tested",
    "describe_given",
    "describe_plan",
    "describe_question",
    "describe_reach",
    "describe_reproduction",
    "describe_sample",
    "describe_task",
    "describe_trust",
    "describe_verdict",
    "describe_worth",
    "duration",
    "headline_tiles",
    "learned_steps",
    "reach_bars",
    "reproduce_commands",
    "reproduction_table",
]

#: A baseline that is beaten in fewer draws of test samples is not surely beaten.
_SURE = 0.9
#: Fewer samples are said to be few.
_FEW = 20
#: Columns and rows.
Cells = tuple[list[str], list[list[str]]]

#: Costs that differ by a smaller factor are called alike.
_ABOUT_EVEN = 1.2

#: Settings of a network that come from the data, and those of the model around it.
_FROM_DATA = ("dims", "inputs", "outputs", "boundary")
_FROM_MODEL = ("history", "predict", "coordinates", "edges")


def describe_plan(
    settings: TrainingSettings,
    model: Emulator,
    data: Dataset,
    asked: TrainingSettings | None = None,
) -> list[str]:
    """One line for each choice of a training run, with its reason; `asked` is what was set."""
    prior, network = model.prior, model.network.settings
    names = ("width", "levels", "blocks", "modes", "layers")
    shape = ", ".join(f"{n} {getattr(network, n)}" for n in names if hasattr(network, n))
    unit = "frame" if model.history == 1 else "frames"
    no_validation = "" if len(data.validation) else " (so the training part itself is used)"
    moves = data.card.symmetries if settings.augment else ()
    limits = {"minutes": settings.minutes, "CPU-seconds": settings.cpu_seconds}
    limits |= {"steps": settings.steps, "epochs": settings.epochs}
    budget = " or ".join(f"{limit:g} {unit}" for unit, limit in limits.items() if limit)
    return [
        f"model {model.settings.model}: {model.parameters_count:,} weights, {shape}",
        _reach(model, prior.kind, data),
        *_long_steps(model, data),
        f"it is shown {model.history} {unit} and predicts {prior.line}{_strides(model)}",
        f"data: {len(data.train)} trajectories to learn from, {len(data.validation)} to validate on"
        f"{no_validation}",
        f"batch {settings.batch}, horizon up to {settings.horizon or 'the end'}, "
        f"{settings.optimizer} at {settings.learning_rate:g} ({settings.schedule}), "
        f"symmetries used: {', '.join(moves) or 'none'}",
        *_threads(settings, asked),
        f"budget: {budget}; validated {settings.validations} times by "
        f"{settings.validation_samples} rollouts",
    ]


def describe_few(samples: int) -> str:
    """What fewer than twenty samples mean for the numbers; nothing if there are more."""
    if samples >= _FEW or samples < 2:
        return ""
    return (
        f"{samples} samples are few (fewer than {_FEW}): one or two of them are the test part, so "
        "the scores say little of others, and the best weights may be best by luck."
    )


def describe_few_tested(scores: Scores) -> str:
    """The same for scores."""
    tested = scores.data["samples"]
    if tested >= _FEW:
        return ""
    if tested == 1:
        return "One test sample is few: there is no interval, and another may score otherwise."
    return f"{tested} test samples are few: others may score outside of the interval."


def _threads(settings: TrainingSettings, asked: TrainingSettings | None) -> list[str]:
    """How many threads, and why."""
    if settings.threads is None:
        return []
    why = ""
    if asked is not None and asked.threads is None:
        why = ", the fastest in a short trial of the step"
        if settings.cpu_seconds is not None:
            why = ": more would spend the processor time faster than they save any"
    return [f"threads: {settings.threads}{why}"]


def _strides(model: Emulator) -> str:
    """The lengths of a step, where there are several."""
    *others, last = (str(stride) for stride in model.strides)
    return f", in steps of {', '.join(others)} or {last} frames" if others else ""


def describe_trust(scores: Scores, has_data: bool = True) -> list[str]:
    """What the bands held and the guards said on the test part, a sentence each."""
    lines, found = [], scores.trust
    if "coverage" in found:
        pairs = zip(found["coverage"]["levels"], found["coverage"]["held"], strict=True)
        (band, share), *others = [
            (f"the {100 * a:.0f} % band", f"{100 * b:.1f} %") for a, b in pairs
        ]
        held = [f"{band} holds {share} of the true values", *(f"{a} {b}" for a, b in others)]
        lines.append(f"On the test part, {', '.join(held)}.")
    if "guards" in found:
        guards = found["guards"]
        words = f"The guards warned of {guards['alarms']} of {guards['samples']} test rollouts"
        lines.append(f"{words}. {guards['worst']}".strip() if guards["worst"] else f"{words}.")
    if "mirror" in found:
        mirror = found["mirror"]
        words = f"Asked for mirror images, it estimates {mirror['within']:.0%} of its errors within"
        lines.append(f"{words} a factor of {CLOSE:g} (`fino rollout … --check mirror`).")
    if not lines and has_data:
        lines.append("No bands and guards: this model was not calibrated (`fino calibrate`).")
    return lines


def describe_light_cone(cone: LightCone, data: Dataset) -> str:
    """How far the data move in a step, and how that is known."""
    if cone.source == "steady":
        return (
            f"{data.card.name} is steady: every cell of the answer depends on the whole input, "
            "so no finite reach is enough."
        )
    how = {"card": "by the card's wave speed", "estimated": "estimated from the data"}[cone.source]
    return f"the data move {cells(cone.cells)} cells a step ({cone.length:.3g} in length), {how}."


def cells(numbers: tuple[float, ...]) -> str:
    """25.6, or 25.6 × 12 where the axes differ."""
    different = numbers if len(set(numbers)) > 1 else numbers[:1]
    return " × ".join("all" if math.isinf(n) else f"{n:.3g}" for n in different)


def describe_reach(found: Reach, prior: str = "frame", data: str = "the problem") -> str:
    """Whether a model sees far enough, and what would help if not; `prior` is its kind."""
    is_local = all(math.isfinite(r) for r in found.radius)
    sees = f"this model sees {cells(found.radius) if is_local else 'the whole field'}"
    if found.needed is None:
        return f"{sees} cells a step ({cells(found.length)} in length)." if is_local else f"{sees}."
    sees_all = all(r >= n - 1 for r, n in zip(found.radius, found.points, strict=True))
    if found.source == "steady":
        lead = f"{data} is steady: its answer depends on the whole input everywhere, so "
        if is_local and sees_all:
            return f"{lead}no reach is enough but that of the whole domain, which this model sees."
        if is_local:
            return f"{lead}no reach is enough; {sees} cells of {cells(found.points)}."
        return f"{lead}only a model that sees the whole field can be exact; this one does."
    moved = f"the data move {cells(found.needed)} cells a step"
    if found.source == "estimated":
        moved += " (estimated from the data)"
    if found.enough or sees_all:
        return f"{moved}, {sees}: {'far enough' if found.enough else 'the whole domain'}."
    short = max(c / r for r, c in zip(found.radius, found.needed, strict=True))
    stride = found.stride_time
    finer = f"a smaller time stride (at most {max(1, math.floor(stride / short))}, now {stride})"
    if stride == 1:
        finer = f"data saved {math.ceil(short)} times as often"
    levels = f"levels = {found.levels} or " if found.levels else ""
    if prior == "linear":
        return (
            f"{moved}, {sees}. It can follow them all the same: what it adds to, past frames "
            "combined, brings the motion along, and the network only corrects it. That holds for "
            f"motion that repeats as in its data; to follow any other, use {levels}{finer}."
        )
    return f"{moved}, {sees}: use {levels}{finer}."


def _reach(model: Emulator, prior: str, data: Dataset) -> str:
    cone, radius = light_cone(data), model.locality.radius
    sees = f"{cells(radius)} cells" if model.locality.is_local else "the whole field"
    verdict = "less than the data move; more levels would see farther"
    if all(r >= c for r, c in zip(radius, cone.cells, strict=True)):
        verdict = "enough"
    elif prior == "linear":
        verdict = "less, but the history itself carries the motion"
    return f"reach: it sees {sees} a step; {describe_light_cone(cone, data).rstrip('.')}: {verdict}"


def _long_steps(model: Emulator, data: Dataset) -> list[str]:
    """What longer steps would save, where they are within reach."""
    if model.strides != (1,) or model.settings.model not in MODELS:
        return []
    stride = longest_stride(data, model.settings.model)
    if stride < 2:
        return []
    moved = f"the data move {cells((max(light_cone(data).cells),))} cells a step"
    return [
        f"long steps: {moved}; steps {stride} times as long are within reach and make a rollout "
        f"{stride} times cheaper (--stride-time {stride}, or auto)"
    ]


def describe_question(data: Dataset, scores: Scores) -> str:
    """The question that the model had to answer, in one paragraph."""
    facts = scores.data
    points = " × ".join(str(n) for n in facts["points"])
    fields = ", ".join(facts["fields"])
    if data.steady:
        inputs = ", ".join((*data.card.inputs, *data.card.known)) or "the input"
        return (
            f"Given {inputs} on a grid of {points} cells, find {fields}. Scored on "
            f"{facts['samples']} {facts['part']} samples that were not used for training."
        )
    unit = data.card.time_unit
    apart = f"{facts['dt']:g} {unit} apart" if unit else f"{facts['dt']:g} apart in time"
    return (
        f"Given the first {facts['shown']} frames of {fields} on a grid of {points} cells, predict "
        f"the next {facts['steps']}, one after the other, each from the model's own predictions. "
        f"Scored on {facts['samples']} {facts['part']} trajectories that were not used for "
        f"training. Frames are {apart}."
    )


def describe_given(data: Dataset) -> str:
    """What models are given beside the frames: parameters with their range, and other names."""
    values, card = data.conditions.parameters, data.card
    ranges = [] if values is None else zip(values.min(axis=0), values.max(axis=0), strict=True)
    told = [
        f"{name} from {low:.4g} to {high:.4g}"
        for name, (low, high) in zip(card.varying, ranges, strict=True)
    ]
    return ", ".join([*told, *card.known, *card.forcing, *card.signals])


def describe_sample(sample: int, parameters: dict[str, float], is_masked: bool) -> str:
    """Which test sample is drawn, with which parameters; blank cells are explained."""
    named = "".join(f", {name} = {value:.4g}" for name, value in parameters.items())
    blank = " Blank cells lie outside of the domain (masked)." if is_masked else ""
    return f"Test sample {sample}{named}.{blank}"


def describe_task(data: dict[str, Any]) -> str:
    """What was scored, in a line, from the `data` block of scores."""
    count = (
        f"all {data['samples']}" if data["part"] == "all" else f"{data['samples']} {data['part']}"
    )
    words = f"{data['title'] or data['name']}: {count} samples"
    if data["steady"]:
        return f"{words}, steady"
    return f"{words}, {data['shown']} frames shown, {data['steps']} predicted"


def describe_verdict(scores: Scores) -> str:
    """Whether the model beats the baselines, in a sentence."""
    name, own, baselines = scores.model["name"], scores.verdict["value"], _by_value(scores)
    if not math.isfinite(own):
        return f"{name} diverges: it is of no use on these data."
    if not baselines:
        return f"{name} has nRMSE {own:.3g}; no baseline was measured beside it."
    beaten = scores.verdict["baselines"]
    lost = [b for b in beaten if not beaten[b]["beaten"]]
    if lost:
        better = " or ".join(f"{b} ({baselines[b]:.3g})" for b in lost)
        return f"{name} (nRMSE {own:.3g}) does not beat {better}."
    best, least = next(iter(baselines.items()))
    ratio = least / own if own > 0 else math.inf
    unsure = {b: v["certainty"] for b, v in beaten.items() if v.get("certainty", 1.0) < _SURE}
    narrow = ", ".join(f"{b} in {100 * share:.0f} %" for b, share in unsure.items())
    return (
        f"{name} beats every baseline: nRMSE {own:.3g}, {_times(ratio)} times below the best of "
        f"them, {best} ({least:.3g})."
        + (f" Not surely: it beats {narrow} of the draws of test samples." if unsure else "")
    )


def describe_worth(scores: Scores) -> str:
    """Whether the model is cheaper than the classical solver at equal error; "" if not measured."""
    found = scores.cost.get("worth")
    if not found:
        return ""
    name, solver, ms = scores.model["name"], found["solver"], lambda s: f"{1e3 * s:.3g} ms"
    one, many = found["seconds"], found["seconds_batched"]
    costs = f"{ms(one)} a trajectory, {ms(many)} in batches of {found['batch']}"
    if found["matched"] is None:
        if solver is None:
            return ""
        best = f"{_cells_of(solver)}: nRMSE {solver['nrmse']:.2g} in {ms(solver['seconds'])}"
        return f"No classical solver that was tried is as good as {name} ({costs}); best is {best}."
    gain = found["matched_batched"] / many
    theirs = f"{ms(found['matched'])} a trajectory, {ms(found['matched_batched'])} in batches"
    against = f"{theirs}, on about {_cells_of(solver)} cells; {name} {costs}, on one thread each"
    data = found["truth_error"]
    if data is not None and data > found["nrmse"]:
        against += f". Compared at an error of {data:.2g}, because the data are off by as much"
    if gain > _ABOUT_EVEN:
        pays = found["break_even"]
        after = f" It pays off after {pays:,.0f} trajectories." if pays else ""
        return (
            f"At equal error {name} is {gain:.2g} times cheaper than the solver: {against}.{after}"
        )
    if gain * _ABOUT_EVEN < 1:
        return f"Use the solver: at equal error it is {1 / gain:.2g} times cheaper: {against}."
    return f"At equal error {name} costs about as much as the solver: {against}."


def _cells_of(solver: dict[str, Any]) -> str:
    """64 × 64 of a solver's facts."""
    return " × ".join(str(n) for n in solver["points"])


def _by_value(scores: Scores) -> dict[str, float]:
    """Every baseline's value of the metric that decides, the best first."""
    found = {name: baseline["value"] for name, baseline in scores.verdict["baselines"].items()}
    return dict(sorted(found.items(), key=lambda item: item[1]))


def baseline_order(scores: Scores) -> list[str]:
    """Every baseline's name, the best first; those that the verdict does not know come last."""
    return list(dict.fromkeys([*_by_value(scores), *scores.baselines]))


def baseline_table(scores: Scores) -> Cells:
    """Every baseline, what it scores, and how it compares."""
    metric, own, values = scores.verdict["metric"], scores.verdict["value"], _by_value(scores)
    rows = []
    for name, baseline in scores.baselines.items():
        ratio = f"{values[name] / own:.3g}" if own > 0 and math.isfinite(values[name]) else "–"
        certainty = scores.verdict["baselines"][name]["certainty"]
        errors = [baseline[m].short if m in baseline else "–" for m in ("rmse", metric)]
        rows.append([name, *errors, ratio, f"{100 * certainty:.0f} % of draws"])
    return ["baseline", "rmse", metric, "÷ ours", "beaten in"], rows


def describe_reproduction(both: Reproduction) -> str:
    """Whether the scores of today are those that were shipped, in a sentence."""
    count, of = both.today.data["samples"], both.shipped.data["samples"]
    if both.agrees is None:
        return (
            f"{count} of {of} test samples: they need not have the mean of all. "
            f"Leave --samples out to compare."
        )
    worst = max(both.differences[metric] for metric in COMPARED)
    word = "agree" if both.agrees else "do NOT agree"
    return (
        f"The scores {word} with those shipped: they differ by {worst:.1g} of themselves, "
        f"{TOLERANCE:g} is allowed."
    )


def reproduction_table(both: Reproduction) -> Cells:
    """Every metric of today beside the shipped one."""
    return ["metric", "today", "shipped", "difference"], [
        [m, f"{both.today[m].value:.6g}", f"{both.shipped[m].value:.6g}", f"{share:.1e}"]
        for m, share in both.differences.items()
    ]


def headline_tiles(scores: Scores) -> list[tuple[str, str, str]]:
    """The numbers that a reader looks for first: each with its name, and more about it."""
    score, cost = scores.metrics.get("nrmse"), scores.cost
    found = []
    if score is not None:
        between = "" if score.low is None else f"95 %: {score.low:.3g} – {score.high:.3g}"
        found.append((score.short, "relative error (nRMSE)", between))
    baselines, own = _by_value(scores), scores.verdict["value"]
    best, least = next(iter(baselines.items()), ("", 0.0))
    # A baseline without any error, such as persistence of data that stand still, has no ratio.
    if least > 0 and 0 < own < math.inf:
        ratio = least / own
        side, ratio = ("below", ratio) if ratio >= 1 else ("above", 1 / ratio)
        found.append((f"{_times(ratio)}×", f"{side} the best baseline", best))
    if "parameters" in cost:
        operations = f"{counted(cost['multiply_adds'])} multiply-adds a step"
        found.append((counted(cost["parameters"]), "parameters", operations))
    found.append((duration(cost["seconds_per_step"]), "a step", "one sample, this machine"))
    if spent := cost.get("training_cpu_seconds"):
        found.append((duration(spent), "of training", "processor time"))
    return found


def _times(ratio: float) -> str:
    """How many times, in digits that are read at once: 2.45, 2,920."""
    return f"{ratio:,.0f}" if 1e3 <= ratio < 1e6 else f"{ratio:.3g}"


def duration(seconds: float) -> str:
    """A time as people say it: 4.2 ms, 12 s, 3 min 10 s, 2 h 5 min."""
    if seconds < 1:
        return f"{1000 * seconds:.3g} ms"
    if seconds < 59.5:
        return f"{seconds:.2g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{minutes} min {rest} s" if rest else f"{minutes} min"


def counted(number: float) -> str:
    """12 345 678 → '12.3 M'."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.3g} {letter}"
    return f"{number:.3g}"


def reach_bars(run: Run) -> dict[str, Any] | None:
    """How far the model sees beside how far the data move, in cells of the widest axis."""
    if not isinstance(run.model, Emulator):
        return None
    found = reach(run.model, run.data)
    both = {"sees": max(found.radius), "moves": max(found.needed or (0.0,))}
    widest = max(x for x in (*both.values(), 1.0) if math.isfinite(x)) * 1.05
    bars: dict[str, Any] = {n: 100 * min(1.0, x / widest) for n, x in both.items()}
    for name, x in both.items():
        bars[f"{name}_word"] = f"{x:.3g} cells" if math.isfinite(x) else "the whole field"
    said = describe_reach(found, run.model.prior.kind, run.data.card.name)
    return {**bars, "sentence": said[:1].upper() + said[1:]}


def learned_steps(model: Any) -> list[tuple[str, str, float]]:
    """Δt of every FINO block, in the order of the network, and its percentage of the largest."""
    found = getattr(getattr(model, "network", None), "time_steps", {})
    most = max(found.values(), default=0.0) or 1.0
    return [(name, f"{value:.3f}", 100 * value / most) for name, value in found.items()]


def reproduce_commands(card: Card, path: str | None, model: dict[str, Any], run: Path) -> list[str]:
    """Generate, train, evaluate, report: each as one line for the shell."""
    data = path or "YOUR-DATA.h5"
    lines = [_generate_command(card, data)] if card.version and card.seed is not None else []
    if "network" in model:
        lines.append(train_command(data, model, run))
    return [*lines, _line("evaluate", run), _line("report", run)]


def _generate_command(card: Card, path: str) -> str:
    """`fino generate`, with every setting that is not the problem's own default."""
    words: list[Any] = ["generate", card.name, "--samples", card.samples, "--seed", card.seed]
    words += ["--stride-space", card.stride_space[0]] if max(card.stride_space) > 1 else []
    words += ["--stride-time", card.stride_time] if card.stride_time > 1 else []
    usual = PROBLEMS[card.name]().model_dump(mode="json") if card.name in PROBLEMS else {}
    own = {n: v for n, v in card.parameters.items() if n not in usual or usual[n] != v}
    varied = [word for name, choice in card.vary.items() for word in ("--vary", f"{name}={choice}")]
    return _line(*words, *_set(own), *varied, "--out", path)


def train_command(path: str, model: dict[str, Any], run: Path) -> str:
    """`fino train`, with every setting that is not a default."""
    name, emulator, training = model["name"], model["emulator"], model.get("training", {})
    usual: dict[str, Any] = {}
    if name in MODELS:  # a model of one's own may be unknown here
        usual = MODELS[name](dims=1, inputs=1, outputs=1).settings.model_dump(mode="json")
    network = {n: v for n, v in model["network"].items() if n not in _FROM_DATA}
    own = {f"model.{n}": v for n, v in network.items() if n == "levels" or usual.get(n) != v}
    own |= {f"model.{n}": emulator[n] for n in _FROM_MODEL}
    seed = training.get("seed", 0)
    if emulator.get("seed", seed) != seed:  # unless told, weights are drawn with the training's
        own["model.seed"] = emulator["seed"]
    usual = TrainingSettings.model_validate({}).model_dump(mode="json")
    own |= {f"train.{n}": v for n, v in training.items() if v != usual.get(n)}
    return _line("train", "--data", path, "--model", name, *_set(own), "--out", run)


def _set(settings: dict[str, Any]) -> list[str]:
    """--set name=value for each."""
    return [word for n, v in settings.items() for word in ("--set", f"{n}={_word(v)}")]


def _word(value: Any) -> str:
    if value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(value)


def _line(*words: Any) -> str:
    return shlex.join(["fino", *(str(word) for word in words)])
