"""A model sized for a data set: history, boundary, scaling and depth come from the data.

model = fino.build("fino", data)                 chooses and says nothing
model = fino.build("fino", data, levels=2)       every choice can be overridden
"""

from __future__ import annotations

import inspect
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
from fino.settings import did_you_mean

__all__ = ["build", "fit_linear_base", "fit_stencil_base", "levels_to_see"]

#: Trajectories and cells that the least-squares fit of the history looks at.
_FIT_SAMPLES = 32
_FIT_VALUES = 200_000


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

    Unless told otherwise: the data's own history; increments for what moves in time, frames for
    what is steady; coordinates where no reach is enough, edge markers at walls; and as many
    levels as the data's light cone asks for.
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
        predict=predict or ("frame" if data.steady else "increment"),  # type: ignore[arg-type]
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


def fit_linear_base(part: Part, history: int, ridge: float = 1e-6) -> tuple[Tensor, Tensor]:
    """The weights of past frames that predict the next one best, cell by cell and by channel.

        min_w Σ ( u_{t+1} − Σ_k w_k u_{t−k} )² + ridge · Σ u² · |w|²

    (k, c) weights and the (c,) spread of what they leave over.
    """
    count = min(len(part), _FIT_SAMPLES)
    chosen = torch.linspace(0, len(part) - 1, count).long().tolist()
    u = part.read(chosen, 0, None).double()
    windows = u.unfold(1, history + 1, 1).movedim(2, 0).flatten(1, -2)
    thin = max(1, windows.shape[1] // _FIT_VALUES)
    windows = windows[:, ::thin]
    past, following = windows[..., :-1], windows[..., -1:]
    gram = past.mT @ past
    size = gram.diagonal(dim1=1, dim2=2).mean(dim=1).view(-1, 1, 1)
    weights = torch.linalg.solve(
        gram + ridge * size * torch.eye(history, dtype=u.dtype), past.mT @ following
    )
    spread = (following - past @ weights).square().mean(dim=(1, 2)).sqrt()
    return weights[..., 0].T.float(), spread.float()


def fit_stencil_base(part: Part, history: int, ridge: float = 1e-8) -> tuple[Tensor, Tensor]:
    """The linear scheme over the last frame that predicts the next one best.

        min_S Σ ‖ u_{t+1} − S ∗ u_t ‖² + ridge · Σ u² · |S|²

    (c, c, 3, …) weights from all fields to each and the (c,) spread of what they leave over.
    Frames that are only ever shown, the first `history` of them, are not fitted.
    """
    count, boundary = min(len(part), _FIT_SAMPLES), part.data.grid.boundary
    gram, cells = torch.zeros(()), 0
    for i in torch.linspace(0, len(part) - 1, count).long().tolist():
        u = part.read([i], history - 1)[0].double()
        thin = max(1, count * u[:, 0].numel() // _FIT_VALUES)
        both = torch.cat([_taps(u[:-1], boundary), u[1:].transpose(0, 1).flatten(1)])[:, ::thin]
        gram, cells = gram + both @ both.T, cells + both.shape[1]
    unknowns = len(gram) - u.shape[1]
    past, mixed = gram[:unknowns, :unknowns], gram[:unknowns, unknowns:]
    held = past + ridge * past.diagonal().mean() * torch.eye(unknowns, dtype=gram.dtype)
    weights = torch.linalg.solve(held, mixed)
    left = gram[unknowns:, unknowns:] - 2 * weights.T @ mixed + weights.T @ past @ weights
    scheme = weights.T.unflatten(1, (u.shape[1], *[3] * len(boundary)))
    return scheme.float(), (left.diagonal().clamp_min(0) / cells).sqrt().float()


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
    predict = emulator.settings.predict
    if data.steady:
        given, wanted = fit_frames(data.train, 0, 1), fit_frames(data.train, 1, 1)
    elif predict == "frame":
        given, wanted = fit_frames(data.train), fit_frames(data.train, emulator.history)
    elif predict == "increment":
        given, wanted = fit_frames(data.train), fit_increments(data.train, emulator.history - 1)
    else:
        given = fit_frames(data.train)
        if predict == "linear":
            weights, spread = fit_linear_base(data.train, emulator.history)
            emulator.base.copy_(weights)
        else:
            weights, spread = fit_stencil_base(data.train, emulator.history)
            emulator.scheme.copy_(weights)
        wanted = Scaling(torch.zeros_like(spread), spread)
    emulator.input_mean.copy_(given.mean)
    emulator.input_std.copy_(given.std)
    emulator.output_mean.copy_(wanted.mean)
    emulator.output_std.copy_(wanted.std.clamp_min(1e-12))
