"""Untrained emulators of any shape, with every number drawn at random, and what they are given."""

from __future__ import annotations

import torch

from fino.given import Given
from fino.grid import Grid, boundary_per_axis
from fino.model import MODELS
from fino.model.conditioning import ConditioningSettings
from fino.model.emulator import Emulator, EmulatorSettings

#: Everything that a step can be given beside the history.
EVERYTHING = {
    "parameters": ("nu", "speed"),
    "logs": (True, False),
    "signals": ("tide",),
    "known": ("depth",),
    "forcing": ("wind",),
    "walls": "neumann",
}


def random_model(
    name="fino",
    points=(12, 8),
    boundary="periodic",
    fields=("u",),
    history=2,
    predict="stencil",
    coordinates=False,
    edges=True,
    beside=None,
    seed=0,
    **settings,
) -> Emulator:
    """A model whose scalings, priors and weights are all random, and tame over many steps."""
    grid = Grid(points, ((0.0, 1.0),) * len(points), boundary_per_axis(boundary, len(points)))
    given = ConditioningSettings(**(beside or {}))
    shape = EmulatorSettings(
        model=name,
        fields=fields,
        history=history,
        predict=predict,
        coordinates=coordinates,
        edges=edges,
        given=given,
    )
    if given.condition == "film":
        settings["parameters"] = given.scalars
    torch.manual_seed(seed)
    network = MODELS[name](
        dims=grid.dims,
        inputs=shape.inputs(grid),
        outputs=len(fields),
        boundary=grid.boundary,
        **settings,
    )
    model = Emulator(network, shape, grid).eval()
    for key, value in model.state_dict().items():
        if key.endswith("std"):
            value.uniform_(0.5, 1.5)
        elif key.endswith(("theta_low", "theta_high")):  # positive: some are scaled by logarithm
            value.fill_(0.5 if key.endswith("low") else 1.5)
        elif not key.startswith("network"):
            value.uniform_(-0.3, 0.3)
        elif ".film." in key or ".embed." in key:
            value.mul_(2.0)
    model.output_std.mul_(0.1)
    return model


def random_given(model: Emulator, space=None, batch=1, seed=1) -> Given:
    """A start of a batch of trajectories with everything that the model takes, for two steps."""
    draw = torch.Generator().manual_seed(seed)
    space = tuple(space or model.grid.points)
    s, b = model.settings.given, batch

    def field(*shape):
        return torch.randn(*shape, generator=draw)

    found = {}
    if s.parameters:
        found["parameters"] = torch.rand(b, len(s.parameters), generator=draw) + 0.5
    if s.signals:
        found["signals"] = field(b, 2, len(s.signals))
    if s.known:
        found["known"] = field(b, len(s.known), *space)
    if s.forcing:
        found["forcing"] = field(b, 2, len(s.forcing), *space)
    if s.walls:
        found["mask"] = (torch.rand(b, 1, *space, generator=draw) > 0.3).float()
    over = (-1, *[1] * len(space))
    history = field(b, model.history, model.channels, *space) * model.input_std.view(over)
    return Given(0.3 * history + model.input_mean.view(over), **found)
