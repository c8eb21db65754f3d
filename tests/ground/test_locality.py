"""Reach adds up along a network, and through its levels."""

import math

import pytest

from fino.locality import Locality


def test_one_map_after_another_adds_the_radii():
    assert Locality((1, 2)).then(Locality((3, 0))).radius == (4, 2)


def test_the_wider_of_two_branches_counts():
    assert Locality((1, 5)).beside(Locality((3, 0))).radius == (3, 5)


def test_a_coarse_map_reaches_its_own_block_and_its_neighbours_blocks():
    # From cell 1 of block 0, radius 1 on the coarse grid reaches block −1, cells −2 and −1.
    assert Locality((1,)).below(2) == Locality((3,), (2,))
    assert Locality((0,)).below(4) == Locality((3,), (4,))


def test_two_levels_of_two_are_one_of_four():
    inner = Locality((3,))
    assert inner.below(2).below(2) == inner.below(4)


def test_axes_may_differ():
    assert Locality((1, 2)).below((2, 4)) == Locality((3, 11), (2, 4))


def test_a_halo_is_whole_strides():
    assert Locality((23,), (4,)).halo() == (24,)
    assert Locality((23,), (4,)).halo(steps=2) == (48,)
    assert Locality((2, 3)).halo(3) == (6, 9)


def test_a_global_map_has_no_halo():
    everywhere = Locality.everywhere(2)
    assert not everywhere.is_local
    assert everywhere.then(Locality((1, 1))).radius == (math.inf, math.inf)
    with pytest.raises(ValueError, match="no finite halo"):
        everywhere.halo()
