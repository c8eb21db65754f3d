"""Tiles give the answer of the undivided field, whatever the network and the domain."""

from dataclasses import dataclass

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from fino.grid import BOUNDARIES
from fino.inference.tiles import apply
from fino.locality import Locality
from fino.model import MODELS
from fino.model.fino import Fino
from fino.model.fno import FNO

#: What equality means: the library adds in another order for another shape.
TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-12}

FEW = settings(
    max_examples=140,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)


@dataclass(frozen=True)
class Case:
    """A network, a field and a way to cut it."""

    points: tuple[int, ...]
    tile: tuple[int, ...]
    boundary: tuple[str, ...]
    radius: tuple[int, ...]
    levels: int
    upsample: str
    dtype: torch.dtype
    batch: int = 1
    samples: int = 1
    seed: int = 0

    def network(self) -> Fino:
        torch.manual_seed(self.seed)
        return Fino(
            dims=len(self.points),
            inputs=2,
            outputs=1,
            width=3,
            levels=self.levels,
            radius=self.radius,
            boundary=self.boundary,
            upsample=self.upsample,
            activation="gelu",
        ).to(self.dtype)

    def field(self) -> Tensor:
        stream = torch.Generator().manual_seed(self.seed)
        return torch.randn(self.samples, 2, *self.points, generator=stream, dtype=self.dtype)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    dims = draw(st.sampled_from([1, 1, 2, 2, 2, 3]))
    levels = draw(st.integers(0, 2 if dims < 3 else 1))
    upsample = draw(st.sampled_from(["nearest", "linear"]))
    most = {1: 400, 2: 56, 3: 24}[dims]
    radius = tuple(draw(st.integers(1, {1: 3, 2: 2, 3: 1}[dims])) for _ in range(dims))
    stride = 2**levels
    points = tuple(
        stride * draw(st.integers(max(3, r + 1), max(3, r + 1, most // stride))) for r in radius
    )
    return Case(
        points=points,
        tile=tuple(draw(st.integers(max(1, n // 6), n)) for n in points),
        boundary=tuple(draw(st.sampled_from(BOUNDARIES)) for _ in range(dims)),
        radius=radius,
        levels=levels,
        upsample=upsample,
        dtype=draw(st.sampled_from([torch.float32, torch.float64])),
        batch=draw(st.integers(1, 4)),
        samples=draw(st.integers(1, 2)),
        seed=draw(st.integers(0, 100)),
    )


def difference(a: Tensor, b: Tensor) -> float:
    """The largest difference relative to the largest value."""
    return float((a - b).abs().max() / b.abs().max())


@FEW
@given(cases())
def test_tiles_reassemble_to_the_whole_field(case: Case) -> None:
    network, x = case.network(), case.field()
    with torch.no_grad():
        whole = network(x)
    assert difference(apply(network, x, case.tile, batch=case.batch), whole) < TOLERANCE[case.dtype]


class Shortsighted(nn.Module):
    """The same network, claiming a reach that makes the halo one stride too small."""

    def __init__(self, network: Fino) -> None:
        super().__init__()
        self.network, self.settings = network, network.settings
        true = network.locality
        short = tuple(h - s for h, s in zip(true.halo(), true.stride, strict=True))
        self.locality = Locality(short, true.stride)

    def forward(self, x: Tensor) -> Tensor:
        return self.network(x)


@settings(FEW, max_examples=15)
@given(
    st.sampled_from([(0, "nearest", 1), (0, "nearest", 2), (1, "linear", 1), (2, "nearest", 1)]),
    st.sampled_from([1, 2]),
    st.sampled_from(BOUNDARIES),
    st.sampled_from([8, 16]),
)
def test_a_halo_one_stride_too_small_is_caught(
    shape: tuple[int, str, int], dims: int, boundary: str, tile: int
) -> None:
    levels, upsample, radius = shape
    case = Case(
        points=(80,) * dims,
        tile=(tile,) * dims,
        boundary=(boundary,) * dims,
        radius=(radius,) * dims,
        levels=levels,
        upsample=upsample,
        dtype=torch.float64,
    )
    network, x = case.network(), case.field()
    with torch.no_grad():
        whole = network(x)
    assert difference(apply(network, x, tile), whole) < TOLERANCE[case.dtype]
    assert difference(apply(Shortsighted(network), x, tile), whole) > TOLERANCE[case.dtype]


def test_a_model_that_sees_everything_is_refused_a_tile() -> None:
    network = FNO(dims=1, inputs=1, outputs=1, modes=2)
    with pytest.raises(ValueError) as refusal:
        apply(network, torch.zeros(1, 1, 16), tile=8)
    assert str(refusal.value) == (
        "FNO sees the whole field (radius inf), so it cannot run in tiles. "
        "Use a local model, or infer without tiles."
    )


def test_a_network_that_does_not_say_its_reach_is_refused() -> None:
    with pytest.raises(ValueError, match="Conv1d does not say how far it sees"):
        apply(nn.Conv1d(1, 1, 3, padding=1), torch.zeros(1, 1, 16), tile=8)


@pytest.mark.parametrize("tile", [0, (8, 8), (4, -1)])
def test_a_tile_without_cells_is_refused(tile: object) -> None:
    network = Fino(dims=1, inputs=1, outputs=1, width=2, levels=0)
    with pytest.raises(ValueError, match="tile should be one positive whole number"):
        apply(network, torch.zeros(1, 1, 16), tile=tile)  # type: ignore[arg-type]


def test_a_grid_off_the_stride_is_refused_before_any_work() -> None:
    network = Fino(dims=1, inputs=1, outputs=1, width=2, levels=2)
    with pytest.raises(
        ValueError, match=r"grid \(30,\) should be a multiple of the model's stride"
    ):
        apply(network, torch.zeros(1, 1, 30), tile=8)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_every_model_either_runs_in_tiles_or_says_why_not(name: str) -> None:
    torch.manual_seed(0)
    network = MODELS[name](
        dims=1, inputs=2, outputs=1, boundary="neumann", **MODELS[name].sizes["small"]
    )
    network = network.double().eval()
    locality: Locality = network.locality
    if not locality.is_local:
        with pytest.raises(ValueError, match=r"sees the whole field \(radius inf\)"):
            apply(network, torch.zeros(1, 2, 64, dtype=torch.float64), tile=16)
        return
    cells = 4 * locality.halo()[0]
    x = torch.randn(1, 2, cells, dtype=torch.float64)
    with torch.no_grad():
        whole = network(x)
    assert difference(apply(network, x, cells // 4), whole) < 1e-12
