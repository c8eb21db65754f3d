"""What every model of the table promises, tried on each of them."""

from __future__ import annotations

import math

import pytest
import torch

import fino
from fino.data.arrays import from_array
from fino.locality import Locality
from fino.model import MODELS
from fino.model.cost import multiply_adds, parameters
from fino.settings import Settings

POINTS = {1: 32, 2: 32, 3: 8}
GLOBAL = {"fno", "ufno", "ffno", "local-fno", "transolver"}
#: Models whose settings make them see little, so that a small grid shows where they stop.
NEAR = {
    "fino": {"width": 4, "levels": 1},
    "plain": {"width": 4, "levels": 1, "activation": "gelu"},
    "unet": {"width": 2, "levels": 1},
    "cnext-unet": {"width": 2, "levels": 1, "blocks": 1, "radius": 1, "layer_scale": 1.0},
    "dilated-resnet": {"width": 4, "blocks": 1, "dilations": (1, 2, 1), "activation": "gelu"},
    "percnn": {"width": 4},
}
#: What fits three dimensions and a few seconds.
TINY = {
    "fino": {"width": 4, "levels": 1},
    "plain": {"width": 4, "levels": 1},
    "unet": {"width": 2, "levels": 1},
    "cnext-unet": {"width": 2, "levels": 1, "blocks": 1, "layer_scale": 1.0},
    "dilated-resnet": {"width": 4, "blocks": 1, "dilations": (1, 2, 1)},
    "percnn": {"width": 4},
    "fno": {"width": 4, "modes": 3, "layers": 2, "head": 8},
    "ufno": {"width": 4, "modes": 3, "layers": 2, "paths": 1, "head": 8},
    "ffno": {"width": 4, "modes": 3, "layers": 2, "factor": 2, "head": 8},
    "local-fno": {"width": 4, "modes": 3, "layers": 2, "head": 8},
    "transolver": {"width": 8, "heads": 2, "slices": 4, "layers": 2},
}

#: Our own; those of other libraries are tried in tests/model/test_peers.py.
OURS = [name for name in MODELS if not name.startswith("neuralop")]
every_model = pytest.mark.parametrize("name", OURS)
every_dims = pytest.mark.parametrize("dims", [1, 2, 3])


def network(
    name: str, dims: int, boundary: str = "periodic", **settings: object
) -> torch.nn.Module:
    torch.manual_seed(0)
    shape = {"dims": dims, "inputs": 3, "outputs": 2, "boundary": boundary}
    return MODELS[name](**shape, **(settings or TINY.get(name, {})))


def field(dims: int, batch: int = 2, points: int | None = None) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(batch, 3, *[points or POINTS[dims]] * dims, generator=generator)


def test_the_table_holds_fino_and_its_rivals() -> None:
    assert {"fino", "unet", "fno", "ufno", "ffno", "local-fno", "transolver"} <= set(MODELS)


def test_a_misspelt_model_is_answered_with_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"^Unknown model 'transolve'. Did you mean 'transolver'"):
        MODELS["transolve"]


@every_model
@every_dims
@pytest.mark.parametrize("boundary", ["periodic", "dirichlet", "neumann", "reflect"])
def test_a_field_keeps_its_grid(name: str, dims: int, boundary: str) -> None:
    out = network(name, dims, boundary)(field(dims))
    assert out.shape == (2, 2, *[POINTS[dims]] * dims)
    assert out.dtype == torch.float32
    assert out.isfinite().all()


@every_model
def test_each_axis_may_have_its_own_boundary(name: str) -> None:
    out = network(name, 2, ("periodic", "neumann"))(field(2))
    assert out.shape == (2, 2, 32, 32)


@every_model
@pytest.mark.parametrize("dims", [1, 2])
@pytest.mark.parametrize("size", ["small", "paper", "large"])
def test_every_size_can_be_built_by_name(name: str, dims: int, size: str) -> None:
    with torch.device("meta"):
        built = network(name, dims, **MODELS[name].sizes[size])
        assert built(torch.empty(1, 3, *[32] * dims)).shape == (1, 2, *[32] * dims)


@every_model
def test_sizes_grow_by_name(name: str) -> None:
    with torch.device("meta"):
        small, paper, large = (
            parameters(network(name, 2, **MODELS[name].sizes[s]))
            for s in ("small", "paper", "large")
        )
    assert small < paper < large


@every_model
@pytest.mark.parametrize("dims", [1, 2])
def test_a_gradient_reaches_every_parameter(name: str, dims: int) -> None:
    net = network(name, dims)
    net(field(dims)).square().sum().backward()
    unreached = [
        key
        for key, weight in net.named_parameters()
        if weight.grad is None or not weight.grad.abs().max() > 0
    ]
    assert unreached == []


@every_model
def test_settings_rebuild_the_network(name: str) -> None:
    net = network(name, 2)
    again = MODELS[name](**net.settings.model_dump())
    from_json = MODELS[name](**net.settings.model_dump(mode="json"))
    assert isinstance(net.settings, Settings)
    assert again.settings == net.settings == from_json.settings
    again.load_state_dict(net.state_dict())
    assert torch.equal(again.eval()(field(2)), net.eval()(field(2)))


