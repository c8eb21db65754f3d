"""Parity with the neuraloperator library: `pytest -m peers` where the `peers` extra is installed.

The library warns and prints on import; those words are its own, so they are silenced here.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import fino
from fino.data.arrays import from_array
from fino.model import MODELS
from fino.model.cost import parameters

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("ignore")]

CLASSIC = {
    "use_channel_mlp": False,
    "lifting_channel_ratio": 0,
    "non_linearity": F.relu,
}


@pytest.fixture(autouse=True)
def _needs_the_library() -> None:
    pytest.importorskip("neuralop")


def theirs(dims: int, **settings: object) -> torch.nn.Module:
    from neuralop.models import FNO

    torch.manual_seed(0)
    shape = {"in_channels": 3, "out_channels": 2, "hidden_channels": 20, "n_layers": 4}
    modes = (*[12] * (dims - 1), 10)
    net = FNO(n_modes=modes, positional_embedding=None, **shape, **settings)
    for weight in net.parameters():
        weight.data += 0.05 * torch.randn_like(weight)
    return net


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("settings", [{}, CLASSIC], ids=["default", "classic"])
def test_our_fno_with_their_weights_gives_their_output(dims: int, settings: dict) -> None:
    from lab.peers import fno_from_neuralop

    net = theirs(dims, **settings)
    ours = fno_from_neuralop(net)
    u = torch.randn(2, 3, *[32 if dims < 3 else 16] * dims)
    expected = net(u)
    assert expected.std() > 0.01
    assert torch.allclose(ours(u), expected, rtol=0, atol=1e-5)
    assert parameters(ours) == parameters(net)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_our_differential_kernel_with_their_weights_gives_their_output(dims: int) -> None:
    from neuralop.layers.differential_conv import FiniteDifferenceConvolution

    from fino.model.local_fno import DifferentialKernel

    torch.manual_seed(0)
    net = FiniteDifferenceConvolution(3, 4, dims, kernel_size=3, padding="periodic")
    ours = DifferentialKernel(3, 4, radius=1, boundary=("periodic",) * dims, unit=1 / 8)
    ours.load_state_dict({"weight": net.conv.weight})
    u = torch.randn(2, 3, *[16] * dims)
    # Theirs measures the spacing against the grid it was made for: here eight cells.
    assert torch.allclose(ours(u, 1 / 16), net(u, 8 / 16), atol=1e-5)


def test_our_local_kernels_have_as_many_weights_as_theirs() -> None:
    pytest.importorskip("torch_harmonics")
    from neuralop.models import LocalNO

    shape = {"n_modes": (12, 12), "in_channels": 3, "out_channels": 1, "hidden_channels": 20}
    blocks = LocalNO(default_in_shape=(32, 32), **shape).local_no_blocks
    layer = MODELS["local-fno"](dims=2, inputs=3, outputs=1, width=20).layers[0]
    assert parameters(layer.differential) == parameters(blocks.differential[0])
    assert parameters(layer.integral) == parameters(blocks.local_convs[0])


@pytest.mark.parametrize("name", ["neuralop-fno", "neuralop-local-no"])
@pytest.mark.parametrize("dims", [1, 2])
def test_a_peer_keeps_our_promise(name: str, dims: int, tmp_path) -> None:
    if name == "neuralop-local-no":
        pytest.importorskip("torch_harmonics")
    u = torch.randn(6, 4, 2, *[32] * dims)
    data = from_array(u, dt=0.1, extent=(0, 1), boundary="periodic", fields=("a", "b"))
    settings = {"width": 8, "modes": 4, "layers": 2}
    if name == "neuralop-local-no":
        settings["points"] = 32
    model = fino.build(name, data, history=2, **settings).eval()
    assert not model.locality.is_local
    fino.save(model, tmp_path / "model")
    history = data.read([0, 1], 0, 2)
    loaded = fino.load(tmp_path / "model")
    assert torch.equal(loaded(history), model(history))
    assert fino.rollout(loaded, history, steps=2).isfinite().all()


def test_peers_are_in_the_table_where_the_library_is() -> None:
    assert "neuralop-fno" in MODELS
    assert MODELS["neuralop-fno"].__name__ == "NeuralopFNO"
