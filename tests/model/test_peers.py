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
    from fino.model.peers import fno_from_neuralop

    net = theirs(dims, **settings)
    ours = fno_from_neuralop(net)
    u = torch.randn(2, 3, *[32 if dims < 3 else 16] * dims)
    expected = net(u)
    assert expected.std() > 0.01
    assert torch.allclose(ours(u), expected, rtol=0, atol=1e-5)
    assert parameters(ours) == parameters(net)


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
