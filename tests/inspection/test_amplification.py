"""Amplification factors and Lipschitz constants of schemes whose answers are in the books."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fino.inspection.amplification import amplification, is_equivariant
from fino.inspection.growth import BufferStep, lipschitz
from fino.locality import Locality
from fino.model.convolution import Convolution, Pool, Upsample

N = 32
ZERO = torch.zeros(1, dtype=torch.float64)


class Scheme(nn.Module):
    """A linear scheme made of one stencil with set weights; history 1."""

    history = 1

    def __init__(self, weights: list, boundary: str = "periodic") -> None:
        super().__init__()
        w = torch.tensor(weights, dtype=torch.float64)
        radius = tuple(n // 2 for n in w.shape)
        self.stencil = Convolution(1, 1, radius, (boundary,) * w.dim(), bias=False).double()
        self.stencil.weight.data.copy_(w[None, None])

    def forward(self, history: Tensor) -> Tensor:
        return self.stencil(history[:, -1])


def heat(r: float) -> Scheme:
    return Scheme([r, 1 - 2 * r, r])


def upwind(nu: float) -> Scheme:
    return Scheme([nu, 1 - nu, 0.0])


def factor(scheme: str, number: float, theta: np.ndarray) -> np.ndarray:
    if scheme == "heat":
        return 1 - 4 * number * np.sin(theta / 2) ** 2
    return 1 - number * (1 - np.exp(-1j * theta))


CASES = [("heat", 0.25), ("heat", 0.5), ("heat", 0.6), ("upwind", 0.7), ("upwind", 1.2)]


@pytest.mark.parametrize(("scheme", "number"), CASES)
def test_the_factors_of_heat_and_upwind_are_the_textbook_ones(scheme: str, number: float) -> None:
    stepper = heat(number) if scheme == "heat" else upwind(number)
    found = amplification(stepper, ZERO, (N,), history=1)
    k, factors = found.along(0)
    assert k.tolist() == list(range(N // 2 + 1))
    expected = factor(scheme, number, 2 * np.pi * k / N)
    np.testing.assert_allclose(np.abs(factors), np.abs(expected), atol=1e-6)
    beyond_limit = number > (0.5 if scheme == "heat" else 1.0)
    assert bool(found.unstable) == beyond_limit
    if beyond_limit:
        assert found.unstable[0][0] == (N // 2,)
        assert found.radius == pytest.approx(np.abs(expected).max(), abs=1e-6)


@pytest.mark.parametrize(("scheme", "number"), CASES)
def test_the_lipschitz_constant_is_the_largest_factor(scheme: str, number: float) -> None:
    stepper = heat(number) if scheme == "heat" else upwind(number)
    theta = 2 * np.pi * np.arange(N) / N
    known = np.abs(factor(scheme, number, theta)).max()
    found = lipschitz(BufferStep(stepper, torch.ones(1)), torch.randn(2, 1, 1, N).double())
    np.testing.assert_allclose(found.values, known, atol=1e-3)
    many = BufferStep(stepper, torch.ones(1), steps=5)
    np.testing.assert_allclose(
        lipschitz(many, torch.randn(1, 1, 1, N).double(), 24, newest=True).values,
        known**5,
        rtol=1e-3,
    )


def test_two_dimensional_heat_grows_the_checkerboard_first() -> None:
    r = 0.3
    stepper = Scheme([[0, r, 0], [r, 1 - 4 * r, r], [0, r, 0]])
    found = amplification(stepper, ZERO, (8, 8), history=1)
    assert found.unstable[0] == ((4, 4), pytest.approx(8 * r - 1))


def test_leapfrog_has_two_factors_and_its_history_is_followed() -> None:
    nu = 0.8

    def leapfrog(history: Tensor) -> Tensor:
        u = history[:, 1]
        return history[:, 0] - nu * (u.roll(-1, -1) - u.roll(1, -1))

    found = amplification(leapfrog, ZERO, (N,), history=2)
    assert found.radius == pytest.approx(1.0, abs=1e-6)
    assert not found.unstable
    nu = 1.1
    found = amplification(leapfrog, ZERO, (N,), history=2)
    theta = np.pi / 2
    worst = nu * np.sin(theta) + np.sqrt((nu * np.sin(theta)) ** 2 - 1)
    assert found.unstable[0] == ((N // 4,), pytest.approx(worst, abs=1e-6))


class TwoLevels(nn.Module):
    """A linear map with a pooled branch: it commutes with shifts by two cells only."""

    history = 2
    locality = Locality((3,), (2,))

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fine = Convolution(4, 2, (1,), ("periodic",)).double()
        self.coarse = Convolution(4, 2, (1,), ("periodic",)).double()
        self.pool, self.up = Pool(1), Upsample("nearest", ("periodic",))

    def forward(self, history: Tensor) -> Tensor:
        u = history.flatten(1, 2)
        return self.fine(u) + self.up(self.coarse(self.pool(u)))


def test_a_stride_is_followed_exactly_by_bloch_waves() -> None:
    stepper, n = TwoLevels(), 12
    state = torch.tensor([0.3, -0.2], dtype=torch.float64)
    assert is_equivariant(stepper, state, (n,), 2, (2,))
    assert not is_equivariant(stepper, state, (n,), 2, (1,))
    found = amplification(stepper, state, (n,), history=2, stride=(2,))
    step = BufferStep(stepper, torch.ones(2))
    jacobian = torch.autograd.functional.jacobian(
        lambda x: step(x.view(1, 2, 2, n)).flatten(), torch.zeros(4 * n, dtype=torch.float64)
    )
    whole = np.abs(np.linalg.eigvals(jacobian.numpy()))
    assert found.radius == pytest.approx(whole.max(), rel=1e-9)
    assert all(np.abs(whole - g).min() < 1e-9 for g in found.growth)


def test_a_checkerboard_that_only_a_stride_can_make_is_named_at_its_wavenumber() -> None:
    """Even cells grow, odd cells shrink: the wave that grows most holds k = 0 and Nyquist alike."""
    gain = torch.tensor([1.5, 0.5]).repeat(8).double()
    found = amplification(lambda h: h[:, -1] * gain, ZERO, (16,), history=1, stride=(2,))
    assert found.radius == pytest.approx(1.5)


def test_the_lipschitz_constant_counts_the_history() -> None:
    """Persistence over two frames keeps the last one twice: √2 in the norm of the buffer."""
    step = BufferStep(lambda h: h[:, -1], torch.ones(1))
    found = lipschitz(step, torch.randn(1, 2, 1, 8).double())
    assert float(found.values) == pytest.approx(2**0.5, abs=1e-6)


def test_the_lipschitz_constant_is_local_for_a_nonlinear_step() -> None:
    step = BufferStep(lambda h: h[:, -1] ** 2, torch.ones(1))
    u = torch.tensor([[0.1, 0.4], [0.2, -3.0]]).double().view(2, 1, 1, 2)
    np.testing.assert_allclose(lipschitz(step, u).values, [0.8, 6.0], rtol=1e-6)


def test_channels_are_measured_in_their_own_units() -> None:
    def swap(history: Tensor) -> Tensor:
        return history[:, -1].flip(1)

    u = torch.randn(1, 1, 2, 8).double()
    assert lipschitz(BufferStep(swap, torch.ones(2)), u).values == pytest.approx(1.0)
    scale = torch.tensor([1.0, 100.0])
    assert lipschitz(BufferStep(swap, scale), u).values == pytest.approx(100.0)


def test_a_grid_that_is_no_multiple_of_the_stride_is_refused() -> None:
    with pytest.raises(ValueError, match="multiple of the stride"):
        amplification(heat(0.2), ZERO, (9,), 1, stride=(2,))
