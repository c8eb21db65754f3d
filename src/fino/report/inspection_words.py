"""An inspection in sentences and tables, once for the terminal, the page and JSON."""

from __future__ import annotations

import cmath
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fino.inspection.amplification import Amplification
from fino.inspection.held import Theta
from fino.inspection.inspect import Inspection
from fino.inspection.layers import GateReport, LayerReport, PriorReport, StrongStencil
from fino.inspection.stability import ErrorBound, Stability
from fino.inspection.stencil import name_terms
from fino.report.tables import Table, table_of
from fino.report.words import describe_reach

__all__ = [
    "count_growing",
    "inspection_json",
    "inspection_sections",
    "name_wave",
    "strongest_stencils",
    "verdict",
]

#: Steps at which the bound and the growth are shown.
_SHOWN = (1, 2, 5, 10, 20, 50, 100, 200)

#: Why a part of an inspection is missing, by the word that the inspection has for it.
_REASONS = {
    "steady": "a steady problem is answered in one step: nothing is rolled out",
    "no data": "errors and their growth are measured on data: pass data",
    "not equivariant": (
        "the step does not commute with shifts of the grid, so waves are not its eigenvectors"
    ),
    "unknown network": "a bound from layer norms is known for FINO and U-Net only",
    "walls of a mask": "a bound from layer norms does not know the walls of a mask",
    "no solver": "there is no solver for {data} here that starts from its frames",
    "state not in frames": (
        "a saved frame of {data} ({fields}) does not hold the solver's whole state, so the true "
        "step cannot be perturbed"
    ),
}


@dataclass(frozen=True)
class Section:
    """A heading, what it says, and the numbers behind it."""

    title: str
    lines: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)


def inspection_sections(found: Inspection) -> list[Section]:
    """The report in reading order."""
    reach = describe_reach(found.reach, found.prior.kind, found.data or "")
    far_enough = Section("Does it see far enough?", [_upper(reach)])
    return [_model(found), far_enough, _learned(found), _stability(found)]


def inspection_json(found: Inspection) -> dict[str, Any]:
    """The numbers of an inspection with the sentences that belong to them."""
    content, said = found.to_dict(), describe_missing(found)
    content["reach"]["sentence"] = describe_reach(found.reach, found.prior.kind, found.data or "")
    measured = found.stability.notes if found.stability else {}
    content["notes"] = {part: why for part, why in said.items() if part not in measured}
    if found.stability is not None:
        content["stability"]["notes"] = {part: said[part] for part in measured}
        content["stability"]["bound"]["verdict"] = verdict(found.stability.bound)
    return content


def describe_missing(found: Inspection) -> dict[str, str]:
    """Why a part is missing, for each part that is."""
    said, fields = {}, ", ".join(found.fields)
    for part, why in {**found.notes, **(found.stability.notes if found.stability else {})}.items():
        sentence = _REASONS.get(why)
        said[part] = sentence.format(data=found.data, fields=fields) if sentence else why
    if not found.layers:
        said["stencils"] = "this model has no stencils: it mixes cells in another way"
    if not found.gates:
        said["gates"] = "there are no gates" if found.data else "gates need data to open"
    if not found.time_steps:
        said["time steps"] = "no block has a learned time step"
    return said


def describe_theta(theta: Theta) -> str:
    """The parameters that Δt, stencils and waves are looked at with."""
    named = [
        f"{name} = {value:.3g} (trained on {theta.trained[name][0]:.3g} to "
        f"{theta.trained[name][1]:.3g})"
        for name, value in theta.values.items()
    ]
    return (
        f"Δt, stencils and waves are those at {', '.join(named)}; what is measured on data has "
        "the parameters of each trajectory."
    )


