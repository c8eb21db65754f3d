"""A mistake in a setting is answered with one line."""

import pytest

from fino.settings import Settings


class Example(Settings):
    """Two settings to get wrong."""

    width: int = 3
    name: str


def test_right_settings_are_kept_and_frozen():
    example = Example(name="a", width=5)
    assert example.changed(width=6) == Example(name="a", width=6)
    with pytest.raises(ValueError):
        example.width = 2


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"name": "a", "widht": 3}, "Unknown setting 'widht'. Did you mean 'width'?"),
        ({}, "Setting 'name' is missing."),
        (
            {"name": "a", "width": "wide"},
            "Setting 'width': input should be a valid integer, unable to parse string as an "
            "integer, got 'wide'.",
        ),
    ],
)
def test_mistakes_are_one_line(values, message):
    with pytest.raises(ValueError) as error:
        Example(**values)
    assert str(error.value) == message
