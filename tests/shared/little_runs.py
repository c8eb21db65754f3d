"""A finished recipe of two tiny models, and a folder of weights to ship them to."""

import pytest

from fino.model import pretrained
from fino.recipe.recipe import read_recipe
from fino.recipe.run import carry_out, plan
from lab.ship import ship_run

RECIPE = """
title = "Tiny"
models = ["fino", "fno"]

[data]
problem = "advection"
samples = 30
stride_space = 2
settings = { points = 32, frames = 12, duration = 0.2, beta = 1.0 }

[model]
history = 3

[model.fino]
width = 4
levels = 1

[model.fno]
width = 4
modes = 4
layers = 1
head = 8

[train]
steps = 4
batch = 2
threads = 1
"""


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """The folder of a whole `fino run`, from nothing to scores; no page."""
    place = tmp_path_factory.mktemp("little-runs")
    (place / "laptop-advection.toml").write_text(RECIPE)
    experiment = plan(read_recipe(place / "laptop-advection.toml"), place / "laptop-advection")
    for outcome in carry_out(experiment):
        if outcome.step.kind == "evaluate" and outcome.step.name == experiment.cases[-1].name:
            break
    return place / "laptop-advection"


@pytest.fixture
def weights_folder(tmp_path, monkeypatch):
    """An empty folder of weights instead of the package's own."""
    monkeypatch.setattr(pretrained, "WEIGHTS", tmp_path / "weights")
    return tmp_path / "weights"


@pytest.fixture
def shipped(finished, weights_folder):
    """A folder of weights with one model: advection."""
    return ship_run(finished / "fino", "advection", ["Trained for four steps."])