def describe_prior(found: PriorReport) -> list[str]:
    """Which frames are combined, or which equation the stencil stands for."""
    if found.kind == "increment":
        return ["It adds to the last frame."]
    if found.kind == "moved":
        return ["It adds to the last frame, moved along with the flow."]
    if found.kind == "flow":
        return ["It adds to the last frame, moved along its local flow."]
    lines = []
    if found.frames:
        combined = ", ".join(
            f"{' / '.join(f'{w:.3f}' for w in weights)} × the frame of {ago} step"
            f"{'s' if ago > 1 else ''} ago"
            for ago, weights in found.frames.items()
        )
        lines.append(f"It adds to {combined}.")
    for name, terms in found.equation.items():
        right = " ".join(
            f"{coefficient:+.3g} {f'{name_terms(((alpha, 1.0),))} ' if any(alpha) else ''}{source}"
            for (source, alpha), coefficient in terms.items()
        )
        lines.append(f"It adds to a scheme that stands for ∂t {name} = {right or '0'}.")
    return lines


def _model(found: Inspection) -> Section:
    plural, trained = "s" if found.history > 1 else "", f", on {found.data}" if found.data else ""
    frames = f"{found.history} frame{plural} in{trained}"
    lines = [f"{found.model}, {found.parameters:,} parameters, {frames}."]
    if not found.is_local:
        lines.append(
            "It sees the whole field: reach and stencils say little about it, the stability part "
            "applies in full."
        )
    if found.theta.values:
        lines.append(describe_theta(found.theta))
    if "data" in found.notes:
        lines.append(f"Its data could not be opened: {found.notes['data']}")
    return Section("Model", lines)


def _learned(found: Inspection) -> Section:
    missing, lines, tables = describe_missing(found), describe_prior(found.prior), []
    if found.layers:
        closer = sum(layer.is_classical for layer in found.layers)
        lines.append(
            f"{closer} of {len(found.layers)} layers of stencils lie clearly closer to the "
            "textbooks than random weights do."
        )
        tables += [_stencil_table(found.layers), _strongest_table(found.layers)]
    else:
        lines.append(_upper(missing["stencils"]) + ".")
    if found.time_steps:
        values = found.time_steps.values()
        lines.append(
            f"Learned Δt: {min(values):.3g} to {max(values):.3g} "
            f"({', '.join(f'{n} {v:.3g}' for n, v in found.time_steps.items())})."
        )
    for name, over in found.time_steps_over.items():
        ends = [f"{name} = {over['values'][i]:.3g}" for i in (0, -1)]
        steps = [
            " ".join(f"{steps[i]:.3g}" for steps in over["time_steps"].values()) for i in (0, -1)
        ]
        lines.append(f"In the same order, Δt is {steps[0]} at {ends[0]}, {steps[1]} at {ends[1]}.")
    if found.gates:
        tables.append(_gate_table(found.gates))
    else:
        lines.append(_upper(missing["gates"]) + ".")
    return Section("What did it learn?", lines, tables)


def _stencil_table(layers: Sequence[LayerReport]) -> Table:
    rows = []
    for layer in layers:
        name, share = next(iter(layer.nearest.items()))
        distances = (f"{layer.distance:.2f}", f"{layer.chance:.2f}")
        rows.append((_place(layer.name), str(layer.stencils), f"{name} ({share:.0%})", *distances))
    columns = ("layer", "stencils", "mostly nearest to", "distance", "chance")
    return table_of("Stencils by layer", columns, rows)


def strongest_stencils(layers: Sequence[LayerReport]) -> list[tuple[str, StrongStencil]]:
    """The strongest stencils of all layers, each with the name of its layer."""
    every = [(layer.name, one) for layer in layers for one in layer.strongest]
    return sorted(every, key=lambda item: -item[1].share)


def _strongest_table(layers: Sequence[LayerReport]) -> Table:
    rows = []
    for name, one in strongest_stencils(layers)[:8]:
        report, nearest = one.report, one.report.nearest
        place = f"{_place(name)} {one.input}→{one.output}"
        order = "exact" if report.order is None else str(report.order)
        near = (f"{nearest.scale:.2g} × {nearest.name}", f"{nearest.distance:.2f}")
        rows.append((place, report.operator, order, *near))
    columns = ("stencil", "operator", "order", "nearest", "distance")
    return table_of("The strongest stencils", columns, rows)


