"""Sweeps: which cases a recipe has, what they are called, and what they look like on the page."""

from __future__ import annotations

import json

from fino.evaluation.compare import compare
from fino.recipe.cases import list_cases
from fino.recipe.recipe import parse_recipe, read_recipe
from fino.recipe.run import _draw_sweep, carry_out, plan
from fino.report.curves import SweepPoint, error_over_setting

TINY = {
    "models": ["fino"],
    "data": {
        "problem": "advection",
        "samples": 8,
        "stride_space": 2,
        "settings": {"points": 32, "frames": 8, "duration": 0.2, "beta": 1.0},
    },
    "model": {"history": 2, "width": 4, "levels": 0},
    "train": {"steps": 2, "batch": 2, "threads": 1},
}


def named(*changes, recipe="quickstart"):
    return {case.name: case for case in list_cases(read_recipe(recipe, changes))}


def test_a_plain_recipe_has_a_case_for_each_model():
    found = named(recipe="quickstart-2d")
    assert list(found) == ["fino", "fno"]
    assert found["fino"].build["width"] == 16 and "width" not in found["fno"].build
    assert found["fino"].train["cpu_seconds"] == found["fno"].train["cpu_seconds"]


def test_seeds_and_varied_values_are_in_the_names():
    found = named("seeds=[0, 1]", 'models=["fino"]', 'sweep.model.dt=["learn", "one"]')
    assert list(found) == [
        "fino-dt-learn-seed-0",
        "fino-dt-learn-seed-1",
        "fino-dt-one-seed-0",
        "fino-dt-one-seed-1",
    ]
    assert [case.train["seed"] for case in found.values()] == [0, 1, 0, 1]
    assert [case.build["dt"] for case in found.values()] == ["learn", "learn", "one", "one"]


def test_every_axis_meets_every_other():
    found = named('models=["fino"]', "sweep.model.blocks=[1, 2]", "sweep.data.train=[10, 20]")
    assert len(found) == 4
    assert found["fino-blocks-2-train-10"].data.train == 10


def test_an_axis_of_one_model_does_not_repeat_the_others():
    assert list(named("sweep.model.fino.width=[4, 8]")) == ["fino-width-4", "fno", "fino-width-8"]


def test_a_model_may_stand_twice_under_its_own_names():
    found = named('models=["fino", "wide"]', "model.wide.name=fino", "model.wide.width=32")
    assert found["wide"].model == "fino" and found["wide"].build["width"] == 32
    assert "width" not in found["fino"].build


def test_the_ablations_vary_what_they_say():
    varied = {
        "blocks": [1, 2, 3, 4],
        "gate": [True, False],
        "dt": ["learn", "fixed", "one"],
        "radius": [1, 2, 3],
        "levels": [0, 1, 2, 3],
    }
    for setting, values in varied.items():
        found = named(recipe=f"lab/recipes/ablation-{setting}.toml")
        assert [case.build[setting] for case in found.values()] == values
    sizes = named(recipe="lab/recipes/ablation-data-size.toml").values()
    assert {(case.model, case.data.train) for case in sizes} == {
        (model, size) for model in ("fino", "fno") for size in (50, 200, 800)
    }


def test_a_sweep_is_one_table_and_one_picture(tmp_path):
    sweep = {"data.train": [2, 4], "model.dt": ["learn", "one"]}
    experiment = plan(parse_recipe("tiny", {**TINY, "sweep": sweep}), tmp_path)
    for outcome in carry_out(experiment):
        if outcome.step.title == "evaluate fino-train-4-dt-one":
            break
    runs = [tmp_path / case.name for case in experiment.cases]
    (comparison,) = compare(runs)
    assert [row.name for row in comparison.rows] == [
        "fino dt=learn trajectories=2",
        "fino dt=one trajectories=2",
        "fino dt=learn trajectories=4",
        "fino dt=one trajectories=4",
    ]
    pictures = _draw_sweep(experiment.steps[-1].needs)
    assert [picture.name for picture in pictures] == ["sweep-train", "sweep-dt"]
    lines = pictures[0].figure.axes[0].get_legend().get_texts()
    assert [line.get_text() for line in lines] == ["fino, dt learn", "fino, dt one"]
    split = json.loads((runs[0] / "data.json").read_text())["card"]["split"]
    assert split["train"] == [[2, 4]] and split["test"] == [[0, 1]]


def test_varied_data_are_generated_once_each_and_reported_apart(tmp_path):
    content = {**TINY, "sweep": {"data.settings.beta": [1.0, 2.0], "model.dt": ["learn", "one"]}}
    experiment = plan(parse_recipe("tiny", content), tmp_path)
    titles = [step.title for step in experiment.steps]
    assert titles.count("generate advection") == titles.count("generate advection-2") == 1
    assert len(experiment.cases) == 4 and len(experiment.pages) == 2
    assert experiment.pages[0] == tmp_path / "report.html"


def test_the_picture_of_a_sweep_has_a_line_a_model_and_a_place_a_value():
    points = [SweepPoint(1, 0.1), SweepPoint(2, 0.05), SweepPoint(2, 0.07)]
    numbers = error_over_setting("blocks", {"fino": points})
    (line, *dots) = numbers.axes[0].get_lines()
    assert list(line.get_xdata()) == [1.0, 2.0]
    assert abs(line.get_ydata()[1] - 0.06) < 1e-12 and len(dots) == 2
    points = [SweepPoint(True, 0.1, 0.09, 0.12), SweepPoint(False, 0.2)]
    words = error_over_setting("gate", {"fino": points})
    assert [tick.get_text() for tick in words.axes[0].get_xticklabels()] == ["True", "False"]
