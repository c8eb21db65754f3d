"""What fino.fit shows while it trains: a bar, a line in a notebook, lines in a file, or nothing."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
from little_data import little_fino, waves

from fino.training.bars import training_bar
from fino.training.fit import fit
from fino.training.loop import Happened
from fino.training.loss import Validation


@pytest.fixture(scope="module")
def wave():
    data = waves()
    return little_fino(data), data


def test_a_training_that_is_piped_says_a_line_at_each_validation_within_eighty_columns(capsys):
    with training_bar() as show:
        for step in range(1, 101):
            found = Validation(1.0, 0.00123456, None) if step % 50 == 0 else None
            show(Happened(step, step / 100, 1.23456e-5, 1e-2, 4, 1.0, 60.0, 60.0, found))
    lines = [line for line in capsys.readouterr().err.splitlines() if "left" in line]
    assert [line.split()[0] for line in lines[:2]] == ["50", "100"]
    for line in lines[:2]:
        assert "val 0.00123 · loss 1.23e-05" in line and len(line) <= 80


def test_fit_says_what_happens_on_standard_error_and_can_be_silenced(tmp_path, capsys, wave):
    model, data = wave
    fit(model, data, steps=2, out=tmp_path / "told")
    told = capsys.readouterr()
    assert "100 %" in told.err and "val " in told.err and told.out == ""
    fit(model, data, steps=2, out=tmp_path / "silent", progress=False)
    assert capsys.readouterr() == ("", "")


def test_a_function_gets_everything_that_happens_in_place_of_the_bar(tmp_path, capsys, wave):
    model, data = wave
    steps = []
    fit(model, data, steps=3, out=tmp_path / "run", progress=lambda h: steps.append(h.step))
    assert steps == [1, 2, 3] and capsys.readouterr().err == ""


def test_in_a_terminal_one_line_moves(tmp_path, capsys, monkeypatch, wave):
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes standard error for a terminal then
    monkeypatch.setenv("COLUMNS", "80")
    model, data = wave
    fit(model, data, steps=2, out=tmp_path / "run")
    shown = capsys.readouterr().err
    assert "100 %" in shown and "\x1b[" in shown and shown.count("\n") <= 2


def test_in_a_notebook_one_line_is_replaced_in_place(tmp_path, capsys, monkeypatch, wave):
    texts = []
    place = SimpleNamespace(update=lambda html: texts.append(html))
    display = SimpleNamespace(HTML=str, display=lambda html, display_id: place)
    shell = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=None), display=display)
    monkeypatch.setitem(sys.modules, "IPython", shell)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    model, data = wave
    fit(model, data, steps=2, out=tmp_path / "run")
    assert "100 %" in texts[-1] and "left" in texts[-1] and "<progress" in texts[-1]
    assert capsys.readouterr() == ("", "")
