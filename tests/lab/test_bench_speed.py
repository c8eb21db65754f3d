"""The bench of speed compares like with like."""

import torch

from fino.cli.console import table
from fino.model.fno import FNO
from lab import bench_engine, bench_ranks, bench_speed
from lab.bench_engine import Race
from lab.bench_ranks import RankCost
from lab.bench_speed import Speed, TextbookFNO


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


def test_the_tables_of_the_benches_fit_eighty_columns_with_every_number(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    row = Speed("2D", "dilated-resnet", 927_041, 12_345_678_901, *[123.456] * 2, *[9.345] * 4, 0.5)
    bench_speed._speed_table("2D, 8 × 64²", [row])
    race = Race("diffusion-reaction-2d", 12.345, 1.234, 10.04, 4.0, 0.31, 0.87, 2e-6)
    table("a step", bench_engine.COLUMNS, [bench_engine._cells(race)])
    cost = RankCost(2, (2, 1), 12, False, 123.4, 0.123, 0.25, 120.0, 0.111, {})
    table("ranks", *bench_ranks._measured([cost]))
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= 80 and "…" not in said
    numbers = ["927,041", "12346", "123, 123", "9.35, 9.35", "diffusion-reaction-2d", "10.04"]
    for number in [*numbers, "12.345", "2e-06", "2×1", "123 s", "12.3%", "11.1%"]:
        assert number in said, number
