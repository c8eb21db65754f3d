"""Textbook stencils put in as weights come out with the right derivative and order."""

from __future__ import annotations

import numpy as np
import pytest

from fino.inspection.stencil import (
    chance_distance,
    classical_stencils,
    moments,
    stencil_report,
    symbol,
)

H = 0.1


def embedded(weights: np.ndarray, radius: int) -> np.ndarray:
    """The same weights in the middle of a wider window."""
    width = [(radius - n // 2,) * 2 for n in weights.shape]
    return np.pad(weights, width)


LINES = {
    "∂x second": ([-0.5, 0, 0.5], 1, "∂x", 2, "∂x central, order 2"),
    "∂x fourth": ([1 / 12, -8 / 12, 0, 8 / 12, -1 / 12], 1, "∂x", 4, "∂x central, order 4"),
    "upwind from the left": ([-1, 1, 0], 1, "∂x", 1, "∂x backward, order 1"),
    "upwind from the right": ([0, -1, 1], 1, "∂x", 1, "∂x forward, order 1"),
    "∂xx second": ([1, -2, 1], 2, "∂xx", 2, "∂xx central, order 2"),
    "∂xx fourth": (
        [-1 / 12, 16 / 12, -30 / 12, 16 / 12, -1 / 12],
        2,
        "∂xx",
        4,
        "∂xx central, order 4",
    ),
    "identity": ([0, 1, 0], 0, "identity", None, "identity"),
}


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("radius", [2, 3])
def test_a_classical_stencil_on_a_line_is_recognised(name: str, radius: int) -> None:
    weights, derivative, operator, order, nearest = LINES[name]
    learned = embedded(-3.0 * np.array(weights) / H**derivative, radius).astype(np.float32)
    report = stencil_report(learned, (H,))
    assert report.operator == operator
    assert report.order == order
    assert report.nearest.name == nearest
    assert report.nearest.distance < 1e-6
    assert report.nearest.scale == pytest.approx(-3.0, rel=1e-6)
    assert [c for _, c in report.terms] == pytest.approx([-3.0], rel=1e-5)


FIVE = np.array([[0, 1, 0], [1, -4, 1], [0, 1, 0]]) / H**2
NINE = np.array([[1, 4, 1], [4, -20, 4], [1, 4, 1]]) / (6 * H**2)


@pytest.mark.parametrize(("weights", "points"), [(FIVE, 5), (NINE, 9)])
def test_the_laplacians_are_told_apart_and_are_of_second_order(
    weights: np.ndarray, points: int
) -> None:
    report = stencil_report(weights.astype(np.float32), (H, H))
    assert (report.operator, report.order) == ("∇²", 2)
    assert report.nearest.name == f"∇² {points}-point, order 2"
    assert report.nearest.distance < 1e-6
    assert dict(report.terms)[(2, 0)] == pytest.approx(1.0, rel=1e-5)


def test_every_stencil_of_the_table_is_what_it_says() -> None:
    for spacing, cells in (((H,), 5), ((H, H), 5), ((H, 2 * H), 5), ((H, H, H), 3)):
        for known in classical_stencils(spacing, (cells,) * len(spacing)):
            report = stencil_report(known.weights, spacing)
            assert dict(report.terms) == pytest.approx(dict(known.terms)), known.name
            assert report.order == known.order, known.name


def test_the_mixed_derivative_and_a_stretched_grid_are_recognised() -> None:
    mixed = np.array([[1, 0, -1], [0, 0, 0], [-1, 0, 1]]) / (4 * H * 2 * H)
    report = stencil_report(mixed, (H, 2 * H))
    assert (report.operator, report.order) == ("∂xy", 2)
    stretched = np.zeros((3, 3))
    stretched[:, 1] += np.array([1, -2, 1]) / H**2
    stretched[1, :] += np.array([1, -2, 1]) / (2 * H) ** 2
    report = stencil_report(stretched, (H, 2 * H))
    assert (report.operator, report.order) == ("∇²", 2)
    assert report.nearest.name == "∇² 5-point, order 2"


def test_moments_are_taylor_coefficients() -> None:
    weights = np.array([0.3, -0.2, 0.7])
    found = moments(weights, (H,), highest=3)
    u = lambda x: 2 + 3 * x + 5 * x**2  # noqa: E731
    applied = sum(w * u(p * H) for w, p in zip(weights, (-1, 0, 1), strict=True))
    assert applied == pytest.approx(found[(0,)] * 2 + found[(1,)] * 3 + found[(2,)] * 10)


def test_the_symbol_meets_the_exact_one_for_long_waves_and_leaves_it_for_short_ones() -> None:
    second = symbol(np.array([-0.5, 0, 0.5]) / H, (H,), (((1,), 1.0),))
    fourth = symbol(np.array([1, -8, 0, 8, -1]) / (12 * H), (H,), (((1,), 1.0),))
    np.testing.assert_allclose(second.learned, 1j * np.sin(second.theta) / H, atol=1e-12)
    np.testing.assert_allclose(second.exact, 1j * second.theta / H, atol=1e-9)
    right = [np.abs(s.learned - s.exact) < 0.1 * np.abs(s.exact) for s in (second, fourth)]
    assert 0.2 < right[0].mean() < right[1].mean() < 1
    assert right[0][:16].all() and not right[1][-1]


def test_the_symbol_of_a_plane_stencil_along_an_axis_is_that_of_its_line() -> None:
    along_y = symbol(FIVE, (H, H), (((2, 0), 1.0), ((0, 2), 1.0)), axis=1)
    np.testing.assert_allclose(along_y.learned, (2 * np.cos(along_y.theta) - 2) / H**2, atol=1e-9)


def test_noise_on_a_stencil_is_reported_as_distance() -> None:
    noisy = np.array([-0.5, 0.05, 0.5])
    report = stencil_report(noisy, (1.0,))
    assert report.nearest.name == "∂x central, order 2"
    assert report.nearest.distance == pytest.approx(0.05 / np.linalg.norm(noisy))


def test_random_stencils_lie_far_from_the_table_in_two_dimensions() -> None:
    assert 0.1 < chance_distance((3,)) < chance_distance((3, 3)) < 1


def test_a_stencil_of_even_length_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="odd number of weights"):
        stencil_report(np.ones(4), (1.0,))
