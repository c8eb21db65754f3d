"""Budgets end when they should, and the schedules stretch over them."""

from __future__ import annotations

import time

import pytest

from fino.training.processes import Processes
from fino.training.schedule import (
    _SCHEDULES,
    Clock,
    horizon_at,
    learning_rate_at,
    share_spent,
    steps_allowed,
)
from fino.training.settings import TrainingSettings


def test_the_tightest_of_several_budgets_counts():
    settings = TrainingSettings(steps=100, minutes=1, cpu_seconds=30)
    clock = Clock(wall=30.0, cpu=6.0)
    assert share_spent(settings, 10, 100, clock) == pytest.approx(0.5)
    assert share_spent(settings, 80, 100, clock) == pytest.approx(0.8)
    assert share_spent(settings, 10, 100, Clock(0.0, 300.0)) == 1.0


def test_an_epoch_meets_every_sample_once():
    assert steps_allowed(TrainingSettings(epochs=3), samples=10, batch=4) == 8
    assert steps_allowed(TrainingSettings(epochs=3, steps=5), samples=10, batch=4) == 5
    assert steps_allowed(TrainingSettings(minutes=1), samples=10, batch=4) is None


def test_the_clock_counts_processor_time_of_this_process_and_not_sleep():
    clock = Clock(wall=5.0, cpu=3.0)
    time.sleep(0.05)
    clock.tick()
    assert clock.wall >= 5.04
    assert clock.cpu < 3.04


def test_processor_time_is_summed_over_the_processes_and_the_walls_is_not(monkeypatch):
    class Four(Processes):
        def total(self, value):
            return 4 * value

    clock = Clock()
    monkeypatch.setattr(time, "process_time", lambda: clock._cpu + 1.5)
    monkeypatch.setattr(time, "monotonic", lambda: clock._wall + 2.0)
    clock.tick(Four(world=4))
    assert clock.cpu == pytest.approx(6.0) and clock.wall == pytest.approx(2.0)


@pytest.mark.parametrize("name", sorted(_SCHEDULES))
def test_schedules_stay_between_nothing_and_the_learning_rate(name):
    settings = TrainingSettings(schedule=name, learning_rate=1e-2, warmup=0.1)
    rates = [learning_rate_at(i / 200, settings) for i in range(200)]
    assert max(rates) <= 1e-2 * (1 + 1e-12)
    assert min(rates) > 0
    assert rates[0] <= 0.011 * 1e-2


def test_cosine_and_one_cycle_end_near_zero_and_step_halves_every_quarter():
    for name in ("cosine", "one-cycle"):
        assert _SCHEDULES[name](1.0) == pytest.approx(0.0, abs=1e-12)
    assert _SCHEDULES["one-cycle"](0.3) == pytest.approx(1.0)
    assert [_SCHEDULES["step"](s) for s in (0.1, 0.3, 0.6, 0.9, 1.0)] == [
        1,
        0.5,
        0.25,
        0.125,
        0.125,
    ]


def test_the_horizon_is_one_then_grows_to_the_longest():
    horizons = [horizon_at(i / 100, 4, 0.6) for i in range(100)]
    assert horizons[:60] == [1] * 60
    assert horizons == sorted(horizons)
    assert set(horizons) == {1, 2, 3, 4}
    assert horizon_at(0.0, 31, 0.0) == 31
    assert horizon_at(0.99, 1, 0.6) == 1


def test_settings_that_cannot_be_are_refused_in_one_line():
    with pytest.raises(ValueError, match=r"'learning_rte'. Did you mean 'learning_rate'"):
        TrainingSettings(learning_rte=1)
    with pytest.raises(ValueError, match="illegal instruction"):
        TrainingSettings(mixed=True)
    with pytest.raises(ValueError, match="pushforward needs a horizon of 2 or more"):
        TrainingSettings(gradient="pushforward", horizon=1)
    with pytest.raises(ValueError, match="momentum should be two numbers"):
        TrainingSettings(momentum=(0.9, 1.0))
    with pytest.raises(ValueError, match="'steps'"):
        TrainingSettings(steps=0)
