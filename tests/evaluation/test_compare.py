"""Runs side by side: seeds together, data apart, the best in bold, the paper beside them."""

import csv
import io
import json
import math
from dataclasses import replace

import pytest

from fino.evaluation.compare import compare
from fino.evaluation.evaluate import evaluate
from fino.metrics.scores import Score, Scores
from fino.report.tables import comparison, costs, rendered
from fino.report.words import counted
from lab.compare import beside_paper


def scores(model="fino", seed=0, nrmse=0.1, data="a", task="shallow-water", **network):
    """Scores made by hand."""
    return Scores(
        model={"name": model, "network": network, "emulator": {}, "training": {"seed": seed}},
        data={
            "name": task,
            "title": task.capitalize(),
            "sha256": data,
            "part": "test",
            "samples": 3,
            "shown": 10,
            "steps": 91,
            "steady": False,
        },
        metrics={
            "nrmse": Score(nrmse, 0.5 * nrmse, 2 * nrmse),
            "correlation_time": Score(1 / nrmse),
        },
        baselines={"persistence": {"nrmse": Score(0.001)}},
        over_time={},
        spectra={},
        verdict={},
        diverged=0,
        convention="fino",
        versions={},
        cost={"parameters": 4000, "multiply_adds": 3e6, "seconds_per_step": 0.002},
    )


def test_seeds_become_one_row_with_their_spread():
    (result,) = compare([scores(seed=s, nrmse=v) for s, v in enumerate((0.1, 0.2, 0.3))])
    (row,) = result.rows
    assert (row.name, row.runs, row.seeds) == ("fino", 3, (0, 1, 2))
    assert row.values["nrmse"].mean == pytest.approx(0.2)
    assert row.values["nrmse"].deviation == pytest.approx(0.1)


def test_a_seed_that_diverged_takes_the_row_with_it():
    (result,) = compare([scores(seed=0), scores(seed=1, nrmse=math.inf)])
    (row,) = comparison(result, ("nrmse",)).rows[:1]
    assert row[1].text == "diverged"


def test_one_run_keeps_its_interval():
    (result,) = compare([scores()])
    value = result.rows[0].values["nrmse"]
    assert (value.deviation, value.low, value.high) == (None, 0.05, 0.2)


def test_other_settings_are_another_row_and_the_name_says_which():
    runs = [scores(width=16, levels=1), scores(width=32, levels=1), scores("fno", modes=12)]
    (result,) = compare(runs)
    assert [row.name for row in result.rows] == ["fino width=16", "fino width=32", "fno"]


def test_a_setting_that_came_later_does_not_part_the_seeds():
    late = scores(seed=1)
    late.model["training"]["choose_by"] = "nrmse"
    (result,) = compare([scores(seed=0), late])
    assert [(row.name, row.seeds) for row in result.rows] == [("fino", (0, 1))]


def test_a_setting_that_both_runs_know_parts_them():
    first, second = scores(seed=0), scores(seed=1)
    first.model["training"]["choose_by"] = "full"
    second.model["training"]["choose_by"] = "nrmse"
    (result,) = compare([first, second])
    assert [row.name for row in result.rows] == ["fino choose_by=full", "fino choose_by=nrmse"]


def test_other_data_are_another_table():
    assert len(compare([scores(), scores(data="b")])) == 2


def test_means_that_differ_by_rounding_are_both_best():
    (result,) = compare([scores(nrmse=0.1), scores("fno", nrmse=0.1 * (1 + 1e-7))])
    assert result.best("nrmse") == ("fino", "fno")
    (result,) = compare([scores(nrmse=0.1), scores("fno", nrmse=0.1001)])
    assert result.best("nrmse") == ("fino",)


def test_a_row_that_diverged_is_never_the_best():
    (result,) = compare([scores(nrmse=math.nan), scores("fno", nrmse=0.2)])
    assert result.best("nrmse") == ("fno",)


def test_the_best_learned_row_is_best_and_baselines_never_are():
    (result,) = compare([scores(nrmse=0.1), scores("fno", nrmse=0.2)])
    assert result.best("nrmse") == ("fino",)
    assert result.best("correlation_time") == ("fino",)
    assert result.best("rmse") == ()
    table = comparison(result, ("nrmse", "correlation_time"))
    best = [(row[0].text, cell.text) for row in table.rows for cell in row if cell.best]
    assert best == [("fino", "0.1 (0.05 – 0.2)"), ("fino", "10")]
    assert table.rows[-1][0].text == "baseline: persistence"


