"""Plain mistakes and edited files are answered with one line, and never with a traceback."""

import json

import numpy as np
import pytest
import torch
from answers import fino, fino_apart

import fino as package
from fino.model.store import check_finite

_STEPS = '[data]\nproblem = "advection"\nsamples = 4\n[train]\nsteps = 1\n[model]\n'


def train(waves, tmp_path, *changes):
    small = ["model.width=4", "model.levels=1", "train.batch=2", "train.threads=1"]
    words = [word for change in (*small, *changes) for word in ("--set", change)]
    return ["train", "--data", waves, "--steps", "2", "--out", tmp_path / "new", *words]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("train.device=banana", "device should be cpu"),
        ("train.threads=1000000000", "'threads': input should be less than or equal to 1024"),
        ("train.minutes=Infinity", "Setting 'minutes': input should be a finite number, got inf."),
        ("train.noise=NaN", "Setting 'noise': input should be"),
        ("train.learning_rate=Infinity", "Setting 'learning_rate': input should be a finite"),
        ("train.batch=1000000000000", "a batch of 1000000000000 trajectories needs at least"),
        ("model.width=100000000", "GB of memory for its weights, and"),
        ("model.levels=1000000", "the network would have more than"),
        ("model.blocks=1000000000", "the network would be larger than any machine"),
    ],
)
def test_a_setting_out_of_all_bounds_is_refused(change, said, waves, tmp_path):
    assert said in fino_apart(*train(waves, tmp_path, change), seconds=120).line
    assert not (tmp_path / "new").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_gpu_that_is_not_there_is_said(waves, tmp_path):
    line = fino(*train(waves, tmp_path, "train.device=cuda")).line
    assert line == "fino: device 'cuda' needs a GPU, and torch sees none here. Use device=cpu."


def test_an_endless_budget_on_the_command_line_is_refused(waves, tmp_path):
    for option in ("--minutes", "--cpu-seconds"):
        line = fino(*train(waves, tmp_path), option, "inf").line
        assert line.endswith("input should be a finite number, got inf.")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('extends = "tiny.toml"', "tiny.toml extends itself. Take out one `extends`."),
        ('extends = "other.toml"', "tiny.toml extends itself."),
        ("[train]\nsteps = 1979-05-27", "'train.steps' in tiny.toml is a date, and no setting is"),
        ("title = 1979-05-27T07:32:00Z", "'title' in tiny.toml is a datetime"),
        ('[sweep]\n"model.width" = [4, 07:32:00]', "'sweep.model.width.1' in tiny.toml is a time"),
        ("[train]\nminutes = inf", "'train.minutes' in tiny.toml should be a finite number"),
        (f"{_STEPS}history = 'x'", "model fino should be a number of frames, got 'x'."),
        (f"{_STEPS}width = 1{30 * '0'}", "the network would be larger than any machine."),
    ],
)
def test_a_recipe_that_means_nothing_is_refused(text, said, tmp_path):
    (tmp_path / "other.toml").write_text('extends = "tiny.toml"')
    (tmp_path / "tiny.toml").write_text(text)
    assert said in fino("run", tmp_path / "tiny.toml", "--dry-run").line


@pytest.mark.parametrize(
    ("name", "key", "value", "said"),
    [
        ("data.json", "path", 5, "'path': input should be a valid string"),
        ("data.json", "samples", "many", "'samples': input should be a valid tuple"),
        ("data.json", "stride_time", 0, "'stride_time': input should be greater than 0"),
        ("data.json", "card", {"name": 3}, "data.json is damaged"),
        ("data.json", "hash", "0" * 64, "is not what"),
        ("settings.json", "steps", "many", "'steps': input should be a valid integer"),
        ("settings.json", "unknown", 1, "Unknown setting 'unknown'"),
        ("settings.json", "steps", None, "settings.json has no budget. Add one, such as"),
        ("last/state.json", "step", "many", "'step': input should be a valid integer"),
        ("last/state.json", "step", -1, "'step': input should be greater than or equal to 0"),
        ("last/state.json", "tensors", "../../x", "'tensors': string should match pattern"),
        ("last/state.json", "wall_seconds", float("nan"), "'wall_seconds': input should be"),
        ("last/state.json", "loss", [], "'loss': input should be a valid number"),
    ],
)
def test_an_edited_file_of_a_run_is_refused_by_name(name, key, value, said, run):
    content = json.loads((run / name).read_text())
    (run / name).write_text(json.dumps({**content, key: value}))
    line = fino_apart("train", "--resume", run).line
    assert said in line
    assert name in line or key == "hash"


@pytest.mark.parametrize(
    ("key", "value"),
    [("data", 5), ("data", {}), ("model", {"name": 3}), ("cost", {"parameters": "x"})],
)
def test_edited_scores_are_refused_by_name(key, value, run):
    path = run / "scores.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    assert f"{path} is damaged: parts are missing. Run" in fino("compare", run).line


