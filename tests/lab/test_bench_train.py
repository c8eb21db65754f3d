"""The bench of training: equal budgets, outcomes that are kept, a curve to look at."""

from __future__ import annotations

import pytest

from lab import bench_train as bench
from lab.bench_train import TASKS, Task, draw_outcomes, measure_training

SMALL = Task(
    problem="advection",
    samples=12,
    stride_space=32,
    stride_time=5,
    measure="nrmse",
    bars={1: 10.0},
    settings={"beta": 4.0},
)


@pytest.fixture
def small_task(monkeypatch):
    monkeypatch.setattr(bench, "TASKS", {"small": SMALL})


def test_each_budget_is_a_run_that_is_trained_once_and_read_afterwards(small_task, tmp_path):
    first = list(measure_training(tmp_path, models=("fino", "fno"), budgets=(1,)))
    assert [(o.model, o.budget) for o in first] == [("fino", 1), ("fno", 1)]
    for outcome in first:
        assert outcome.steps > 0
        assert outcome.cpu_seconds >= 1
        assert outcome.error == outcome.nrmse > 0
        assert outcome.bar == 10.0
    weights = {p: p.stat().st_mtime_ns for p in tmp_path.glob("*/model/*.safetensors")}
    again = list(measure_training(tmp_path, models=("fino", "fno"), budgets=(1,)))
    assert [(o.rmse, o.steps) for o in again] == [(o.rmse, o.steps) for o in first]
    assert weights == {p: p.stat().st_mtime_ns for p in tmp_path.glob("*/model/*.safetensors")}

    draw_outcomes(first, tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_an_unknown_task_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"Unknown task 'advektion'.*advection"):
        next(measure_training(tmp_path, tasks=("advektion",)))


@pytest.mark.parametrize("name", TASKS)
def test_the_bars_get_stricter_with_the_budget(name):
    bars = [bar for _, bar in sorted(TASKS[name].bars.items())]
    assert bars == sorted(bars, reverse=True)
    assert len(set(bars)) == len(bars)
