"""The grid knows where its points are, and says what is wrong in one line."""

import numpy as np
import pytest

from fino.grid import Grid


def test_cell_centres_lie_half_a_cell_from_the_edge():
    (x,) = Grid((4,), ((0.0, 1.0),), ("periodic",)).coordinates()
    np.testing.assert_allclose(x, [0.125, 0.375, 0.625, 0.875])


def test_a_strided_grid_keeps_the_points_that_slicing_keeps():
    fine = Grid((1024, 30), ((-1.0, 1.0), (0.0, 3.0)), ("periodic", "neumann"))
    coarse = fine.strided((8, 7))
    assert coarse.points == (128, 5)
    for kept, all_points, stride in zip(
        coarse.coordinates(), fine.coordinates(), (8, 7), strict=True
    ):
        np.testing.assert_allclose(kept, all_points[::stride])
    np.testing.assert_allclose(coarse.spacing, [8 * 2 / 1024, 7 * 0.1])


def test_striding_twice_is_striding_by_the_product():
    fine = Grid((64,), ((0.0, 1.0),), ("periodic",))
    assert fine.strided(2).strided(4) == fine.strided(8)


def test_an_extent_may_run_downwards_as_latitudes_do():
    (latitude,) = Grid((72,), ((90.0, -90.0),), ("neumann",), (0.0,)).coordinates()
    assert latitude[0] == 90.0
    assert latitude[-1] == -87.5


def test_a_larger_domain_keeps_the_spacing():
    small = Grid((64,), ((0.0, 1.0),), ("periodic",))
    assert small.with_points((1024,)).spacing == small.spacing
    assert small.refined((1024,)).extent == small.extent


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((8,), ((0, 1),), "periodc"), "Unknown boundary 'periodc'. Did you mean 'periodic'?"),
        (((8, 8), ((0, 1),), "periodic"), "extent should have one (low, high) pair for each of 2"),
        (((0,), ((0, 1),), "periodic"), "grid points should be positive on every axis"),
        (((8,), ((1, 1),), "periodic"), "extent should be finite and not empty"),
        (((8, 8), ((0, 1), (0, 1)), ("periodic",)), "one for each of 2 axes"),
    ],
)
def test_mistakes_are_named(arguments, message):
    with pytest.raises(ValueError) as error:
        Grid(*arguments)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
