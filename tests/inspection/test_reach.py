"""The light-cone check on the paper's own advection set-up, and where no reach is enough."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fino
from fino.inspection.reach import reach
from fino.report.words import describe_reach


def advection(stride_time: int = 5) -> fino.data.dataset.Dataset:
    """β = 4 on 128 cells, a frame every 0.05: the paper's data after its strides."""
    u = np.random.default_rng(0).standard_normal((4, 12, 1, 128))
    return fino.from_array(
        u, 0.05, (0, 1), "periodic", name="advection", speed=4.0, stride_time=stride_time
    )


def test_too_small_a_depth_is_flagged_and_the_depth_that_helps_is_named() -> None:
    found = reach(fino.build("fino", advection(), levels=2, width=4), advection())
    assert found.enough is False
    assert found.levels == 3
    assert found.needed == pytest.approx((25.6,))
    assert found.needed_length == pytest.approx(0.2)
    assert describe_reach(found) == (
        "the data move 25.6 cells a step, this model sees 23: "
        "use levels = 3 or a smaller time stride (at most 4, now 5)."
    )


def test_a_history_that_carries_the_motion_is_named_beside_the_warning() -> None:
    model = fino.build("fino", advection(), levels=0, width=4, history=6, predict="linear")
    found = reach(model, advection())
    assert found.enough is False
    said = describe_reach(found, prior="linear")
    assert "this model sees 2. It can follow them all the same" in said
    assert "past frames combined, brings the motion along" in said
    assert "to follow any other, use levels = 3" in said


def test_a_sufficient_depth_passes() -> None:
    found = reach(fino.build("fino", advection(), levels=3, width=4), advection())
    assert found.enough is True
    assert found.levels is None
    assert (
        describe_reach(found) == "the data move 25.6 cells a step, this model sees 51: far enough."
    )


def test_data_without_a_stride_should_be_saved_more_often() -> None:
    data = advection(stride_time=1)
    found = reach(fino.build("fino", data, levels=1, width=4), data)
    assert "levels = 3 or data saved 3 times as often" in describe_reach(found)


def test_more_levels_than_the_grid_allows_are_not_proposed() -> None:
    u = np.random.default_rng(0).standard_normal((4, 12, 1, 12))
    data = fino.from_array(u, 1.0, (0, 12), "periodic", speed=40.0)
    found = reach(fino.build("fino", data, levels=2, width=4), data)
    assert found.levels is None
    assert "levels" not in describe_reach(found)


def test_the_axes_may_differ() -> None:
    u = np.random.default_rng(0).standard_normal((4, 12, 1, 16, 16))
    data = fino.from_array(u, 1.0, [(0, 16), (0, 8)], "periodic", speed=4.0)
    found = reach(fino.build("fino", data, levels=1, width=4), data)
    assert found.needed == pytest.approx((4.0, 8.0))
    assert "the data move 4 × 8 cells a step" in describe_reach(found)


def test_a_global_model_sees_far_enough_and_says_so() -> None:
    found = reach(fino.build("fno", advection(), width=4, modes=4), advection())
    assert found.enough is True
    assert math.isinf(found.radius[0])
    assert describe_reach(found).endswith("this model sees the whole field: far enough.")


def test_a_steady_problem_is_named_as_one_where_no_reach_is_enough() -> None:
    u = np.random.default_rng(0).standard_normal((6, 2, 1, 16, 16))
    data = fino.from_array(u, 1.0, (0, 1), "dirichlet", steady=True, name="darcy")
    found = reach(fino.build("fino", data, levels=1, width=4), data)
    assert found.source == "steady"
    assert found.enough is False
    assert "darcy is steady" in describe_reach(found, data="darcy")
    assert "no reach is enough; this model sees 9 cells of 16" in describe_reach(
        found, data="darcy"
    )


def test_without_data_the_reach_is_said_in_cells_and_length() -> None:
    found = reach(fino.build("fino", advection(), levels=0, width=4))
    assert found.enough is None
    assert describe_reach(found) == "this model sees 2 cells a step (0.0156 in length)."