def _gate_table(gates: Sequence[GateReport]) -> Table:
    rows = []
    for gate in gates:
        block, opening = gate.block.removesuffix(".operator"), f"{gate.mean:.2f}"
        always = [f"{n} of {gate.channels}" for n in (gate.always_open, gate.always_shut)]
        rows.append((block, f"{gate.average_open:.0%}", opening, *always))
    columns = ("gate of", "open", "mean opening", "always open", "never open")
    return table_of("How often the gates are open on data", columns, rows)


def _stability(found: Inspection) -> Section:
    missing, stable, lines, tables = describe_missing(found), found.stability, [], []
    if stable is None:
        lines.append(_upper(missing["stability"]) + ".")
    else:
        lines += describe_stability(stable)
        tables = [table_of("The bound beside the measured error", *bound_rows(stable.bound))]
    if found.amplification is not None:
        true = stable.true_amplification if stable else None
        lines += describe_waves(found.amplification, true)
    parts = ("amplification", "true_constant", "layers")
    lines += [f"Not measured: {missing[part]}." for part in parts if part in missing]
    if stable is not None:
        lines.append(describe_samples(stable))
    return Section("Will it stay stable?", lines, tables)


def verdict(bound: ErrorBound) -> str:
    """'useful' if the bound says something to the end of the held-out trajectories."""
    return "useful" if bound.is_useful else "vacuous"


def describe_stability(stable: Stability) -> list[str]:
    """Errors, constants, the bound, and whether long rollouts stay in range."""
    bound, true, layers = stable.bound, stable.true_constant, stable.layers
    lines = [
        f"One step from true histories is wrong by {stable.epsilon_mean:.2e} on average, "
        f"ε = {stable.epsilon:.2e} at worst.",
        f"Lipschitz constant of the learned step, history included: C = {stable.constant:.4g} "
        f"(from {min(stable.constants):.4g}, at {len(stable.constants)} states).",
    ]
    if true is not None:
        lines.append(f"The true step, one frame to the next, stretches by at least {true:.4g}.")
    if layers is not None:
        lines.append(f"Upper bound of C from the norms of the layers: {layers.constant:.3g}.")
    steps, total = bound.useful_steps, len(bound.bound)
    lines.append(
        f"Proposition 1, ε(C^K − 1)/(C − 1): {verdict(bound).upper()}. It stays below the spread "
        f"of the data ({bound.spread:.2g}) for {steps} of {total} steps; the measured error at "
        f"step {total} is {_number(bound.typical[-1])} (worst {_number(bound.measured[-1])}), the "
        f"bound {_number(bound.bound[-1])}."
    )
    chosen = [j for j in _SHOWN if j < len(stable.growth)]
    growth = ", ".join(f"{stable.growth[j]:.3g} over {j}" for j in chosen)
    lines.append(
        f"A small error in one frame grew at most by {growth} steps; summed up, that is "
        f"{_number(bound.grown[-1])} at step {total}, below the spread for "
        f"{bound.grown_useful_steps} steps."
    )
    return [*lines, _bounded(stable)]


def _bounded(stable: Stability) -> str:
    run = stable.bounded
    far = f"{run.steps} steps, {run.steps // max(1, run.horizon)}× the data's own horizon"
    if run.first_left is None:
        who = "A rollout" if run.trajectories == 1 else f"All {run.trajectories} rollouts"
        return f"{who} stayed within twice the range of the data for {far}."
    return (
        f"{run.trajectories - run.stayed} of {run.trajectories} rollouts left twice the range of "
        f"the data, the first at step {run.first_left} (asked for {far})."
    )


