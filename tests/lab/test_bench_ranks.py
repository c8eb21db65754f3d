"""The cost model of processes: what it expects when messages, cells and calls are dear."""

import pytest

from fino.inference.boxes import cells
from fino.inference.local import LocalStep, local_step
from lab.bench_ranks import (
    Costs,
    choose_cheapest,
    measure_costs,
    predict_cluster,
    predict_scaling,
)
from lab.bench_tiles import bench_model


def step_of(points: int) -> LocalStep:
    return local_step(bench_model(), (points, points))


def test_dear_messages_are_sent_less_often() -> None:
    step = step_of(256)
    cheap = Costs(call=0, cell=1e-6, message=0, wire_byte=0)
    dear = Costs(call=0, cell=1e-9, message=1.0, wire_byte=0)
    (mesh, few), (_, many) = (
        choose_cheapest(step, 16, costs, 1, steps=100) for costs in (cheap, dear)
    )
    assert mesh == (4, 4)
    assert few.steps_per_halo == 1
    assert many.steps_per_halo > 1


def test_overlap_is_cheapest_where_it_hides_the_halo() -> None:
    step = step_of(1024)
    slow_wire = Costs(call=0, cell=1e-6, message=0.1, wire_byte=0)
    quick_wire = Costs(call=0, cell=1e-6, message=1e-9, wire_byte=0)
    assert choose_cheapest(step, 4, slow_wire, 1, steps=1)[1].overlap
    assert not choose_cheapest(step, 4, quick_wire, 1, steps=1)[1].overlap


def test_measured_costs_are_positive() -> None:
    timed = measure_costs(step_of(256), 1, (128, 128), repeats=1)
    assert timed.cell > 0
    assert timed.call >= 0


def test_the_predicted_efficiency_falls_with_the_number_of_processes() -> None:
    step = step_of(2048)
    scaling = predict_scaling(step, Costs(call=1e-3, cell=1e-7), channels=1)
    assert [s.ranks for s in scaling] == [2**i for i in range(11)]
    assert scaling[0].efficiency == pytest.approx(1)
    assert scaling[-1].efficiency < scaling[1].efficiency <= 1
    assert all(cells(step.domain.whole) >= s.ranks for s in scaling)


def test_scaling_is_predicted_up_to_a_thousand_processes() -> None:
    predicted = predict_cluster({"call": 1e-3, "cell": 5e-7}, 8192)
    assert predicted[-1].ranks == 1024
    assert 0.5 < predicted[-1].efficiency < predicted[0].efficiency
