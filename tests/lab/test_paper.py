"""The paper's numbers, checked against the paper's own words and arithmetic."""

import pytest

from fino.model import MODELS
from fino.pde import PROBLEMS
from lab.paper import AUDIT, DIFFERS, PAPER, TASKS, numbers, task_of


def value(task, model, metric):
    (entry,) = numbers(task, model, metric)
    return entry.value


def test_every_number_of_the_four_tables_is_there():
    counts = {table: 0 for table in ("Table 1", "Table S.1", "Table S.2", "Table S.3")}
    for entry in PAPER:
        counts[entry.table] += 1
    # 7 tasks × 7 models less 4 dashes; 3 tasks × 3 columns × 6 or 7 rows; S.3 has one dash row.
    assert counts == {"Table 1": 45, "Table S.1": 54, "Table S.2": 63, "Table S.3": 60}
    keys = [(entry.task, entry.model, entry.metric) for entry in PAPER]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    ("task", "metric", "rival", "percent"),
    [
        ("advection", "rmse", "fno", 44.15),
        ("compressible-1d", "rmse", "ffno", 34.02),
        ("diffusion-reaction-1d", "rmse", "transolver", 16.18),
        ("darcy", "rmse", "unet", -3.67),
        ("diffusion-reaction-2d", "rmse", "local-fno", 38.15),
        ("shallow-water", "rmse", "local-fno", 40.87),
        ("climate", "rmse", "ufno", 11.73),
        ("advection", "nrmse", "fno", 45.07),
        ("advection", "max_error", "fno", 17.38),
        ("compressible-1d", "nrmse", "ffno", 11.02),
        ("compressible-1d", "max_error", "ffno", 22.37),
        ("diffusion-reaction-1d", "nrmse", "transolver", 15.60),
        ("diffusion-reaction-1d", "max_error", "ufno", -59.4),
        ("diffusion-reaction-1d", "crmse", "transolver", 24.30),
        ("darcy", "nrmse", "unet", -6.50),
        ("diffusion-reaction-2d", "nrmse", "local-fno", 33.63),
        ("diffusion-reaction-2d", "max_error", "local-fno", 31.27),
        ("diffusion-reaction-2d", "crmse", "local-fno", 81.82),
        ("shallow-water", "nrmse", "local-fno", 40.76),
        ("shallow-water", "max_error", "local-fno", 56.97),
        ("shallow-water", "crmse", "local-fno", 65.79),
        ("compressible-1d", "frmse_low", "ffno", 33.58),
        ("compressible-1d", "frmse_mid", "ffno", 29.33),
        ("compressible-1d", "frmse_high", "ufno", -26.69),
        ("diffusion-reaction-2d", "frmse_low", "local-fno", 54.72),
        ("diffusion-reaction-2d", "frmse_mid", "local-fno", 40.91),
        ("diffusion-reaction-2d", "frmse_high", "local-fno", 33.33),
        ("shallow-water", "frmse_low", "local-fno", 69.05),
        ("shallow-water", "frmse_mid", "local-fno", 46.0),
        ("shallow-water", "frmse_high", "local-fno", 33.33),
    ],
)
def test_the_improvements_that_it_prints_follow_from_its_numbers(task, metric, rival, percent):
    ours, theirs = value(task, "fino", metric), value(task, rival, metric)
    assert 100 * (theirs - ours) / theirs == pytest.approx(percent, abs=0.1)


def test_every_entry_says_where_it_stands():
    for entry in (*PAPER, *AUDIT):
        assert entry.table and entry.row and entry.column
        assert entry.task in TASKS
        assert entry.value > 0
    assert set(DIFFERS) == set(TASKS)


def test_the_retuned_fno_is_better_than_the_papers():
    for entry in AUDIT:
        if entry.row == "FNO retuned":
            assert entry.value < value(entry.task, "fno", "nrmse")
            assert "protocol" not in entry.note and entry.note


def test_every_task_is_one_of_our_problems():
    assert set(TASKS) - {"climate"} <= set(PROBLEMS)
    assert {entry.model for entry in PAPER} <= set(MODELS)
    assert [task_of(name) for name in ("darcy-pdebench", "advection", "mine")] == [
        "darcy",
        "advection",
        None,
    ]


def test_an_unknown_task_gets_a_hint():
    with pytest.raises(ValueError, match=r"The paper has no task 'advecton'. Did you mean"):
        numbers("advecton")
