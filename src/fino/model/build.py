"""A model sized for a data set: history, boundary, scaling and depth come from the data.

model = fino.build("fino", data)                 chooses and says nothing
model = fino.build("fino", data, levels=2)       every choice can be overridden
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from fino.data.dataset import Dataset, Part
from fino.data.lightcone import light_cone
from fino.data.normalize import Scaling, fit_frames, fit_increments
from fino.locality import Locality
from fino.model import MODELS
from fino.model.convolution import pad
from fino.model.emulator import Emulator, EmulatorSettings
from fino.model.rollout import rollout
from fino.settings import did_you_mean

__all__ = ["build", "choose_base", "fit_linear_base", "fit_stencil_base", "levels_to_see"]

#: Trajectories and cells that the least-squares fit of the history looks at.
_FIT_SAMPLES = 32
_FIT_VALUES = 200_000

#: Trajectories that the combined history is rolled out on, and the relative error that it may have.
_ROLLED_SAMPLES = 8
_WELL_ROLLED = 0.05


def build(
    name: str,
    data: Dataset,
    *,
    size: str | None = None,
    history: int | None = None,
    predict: str | None = None,
    coordinates: bool | None = None,
    edges: bool | None = None,
    seed: int = 0,
    **settings: Any,
) -> Emulator:
    """An untrained model of the named kind for this data, scaled by its training part.

    Unless told otherwise: the data's own history; what is steady predicted as it is, what moves
    in time on top of the best linear rule (see `choose_base`); coordinates where no reach is
    enough, edge markers at walls; and as many levels as the data's light cone asks for.
    """
    network_class = MODELS[name]
    if size is not None:
        if size not in network_class.sizes:
            raise ValueError(f"Unknown size '{size}'. {did_you_mean(size, [*network_class.sizes])}")
        settings = {**network_class.sizes[size], **settings}
    grid = data.grid
    history = data.history if history is None else history
    if not 0 < history < data.frames:
        raise ValueError(
            f"history {history} leaves nothing to predict in trajectories of {data.frames} frames. "
            f"Use a history between 1 and {data.frames - 1}."
        )
    emulator_settings = EmulatorSettings(
        model=name,
        fields=data.fields,
        history=history,
        predict=predict or choose_base(data, history),  # type: ignore[arg-type]
        coordinates=data.steady if coordinates is None else coordinates,
        edges=not all(grid.is_periodic) if edges is None else edges,
        steady=data.steady,
        dt=data.dt,
    )
    shape = {
        "dims": grid.dims,
        "inputs": emulator_settings.inputs(grid),
        "outputs": data.channels,
        "boundary": grid.boundary,
    }
    if "levels" in inspect.signature(network_class).parameters and "levels" not in settings:
        settings["levels"] = levels_to_see(name, data, {**shape, **settings})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = network_class(**shape, **settings)
    emulator = Emulator(network, emulator_settings, grid)
    _fit_scaling(emulator, data)
    return emulator


def levels_to_see(name: str, data: Dataset, settings: dict[str, Any]) -> int:
    """The fewest levels whose reach covers what the data move in a step.

    Where no reach is enough (steady problems) or the grid allows no more, the most it allows,
    keeping at least four cells on the coarsest grid.
    """
    allowed = 0
    while all(
        n % 2 ** (allowed + 1) == 0 and n // 2 ** (allowed + 1) >= 4 for n in data.grid.points
    ):
        allowed += 1
    if data.steady:
        return allowed
    cells = light_cone(data).cells
    for levels in range(allowed + 1):
        thin = {**settings, "width": 1, "levels": levels}
        reach: Locality = MODELS[name](**thin).locality
        if all(r >= c for r, c in zip(reach.radius, cells, strict=True)):
            return levels
    return allowed


def choose_base(data: Dataset, history: int) -> str:
    """What a network should add to: nothing, the history's best combination, or a scheme.

    Combining past frames is a rule of thumb, not a law: it is taken where rolled out it predicts
    whole training trajectories, as it does for waves that come back.  Elsewhere its small first
    error hides that it goes on with any error as if it were motion, and the best
    finite-difference scheme is the better start.
    """
    if data.steady:
        return "frame"
    weights, _ = fit_linear_base(data.train, history)
    over_space = weights.view(*weights.shape, *[1] * data.grid.dims)
    trajectories = data.train.read(range(min(len(data.train), _ROLLED_SAMPLES)))
    truth = trajectories[:, history:]
    predicted = rollout(
        lambda past: (past * over_space).sum(dim=1), trajectories[:, :history], truth.shape[1]
    )
    error = (predicted - truth).square().sum() / truth.square().sum().clamp_min(1e-30)
    return "linear" if float(error) < _WELL_ROLLED**2 else "stencil"


def fit_linear_base(
    part: Part, history: int, start: int = 0, ridge: float = 1e-6
) -> tuple[Tensor, Tensor]:
    """The weights of past frames that predict the next one best, cell by cell and by channel.

        min_w Σ ( u_{t+1} − Σ_k w_k u_{t−k} )² + ridge · Σ u² · |w|²

    (k, c) weights and the (c,) spread of what they leave over.
    """
    gram, cells = torch.zeros(()), 0
    for u, thin in _trajectories_to_fit(part, start):
        windows = u.flatten(2)[..., ::thin].unfold(0, history + 1, 1).movedim(1, 0).flatten(1, 2)
        gram, cells = gram + windows.mT @ windows, cells + windows.shape[1]
    past, mixed = gram[:, :-1, :-1], gram[:, :-1, -1:]
    size = past.diagonal(dim1=1, dim2=2).mean(dim=1).view(-1, 1, 1)
    held = past + ridge * size * torch.eye(history, dtype=gram.dtype)
    weights = torch.linalg.solve(held, mixed)
    left = gram[:, -1:, -1:] - 2 * weights.mT @ mixed + weights.mT @ past @ weights
    spread = (left.flatten().clamp_min(0) / cells).sqrt()
    return weights[..., 0].T.float(), spread.float()


def fit_stencil_base(
    part: Part, start: int = 0, ridge: float = 1e-8
) -> tuple[Tensor, Tensor, Tensor]:
    """The linear scheme over the last frame that predicts the next one best.

        min_{S, s} Σ ‖ u_{t+1} − S ∗ u_t − s ‖² + ridge · Σ |u|² · |S|²

    (c, c, 3, …) weights from all fields to each, the (c,) constants s and the (c,) spread of what
    they leave over.  Frames before `start`, which are only ever shown, are not fitted.
    """
    boundary, channels = part.data.grid.boundary, part.data.channels
    gram, cells = torch.zeros(()), 0
    for u, thin in _trajectories_to_fit(part, start):
        taps, following = _taps(u[:-1], boundary), u[1:].transpose(0, 1).flatten(1)
        both = torch.cat([taps, torch.ones_like(taps[:1]), following])[:, ::thin]
        gram, cells = gram + both @ both.T, cells + both.shape[1]
    past, mixed = gram[:-channels, :-channels], gram[:-channels, -channels:]
    weights = torch.linalg.solve(past + ridge * past.diagonal().diag(), mixed)
    left = gram[-channels:, -channels:] - 2 * weights.T @ mixed + weights.T @ past @ weights
    spread = (left.diagonal().clamp_min(0) / cells).sqrt()
    scheme = weights[:-1].T.unflatten(1, (channels, *[3] * len(boundary)))
    return scheme.float(), weights[-1].float(), spread.float()


def _trajectories_to_fit(part: Part, start: int) -> Iterator[tuple[Tensor, int]]:
    """Some trajectories (t, c, *space) in double precision, and how thinly to look at them."""
    count = min(len(part), _FIT_SAMPLES)
    for i in torch.linspace(0, len(part) - 1, count).long().tolist():
        u = part.read([i], start)[0].double()
        # Never a multiple of two, or the cells looked at would stand in columns.
        yield u, max(1, count * u[:, 0].numel() // _FIT_VALUES) | 1


def _taps(u: Tensor, boundary: tuple[str, ...]) -> Tensor:
    """What a stencil of radius one sees at every cell: (t, c, *space) → (c · 3^d, t · cells)."""
    dims = len(boundary)
    padded = pad(u, (1,) * dims, boundary)
    for axis in range(2, 2 + dims):
        padded = padded.unfold(axis, 3, 1)
    return padded.permute(1, *range(2 + dims, 2 + 2 * dims), 0, *range(2, 2 + dims)).reshape(
        u.shape[1] * 3**dims, -1
    )


def _fit_scaling(emulator: Emulator, data: Dataset) -> None:
    """Statistics of the training part: of what goes in, and of what the network has to say."""
    predict, history = emulator.settings.predict, emulator.history
    # The task begins after the frames that are given, however few of them the model looks at.
    first = max(history, data.history)
    if data.steady:
        given, wanted = fit_frames(data.train, 0, 1), fit_frames(data.train, 1, 1)
    elif predict == "frame":
        given, wanted = fit_frames(data.train), fit_frames(data.train, first)
    elif predict == "increment":
        given, wanted = fit_frames(data.train), fit_increments(data.train, first - 1)
    else:
        given = fit_frames(data.train)
        if predict == "linear":
            weights, spread = fit_linear_base(data.train, history, first - history)
            emulator.base.copy_(weights)
            constant = torch.zeros_like(spread)
        else:
            weights, constant, spread = fit_stencil_base(data.train, first - 1)
            emulator.scheme.copy_(weights)
        wanted = Scaling(constant, spread)
    emulator.input_mean.copy_(given.mean)
    emulator.input_std.copy_(given.std)
    emulator.output_mean.copy_(wanted.mean)
    emulator.output_std.copy_(wanted.std.clamp_min(1e-12))
