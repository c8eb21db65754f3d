"""The generator's pace is measured, not assumed."""

from __future__ import annotations

import json

import pytest

from lab.bench_generate import Pace, generate, measure_paces


def test_a_pace_extrapolates_to_a_thousand():
    pace = Pace("advection", samples=20, seconds=5.0)
    assert pace.per_second == 4.0
    assert pace.seconds_for_1000 == 250.0


def test_a_misspelt_problem_is_refused_before_anything_is_solved():
    with pytest.raises(ValueError, match="Did you mean 'advection'"):
        measure_paces(["advektion"], samples=1, seconds=0.0)


def test_no_samples_are_refused():
    with pytest.raises(ValueError, match="samples should be a positive number"):
        measure_paces((), samples=0, seconds=0.0)


def test_the_command_prints_every_problem_asked_for(capsys):
    generate("diffusion-reaction-1d", samples=2, seconds=0.0, json=True)
    figures = json.loads(capsys.readouterr().out)["problems"]["diffusion-reaction-1d"]
    assert figures["samples"] == 2 and figures["per_second"] > 0
    generate("diffusion-reaction-1d", samples=1, seconds=0.0)
    assert "1 000 take" in capsys.readouterr().out
