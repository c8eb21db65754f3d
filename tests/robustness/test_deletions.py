"""What a user keeps beside a run is theirs: nothing of it is deleted or written to."""

import json
import shutil

import pytest
from answers import fino
from little_runs import RECIPE

from fino.training.fit import resume


@pytest.fixture
def unfinished(run):
    """A run that goes on for some steps when it is resumed, with a checkpoint after each."""
    settings = json.loads((run / "settings.json").read_text())
    settings |= {"steps": 6, "checkpoint_seconds": 0.0}
    (run / "settings.json").write_text(json.dumps(settings))
    return run


def test_resuming_leaves_hidden_folders_and_files_of_the_user(unfinished):
    for place in (".git", ".notes", ".model.old.mine", ".model.backup"):
        (unfinished / place).mkdir()
        (unfinished / place / "precious").write_text("mine")
    (unfinished / ".settings.json.swp").write_text("mine")
    resume(unfinished)
    for place in (".git", ".notes", ".model.old.mine", ".model.backup"):
        assert (unfinished / place / "precious").read_text() == "mine"
    assert (unfinished / ".settings.json.swp").read_text() == "mine"


def test_a_file_that_a_user_keeps_beside_the_checkpoint_stays(unfinished):
    mine = [unfinished / "last" / name for name in ("notes.txt", "state-best.safetensors", ".x")]
    for path in mine:
        path.write_text("mine")
    (unfinished / "last" / "folder").mkdir()
    resume(unfinished)
    assert all(path.read_text() == "mine" for path in mine)
    assert (unfinished / "last" / "folder").is_dir()
    assert len(list((unfinished / "last").glob("state-0*.safetensors"))) == 1


@pytest.mark.parametrize("name", ["last", "model", "start"])
def test_a_folder_of_the_run_that_is_a_link_is_refused(unfinished, tmp_path, name):
    elsewhere = tmp_path / "elsewhere"
    (unfinished / name).rename(elsewhere)
    (elsewhere / "state-00000001.safetensors").write_text("mine")
    (unfinished / name).symlink_to(elsewhere)
    before = {path.name: path.read_bytes() for path in elsewhere.iterdir()}
    line = fino("train", "--resume", unfinished).line
    assert f"{name} is a link to {elsewhere}, and nothing is written through links" in line
    assert {path.name: path.read_bytes() for path in elsewhere.iterdir()} == before


def test_a_journal_that_is_a_link_is_refused(unfinished, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("mine\n")
    (unfinished / "metrics.jsonl").unlink()
    (unfinished / "metrics.jsonl").symlink_to(precious)
    line = fino("train", "--resume", unfinished).line
    assert f"metrics.jsonl is a link to {precious}" in line
    assert precious.read_text() == "mine\n"


@pytest.mark.parametrize(
    ("name", "verb"),
    [
        ("loss.png", ["train", "--resume"]),
        ("settings.json", ["train", "--resume"]),
        ("scores.json", ["evaluate"]),
        ("report.html", ["report"]),
        ("figures", ["report"]),
        ("inspection", ["inspect"]),
    ],
)
def test_nothing_is_written_through_a_link(unfinished, tmp_path, name, verb):
    """The link is refused or becomes a file of the run; what it led to is not touched."""
    is_folder = "." not in name
    precious = tmp_path / "precious"
    if is_folder:
        precious.mkdir()
        (precious / "inspection.json").write_text("mine")
    else:
        precious.write_bytes((unfinished / name).read_bytes() if name[0] == "s" else b"mine")
    kept = precious / "inspection.json" if is_folder else precious
    before = kept.read_bytes()
    place = unfinished / name
    if place.is_dir():
        shutil.rmtree(place)
    place.unlink(missing_ok=True)
    place.symlink_to(precious)
    assert fino(*verb, unfinished).is_polite
    assert kept.read_bytes() == before
    assert precious.is_file() or [path.name for path in precious.iterdir()] == ["inspection.json"]


def test_parts_of_a_data_file_are_cleared_by_name_only(tmp_path):
    parts = tmp_path / "a.h5.parts"
    parts.mkdir()
    (parts / "notes.txt").write_text("mine")
    words = ["generate", "advection", "--samples", "3", "--set", "points=32", "--set", "frames=4"]
    assert fino(*words, "--out", tmp_path / "a.h5").code == 0
    assert (parts / "notes.txt").read_text() == "mine"
    assert [path.name for path in parts.iterdir()] == ["notes.txt"]


def test_a_file_whose_cards_were_not_written_gets_them(tmp_path, monkeypatch):
    """A kill there leaves the file, its parts, and a card under a temporary name."""
    words = ["generate", "advection", "--samples", "3", "--set", "points=32", "--set", "frames=4"]
    words += ["--out", tmp_path / "a.h5"]

    def killed(path, card):
        (tmp_path / f".a.h5.card.json.{2**22 + 1}.tmp").write_text("{")  # no such process
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("fino.data.generate.write_cards", killed)
        assert fino(*words).code == 130
    assert fino(*words).code == 0
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["a.h5", "a.h5.card.json", "a.h5.card.md"]


def test_parts_that_are_a_link_are_refused(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "00000000.shard").write_text("mine")
    (tmp_path / "a.h5.parts").symlink_to(elsewhere)
    words = ["generate", "advection", "--samples", "3", "--set", "points=32", "--set", "frames=4"]
    line = fino(*words, "--out", tmp_path / "a.h5", "--overwrite").line
    assert f"a.h5.parts is a link to {elsewhere}" in line
    assert [path.name for path in elsewhere.iterdir()] == ["00000000.shard"]


def test_a_recipe_keeps_what_stands_in_a_folder_that_it_would_train_in(tmp_path, monkeypatch):
    page = lambda work, step, show: step.place.write_text("drawn elsewhere")  # noqa: E731
    monkeypatch.setattr("fino.recipe.run._report", page)
    (tmp_path / "tiny.toml").write_text(RECIPE.replace('["fino", "fno"]', '["fino"]'))
    assert fino("run", tmp_path / "tiny.toml", "--out", tmp_path / "out").code == 0
    run = tmp_path / "out" / "fino"
    record = tmp_path / "out" / "steps" / "train-fino.json"
    content = json.loads(record.read_text())
    record.write_text(json.dumps({**content, "result": None}))  # as if it was begun only
    (run / "settings.json").unlink()
    (run / "notes.txt").write_text("mine")
    assert fino("run", tmp_path / "tiny.toml", "--out", tmp_path / "out").code == 0
    kept = [path.read_text() for path in (tmp_path / "out").rglob("notes.txt")]
    assert kept == ["mine"]
