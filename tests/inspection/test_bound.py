"""Proposition 1: the bound holds where C is known, and is found useful or vacuous."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fino.inspection.growth import BufferStep, lipschitz
from fino.inspection.stability import bound_errors, geometric_sum


def scheme(weights: list[float]):
    def step(history: torch.Tensor) -> torch.Tensor:
        u = history[:, -1]
        return sum(w * u.roll(-p, -1) for w, p in zip(weights, (-1, 0, 1), strict=True))

    step.history = 1
    return step


@pytest.mark.parametrize(
    ("learned", "true"),
    [
        ([0.21, 0.59, 0.2], [0.2, 0.6, 0.2]),  # heat, dissipative
        ([0.61, 0.4, 0.0], [0.6, 0.4, 0.0]),  # upwind, C a little above one
        ([0.62, -0.24, 0.62], [0.6, -0.2, 0.6]),  # heat beyond its limit: both grow
        ([1.0, 0.0, 0.0], [1.0, 0.0, 0.001]),  # transport, C = 1
    ],
)
def test_the_bound_is_never_below_the_error_of_a_linear_problem(learned, true) -> None:
    generator = torch.Generator().manual_seed(0)
    u = torch.randn(6, 1, 32, generator=generator).double()
    model, truth = scheme(learned), scheme(true)
    guess, exact, errors, local = u, u, [], []
    for _ in range(25):
        local.append(rms(model(exact[:, None]) - truth(exact[:, None])))
        guess, exact = model(guess[:, None]), truth(exact[:, None])
        errors.append(rms(guess - exact))
    constant = lipschitz(BufferStep(model, torch.ones(1)), u[:1, None]).values.item()
    found = bound_errors(float(np.max(local)), constant, np.stack(errors, axis=1), 1.0, np.ones(25))
    assert (found.measured <= found.bound * (1 + 1e-9)).all()


def rms(change: torch.Tensor) -> np.ndarray:
    return change.flatten(1).square().mean(dim=1).sqrt().numpy()


def test_the_geometric_sum_is_right_on_both_sides_of_one_and_at_one() -> None:
    for c in (0.5, 1.0, 1.0 + 1e-12, 1.3):
        expected = [sum(c**j for j in range(k)) for k in range(1, 8)]
        np.testing.assert_allclose(geometric_sum(c, 7), expected)
    assert np.isinf(geometric_sum(10.0, 1000)[-1])


def test_a_bound_is_useful_until_it_exceeds_the_spread_of_the_data() -> None:
    errors = np.full((3, 10), 0.01)
    useful = bound_errors(0.01, 1.0, errors, spread=1.0, growth=np.ones(10))
    assert (useful.is_useful, useful.useful_steps) == (True, 10)
    vacuous = bound_errors(0.01, 2.0, errors, spread=1.0, growth=np.ones(10))
    assert (vacuous.is_useful, vacuous.useful_steps) == (False, 6)


def test_the_growth_bound_sums_what_becomes_of_each_error() -> None:
    found = bound_errors(
        0.1, 3.0, np.zeros((1, 4)), spread=1.0, growth=np.array([1.0, 1.0, 2.0, 0.0])
    )
    np.testing.assert_allclose(found.grown, [0.1, 0.2, 0.4, 0.4])
    assert (found.useful_steps, found.grown_useful_steps) == (2, 4)
