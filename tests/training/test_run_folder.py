"""A run is a folder that says everything, and training really learns."""

from __future__ import annotations

import ast
import json
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from little_data import begin, blobs, little_fino, waves

import fino
import fino.training
from fino.report.words import describe_plan
from fino.training import choices, loop, schedule
from fino.training.choices import choose_settings
from fino.training.loss import validate
from fino.training.settings import TrainingSettings

QUICK = {"batch": 4, "validations": 4, "validation_samples": 2}


def steady_slopes(samples: int = 8):
    """A field and its differences along an axis: steady, so one frame in and one out."""
    u = np.random.default_rng(0).normal(size=(samples, 1, 1, 16, 16))
    both = np.concatenate([u, u - np.roll(u, 1, axis=-1)], axis=1)
    return fino.from_array(both, dt=1.0, extent=(0, 1), boundary="dirichlet", steady=True)


@pytest.mark.parametrize("predict", ["frame", "increment", "linear"])
def test_training_improves_the_rollout(tmp_path, predict):
    data = waves(samples=20)
    model = little_fino(data, predict=predict)
    before = validate(model, *begin(model, data.validation.all()))
    run = fino.fit(model, data, out=tmp_path / "run", steps=60, **QUICK)
    after = validate(run.model, *begin(model, data.validation.all()))
    assert after.full < 0.9 * before.full


def test_a_steady_problem_is_one_step_without_history(tmp_path):
    data = steady_slopes()
    model = fino.build("fino", data, width=8, levels=0)
    assert model.history == 1
    run = fino.fit(model, data, out=tmp_path / "run", steps=80, learning_rate=0.01, **QUICK)
    assert run.metrics[-1]["horizon"] == 1
    validated = [row["nrmse"] for row in run.metrics if row["nrmse"] is not None]
    assert validated[-1] < 0.7 * validated[0]


