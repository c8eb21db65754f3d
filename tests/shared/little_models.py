"""A small model whose rollouts neither blow up nor die, for any grid and history."""

from collections.abc import Callable

import pytest
import torch

from fino.grid import Grid
from fino.model.emulator import Emulator, EmulatorSettings
from fino.model.fino import Fino


@pytest.fixture(scope="session")
def make_model() -> Callable[..., Emulator]:
    def make(
        points: tuple[int, ...],
        boundary: str | tuple[str, ...] = "periodic",
        *,
        history: int = 2,
        channels: int = 1,
        positions: bool = False,
        dtype: torch.dtype = torch.float64,
        predict: str = "increment",
        **settings: object,
    ) -> Emulator:
        torch.manual_seed(len(points))
        grid = Grid(points, ((0.0, 1.0),) * len(points), boundary)  # type: ignore[arg-type]
        shown = EmulatorSettings(
            model="fino",
            fields=tuple("uvw"[:channels]),
            history=history,
            predict=predict,  # type: ignore[arg-type]
            coordinates=positions,
            edges=positions,
        )
        network = Fino(
            **{"width": 3, "levels": 1, "activation": "gelu", **settings},  # type: ignore[arg-type]
            dims=grid.dims,
            inputs=shown.inputs(grid),
            outputs=channels,
            boundary=grid.boundary,
        )
        model = Emulator(network, shown, grid).to(dtype).eval()
        model.output_std.fill_(0.1)
        if predict == "linear":
            model.prior.weight.copy_(torch.linspace(0.1, 1, history).unsqueeze(1) / history)
        return model

    return make


@pytest.fixture(scope="session")
def make_history() -> Callable[..., torch.Tensor]:
    def make(model: Emulator, samples: int | None = None, seed: int = 0) -> torch.Tensor:
        stream = torch.Generator().manual_seed(seed)
        lead = () if samples is None else (samples,)
        size = (*lead, model.history, model.channels, *model.grid.points)
        return torch.randn(size, generator=stream, dtype=model.input_std.dtype)

    return make
