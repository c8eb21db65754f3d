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


def test_a_training_that_is_piped_says_a_line_at_each_validation_within_eighty_columns(capsys):
    from fino.cli.console import training_bar
    from fino.training.loop import Happened
    from fino.training.loss import Validation

    with training_bar() as show:
        for step in range(1, 101):
            found = Validation(1.0, 0.00123456, None) if step % 50 == 0 else None
            show(Happened(step, step / 100, 1.23456e-5, 1e-2, 4, 1.0, 60.0, 60.0, found))
    lines = [line for line in capsys.readouterr().err.splitlines() if "left" in line]
    assert [line.split()[0] for line in lines[:2]] == ["50", "100"]
    for line in lines[:2]:
        assert "val 0.00123 · loss 1.23e-05" in line and len(line) <= 80
