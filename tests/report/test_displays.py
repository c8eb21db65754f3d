"""What Python and notebooks show of data, models, runs, scores and tables; names and hints."""

from importlib.resources import files

import pytest

import fino
from fino.cli.app import app
from fino.report.tables import score_table
from fino.settings import did_you_mean


def test_data_models_runs_scores_and_tables_show_what_they_are(make_run, make_waves):
    data = make_waves(title="<b>waves</b>")
    folder = make_run(data=data)
    run = fino.Run(folder)
    scores = fino.evaluate(folder)
    assert "fields" in str(data) and "16 points on [0, 1], periodic" in str(data)
    assert repr(run.model).startswith("Emulator(fino: ") and "sees 2 cells a step" in repr(
        run.model
    )
    assert len(repr(run.model).splitlines()) == 1
    for thing, words in (
        (data, "&lt;b&gt;waves&lt;/b&gt;"),
        (run, "test nrmse"),
        (scores, "best baseline"),
        (score_table(scores), "95 % interval"),
    ):
        page = thing._repr_html_()
        assert words in page and "<b>waves" not in page and page.endswith("</table>")
    assert str(score_table(scores)).startswith("**")


def test_a_part_can_be_sliced(make_waves):
    part = make_waves().train
    some = part[3:5]
    assert len(some) == 2 and some.samples == part.samples[3:5] and some.name == part.name
    assert len(part[:0]) == 0 and part[-2:].samples == part.samples[-2:]


def test_the_front_door_lists_every_table_and_has_types():
    for name in ("BASELINES", "METRICS", "MODELS", "PRETRAINED", "PROBLEMS", "baselines", "report"):
        assert name in dir(fino) and getattr(fino, name) is not None
    assert "persistence" in fino.BASELINES
    assert files("fino").joinpath("py.typed").is_file()


def test_the_baselines_of_data_are_one_call(make_waves):
    assert "persistence" in fino.baselines(make_waves())


@pytest.mark.parametrize(
    ("word", "known", "said"),
    [
        ("fnio", ["fno", "fino", "ufno"], "Did you mean 'fino'?"),
        ("viscosity", ["cost", "nu"], "Known: cost, nu."),
        ("shallow", ["advection", "shallow-water"], "Did you mean 'shallow-water'?"),
        ("unte", ["unet", "fno"], "Did you mean 'unet'?"),
        ("x", ["beta", "nu"], "Known: beta, nu."),
    ],
)
def test_hints_hit_what_was_meant(word, known, said):
    assert did_you_mean(word, known) == said


def test_shells_can_complete_the_verbs():
    assert "evaluate" in app.generate_completion(shell="bash")