@pytest.mark.parametrize("name", ["data.json", "settings.json", "last/state.json"])
@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"null", b"\xff\xfe", b"[" * 100_000])
def test_a_file_of_a_run_that_is_no_object_is_refused_by_name(name, content, run):
    (run / name).write_bytes(content)
    assert name in fino("train", "--resume", run).line


@pytest.mark.parametrize(
    "row", ["null", "[]", "5", "{}", '{"step": "one"}', '{"step": 1, "loss": "much"}', "\x00"]
)
def test_an_odd_line_of_metrics_is_named(row, run):
    rows = (run / "metrics.jsonl").read_text()
    (run / "metrics.jsonl").write_text(f"{rows}{row}\n{rows}")
    number = rows.count("\n") + 1
    for words in (["train", "--resume", run], ["report", run]):
        assert f"metrics.jsonl, line {number} is damaged" in fino(*words).line


def test_metrics_without_lines_or_with_a_line_cut_short_are_no_mistake(run):
    rows = (run / "metrics.jsonl").read_text()
    (run / "metrics.jsonl").write_text(rows + '{"step": 4, "lo')
    assert fino("train", "--resume", run).code == 0
    (run / "metrics.jsonl").write_text("")
    for words in (
        ["train", "--resume", run],
        ["train", "--resume", run, "--json"],
        ["report", run],
    ):
        assert fino(*words).code == 0


def small_data(u):
    return package.from_array(u, dt=0.1, extent=(0, 1), boundary="periodic")


def noise(*shape):
    return np.random.default_rng(0).normal(size=shape)


@pytest.mark.parametrize(
    "u",
    [
        noise(6, 6, 1, 2),
        noise(6, 6, 1, 3),
        noise(6, 6, 1, 3, 3),
        np.zeros((6, 6, 1, 8)),
        noise(6, 6, 2, 8) * [[[0.0], [1.0]]],
        noise(6, 6, 1, 8).astype(np.longdouble),
    ],
    ids=["2 cells", "3 cells", "3 × 3 cells", "zero", "a zero field", "longdouble"],
)
@pytest.mark.filterwarnings("ignore:the training part is the same")
def test_data_at_the_edge_of_sense_go_the_whole_way(u, tmp_path):
    data = small_data(u)
    model = package.build("fino", data, width=4, history=2)
    run = package.fit(model, data, out=tmp_path / "run", steps=2, batch=2, threads=1)
    assert np.isfinite(package.evaluate(run)["rmse"].value)
    assert package.inspect(run) is not None


@pytest.mark.parametrize("size", [1e-30, 1e-40])
def test_numbers_whose_squares_vanish_are_refused(size):
    with pytest.raises(ValueError, match=r"the field 'u' varies by .* Give it in another unit"):
        package.build("fino", small_data(size * noise(6, 6, 1, 8)), width=4, history=2)


def test_data_that_are_the_same_everywhere_are_said_to_teach_nothing():
    with pytest.warns(UserWarning, match=r"the same in every cell, frame and sample \(u = 3\)"):
        package.build("fino", small_data(np.full((6, 6, 1, 8), 3.0)), width=4, history=2)


@pytest.mark.parametrize("shape", [(0, 6, 1, 8), (6, 0, 1, 8), (6, 6, 0, 8), (6, 6, 1, 0)])
def test_an_empty_array_is_refused(shape):
    with pytest.raises(ValueError, match="it is empty"):
        small_data(np.zeros(shape))


def test_a_model_with_a_weight_that_is_no_number_is_neither_inspected_nor_saved(run, tmp_path):
    model = package.load(run / "model")
    with torch.no_grad():
        next(model.network.parameters())[0] = torch.nan
    for use in (check_finite, package.inspect, lambda m: package.save(m, tmp_path / "m")):
        with pytest.raises(ValueError, match=r"the model is broken: 'network.* has a NaN"):
            use(model)


def test_a_model_that_diverges_is_reported(run):
    found = package.Run(run)
    with torch.no_grad():
        for weight in found.model.parameters():
            weight.mul_(50)
    package.evaluate(found)
    assert "report.html" in package.report(found)["page"]


def test_a_mistake_of_ours_is_one_line_too(run, monkeypatch):
    def fail(*arguments, **options):
        raise RuntimeError("something\nunforeseen")

    monkeypatch.setattr("fino.training.run.Run.check", fail)
    answer = fino("evaluate", run)
    assert answer.code == 1
    assert answer.err.splitlines()[-1].endswith("shows. RuntimeError: something unforeseen")
    monkeypatch.setenv("FINO_TRACEBACK", "1")
    assert "Traceback" in fino("evaluate", run).err
