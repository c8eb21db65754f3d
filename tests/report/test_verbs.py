"""`fino evaluate`, `fino compare` and `fino report` as they are typed."""

import json
import sys

import pytest

from fino.cli.app import main
from fino.evaluation.evaluate import evaluate

# The whole front door is tested, which reads sys.argv; cyclopts suspects a mistake.
pytestmark = pytest.mark.filterwarnings("ignore:Cyclopts application invoked")


@pytest.fixture
def fino(monkeypatch, capsys):
    """Type a command; get its exit code, what it said, and its error lines."""

    def typed(*words):
        monkeypatch.setattr(sys, "argv", ["fino", *map(str, words)])
        code = 0
        try:
            main()
        except SystemExit as done:
            code = done.code or 0
        said = capsys.readouterr()
        return code, said.out, said.err

    return typed


def test_evaluate_prints_a_table_and_writes_scores(fino, make_run):
    folder = make_run()
    code, said, _ = fino("evaluate", folder)
    assert code == 0
    for words in ("nrmse", "95 % interval", "best baseline", "persistence", "scores.json"):
        assert words in said
    content = json.loads((folder / "scores.json").read_text())
    assert content["command"] == f"fino evaluate {folder}"


def test_evaluate_speaks_json_and_pdebench(fino, make_run, make_waves):
    folder = make_run(data=make_waves(samples=40))
    code, said, _ = fino(
        "evaluate", folder, "--convention", "pdebench", "--batch", 2, "--json", "--part", "test"
    )
    assert code == 0
    assert json.loads(said)["convention"] == "pdebench, batch 2"


def test_mistakes_are_one_line_and_exit_code_two(fino, make_run, make_waves, tmp_path):
    from fino.data.store import save

    folder = make_run()
    save(make_waves(channels=2), tmp_path / "two.h5")
    save(make_waves(points=(32,)), tmp_path / "fine.h5")
    for words, expected in (
        (("evaluate", tmp_path / "none"), "There is no run, model or shipped model"),
        (("evaluate", folder, "--data", tmp_path / "two.h5"), "the data have 2 (u, v)"),
        (("evaluate", folder, "--data", tmp_path / "fine.h5"), "another spacing"),
        (("compare", folder), "Run `fino evaluate"),
        (("compare",), "at least one run"),
        (("report",), "should be given a run folder"),
    ):
        code, _, error = fino(*words)
        assert code == 2
        assert error.startswith("fino: ") and error.count("\n") == 1
        assert expected in error
    (folder / "model" / "config.json").write_text("{}")
    code, _, error = fino("evaluate", folder)
    assert code == 2 and error.count("\n") == 1


def test_compare_prints_writes_and_draws(fino, make_run, make_waves, tmp_path):
    data = make_waves()
    folders = [make_run(f"run{width}", width=width, data=data) for width in (4, 6)]
    for folder in folders:
        evaluate(folder)
    code, said, _ = fino("compare", *folders, "--figure", tmp_path / "cost.svg")
    assert code == 0
    assert "width=4" in said and "parameters" in said
    assert (tmp_path / "cost.svg").stat().st_size > 1000
    code, said, _ = fino("compare", *folders, "--json", "--metrics", "crmse")
    assert json.loads(said)[0]["rows"][0]["crmse"] > 0
    code, said, _ = fino("compare", *folders, "--out", tmp_path / "table.md")
    assert (tmp_path / "table.md").read_text().startswith("**waves")
    code, _, error = fino("compare", *folders, "--metrics", "nrms")
    assert code == 2 and "Did you mean 'nrmse'?" in error


def test_report_says_where_the_page_is(fino, make_run, make_waves):
    folder = make_run(data=make_waves(points=(8, 8), frames=2, steady=True))
    code, said, _ = fino("report", folder, "--json")
    assert code == 0
    assert json.loads(said)["page"] == str(folder / "report.html")