def describe_waves(factors: Amplification, true: Amplification | None = None) -> list[str]:
    """Which waves grow, and which of them grow in the solver too."""
    about, growing = ", ".join(f"{v:.3g}" for v in factors.state), factors.unstable
    lead = f"Linearised about the constant state ({about}) on a periodic grid, "
    lines = [f"{lead}no wave grows: the largest |λ| is {factors.radius:.4f}."]
    if growing:
        named = ", ".join(f"k = {name_wave(k)} (|λ| = {g:.4f})" for k, g in growing[:5])
        more = f" and {len(growing) - 5} more" if len(growing) > 5 else ""
        lines = [f"{lead}{count_growing(growing)}: {named}{more}."]
    if true is None:
        return lines
    wave = (1, *[0] * (factors.wavenumbers.shape[1] - 1))
    mine, exact = factors.modes_of(*wave), true.modes_of(*wave)
    if len(mine) and len(exact):
        pairs = [(one, mine[np.argmin(np.abs(mine - one))]) for one in exact]
        compared = "; ".join(f"{_factor(one)} became {_factor(close)}" for one, close in pairs)
        lines.append(
            f"The longest wave, from the solver on this grid to the learned step: {compared}."
        )
        lasting = int((np.abs(mine) > 0.95).sum())
        if lasting > len(exact):
            lines.append(
                f"It has {lasting} factors above 0.95 where the solver has {len(exact)}: the "
                "others live in the history."
            )
    return [*lines, *_beside_solver(factors, true)]


def _beside_solver(factors: Amplification, true: Amplification) -> list[str]:
    """Which waves grow by rights, because the solver grows them too, and which do not."""
    lines = []
    if true.unstable:
        k, growth = true.unstable[0]
        mine = factors.modes_of(*k)
        learned = f", the learned step {abs(mine[0]):.4f}" if len(mine) else ""
        lines.append(
            f"The solver itself grows waves, most k = {name_wave(k)} by {growth:.4f}{learned}."
        )
    waves = [tuple(k.tolist()) for k in true.wavenumbers]
    grown = {k for k, _ in factors.unstable} - {k for k, _ in true.unstable}
    alone = [name_wave(k) for k in waves if k in grown]
    if alone:
        lines.append(
            f"Of {len(waves)} waves compared, the learned step alone grows {len(alone)}: "
            f"k = {', '.join(alone)}."
        )
    return lines


def bound_rows(bound: ErrorBound) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Columns and rows of the bound beside the measured error."""
    total = len(bound.bound)
    series = {
        "error, mean": bound.typical,
        "error, worst": bound.measured,
        "ε(C^K−1)/(C−1)": bound.bound,
        "ε Σ growth": bound.grown,
    }
    chosen = sorted({k for k in _SHOWN if k <= total} | {total})
    rows = [(str(k), *(_number(values[k - 1]) for values in series.values())) for k in chosen]
    return ("step K", *series), rows


def describe_samples(stable: Stability) -> str:
    """What all of it rests on."""
    return (
        f"All of it was measured at some states of the {stable.part} part "
        f"({_count(stable.single_steps, 'single step')} on "
        f"{_count(stable.trajectories, 'sample')}, {_count(len(stable.constants), 'state')}, "
        f"{_count(stable.bounded.trajectories, 'long rollout')}): evidence, not a proof. Errors "
        "are in units of each channel's spread."
    )


def name_wave(k: tuple[int, ...]) -> str:
    """3, or (3, 1) on a plane."""
    return str(k[0]) if len(k) == 1 else f"({', '.join(map(str, k))})"


def count_growing(waves: Sequence[Any]) -> str:
    """1 wave grows, or 3 waves grow."""
    return "1 wave grows" if len(waves) == 1 else f"{len(waves)} waves grow"


def _factor(value: complex) -> str:
    return f"{abs(value):.4f} ∠ {math.degrees(cmath.phase(value)):.1f}°"


def _number(value: float) -> str:
    return f"{value:.2e}" if math.isfinite(value) else "∞"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _upper(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def _place(layer: str) -> str:
    return layer.replace(".operator.stencil", " stencil").replace(".project", " project")
