"""The bar of long work: there while it moves, gone when the question itself was wrong."""

from __future__ import annotations

import pytest

from fino.cli.console import progress


def test_a_bar_that_never_moved_does_not_stand_above_an_error(capsys):
    with pytest.raises(ValueError, match="no such run"), progress("looking"):
        raise ValueError("no such run")
    assert capsys.readouterr().err.strip() == ""


def test_a_bar_that_moved_stays_and_leaves_standard_output_clean(capsys):
    with pytest.raises(ValueError, match="halfway"), progress("solving") as show:
        show(0.5)
        raise ValueError("halfway")
    shown = capsys.readouterr()
    assert "solving" in shown.err and "50 %" in shown.err and shown.out == ""


def test_a_quiet_bar_says_nothing(capsys):
    with progress("solving", quiet=True) as show:
        show(1.0)
    assert capsys.readouterr().err == ""
