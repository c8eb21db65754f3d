"""One check for the order of the axes, in the user's own words."""

import pytest
import torch

from fino.shapes import expect


def test_a_right_shape_passes():
    expect(torch.zeros(2, 5, 3, 8, 8), "b t c *space", c=3, space=(8, 8))
    expect(torch.zeros(2, 5), "b t", t=5)


@pytest.mark.parametrize(
    ("shape", "axes", "sizes", "message"),
    [
        (
            (2, 5, 8, 8, 3),
            "b t c *space",
            {"c": 3},
            "trajectory should be (b, t, c, *space), got (2, 5, 8, 8, 3): c should be 3 but is 8.",
        ),
        ((2, 5, 3), "b t c *space", {}, "expected at least 4 axes."),
        ((2, 5, 3), "b t", {}, "expected 2 axes."),
        ((2, 1, 4, 4), "b c *space", {"space": (8, 8)}, "space should be (8, 8) but is (4, 4)."),
    ],
)
def test_a_wrong_shape_is_refused_with_the_expected_one(shape, axes, sizes, message):
    with pytest.raises(ValueError) as error:
        expect(torch.zeros(shape), axes, name="trajectory", **sizes)
    assert message in str(error.value)
