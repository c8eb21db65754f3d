"""Sweeps: which cases a recipe has, what they are called, and what they look like on the page."""

from __future__ import annotations

from fino.experiment.recipe import read_recipe
from fino.experiment.sweep import cases


def named(*changes, recipe="quickstart"):
    return {case.name: case for case in cases(read_recipe(recipe, changes))}


def test_a_plain_recipe_has_a_case_for_each_model():
    found = named()
    assert list(found) == ["fino", "fno"]
    assert found["fino"].build["width"] == 16 and "width" not in found["fno"].build
    assert found["fino"].train["cpu_seconds"] == found["fno"].train["cpu_seconds"]


def test_seeds_and_swept_values_are_in_the_names():
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
    assert found["fino"].build["width"] == 16


def test_the_ablations_vary_what_they_say():
    swept = {
        "blocks": [1, 2, 3, 4],
        "gate": [True, False],
        "dt": ["learn", "fixed", "one"],
        "radius": [1, 2, 3],
        "levels": [0, 1, 2, 3, 4, 5],
    }
    for setting, values in swept.items():
        found = named(recipe=f"ablation-{setting}")
        assert [case.build[setting] for case in found.values()] == values
    sizes = named(recipe="ablation-data-size").values()
    assert {(case.model, case.data.train) for case in sizes} == {
        (model, size) for model in ("fino", "fno") for size in (50, 100, 200, 400, 800)
    }
