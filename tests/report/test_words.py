"""Sentences about a plan of training, about reach, and about an inspection on the page."""

import math
from dataclasses import replace

import numpy as np
import pytest

import fino
from fino.data.lightcone import light_cone
from fino.report.inspection_page import write_inspection
from fino.report.page import report
from fino.report.tables import best_columns, field_table, score_table
from fino.report.words import (
    describe_few,
    describe_few_tested,
    describe_light_cone,
    describe_plan,
    describe_verdict,
    duration,
    headline_tiles,
)
from fino.training.settings import TrainingSettings


def waves(**facts):
    u = np.random.default_rng(0).standard_normal((12, 12, 1, 16))
    return fino.from_array(u, 0.1, (0, 1), "periodic", name="waves", **facts)


def test_a_plan_says_model_reach_task_data_settings_and_budget():
    data = waves(speed=1.25, symmetries=("flip",))
    model = fino.build("fino", data, width=4, levels=0, history=2, predict="increment")
    settings = TrainingSettings(
        minutes=2, batch=8, validations=5, validation_samples=4, augment=True
    )
    lines = describe_plan(settings, model, data)
    assert lines[0].startswith(f"model fino: {model.parameters_count} weights, width 4, levels 0")
    assert lines[1] == (
        "reach: it sees 2 cells a step; the data move 2 cells a step (0.125 in length), by the "
        "card's wave speed: enough"
    )
    assert lines[2].startswith("it is shown 2 frames and predicts the change from the last frame")
    assert f"data: {len(data.train)} trajectories to learn from" in lines[3]
    assert lines[4].startswith("batch 8, horizon up to") and lines[4].endswith("used: flip")
    assert lines[5] == "budget: 2 minutes; validated 5 times by 4 rollouts"


def test_a_model_that_sees_too_little_is_told_what_helps():
    data = waves(speed=6.0)
    for predict, verdict in (("frame", "more levels would see farther"), ("linear", "less, but")):
        model = fino.build("fino", data, width=4, levels=0, history=2, predict=predict)
        settings = TrainingSettings(minutes=2)
        assert verdict in describe_plan(settings, model, data)[1]


def test_the_plan_says_what_longer_steps_would_save():
    data = fino.generate("advection", 6, points=64, frames=65, duration=0.5, beta=1.0)
    model = fino.build("fino", data, width=4, history=1, levels=1)
    words = "\n".join(describe_plan(TrainingSettings(steps=1), model, data))
    assert (
        "long steps: the data move 0.5 cells a step; steps 8 times as long are within reach and "
        "make a rollout 8 times cheaper (--stride-time 8, or auto)"
    ) in words
    far = data.strided(time=8)
    assert "long steps" not in "\n".join(describe_plan(TrainingSettings(steps=1), model, far))


def test_the_light_cone_is_said_with_its_source():
    data = waves(speed=1.25)
    assert describe_light_cone(light_cone(data), data) == (
        "the data move 2 cells a step (0.125 in length), by the card's wave speed."
    )
    guessed = light_cone(data, estimate=True)
    assert describe_light_cone(guessed, data).endswith("estimated from the data.")
    steady = fino.from_array(
        np.zeros((4, 2, 1, 8, 8)), 1.0, (0, 1), "dirichlet", steady=True, name="darcy"
    )
    assert describe_light_cone(light_cone(steady), steady).startswith("darcy is steady: every cell")


def test_a_report_shows_the_inspection_of_its_run(make_run, words_alone):
    folder = make_run()
    report(folder)
    assert "Will it stay stable?" not in (folder / "report.html").read_text()
    write_inspection(fino.inspect(folder), folder / "inspection")
    report(folder)
    text = (folder / "report.html").read_text()
    assert "Will it stay stable?" in text and 'id="inspection"' in text


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0042, "4.2 ms"),
        (12.3, "12 s"),
        (59.7, "1 min"),
        (190, "3 min 10 s"),
        (7500, "2 h 5 min"),
        (3600, "1 h"),
    ],
)
def test_times_are_said_as_people_say_them(seconds, words):
    assert duration(seconds) == words


def test_the_better_of_model_and_baseline_is_bold_and_nothing_else(make_run, make_waves):
    scores = fino.evaluate(make_run(data=make_waves(channels=2)))
    shown = score_table(scores)
    for row in shown.rows:
        said = row[-1].text
        assert said in ("better", "worse", "the same")
        assert sum(cell.best for cell in row) == (said != "the same")
        assert row[1].best == (said == "better")
    for metric, best in best_columns(scores).items():
        assert ("model" in best) or scores.best_baseline(metric) in best


def test_scores_are_told_by_field_where_there_are_several(make_run, make_waves, words_alone):
    folder = make_run(data=make_waves(channels=2))
    scores = fino.evaluate(folder)
    table = field_table(scores, ("nrmse",))
    assert table.columns == ("metric", "u", "v")
    assert [cell.value for cell in table.rows[0][1:]] == list(scores["nrmse"].channels.values())
    report(folder)
    assert "<h3>By field</h3>" in (folder / "report.html").read_text()
    assert field_table(fino.evaluate(make_run("one"))) is None


def test_a_narrow_win_is_not_told_as_a_sure_one_and_tiles_agree_with_it(make_run):
    scores = fino.evaluate(make_run())
    verdict = {**scores.verdict, "value": 0.5}
    verdict["baselines"] = {
        "persistence": {"value": 0.51, "beaten": True, "ratio": 1.02, "certainty": 0.6}
    }
    narrow = replace(scores, verdict=verdict, metrics={})
    said = describe_verdict(narrow)
    assert "beats every baseline" in said
    assert said.endswith("Not surely: it beats persistence in 60 % of the draws of test samples.")
    assert ("1.02×", "below the best baseline", "persistence") in headline_tiles(narrow)
    lost = {**verdict, "baselines": {"persistence": {**verdict["baselines"]["persistence"]}}}
    lost["baselines"]["persistence"] |= {"value": 0.25, "beaten": False}
    assert ("2×", "above the best baseline", "persistence") in headline_tiles(
        replace(narrow, verdict=lost)
    )
    lost["baselines"]["persistence"]["value"] = 0.0
    still = headline_tiles(replace(narrow, verdict=lost))
    assert not any("baseline" in tile[1] for tile in still)
    broken = replace(narrow, verdict={**verdict, "value": math.inf})
    assert not any("baseline" in tile[1] for tile in headline_tiles(broken))


def test_few_samples_are_said_to_be_few(make_run):
    assert describe_few(20) == "" and describe_few(1) == ""
    assert describe_few(19).startswith("19 samples are few (fewer than 20): one or two of them are")
    scores = fino.evaluate(make_run())
    some = {n: replace(scores, data={**scores.data, "samples": n}) for n in (1, 4, 20)}
    assert "4 test samples are few: others may score outside" in describe_few_tested(some[4])
    assert score_table(some[4]).notes == (describe_few_tested(some[4]),)
    assert describe_few_tested(some[1]).startswith("One test sample is few: there is no interval")
    assert describe_few_tested(some[20]) == "" and score_table(some[20]).notes == ()
