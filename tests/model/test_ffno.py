"""F-FNO: one transform an axis, added up."""

from __future__ import annotations

import torch

from fino.model.cost import parameters
from fino.model.ffno import FFNO, AxisWeights, NormedPointwise


def test_axes_are_transformed_one_by_one_and_added() -> None:
    torch.manual_seed(0)
    layer = AxisWeights(3, (4, 5), gain=1.0).double()
    v = torch.randn(2, 3, 12, 14, dtype=torch.float64)
    expected = torch.zeros_like(v)
    for axis, weight in enumerate(layer.weights, start=2):
        matrix = torch.complex(weight[0], weight[1])
        spectrum = torch.fft.rfft(v, dim=axis).movedim((axis, 1), (-2, -1))
        out = torch.zeros_like(spectrum)
        for k in range(len(matrix)):
            out[..., k, :] = spectrum[..., k, :] @ matrix[k]
        expected += torch.fft.irfft(out.movedim((-2, -1), (axis, 1)), n=v.shape[axis], dim=axis)
    assert torch.allclose(layer(v), expected, atol=1e-12)


def test_shared_layers_have_one_set_of_frequencies() -> None:
    shape = {"dims": 2, "inputs": 3, "outputs": 1, "width": 8, "modes": 4, "layers": 5}
    shared, own = FFNO(**shape, shared=True), FFNO(**shape, shared=False)
    assert parameters(own) - parameters(shared) == 4 * 2 * (2 * 4 * 8 * 8)


def test_the_paper_size_has_the_parameters_of_the_reference_configuration() -> None:
    # fourierflow, torus_li/markov/4_layers: width 64, 16 modes, 4 layers, factor 4, shared,
    # weight norm: each matrix has weights, biases and lengths.
    def matrix(inputs: int, outputs: int) -> int:
        return inputs * outputs + 2 * outputs

    expected = (
        matrix(3, 64)
        + 2 * (64 * 64 * 16 * 2)
        + 4 * (matrix(64, 256) + matrix(256, 64))
        + matrix(64, 128)
        + matrix(128, 1)
    )
    net = FFNO(dims=2, inputs=3, outputs=1, **FFNO.sizes["paper"])
    assert parameters(net) == expected == 404_674


def test_a_normed_matrix_begins_as_the_matrix_and_keeps_its_lengths() -> None:
    torch.manual_seed(0)
    layer, v = NormedPointwise(3, 2), torch.randn(1, 3, 8)
    assert torch.allclose(layer(v), layer.inner(v), atol=1e-6)
    before = layer(v)
    layer.inner.weight.data *= 7
    assert torch.allclose(layer(v), before, atol=1e-6)


def test_the_residual_carries_the_field_past_silent_layers() -> None:
    torch.manual_seed(0)
    net = FFNO(dims=1, inputs=2, outputs=1, width=4, modes=3, layers=2, head=8)
    for layer in net.contract:
        layer.weight.data.zero_()
        layer.bias.data.zero_()
    u = torch.randn(1, 2, 16)
    expected = net.project(torch.relu(net.head(net.lift(u))))
    assert torch.allclose(net(u), expected, atol=1e-6)
