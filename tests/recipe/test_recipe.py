"""Recipes: every shipped one holds, mistakes are answered with one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from radar_images import write_knmi

from fino.cli.app import app
from fino.data.arrays import from_array
from fino.data.store import save
from fino.recipe.cases import choose_case, list_cases
from fino.recipe.recipe import find_recipes, read_recipe
from fino.recipe.run import plan
from fino.streams import numpy_stream
from fino.training.settings import TrainingSettings
from lab.paper import TASKS

_ABLATIONS = ("blocks", "data-size", "gate", "dt", "radius", "levels")
_TASKS = (
    "advection",
    "compressible-1d",
    "diffusion-reaction-1d",
    "darcy",
    "diffusion-reaction-2d",
    "shallow-water",
    "climate",
)


@pytest.fixture
def two_maps(tmp_path):
    """Stand-ins for the climate files: a plan only looks whether they are there."""
    for name in ("air.nc", "pres.nc"):
        (tmp_path / name).write_bytes(b"maps")
    return [f"data.air={tmp_path / 'air.nc'}", f"data.pressure={tmp_path / 'pres.nc'}"]


@pytest.fixture
def own_file(tmp_path):
    u = numpy_stream(0, "own").normal(size=(6, 8, 1, 16))
    save(from_array(u, 0.1, (0, 1), "periodic"), tmp_path / "own.h5")
    return tmp_path / "own.h5"


def write(tmp_path, text, name="mine.toml"):
    (tmp_path / name).write_text(text)
    return tmp_path / name


@pytest.mark.parametrize("name", find_recipes())
def test_every_shipped_recipe_can_be_planned(name, tmp_path, two_maps, own_file):
    given = {"data": {"file": str(own_file)}} if name == "your-data" else {}
    if name == "radar":
        images = write_knmi(tmp_path / "images", frames=60)
        given = {"data": {"file": str(images), "reading": {}}}
    changes = two_maps if "climate" in name else []
    recipe = read_recipe(name, changes, **given)
    experiment = plan(recipe, tmp_path / "out")
    kinds = [step.kind for step in experiment.steps]
    assert recipe.title
    assert kinds.count("train") == kinds.count("evaluate") == len(experiment.cases)
    assert kinds[-1] == "report"
    assert all(experiment.ledger.seconds(step) > 0 for step in experiment.steps)
    assert {experiment.ledger.state(step) for step in experiment.steps} == {"new"}
    assert not (tmp_path / "out").exists()


def test_there_is_a_recipe_for_every_task_on_a_gpu_and_on_a_laptop():
    wanted = {f"{kind}-{task}" for kind in ("paper", "laptop") for task in _TASKS}
    wanted |= {f"ablation-{name}" for name in _ABLATIONS}
    there = {*find_recipes(), *(path.stem for path in Path("lab/recipes").glob("*.toml"))}
    assert wanted | {"quickstart", "your-data"} <= there
    assert len(_TASKS) == len(TASKS)


def test_the_paper_recipes_train_as_the_paper_does():
    for task in ("advection", "darcy", "shallow-water"):
        recipe = read_recipe(f"paper-{task}")
        train = list_cases(recipe)[0].train
        scheme = TrainingSettings.paper().model_dump(mode="json")
        assert train["epochs"] == 400 and train["horizon"] is None and train["loss"] == "paper"
        assert train["optimizer"] == "adam" and train["learning_rate"] == 1e-3
        assert {k: v for k, v in train.items() if k not in ("batch", "device", "seed")} == {
            k: scheme[k] for k in train if k not in ("batch", "device", "seed")
        }
    assert read_recipe("paper-advection").data.samples == 10_000
    assert read_recipe("paper-darcy").data.problem == "darcy-pdebench"


def test_a_recipe_extends_another_one_and_a_different_one_if_told():
    recipe = read_recipe("lab/recipes/ablation-gate.toml")
    assert recipe.data.problem == "advection" and recipe.models == ("fino",)
    assert recipe.train["cpu_seconds"] == 60 and recipe.data.stride_space == 8
    other = read_recipe("lab/recipes/ablation-gate.toml", ["extends=laptop-diffusion-reaction-2d"])
    assert other.data.problem == "diffusion-reaction-2d" and "model.gate" in other.sweep


def test_older_files_say_base_instead_of_extends(tmp_path):
    path = write(tmp_path, 'base = "laptop-advection"')
    assert read_recipe(path).data.problem == "advection"
    assert read_recipe(path, ["base=laptop-darcy"]).data.problem == "darcy"


def test_one_language_in_files_on_the_command_line_and_in_python(tmp_path):
    path = write(
        tmp_path, '[model]\nwidth = 16\npredict = "linear"\n[train]\nbatch = 8\nseed = 2\n'
    )
    words = ["model.width=48", "train.learning_rate=1e-3", "train.horizon=none", "model.norm=none"]
    recipe = read_recipe(path, words, budget={"minutes": 2, "steps": None})
    assert recipe.model == {"width": 48, "predict": "linear", "norm": "none"}
    limits = {"batch": 8, "minutes": 2, "learning_rate": 1e-3, "horizon": None}
    assert recipe.train == limits and recipe.seeds == (2,)
    assert read_recipe(None, [*words, "train.seed=2"]).model == {"width": 48, "norm": "none"}


def test_a_budget_replaces_the_one_of_the_recipe():
    assert read_recipe("quickstart", budget={"steps": 3}).train == {"threads": 1, "steps": 3}
    for words in (["train.minutes=3"], ["train.minutes=3", "train.cpu_seconds=none"]):
        train = read_recipe("quickstart", words).train
        assert train["minutes"] == 3 and train.get("cpu_seconds") is None
    both = read_recipe("quickstart", ["train.cpu_seconds=9"], budget={"minutes": 3}).train
    assert both == {"threads": 1, "minutes": 3, "cpu_seconds": 9}
    assert read_recipe("quickstart", ["train.cpu_seconds=none"]).train["cpu_seconds"] is None


def test_one_case_is_what_a_recipe_has_for_a_model():
    changes = ["train.fno.batch=3", "seeds=[5, 6]", "sweep.model.fino.levels=[0, 1]"]
    recipe = read_recipe("laptop-advection", changes)
    case = choose_case(recipe, "fno")
    assert case.model == "fno" and case.build == {"modes": 24}
    assert case.train["batch"] == 3 and case.train["seed"] == case.seed == 5
    assert choose_case(recipe).model == "fino"


def test_changes_have_the_last_word():
    recipe = read_recipe(
        "quickstart", ["data.samples=12", "model.fno.width=6", "train.clip=none", "seeds=[3, 4]"]
    )
    assert recipe.data.samples == 12 and recipe.model["fno"]["width"] == 6
    assert recipe.train["clip"] is None and recipe.seeds == (3, 4)


def test_the_recipe_in_the_documentation_holds(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "recipes.md").read_text()
    text = page.split("```toml\n")[1].split("```")[0]
    found = plan(write(tmp_path, text), tmp_path / "out").cases
    assert len(found) == 3 * (4 + 1 + 1)
    assert {case.model for case in found} == {"fino", "fno"}


def test_files_are_found_beside_the_recipe(tmp_path, own_file, monkeypatch):
    path = write(tmp_path, '[data]\nfile = "own.h5"\n')
    monkeypatch.chdir("/")
    assert plan(read_recipe(path), tmp_path / "out").cases[0].data.file == str(own_file)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("titel = 'x'", "Unknown key 'titel' in mine.toml. Did you mean 'title'?"),
        ("models", "mine.toml is not TOML"),
        ("data = 3", "'data' in mine.toml should be a table: [data]."),
        (
            "[data]\nsampels = 3",
            "Unknown key 'data.sampels' in recipe mine. Did you mean 'samples'?",
        ),
        ("[data]\nproblem = 'advektion'\nsamples = 9", "Did you mean 'advection'?"),
        ("[data]\nproblem = 'advection'", "data.samples should say how many"),
        ("[data]\nproblem = 'advection'\nfile = 'a.h5'", "one source, got problem and file"),
        ("[data]\nair = 'a.nc'", "data.air and data.pressure should be given together."),
        ("models = []", "models should be a list, each once, got []."),
        ("extends = 'quickstrat'", "Unknown recipe 'quickstrat'. Did you mean 'quickstart'?"),
        (
            "[data]\nproblem = 'advection'\nsamples = 9\nsettings = { bta = 1 }",
            "Unknown setting 'bta'. Did you mean 'beta'?",
        ),
    ],
)
def test_a_mistake_in_a_recipe_is_one_line(tmp_path, text, message):
    path = write(tmp_path, text)
    with pytest.raises(ValueError) as caught:
        read_recipe(path)
    assert message in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["model.widht=3"], "Unknown key 'model.widht' in recipe quickstart for model fino."),
        (["model.dims=3"], "Unknown key 'model.dims'"),
        (["train.learning_rte=1"], "Did you mean 'learning_rate'?"),
        (
            ["train.seed=1", "seeds=[0]"],
            "Unknown key 'train.seed' in recipe quickstart. Use seeds = […].",
        ),
        (["train.fino.seed=1"], "Unknown key 'train.seed' in recipe quickstart. Use seeds = […]."),
        (["data=3"], "'data' in recipe quickstart should be a table: [data]."),
        (["train.scheme=mine"], "train.scheme should be 'ours' or 'paper', got 'mine'."),
        (["train.batch=0"], "batch"),
        (['models=["unte"]'], "Unknown model 'unte'. Did you mean 'unet'?"),
        (["sweep.model.width=[]"], "The sweep of model.width should have at least one value."),
        (["sweep.width=[1]"], "A sweep varies data.…, model.… or train.…"),
        (["samples"], "--set should be NAME=VALUE"),
        (["title.x=1"], "'title.x' cannot be set: 'title' is not a table."),
    ],
)
def test_a_mistake_in_a_setting_is_one_line(changes, message):
    with pytest.raises(ValueError) as caught:
        list_cases(read_recipe("quickstart", changes))
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_what_is_not_a_recipe_is_said(tmp_path, own_file):
    with pytest.raises(ValueError, match="Did you mean 'quickstart'"):
        read_recipe("quickstrt")
    with pytest.raises(ValueError, match=r"is not a recipe. For a data file: fino run --data"):
        read_recipe(own_file)
    with pytest.raises(FileNotFoundError, match="There is no recipe file"):
        read_recipe(tmp_path / "no.toml")


def test_missing_data_are_one_line(tmp_path):
    with pytest.raises(ValueError, match=r"laptop-climate needs data: --set data.air=AIR.nc"):
        plan("laptop-climate", tmp_path)
    with pytest.raises(ValueError, match=r"your-data needs data: --data FILE"):
        plan("your-data", tmp_path)
    missing = ["data.air=no.nc", "data.pressure=no.nc"]
    with pytest.raises(FileNotFoundError, match=r"There is no data file no.nc"):
        plan(read_recipe("laptop-climate", missing), tmp_path)


def test_a_dry_run_tells_and_does_nothing(tmp_path, capsys):
    out = tmp_path / "out"
    app(
        ["run", "quickstart", "--dry-run", "--json", "--out", str(out)],
        result_action="return_value",
    )
    told = json.loads(capsys.readouterr().out)
    assert [step["step"] for step in told["steps"]] == [
        "generate-advection",
        "train-fino",
        "evaluate-fino",
        "train-fno",
        "evaluate-fno",
        "report",
    ]
    assert 20 < told["seconds"] < 300
    assert not any(step["skip"] for step in told["steps"]) and not out.exists()
    app(["run", "quickstart", "--dry-run", "--out", str(out)], result_action="return_value")
    said = capsys.readouterr().out
    assert "in all, training 2 models at once, into" in said and "Nothing was done now." in said