def test_the_same_table_in_every_format():
    (result,) = compare([scores(nrmse=0.1), scores("fno", nrmse=0.2)])
    tables = [comparison(result, ("nrmse",))]
    markdown = rendered(tables, "markdown")
    assert "| run | nrmse | parameters | mult-adds | ms a step |" in markdown
    assert "| fino | **0.1 (0.05 – 0.2)** | 4 k | 3 M | 2 |" in markdown
    rows = list(csv.DictReader(io.StringIO(rendered(tables, "csv"))))
    assert float(rows[1]["nrmse"]) == 0.2
    assert r"fino & \textbf{0.1 (0.05 -- 0.2)} & 4 k & 3 M & 2 \\" in rendered(tables, "latex")
    content = json.loads(rendered(tables, "json"))
    assert content[0]["rows"][0]["nrmse"] == 0.1
    with pytest.raises(ValueError, match=r"Unknown format 'latx'. Did you mean 'latex'?"):
        rendered(tables, "latx")


def test_costs_have_their_own_table():
    (result,) = compare([scores()])
    table = costs(result)
    assert table.columns == ("run", "parameters", "mult-adds", "ms a step")
    assert [cell.text for cell in table.rows[0]] == ["fino", "4 k", "3 M", "2"]
    assert [counted(n) for n in (7, 1234, 5.6e6, 2e9)] == ["7", "1.23 k", "5.6 M", "2 G"]


def test_the_paper_stands_beside_ours_and_its_rows_are_marked():
    (result,) = compare([scores(nrmse=0.001)])
    table = beside_paper(result, ("rmse", "nrmse"))
    rows = {(row[0].text, row[1].text): [cell.text for cell in row[2:]] for row in table.rows}
    assert rows["fino", "ours"] == ["–", "0.001 (0.0005 – 0.002)"]
    assert rows["fino †", "paper"] == ["0.00259", "0.0025"]
    assert rows["FNO retuned †", "pdebench-fno-audit/artifact (2026)"] == ["–", "0.0019"]
    assert "81 distinct trajectories" in table.notes[0]
    assert "Table 1, Table S.2" in table.notes[1]
    with pytest.raises(ValueError, match="The paper has no task 'waves'"):
        beside_paper(compare([scores(task="waves")])[0])


def test_the_papers_climate_row_stands_where_it_can_be_read():
    (result,) = compare([scores(task="climate-daily")])
    rows = {row[0].text: row for row in beside_paper(result, ("rmse", "nrmse")).rows}
    assert [cell.text for cell in rows["fino †"][2:]] == ["–", "0.00715"]


def test_a_diverged_run_is_said_to_be():
    (result,) = compare([scores(nrmse=float("inf"))])
    assert comparison(result, ("nrmse",)).rows[0][1].text == "diverged"


def test_real_runs_compare_by_their_folders(make_run, make_waves, tmp_path):
    data = make_waves()
    folders = [make_run(f"run{seed}", seed=seed, data=data) for seed in (0, 1)]
    for folder in folders:
        evaluate(folder)
    (result,) = compare(folders)
    assert result.rows[0].runs == 2
    assert {row.name for row in result.baselines} == {
        "persistence",
        "best-lag",
        "climatology",
        "training-mean",
        "nearest-trajectory",
        "blended-trajectories",
    }
    with pytest.raises(ValueError, match="There is no run, model or shipped model"):
        compare([tmp_path / "none"])
    with pytest.raises(ValueError, match="at least one run"):
        compare([])


def test_a_folder_of_fino_run_stands_for_all_of_its_runs(tmp_path):
    for seed in range(2):
        found = scores(seed=seed, nrmse=0.1 + seed)
        verdict = {"metric": "nrmse", "value": 0.1 + seed, "baselines": {}, "skipped": {}}
        replace(found, verdict=verdict).save(tmp_path / f"quick/seed-{seed}/scores.json")
    (result,) = compare([tmp_path / "quick"])
    assert result.rows[0].runs == 2
    with pytest.raises(ValueError, match="There are no scores at"):
        compare([tmp_path])
