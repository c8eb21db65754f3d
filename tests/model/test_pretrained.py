"""Pretrained models: by name, offline, with a card, and with test data that are solved again."""

from __future__ import annotations

import json

import pytest
import torch

import fino
from fino.cli.app import app
from fino.data.generate import generate
from fino.model.pretrained import plan_again, solve_samples
from fino.model.store import model_hash
from fino.pde import PROBLEMS
from fino.training.run import PRETRAINED, find_run, pretrained
from lab.ship import LARGEST

#: Small enough to be solved in a blink; where a problem needs more than few points and frames.
FEW = {"points": 16, "frames": 6, "duration": 0.1}
SMALL = {
    "advection": {"points": 32, "frames": 6, "duration": 0.1},
    "diffusion-reaction-1d": {"points": 32, "frames": 6},
    "compressible-1d": {"points": 32, "frames": 6, "duration": 0.1},
    "darcy": {"points": 16},
    "darcy-pdebench": {"points": 16},
    "diffusion-reaction-2d": {"points": 16, "frames": 6, "duration": 0.5},
    "shallow-water": {"points": 16, "frames": 6, "duration": 0.1, "distinct": True},
    "shallow-water-momenta": {"points": 16, "frames": 6, "duration": 0.1},
    "gray-scott": {"points": 16, "frames": 6, "duration": 10.0, "pattern": "all"},
}


@pytest.mark.parametrize("initial", ["ours", "pdebench"])
@pytest.mark.parametrize("name", sorted(PROBLEMS))
def test_the_test_part_alone_is_that_of_the_whole_file(name, initial):
    if initial != "ours" and "initial" not in PROBLEMS[name].model_fields:
        pytest.skip("one kind of start only")
    strides = {"stride_space": 2, "stride_time": 1 if PROBLEMS[name].steady else 2}
    few = {key: value for key, value in FEW.items() if key in PROBLEMS[name].model_fields}
    few = SMALL.get(name, few)
    whole = generate(
        name, 24, seed=3 if initial == "ours" else 0, initial=initial, **strides, **few
    )
    part = solve_samples(plan_again(whole.card), whole.split.samples("test"))
    assert len(part.test) == len(whole.test) == 2
    assert torch.equal(part.test.all(), whole.test.all())
    assert part.card.times.tolist() == whole.card.times.tolist()


@pytest.mark.parametrize(
    ("name", "vary"),
    [("advection", {"beta": "0.5:2"}), ("gray-scott", {"diffusion_a": "1e-5,2e-5"})],
)
def test_parameters_of_each_trajectory_are_those_of_the_whole_file(name, vary):
    whole = generate(name, 24, vary=vary, **SMALL[name])
    wanted = (1, 2, 7)
    part = solve_samples(plan_again(whole.card), wanted)
    assert torch.equal(part.test.all(), whole.read(wanted))
    for key, values in whole.parameters.items():
        assert part.parameters[key].tolist() == values[list(wanted)].tolist()


def test_a_test_part_in_pieces_is_solved_in_pieces():
    whole = generate("advection", 12, **SMALL["advection"])
    wanted = (1, 2, 3, 7, 11)
    assert torch.equal(solve_samples(plan_again(whole.card), wanted).test.all(), whole.read(wanted))


def test_a_pretrained_model_is_the_one_that_was_shipped(finished, shipped):
    model = pretrained("advection")
    own = fino.load(finished / "fino" / "model")
    history = torch.randn(2, 3, 1, 16)
    assert torch.equal(model(history), own(history))
    assert not model.training


def test_test_data_of_a_name_are_those_it_was_scored_on(finished, shipped):
    data = PRETRAINED["advection"].test_data(2)
    own = fino.open(finished / "data" / "advection.h5")
    assert torch.equal(data.test.all(), own.test.read([0, 1]))
    with pytest.raises(ValueError, match=r"^samples should be a positive number, got 0\.$"):
        PRETRAINED["advection"].test_data(0)


def test_data_that_were_measured_are_asked_for_in_one_line(shipped):
    card = json.loads((shipped / "card.json").read_text())
    card["data"]["card"]["name"] = "climate-monthly"
    (shipped / "card.json").write_text(json.dumps(card))
    with pytest.raises(ValueError, match=r"cannot be solved again.*--data.*air.mon.mean.nc"):
        PRETRAINED["advection"].test_data()


def test_an_unknown_name_is_answered_with_the_nearest(shipped, weights_folder):
    with pytest.raises(ValueError, match=r"'advecton'. Did you mean 'advection'\?$"):
        fino.pretrained("advecton")
    for path in shipped.iterdir():
        path.unlink()
    with pytest.raises(ValueError, match="There are none in this installation"):
        fino.pretrained("advection")


@pytest.mark.parametrize("file", ["card.json", "config.json", "model.safetensors"])
def test_a_damaged_folder_is_named_in_one_line(shipped, file):
    (shipped / file).write_bytes((shipped / file).read_bytes()[:-40])
    with pytest.raises(ValueError, match=file) as answer:
        _ = PRETRAINED["advection"].title, PRETRAINED["advection"].model
    assert "\n" not in str(answer.value)


def test_a_path_wins_over_a_name(shipped, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_run("advection").is_shipped
    (tmp_path / "advection").mkdir()
    with pytest.raises(ValueError, match="advection is not a whole run: it has no model"):
        find_run("advection")


def test_rollout_takes_a_name(shipped, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    app(["rollout", "advection", "--movie", "a.gif", "--json"], result_action="return_value")
    told = json.loads(capsys.readouterr().out)
    data = find_run("advection").data
    assert told["shape"] == [data.frames - data.history, 1, 16]
    assert (tmp_path / "a.gif").stat().st_size > 0
    with pytest.raises(ValueError, match=r"'advectio'. Did you mean 'advection'"):
        app(["rollout", "advectio"], exit_on_error=False, result_action="return_value")


def test_inspect_and_report_take_a_name(shipped, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    app(["inspect", "advection", "--json"], result_action="return_value")
    assert json.loads(capsys.readouterr().out)["data"] == "advection"
    app(["report", "advection", "--json"], result_action="return_value")
    assert json.loads(capsys.readouterr().out)["page"] == "advection-report/report.html"
    assert "nRMSE" in (tmp_path / "advection-report" / "report.html").read_text()


def test_the_list_shows_error_and_reach(shipped, capsys):
    app(["list", "pretrained"], result_action="return_value")
    said = capsys.readouterr().out
    assert "advection" in said and "nRMSE" in said and "sees" in said


@pytest.mark.parametrize("name", list(PRETRAINED) or [None])
def test_every_model_in_the_package_keeps_its_promises(name):
    if name is None:
        assert len(PRETRAINED) == 0
        return
    entry = PRETRAINED[name]
    size = sum(path.stat().st_size for path in entry.folder.iterdir())
    assert size <= LARGEST
    assert {p.name for p in entry.folder.iterdir()} - {"trust.json"} == {
        "card.json",
        "config.json",
        "model.safetensors",
        "scores.json",
    }
    model, card = entry.model, entry.card
    scores = json.loads((entry.folder / "scores.json").read_text())
    assert scores["model"]["sha256"] == model_hash(entry.folder)
    assert scores["metrics"]["nrmse"]["value"] == card["scores"]["nrmse"]["value"]
    assert list(model.settings.fields) == list(entry.data_card.fields)
    assert card["cost"]["cpu_minutes"] <= 1.02 * 120
    assert card["limits"] and all(words.endswith(".") for words in card["limits"])
    assert entry.title and card["date"]
