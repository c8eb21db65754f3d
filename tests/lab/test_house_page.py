"""The measures of the code are right, and every home that docs/house.md names exists."""

import pytest

from lab.house import measure, missing_homes, write_house

MODULE = '''"""Words."""

# A comment.
NUMBER = 1  # code


class Thing:
    """More words,
    on two lines.
    """

    def method(self, a, *rest, b=2, **more):
        """And more."""
        return dict(
            a=a,
            b=b,
        )
'''


def test_lines_arguments_and_calls_are_counted(tmp_path):
    (tmp_path / "room").mkdir()
    (tmp_path / "room" / "module.py").write_text(MODULE)
    (tmp_path / "ground.py").write_text("x = 1\n")
    found = measure(tmp_path)
    assert list(found) == ["ground", "room", "all"]
    room = found["room"]
    assert (room.files, room.lines, room.code) == (1, 17, 7)
    assert (room.longest_function, room.functions) == (6, 1)
    assert (room.widest_signature, room.widest_call) == (4, 2)
    assert (found["all"].files, found["all"].lines) == (2, 18)


def test_a_folder_without_code_is_refused(tmp_path):
    with pytest.raises(ValueError, match="There are no Python files in"):
        measure(tmp_path)


def test_every_home_exists():
    assert missing_homes() == []


def test_the_page_has_its_four_tables(tmp_path):
    page = write_house(tmp_path / "house.md").read_text()
    assert page.count("\n| --- |") == 4
    assert "| capability | files | lines |" in page and "| everything else |" in page
    assert "| files | 208 |" in page and "`Given.step` in given" in page
