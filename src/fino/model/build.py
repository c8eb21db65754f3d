"""A model sized for a data set: history, boundary, scaling and depth come from the data.

model = fino.build("fino", data)                 every choice comes from the data
model = fino.build("fino", data, levels=2)       and can be overridden
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from fino.data.dataset import Dataset
from fino.data.lightcone import light_cone
from fino.locality import Locality
from fino.model import MODELS
from fino.model.conditioning import Conditioning
from fino.model.cost import check_room
from fino.model.emulator import Emulator, EmulatorSettings
from fino.model.prior import PRIORS, Moved, MovingFrame, PastFrames
from fino.model.prior_fit import choose_prior, fit_prior
from fino.model.scaling import Scaling, fit_frames
from fino.pde import PROBLEMS
from fino.settings import did_you_mean

__all__ = ["build", "longest_stride"]

#: How many times as far as the data move a model should see.  At the edge of its reach it has few
#: weights: advection by 8.3 cells exploded with a reach of 9.
_MARGIN = 1.2

#: Cells that data may move in a long step: compressible flow was learned well with 5 to 8.  And
#: steps that a trajectory should keep, so that rollouts can still be trained and scored.
_FAR = 8.0
_FEWEST_STEPS = 8

#: Cells along an axis on which what a combination of past frames leaves over was learned well
#: without levels; on 256 and 1024 cells one and three levels did better, by a quarter and fivefold.
_COARSE = 128
#: On a grid of so few cells most of a step's time is spent outside of the stencils, and twice the
#: channels cost hardly more: Burgers' equation on 16 cells had half of the error after a minute.
_FEW_CELLS = 32


def build(
    name: str,
    data: Dataset,
    *,
    size: str | None = None,
    history: int | None = None,
    predict: str | None = None,
    coordinates: bool | None = None,
    edges: bool | None = None,
    condition: str | None = None,
    strides: Sequence[int] = (1,),
    seed: int = 0,
    **settings: Any,
) -> Emulator:
    """An untrained model of the named kind for this data, scaled by its training part.

    Unless told otherwise: the data's own history, or one frame where parameters vary and a frame of
    the problem is its whole state; what is steady predicted as it is, what moves
    in time on top of the best linear prior (see `choose_prior`); coordinates where no reach is
    enough, edge markers at walls; and as many levels as the data's light cone asks for.
    Parameters that differ from trajectory to trajectory are given by FiLM where the model can
    (`condition="film"`), else as constant channels (`"channels"`).

    With `strides`, such as (1, 2, 4, 8), the model learns steps of so many frames at once; the
    length of a step is then its parameter `dt`, it looks at one frame, and `fino.rollout` with
    `every` goes from one kept frame to the next in as few steps as it can.
    """
    network_class = MODELS[name]
    can_film = getattr(network_class, "takes_parameters", False)
    condition = condition or ("film" if can_film else "channels")
    if condition == "film" and not can_film:
        raise ValueError(f"{name} cannot be conditioned by FiLM. Use condition='channels'.")
    if size is not None:
        if size not in network_class.sizes:
            raise ValueError(f"Unknown size '{size}'. {did_you_mean(size, [*network_class.sizes])}")
        settings = {**network_class.sizes[size], **settings}
    grid = data.grid
    predict = _conserving(predict) if settings.get("flux") else predict
    moved_history = 1 if history is None else history
    history = 1 if predict == Moved.kind and history is None else history
    strides, history = _check_strides(strides, data, history)
    data.task(history)  # refuses a history that leaves nothing to predict
    conditioning = Conditioning.of(data, condition, strides)
    fitted = (
        choose_prior(data, history, conditioning, moved_history)
        if predict is None
        else fit_prior(predict, data, history, conditioning)
    )
    prior, history = fitted.prior, fitted.prior.history
    moves = prior.radius if isinstance(prior, MovingFrame) else ()
    degree = sum(prior.powers[-1]) if isinstance(prior, PastFrames) else 0
    emulator_settings = EmulatorSettings(
        model=name,
        fields=data.fields,
        history=history,
        predict=fitted.kind,  # type: ignore[arg-type]
        moves=moves,
        degree=degree,
        coordinates=data.steady if coordinates is None else coordinates,
        edges=not all(grid.is_periodic) if edges is None else edges,
        steady=data.steady,
        dt=data.dt,
        seed=seed,
        given=conditioning.settings,
    )
    task: dict[str, Any] = {
        "dims": grid.dims,
        "inputs": emulator_settings.inputs(grid),
        "outputs": data.channels,
        "boundary": grid.boundary,
    }
    if condition == "film" and emulator_settings.given.scalars:
        phases = prior.phases if isinstance(prior, Moved) else 0
        task["parameters"] = emulator_settings.given.scalars + phases
    check_room(network_class, **task, **settings)
    farthest = data.strided(time=strides[-1]) if strides[-1] > 1 else data
    settings = {**_depth(name, farthest, emulator_settings.predict, task, settings), **settings}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = network_class(**task, **settings)
    emulator = Emulator(network, emulator_settings, grid)
    emulator.conditioning.load_state_dict(conditioning.state_dict())
    emulator.prior.load_state_dict(prior.state_dict())
    _fit_scaling(emulator, data, fitted.residual)
    _check_reach(emulator, data)
    return emulator


def _conserving(predict: str | None) -> str:
    """A prior that keeps the sum of every field, as fluxes do."""
    if predict not in (None, "increment", "moved"):
        raise ValueError(
            f"flux=True conserves only on top of the last frame: predict should be 'increment' or "
            f"'moved', got '{predict}'."
        )
    return predict or "increment"


def _check_strides(
    strides: Sequence[int], data: Dataset, history: int | None
) -> tuple[tuple[int, ...], int]:
    """The strides in order and the history that goes with them."""
    found = tuple(sorted({int(s) for s in strides}))
    if len(found) == 1 and found[0] == 1:
        return found, _history(data) if history is None else history
    if data.steady:
        raise ValueError(f"{data.card.name} is steady: it has no steps to take several lengths of.")
    longest = data.shortest - 1
    if not found or found[0] != 1 or found[-1] > longest:
        raise ValueError(
            f"strides should begin with 1 and be at most {longest} for trajectories of "
            f"{longest + 1} frames, got {tuple(strides)}."
        )
    if history not in (None, 1):
        raise ValueError(
            f"strides go with a history of one frame, got {history}: older frames would have to "
            f"lie one step apart for each stride. Leave history out."
        )
    return found, 1


def _history(data: Dataset) -> int:
    """One frame where θ and a frame are all that the next one depends on, else the data's own.

    With one θ for all, combined frames predict better than their number suggests; with many they
    do not: Fisher's equation over (ν, ρ) had a third of the error with one frame instead of ten.
    """
    problem = PROBLEMS.get(data.card.name)
    if problem is None or not data.parameters or data.fields != problem.fields:
        return data.history
    return 1 if type(problem().whole) is problem else data.history


def _check_reach(emulator: Emulator, data: Dataset) -> None:
    """Refuse strides that move the data farther than the model sees in a step."""
    sides = zip(data.grid.points, data.grid.is_periodic, strict=True)
    whole = [n / 2 if periodic else n for n, periodic in sides]
    allowed = [1]
    for stride in emulator.strides[1:]:
        cone = light_cone(data.strided(time=stride)).cells
        needed = [min(c, n) for c, n in zip(cone, whole, strict=True)]
        if all(r >= c for r, c in zip(emulator.locality.radius, needed, strict=True)):
            allowed.append(stride)
            continue
        raise ValueError(
            f"a step of {stride} frames moves the data {max(needed):.3g} cells, farther than the "
            f"model sees ({min(emulator.locality.radius)}). Its reach allows "
            f"strides={tuple(allowed)}; use these, or more levels."
        )


def _depth(
    name: str, data: Dataset, predict: str, shape: dict[str, Any], settings: dict[str, Any]
) -> dict[str, Any]:
    """Levels that see far enough and, for a FINO without a width or depth of its own, a lean shape.

    Few channels and many cheap steps of training did best in most searches.  Where the history
    or a moving frame carries the motion, what is left over is small and local, and no level is
    needed but those that make fine grids coarse.  With levels GELU did better than the paper's
    ReLU, by up to a third.
    """
    chosen: dict[str, Any] = {}
    free = not {"width", "blocks", "levels"} & set(settings)
    shaped = getattr(MODELS[name], "shaped_by_data", False)
    lean = free and shaped
    carried = predict == "linear" or issubclass(PRIORS[predict], MovingFrame)
    if lean and carried:
        chosen["levels"] = _levels_to(_COARSE, data)
    elif shaped and "levels" not in settings:
        chosen["levels"] = levels_to_see(name, data, {**shape, **settings})
    if lean and chosen["levels"]:
        chosen.update(width=16, blocks=1, activation="gelu")
    elif lean and carried and math.prod(data.grid.points) <= _FEW_CELLS:
        chosen.update(width=32, blocks=3, activation="gelu")
    elif lean:
        chosen.update(width=16, blocks=3 if carried else 2)
    return chosen


def levels_to_see(name: str, data: Dataset, settings: dict[str, Any]) -> int:
    """The fewest levels whose reach covers what the data move in a step, with a margin.

    Where no reach is enough (steady problems) or the grid allows no more, the most it allows,
    keeping at least four cells on the coarsest grid.
    """
    allowed = _levels_to(4, data)
    if data.steady:
        return allowed
    cells = light_cone(data).cells
    for levels in range(allowed + 1):
        thin = {**settings, "width": 1, "levels": levels}
        reach: Locality = MODELS[name](**thin).locality
        if all(r >= _MARGIN * c for r, c in zip(reach.radius, cells, strict=True)):
            return levels
    return allowed


def longest_stride(data: Dataset, name: str = "fino") -> int:
    """How many frames a step may pass: the CFL condition of a learned local step.

        stride · cells a step ≤ reach / 1.2,   and at most 8 cells

    Every step costs the same, however much time it covers, so a stride of n is n times cheaper.
    One where the data are steady, have too few frames or move far in a step already.
    """
    if data.steady:
        return 1
    cells, steps = max(light_cone(data).cells), data.shortest - 1
    shape = {"dims": data.grid.dims, "inputs": 1, "outputs": 1, "boundary": data.grid.boundary}
    if getattr(MODELS[name], "shaped_by_data", False):
        shape |= {"levels": _levels_to(4, data), "width": 1}
    reach = min(MODELS[name](**shape).locality.radius)
    allowed = min(reach / _MARGIN, _FAR) / cells if cells > 0 else 1.0
    return max(1, min(int(allowed), steps // _FEWEST_STEPS))


def _levels_to(cells: int, data: Dataset) -> int:
    """How often the grid can be halved and keep at least so many cells along every axis."""
    levels, points = 0, data.grid.points
    while all(n % 2 ** (levels + 1) == 0 and n >= cells * 2 ** (levels + 1) for n in points):
        levels += 1
    return levels


def _fit_scaling(emulator: Emulator, data: Dataset, residual: Scaling) -> None:
    """The scaling of the input, fitted to the training part, and that of the prior's residual."""
    given = fit_frames(data.train, 0, 1) if data.steady else fit_frames(data.train)
    emulator.input_mean.copy_(given.mean)
    emulator.input_std.copy_(given.std)
    # Fluxes leave every sum as it is, and so does a prior that goes with them: no mean is added.
    conserves = getattr(emulator.network.settings, "flux", False)
    emulator.output_mean.copy_(torch.zeros_like(residual.mean) if conserves else residual.mean)
    # A field without a residual is left to the prior: the network cannot make it drift.
    std = residual.std
    emulator.output_std.copy_(torch.where(std > 0, std.clamp_min(1e-12), 0.0))
