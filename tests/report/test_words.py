"""Sentences about a plan of training, about reach, and about an inspection on the page."""

import numpy as np

import fino
from fino.data.lightcone import light_cone
from fino.report.inspection_page import write_inspection
from fino.report.page import report
from fino.report.words import describe_light_cone, describe_plan
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


def test_a_report_shows_the_inspection_of_its_run(make_run):
    folder = make_run()
    report(folder)
    assert "Will it stay stable?" not in (folder / "report.html").read_text()
    write_inspection(fino.inspect(folder), folder / "inspection")
    report(folder)
    text = (folder / "report.html").read_text()
    assert "Will it stay stable?" in text and 'id="inspection"' in text
