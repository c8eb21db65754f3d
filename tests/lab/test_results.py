"""The page of results: wins and losses from the numbers, missing runs shown, figures small."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from fino.metrics.scores import Score, Scores
from lab import keep
from lab.app import app
from lab.keep import TASKS, keep_folder, keep_scores
from lab.results import write_results
from lab.results_page import results_page
from lab.results_words import (
    EXPECTED,
    against,
    against_baselines,
    against_retuned,
    best_words,
    headline,
    missing,
    summary,
)
from lab.standing import (
    bar_of,
    mean_curve,
    papers,
    retuned,
    standing,
    standings,
    with_shipped,
)


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(keep, "RESULTS", tmp_path / "results")
    return tmp_path / "results"


@pytest.fixture(scope="module")
def scores(finished):
    return Scores.load(finished / "fino")


def at(scores, nrmse, half=0.01, rmse=None, baseline=1.0, **model):
    """The same scores with another error, interval and baseline."""
    error = Score(nrmse, nrmse - half, nrmse + half)
    return replace(
        scores,
        model={**scores.model, **model},
        metrics={**scores.metrics, "nrmse": error, "rmse": Score(rmse or nrmse)},
        baselines={"solver": {"nrmse": Score(baseline, baseline - half, baseline + half)}},
    )


def test_every_bar_is_what_was_set_beforehand():
    assert papers("advection", "rmse") == 0.00296
    assert papers("darcy-pdebench", "rmse") == 0.01158
    assert papers("climate", "nrmse") == 0.00715 and papers("climate", "rmse") is None
    assert retuned("darcy") is None and retuned("darcy-pdebench") == 0.028


@pytest.mark.parametrize(
    ("task", "met", "missed"),
    [
        ("advection", 0.00147, 0.0015),
        ("shallow-water", 0.00129, 0.0013),
        ("compressible-1d", 0.19, 0.2),
        ("darcy-pdebench", 0.0115, 0.0117),
    ],
)
def test_bars_by_rmse(scores, task, met, missed):
    assert bar_of(task, at(scores, 0.5, rmse=met)).met
    assert not bar_of(task, at(scores, 0.0001, rmse=missed)).met


def test_the_bar_of_diffusion_and_reaction_is_a_tenth_in_nrmse(scores):
    assert bar_of("diffusion-reaction-2d", at(scores, 0.0036)).met
    assert not bar_of("diffusion-reaction-2d", at(scores, 0.0037)).met


def test_clearly_below_a_baseline_means_apart_from_it(scores):
    assert bar_of("darcy", at(scores, 0.10, baseline=0.13)).met
    assert not bar_of("darcy", at(scores, 0.10, baseline=0.11)).met
    assert not bar_of("climate", replace(scores, baselines={})).met


def test_a_baseline_measured_beside_the_shipped_model_counts_if_the_data_are_the_same(scores):
    tasks = {"darcy": {"fino": at(scores, 0.10, baseline=0.13)}}
    shipped = at(scores, 0.09, baseline=0.08)
    others = replace(shipped, data={**shipped.data, "sha256": "other"})
    for model, sentence in (
        (shipped, "FINO does not beat the best baseline on darcy (solver 0.08, FINO 0.1)."),
        (others, "FINO beats every baseline on all 1 tasks that were run."),
    ):
        rows = {"darcy": standings(tasks["darcy"])}
        assert against_baselines(rows, with_shipped(tasks, {"darcy": model})) == sentence


def test_seeds_are_averaged_and_keep_the_widest_interval(scores):
    row = standing("fino", [at(scores, 0.10), at(scores, 0.12), at(scores, 0.14)])
    assert row.nrmse == pytest.approx(0.12) and row.deviation == pytest.approx(0.02)
    assert (row.low, row.high) == (pytest.approx(0.09), pytest.approx(0.15))
    assert row.words == "0.12 ± 0.02 (3 seeds)"
    assert not row.is_apart_from(standing("fno", [at(scores, 0.155)]))
    assert row.is_apart_from(standing("fno", [at(scores, 0.17)]))


def test_curves_are_averaged_over_seeds_until_one_of_them_has_no_number(scores):
    seeds = [
        replace(scores, over_time={**scores.over_time, "nrmse": {"model": curve}})
        for curve in ([0.1, 0.2, 0.3], [0.3, 0.4, None])
    ]
    assert mean_curve(seeds) == [pytest.approx(0.2), pytest.approx(0.3), None]


def rows_of(scores, **tasks):
    """{task: (fino, fno)} → the standings."""
    return {
        task.replace("_", "-"): standings({"fino": at(scores, ours), "fno": at(scores, theirs)})
        for task, (ours, theirs) in tasks.items()
    }


def test_wins_and_losses_are_counted_and_named(scores):
    rows = rows_of(scores, advection=(0.1, 0.2), darcy=(0.1, 0.11), climate=(0.3, 0.25))
    assert against(rows, "fno") == (
        "FINO is clearly below fno on 1 of 3 tasks (advection). Their intervals overlap on darcy: "
        "a tie. It loses on climate (0.3 against 0.25)."
    )
    assert against(rows, "unet") == "FINO and unet were not both run on any task."
    assert "lowest elsewhere: fno on climate." in " ".join(summary(rows, {t: {} for t in rows}))


def test_a_tie_is_called_a_tie(scores):
    rows = rows_of(scores, advection=(0.1, 0.2), darcy=(0.1, 0.11))
    assert best_words(rows) == (
        "Of all models that were run, FINO has the lowest error on 2 of 2 tasks, of which darcy "
        "is a tie."
    )


def test_a_baseline_that_is_not_beaten_is_named(scores):
    rows = rows_of(scores, advection=(0.1, 0.2), darcy=(0.1, 0.2))
    tasks = {
        "advection": {"fino": at(scores, 0.1, baseline=0.5)},
        "darcy": {"fino": at(scores, 0.1, baseline=0.04)},
    }
    assert against_baselines(rows, tasks) == (
        "FINO does not beat the best baseline on darcy (solver 0.04, FINO 0.1)."
    )
    del tasks["darcy"], rows["darcy"]
    assert (
        against_baselines(rows, tasks) == "FINO beats every baseline on all 1 tasks that were run."
    )


def test_the_headline_counts_bars_and_names_what_is_missing(scores):
    lines = headline({"advection": at(scores, 0.002, rmse=0.001), "darcy": at(scores, 2.0)})
    assert lines[0].startswith("The shipped models meet 1 of 2 bars")
    assert "not darcy (clearly below every baseline (solver 1))" in lines[0]
    assert "on 1 of 1 tasks (advection)" in lines[1]
    assert lines[2].startswith("Not shipped: compressible-1d, ")
    assert headline({}) == ["No model has been shipped yet."]


def test_runs_that_are_missing_are_listed():
    absent = missing({})
    assert list(absent) == list(TASKS)
    assert "transolver" in absent["advection"] and absent["climate"] == list(EXPECTED)


def test_an_empty_page_says_so():
    page = results_page({}, {}, {}, {}, {}, {}, {}, {})
    assert "No comparison has been run yet." in page and "**climate**: not run." in page
    assert "## Ablations\n\nNot run." in page
    assert "## A short budget, every rival\n\nNot run." in page
    assert "## Scored as the retuned FNO was\n\nNot run." in page


def test_a_shipped_model_past_the_horizon_has_the_budget_of_its_weights(scores):
    model = {key: value for key, value in scores.model.items() if key != "training"}
    far = replace(scores, model=model, cost={})
    near = replace(scores, cost={**scores.cost, "training_cpu_seconds": 1320.0})
    horizons = {"horizon-advection": {"fino-shipped": far}}
    known = results_page({}, {"advection": near}, {}, horizons, {}, {}, {}, {})
    assert "| fino-shipped | 22 |" in known
    other = replace(near, model={**near.model, "sha256": "another"})
    unknown = results_page({}, {"advection": other}, {}, horizons, {}, {}, {}, {})
    assert "| fino-shipped | – |" in unknown


def test_a_diverged_run_is_said_to_be(scores):
    rows = {"advection": standings({"fino": at(scores, 0.1), "fno": at(scores, float("inf"))})}
    assert rows["advection"]["fno"].words == "diverged"
    assert "FINO is clearly below fno on 1 of 1 tasks" in against(rows, "fno")


def test_scored_as_the_retuned_fno_was_says_wins_and_losses(scores):
    rows = {
        "shallow-water": standings({"fino": at(scores, 0.0005)}),
        "diffusion-reaction-2d": standings({"fino": at(scores, 0.004)}),
    }
    assert against_retuned(rows) == [
        "Scored as the retuned FNO was, FINO is at or below it on 1 of 2 tasks (shallow-water "
        "0.0005 against 0.0019 and diffusion-reaction-2d 0.004 against 0.0027). Not run that way: "
        "advection, compressible-1d, diffusion-reaction-1d and darcy-pdebench."
    ]
    assert against_retuned({}) == []


def test_the_page_is_built_from_what_is_kept(finished, shipped, results, tmp_path):
    keep_folder(finished)
    keep_scores(Scores.load(finished / "fno"), "ablation-gate-advection", "fino-gate-false")
    keep_scores(Scores.load(finished / "fino"), "ablation-gate-advection", "fino-gate-true")
    for seed in (0, 1):
        keep_scores(Scores.load(finished / "fino"), "ablation-parts-advection", f"fino-seed-{seed}")
    keep_scores(Scores.load(finished / "fno"), "ablation-parts-advection", "fno")
    keep_scores(Scores.load(finished / "fino"), "horizon-advection", "fino")
    keep_scores(Scores.load(finished / "fino"), "short-advection", "fino")
    keep_scores(Scores.load(finished / "fino"), "retuned-advection", "fino")
    keep_scores(Scores.load(finished / "fino"), "quickstart", "fino")
    seconds = {"advection": {"fino": 2e-3, "fno": 1e-3}}
    (results / "seconds.json").write_text(json.dumps({"seconds": seconds}))
    finer = {"task": "advection", "run": "fino", "points": [256], "own": 0.1, "persistence": 1.0}
    (results / "transfer.json").write_text(json.dumps([{**finer, "as it is": 0.5, "scaled": 0.1}]))
    readme = tmp_path / "README.md"
    marks = ("results", "ablations", "quickstart", "short")
    readme.write_text("".join(f"<!-- {name} -->\n<!-- end of {name} -->\n" for name in marks))
    *written, filled = write_results(tmp_path / "docs" / "results.md", readme=readme)
    page = written[0].read_text()
    assert filled == readme and "| advection, 6 steps | 0.0049 |" in readme.read_text()
    assert re.search(r"\| FINO, [0-9.]+ k weights \| [0-9.e-]+ \| ", readme.read_text())
    assert re.search(r"\| FINO \| [0-9.e-]+ ± 0 \|\n\| FNO \| [0-9.e-]+ \|", readme.read_text())
    assert re.search(r"\| advection/fino \| [0-9a-f]{7,} \| 20", page)
    for place in re.findall(r"\]\(([^)]+)\)", page):
        assert (tmp_path / "docs" / place).stat().st_size < 150_000
    assert {path.name for path in written[1:]} == {
        f"results-{name}.png" for name in ("fields", "pareto", "over-time", "horizon")
    }
    assert "| advection |" in page and "not run" in page and "not shipped" in page
    assert "| advection, 256 | fino | 0.1 | 0.5 | 0.1 | 1 |" in page
    assert "By error and seconds of inference" in page and "**Milliseconds a trajectory**" in page
    assert "Does the gate help" in page and "Lowest: " in page
    assert "with a tenth of the budget" in page
    audited = r"\| advection \| 16, 6 → 6 \| fino \| .* \| 0.0047 \| .* \| [a-z-]+ [0-9.e-]+ \|\n"
    assert re.search(audited, page)
    assert "fino evaluate --pretrained advection" in page


def test_a_picture_of_measured_data_stays_where_they_are_not_given(
    scores, results, tmp_path, monkeypatch
):
    monkeypatch.setattr("lab.results.load_shipped", lambda: {"climate": scores})
    picture = tmp_path / "figures" / "results-fields.png"
    picture.parent.mkdir()
    picture.write_bytes(b"maps")
    written = write_results(tmp_path / "results.md")
    assert picture in written and picture.read_bytes() == b"maps"
    assert "](figures/results-fields.png)" in written[0].read_text()


def test_the_verb_says_what_it_wrote(results, weights_folder, tmp_path, capsys):
    words = ["results", "--out", str(tmp_path / "results.md"), "--json"]
    app(words, exit_on_error=False, result_action="return_value")
    assert json.loads(capsys.readouterr().out) == [str(tmp_path / "results.md")]