@every_model
@pytest.mark.parametrize("dims", [1, 2])
def test_a_saved_model_is_the_same_after_loading(name: str, dims: int, tmp_path) -> None:
    u = field(dims, batch=6).unsqueeze(1).expand(-1, 4, -1, *[-1] * dims)
    data = from_array(u.contiguous(), dt=0.1, extent=(0, 1), boundary="periodic")
    model = fino.build(name, data, history=2, **TINY.get(name, {})).eval()
    fino.save(model, tmp_path / "model")
    loaded = fino.load(tmp_path / "model")
    history = data.read([0, 1], 0, 2)
    assert torch.equal(model(history), loaded(history))
    assert fino.rollout(loaded, history, steps=3).shape == (2, 3, 3, *[32] * dims)


@every_model
@pytest.mark.parametrize("dims", [1, 2])
def test_double_precision_works_and_agrees_with_single(name: str, dims: int) -> None:
    net = network(name, dims).eval()
    single = net(field(dims))
    double = net.double()(field(dims).double())
    assert double.dtype == torch.float64
    # Where a cell's few channels are nearly equal, LayerNorm amplifies rounding some 300 times.
    atol = 1e-4 if name == "cnext-unet" else 1e-5
    assert torch.allclose(double.float(), single, atol=atol)


@every_model
@pytest.mark.parametrize("dims", [1, 2])
def test_no_model_sees_farther_than_it_says(name: str, dims: int) -> None:
    net = network(name, dims, **NEAR.get(name, TINY.get(name, {}))).eval().double()
    assert isinstance(net.locality, Locality)
    seen = reach_by_gradient(net, dims, points=64)
    assert all(s <= r for s, r in zip(seen, net.locality.radius, strict=True))
    if name in GLOBAL:
        assert net.locality.radius == (math.inf,) * dims
        assert seen == (32,) * dims
    else:
        assert all(math.isfinite(r) for r in net.locality.radius)
        # The declared reach is not idle: some cell of the stride's block comes within a cell.
        assert all(s >= r - 1 for s, r in zip(seen, net.locality.radius, strict=True))


def reach_by_gradient(net: torch.nn.Module, dims: int, points: int) -> tuple[int, ...]:
    """The farthest cell on each axis that moves any cell of a stride's block."""
    u = field(dims, batch=4, points=points).double().requires_grad_()
    out = net(u)
    farthest = [0] * dims
    for offset in range(net.locality.stride[0]):
        centre = points // 2 + offset
        probe = out[(..., *[centre] * dims)].sum()
        (grad,) = torch.autograd.grad(probe, u, retain_graph=True)
        touched = grad.abs().sum(dim=(0, 1)) > 0
        for axis in range(dims):
            cells = touched.movedim(axis, 0).reshape(points, -1).any(dim=1).nonzero()[:, 0]
            away = (cells - centre).abs()
            away = torch.minimum(away, points - away)
            farthest[axis] = max(farthest[axis], int(away.max()))
    return tuple(farthest)


@every_model
@pytest.mark.parametrize("dims", [1, 2])
def test_a_periodic_model_commutes_with_shifts_by_its_stride(name: str, dims: int) -> None:
    net = network(name, dims).eval().double()
    u, axes = field(dims).double(), tuple(range(2, 2 + dims))
    shift = tuple(3 * s for s in net.locality.stride)
    moved = net(u.roll(shift, axes))
    assert torch.allclose(moved, net(u).roll(shift, axes), rtol=0, atol=1e-12)


@every_model
def test_a_model_with_walls_does_not_commute_with_shifts(name: str) -> None:
    net = network(name, 1, "dirichlet").eval().double()
    u = field(1).double()
    assert not torch.allclose(net(u.roll(8, 2)), net(u).roll(8, 2), rtol=0, atol=1e-8)


@every_model
def test_mistakes_are_answered_in_one_line(name: str) -> None:
    good = {"dims": 1, "inputs": 3, "outputs": 2}
    with pytest.raises(ValueError, match=r"^Unknown setting 'widht'\. Did you mean 'width'\?$"):
        MODELS[name](**good, widht=4)
    with pytest.raises(ValueError, match=r"^Unknown boundary 'perodic'\. Did you mean 'periodic'"):
        MODELS[name](**good, boundary="perodic")
    with pytest.raises(ValueError, match=r"^dims should be 1, 2 or 3, got 4\.$"):
        MODELS[name](**{**good, "dims": 4})
    with pytest.raises(ValueError) as error:
        MODELS[name](**good, width=0)
    assert "width" in str(error.value) and "\n" not in str(error.value)


@every_model
def test_a_field_of_another_shape_is_refused_in_one_line(name: str) -> None:
    net = network(name, 1)
    with pytest.raises(ValueError, match="should be 3 but is 5"):
        net(torch.zeros(1, 5, 32))
    with pytest.raises(ValueError, match="should have 1 space axes, got 2"):
        net(torch.zeros(1, 3, 32, 32))


@every_model
def test_every_model_cites_its_paper(name: str) -> None:
    assert any(year in MODELS[name].paper for year in map(str, range(2015, 2030)))


@every_model
@pytest.mark.parametrize("dims", [1, 2])
def test_cost_is_counted_and_linear_in_the_batch(name: str, dims: int) -> None:
    net = network(name, dims)
    one = multiply_adds(net, (1, 3, *[32] * dims))
    assert one > 0
    assert multiply_adds(net, (4, 3, *[32] * dims)) == pytest.approx(4 * one, rel=0.01)