def test_the_folder_holds_what_the_next_room_reads(tmp_path):
    data = waves()
    run = fino.fit(little_fino(data), data, out=tmp_path / "run", steps=8, **QUICK)
    names = {p.name for p in run.folder.iterdir()}
    assert names == {
        *("model", "last", "start", "settings.json", "data.json", "metrics.jsonl", "loss.png")
    }
    facts = json.loads((run.folder / "data.json").read_text())
    assert facts["hash"] == data.hash
    assert facts["card"]["name"] == "waves"
    assert {"step", "loss", "validation", "lr", "cpu_seconds", "wall_seconds", "horizon"} <= set(
        run.metrics[-1]
    )
    assert run.settings.steps == 8
    assert run.model(data.test.all(0, 3)).shape == (len(data.test), 1, 32)
    assert (run.folder / "loss.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(("choose_by", "column"), [("nrmse", "nrmse"), ("full", "validation")])
def test_the_best_model_is_kept_not_the_last(choose_by, column, tmp_path):
    data = waves()
    run = fino.fit(
        little_fino(data),
        data,
        out=tmp_path / "run",
        steps=40,
        learning_rate=0.05,
        schedule="constant",
        choose_by=choose_by,
        **{**QUICK, "validations": 20},
    )
    validated = [row[column] for row in run.metrics if row[column] is not None]
    assert validated[-1] > min(validated), "this run was meant to end worse than its best"
    count = range(len(data.validation))
    kept = validate(run.model, *data.validation.begin(count, run.model.history))
    found = kept.full if choose_by == "full" else kept.nrmse
    assert found == pytest.approx(min(validated), rel=1e-6)


def test_one_hard_trajectory_does_not_choose_the_model():
    """A sum of squares follows the largest field; the mean relative error does not."""
    data = waves()
    loud = data.train.all()
    loud[0] *= 100
    model = little_fino(data, predict="increment")
    quiet, both = (validate(model, *begin(model, some)) for some in (loud[1:], loud))
    assert both.full > 100 * quiet.full
    assert both.nrmse < 3 * quiet.nrmse


def test_training_stops_when_validation_no_longer_improves(tmp_path):
    data = waves()
    run = fino.fit(
        little_fino(data),
        data,
        out=tmp_path / "run",
        steps=400,
        learning_rate=0.1,
        schedule="constant",
        patience=2,
        **{**QUICK, "validations": 100},
    )
    validated = [row["validation"] for row in run.metrics if row["validation"] is not None]
    assert run.metrics[-1]["step"] < 400
    assert min(validated[-2:]) > min(validated)


def test_averaged_weights_are_judged_and_kept(tmp_path):
    data = waves()
    model = little_fino(data)
    run = fino.fit(model, data, out=tmp_path / "run", steps=12, average=0.9, **QUICK)
    kept, last = run.model.state_dict(), model.state_dict()
    assert any(not torch.equal(kept[name], last[name]) for name in kept)


def test_a_folder_in_use_is_not_overwritten(tmp_path):
    data = waves()
    fino.fit(little_fino(data), data, out=tmp_path / "run", steps=1, **QUICK)
    with pytest.raises(ValueError, match=r"exists already. Go on with `fino train --resume"):
        fino.fit(little_fino(data), data, out=tmp_path / "run", steps=1, **QUICK)
    with pytest.raises(ValueError, match=r"is not a whole run: it has no model"):
        fino.Run(tmp_path)


def test_without_a_folder_a_new_one_is_made_under_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = waves()
    folders = [fino.fit(little_fino(data), data, steps=1, **QUICK).folder for _ in range(2)]
    assert folders == [Path("runs/waves-fino-1"), Path("runs/waves-fino-2")]


def test_every_setting_is_used():
    folder = Path(fino.training.__file__).parent
    used = {
        node.attr
        for path in folder.glob("*.py")
        if path.name != "settings.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
    }
    assert set(TrainingSettings.model_fields) <= used


def test_what_was_left_open_is_decided_and_explained():
    data = blobs()
    model = little_fino(data)
    settings = choose_settings(TrainingSettings(horizon=99), model, data)
    assert settings.minutes == 5
    assert settings.horizon == data.frames - data.history
    assert 2 <= settings.batch <= len(data.train)
    words = "\n".join(describe_plan(settings, model, data))
    assert "it sees 9 cells a step" in words
    assert "flip, rotate" in words
    assert "5 minutes" in words
    with pytest.raises(ValueError, match="history 8 leaves nothing to predict"):
        fino.build("fino", data, history=8, width=4)
    with pytest.raises(ValueError, match="history 3 leaves nothing to predict"):
        choose_settings(TrainingSettings(), model, blobs(frames=3))


@pytest.mark.parametrize(
    ("asked", "seconds_a_rollout", "often", "many"),
    [
        ({"cpu_seconds": 60}, 1e-4, 10, 16),
        ({"cpu_seconds": 60}, 0.1, 10, 6),
        ({"cpu_seconds": 60}, 0.3, 5, 4),
        ({"minutes": 1}, 100.0, 3, 4),
        ({"minutes": 60, "cpu_seconds": 60}, 0.3, 5, 4),
        ({"steps": 10}, 100.0, 10, 16),
        ({"cpu_seconds": 60, "validations": 2}, 0.1, 2, 16),
        ({"cpu_seconds": 60, "validation_samples": 16}, 0.1, 3, 16),
        ({"cpu_seconds": 60, "validations": 9, "validation_samples": 8}, 100.0, 9, 8),
    ],
)
def test_validation_takes_at_most_a_tenth_of_a_budget_of_time(
    asked, seconds_a_rollout, often, many, monkeypatch
):
    data = blobs()
    model = fino.build("fino", data, width=4, levels=0, history=2)
    monkeypatch.setattr(choices, "_rollout_seconds", lambda model, data: seconds_a_rollout)
    chosen = choose_settings(TrainingSettings(**asked), model, data)
    assert (chosen.validations, chosen.validation_samples) == (often, many)
    assert f"validated {often} times by {many} rollouts" in describe_plan(chosen, model, data)[-1]


def test_a_rollout_is_timed_with_the_threads_of_the_training(monkeypatch):
    seen = []
    monkeypatch.setattr(
        choices, "_rollout_seconds", lambda model, data: seen.append(torch.get_num_threads()) or 1.0
    )
    data, before = blobs(), torch.get_num_threads()
    model = fino.build("fino", data, width=4, levels=0, history=2)
    for count in (1, 2):
        choose_settings(TrainingSettings(cpu_seconds=60, threads=count), model, data)
    assert seen == [1, 2] and torch.get_num_threads() == before


@pytest.mark.parametrize(("seconds_an_answer", "many"), [(1e-4, 7), (0.1, 6), (100.0, 4)])
def test_steady_data_are_validated_on_all_samples_that_time_allows(
    seconds_an_answer, many, monkeypatch
):
    u = np.random.default_rng(0).normal(size=(80, 2, 1, 8))
    data = fino.from_array(u, dt=1.0, extent=(0, 1), boundary="periodic", steady=True)
    assert len(data.validation) == 7
    model = fino.build("fino", data, width=4, levels=0)
    monkeypatch.setattr(choices, "_rollout_seconds", lambda model, data: seconds_an_answer)
    chosen = choose_settings(TrainingSettings(cpu_seconds=60), model, data)
    assert chosen.validation_samples == many


def test_processes_that_work_together_do_not_measure_each_for_itself(monkeypatch):
    data = blobs()
    model = fino.build("fino", data, width=4, levels=0, history=2)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setattr(choices, "_rollout_seconds", lambda model, data: 100.0)
    chosen = choose_settings(TrainingSettings(cpu_seconds=60), model, data)
    assert (chosen.validations, chosen.validation_samples) == (10, 16)


@pytest.mark.parametrize(
    ("asked", "slowdown", "chosen"),
    [
        ({"minutes": 5}, {1: 1.0, 2: 0.5, 4: 0.25, 8: 0.24}, 4),  # an idle machine
        ({"minutes": 5}, {1: 1.0, 2: 40.0}, 1),  # two busy processes beside it
        ({"minutes": 5}, {1: 1.0, 2: 0.9}, 1),  # hardly worth a second core
        ({"minutes": 5}, {1: 1000.0}, 8),  # a step so long that there is no time to try
        ({"cpu_seconds": 60}, {}, 1),
        ({"steps": 10}, {}, None),  # weights that repeat
        ({"minutes": 5, "threads": 3}, {}, 3),
    ],
)
def test_the_threads_are_those_that_steps_of_training_are_fastest_with(
    asked, slowdown, chosen, monkeypatch
):
    data = blobs()
    model = fino.build("fino", data, width=4, levels=0, history=2)
    monkeypatch.setattr(choices, "threads", nullcontext)  # or it would set eight threads after
    monkeypatch.setattr(choices.torch, "get_num_threads", lambda: 8)
    monkeypatch.setattr(choices, "_step_seconds", lambda steps, count, seconds: slowdown[count])
    monkeypatch.setattr(choices, "_rollout_seconds", lambda model, data: 1e-4)
    settings = choose_settings(TrainingSettings(**asked), model, data)
    assert settings.threads == chosen
    said = "\n".join(describe_plan(settings, model, data, TrainingSettings(**asked)))
    assert (f"threads: {chosen}" in said) == (chosen is not None)
    assert ("short trial" in said) == bool(slowdown)


def test_timing_the_threads_leaves_the_model_and_the_threads_as_they_were():
    data, before = blobs(), torch.get_num_threads()
    model = fino.build("fino", data, width=4, levels=0, history=2)
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    torch.set_num_threads(2)
    try:
        chosen = choose_settings(TrainingSettings(minutes=0.01, batch=2), model, data)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert chosen.threads in (1, 2)
    assert all(torch.equal(weights[name], value) for name, value in model.state_dict().items())


@pytest.mark.parametrize(
    ("seconds", "told", "often"), [(1, {}, 10), (4, {}, 3), (40, {}, 2), (4, {"validations": 9}, 9)]
)
def test_validations_that_turn_out_longer_than_planned_are_left_out(
    seconds, told, often, monkeypatch
):
    now = 0.0

    def spend(time, function):
        def spending(*given):
            nonlocal now
            now += time
            return function(*given)

        return spending

    monkeypatch.setattr(schedule.time, "monotonic", lambda: now)
    monkeypatch.setattr(loop, "draw_batch", spend(2, loop.draw_batch))
    monkeypatch.setattr(loop, "validate", spend(seconds, loop.validate))
    data = blobs()
    model = fino.build("fino", data, width=4, levels=0, history=2)
    settings = {"minutes": 2, "batch": 2, "horizon": 1, "threads": 1, "validation_samples": 1}
    monkeypatch.setattr(choices, "_rollout_seconds", lambda model, data: 1e-4)
    settings = choose_settings(TrainingSettings(**settings, **told), model, data)
    state = loop.begin(model, settings)
    happened = list(loop.train(state, data, settings))
    rows = [h for h in happened if h.validation is not None]
    assert len(rows) == often and rows[-1] is happened[-1]
    if not told and seconds < 40:  # what nobody could foresee is paid once
        assert sum(state.validated) <= 0.1 + 1e-6


def test_the_cost_of_a_rollout_grows_with_its_length():
    model = fino.build("fino", blobs(frames=8), width=4, levels=0, history=2)
    short, long = (choices._rollout_seconds(model, blobs(frames=n)) for n in (8, 800))
    assert 0 < short < long
