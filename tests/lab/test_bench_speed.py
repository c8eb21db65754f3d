"""The bench of speed compares like with like."""

import torch

from fino.model.fno import FNO
from lab import bench_speed
from lab.bench_speed import TextbookFNO


def test_every_job_is_called_in_turn_and_medians_are_kept():
    order = []
    jobs = {name: lambda name=name: order.append(name) for name in ("a", "b")}
    times = bench_speed.time_in_turn(jobs, repeats=3)
    assert order == ["a", "b"] * 4
    assert set(times) == {"a", "b"}


def test_both_forms_of_the_fno_do_the_same_work():
    """The yardstick has the weights of the model that it stands for."""
    for dims in (1, 2):
        ours = FNO(dims=dims, inputs=12, outputs=1)
        textbook = TextbookFNO(dims, 12, 1)
        real = sum(p.numel() * (2 if p.is_complex() else 1) for p in textbook.parameters())
        assert real == sum(p.numel() for p in ours.parameters())
        assert textbook(torch.zeros(2, 12, *[32] * dims)).shape == (2, 1, *[32] * dims)


def test_the_growth_exponent_of_a_linear_cost_is_one():
    times = {n: 3.0 * n * n for n in (64, 128, 256)}
    assert abs(bench_speed._exponent(times) - 1.0) < 1e-9


def test_speed_reports_every_contestant_in_every_case(monkeypatch):
    monkeypatch.setattr(bench_speed, "CASES", {"tiny": (2, 12, 32)})
    rows = list(bench_speed.time_models(names=["fno"], repeats=1))
    assert [row.model for row in rows] == [
        "FNO, textbook",
        "fno",
        "fino, width 16",
        "fino, width 32",
    ]
    assert rows[1].forward_ratio == 1.0
    assert rows[0].training_textbook_ratio == 1.0
    assert all(0 < row.peak_share < 2 for row in rows)
