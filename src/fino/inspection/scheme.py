"""What a model says before its network speaks: past frames, or a scheme read as an equation.

    û = Σ_k w_k u_{t−k} + network         "linear": which frames are copied
    û = S ∗ u_t + network                 "stencil": (S − 1)/Δt is a differential operator

The scheme is a stencil on the fields themselves, so its moments are the coefficients of the linear
equation that fits the data best, in physical units.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fino.inspection.classical import name_terms
from fino.inspection.stencil import moments

__all__ = ["BaseReport", "base_report"]


@dataclass(frozen=True)
class BaseReport:
    """The base of an emulator.

    `frames` maps how many steps ago to the weight of each field; `equation` maps each field to
    its rate of change: (field, derivative) → coefficient.
    """

    predict: str
    frames: dict[int, tuple[float, ...]]
    equation: dict[str, dict[tuple[str, tuple[int, ...]], float]]

    def sentences(self) -> list[str]:
        """In words: which frames are copied, or which equation the scheme stands for."""
        if self.predict == "increment":
            return ["It adds to the last frame."]
        lines = []
        if self.frames:
            told = ", ".join(
                f"{' / '.join(f'{w:.3f}' for w in weights)} × the frame of {ago} step"
                f"{'s' if ago > 1 else ''} ago"
                for ago, weights in self.frames.items()
            )
            lines.append(f"It adds to {told}.")
        for field, terms in self.equation.items():
            right = " ".join(
                f"{coefficient:+.3g} {_operator(alpha)}{source}"
                for (source, alpha), coefficient in terms.items()
            )
            lines.append(f"It adds to a scheme that stands for ∂t {field} = {right or '0'}.")
        return lines


def base_report(emulator: Any) -> BaseReport:
    """Read the base of an emulator; coefficients too small to matter are left out."""
    settings = emulator.settings
    frames: dict[int, tuple[float, ...]] = {}
    if settings.predict == "linear":
        weights = emulator.prior.frame_weights.detach().double()
        for row, ago in zip(weights, range(len(weights), 0, -1), strict=True):
            if float(row.abs().max()) > 0.05 * float(weights.abs().max()):
                frames[ago] = tuple(row.tolist())
    equation = {}
    if settings.predict == "stencil":
        for place, field in enumerate(settings.fields):
            equation[field] = _rate(emulator, place)
    return BaseReport(settings.predict, frames, equation)


def _rate(emulator: Any, place: int) -> dict[tuple[str, tuple[int, ...]], float]:
    """The moments of (S − 1)/Δt for one field, the terms that matter in a step."""
    settings, grid = emulator.settings, emulator.grid
    scheme = emulator.prior.weight.detach().double().cpu().numpy()[place].copy()
    scheme[(place, *[1] * grid.dims)] -= 1.0
    spread = emulator.input_std.detach().double().cpu().numpy()
    found = {}
    for source, (name, weights) in enumerate(zip(settings.fields, scheme, strict=True)):
        in_cells = moments(weights, (1.0,) * grid.dims, highest=2)
        for alpha, value in moments(weights, grid.spacing, highest=2).items():
            if abs(in_cells[alpha]) * spread[source] > 3e-3 * spread[place]:
                found[name, alpha] = value / settings.dt
    return found


def _operator(alpha: tuple[int, ...]) -> str:
    return f"{name_terms(((alpha, 1.0),))} " if any(alpha) else ""
