"""The card of the data says that they were made with another equation or other coefficients."""

import warnings

import numpy as np
import pytest

import fino
from fino.evaluation.compare import compare
from fino.model.pretrained import plan_again
from fino.pde import PROBLEMS
from fino.training.run import PRETRAINED
from fino.trust.equation import Equation, compare_equations

SMALL = {"points": 32, "frames": 12, "duration": 0.2}
SPLIT = {"train": 4, "validation": 2, "test": 4}


def make(problem="diffusion-reaction-1d", **settings):
    return fino.generate(problem, 10, **{**SMALL, **settings}).with_split(**SPLIT)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A model of ν = 0.5 and ρ = 1, trained for two steps."""
    data = make()
    model = fino.build("fino", data, width=4, levels=0)
    out = tmp_path_factory.mktemp("runs") / "fisher"
    return fino.fit(model, data, steps=2, batch=2, out=out, progress=False)


OTHER = "The data were made with nu = 2, the model was trained on nu = 0.5."


@pytest.mark.filterwarnings("ignore:.*unlike the training data", "ignore:.*left what training saw")
def test_a_rollout_of_a_sample_names_the_coefficient_and_both_values(run):
    other = make(nu=2.0)
    with pytest.warns(UserWarning) as said:
        fino.rollout(run, other.test[0], 2)
    assert [str(one.message) for one in said if "were made" in str(one.message)] == [OTHER]
    with pytest.raises(ValueError, match=f"^{OTHER}$"):
        fino.rollout(run, other.test[0], 2, strict=True)
    again = fino.load(run.folder / "model")  # a model alone remembers it
    with pytest.warns(UserWarning, match=f"^{OTHER}$"):
        fino.rollout(again, other.test[0], 2)
    with pytest.raises(ValueError, match=f"^{OTHER}$"):
        fino.rollout(again, other.test[0], 2, tile=16, strict=True)


def test_evaluate_warns_once_keeps_the_line_or_refuses(run):
    other = make(nu=2.0, rho=3.0)
    line = "The data were made with nu = 2, rho = 3, the model was trained on nu = 0.5, rho = 1."
    with pytest.warns(UserWarning) as said:
        scores = fino.evaluate(run, other, part="test", baselines=False)
    assert [str(one.message) for one in said] == [line]
    assert scores.trust["equation"] == line
    with pytest.raises(ValueError, match=f"^{line}$"):
        fino.evaluate(run, other, baselines=False, strict=True)


def test_report_and_compare_say_it_too(run, tmp_path):
    other = make(nu=2.0)
    with pytest.warns(UserWarning, match=f"^{OTHER}$"):
        written = fino.report(run, other, out=tmp_path / "report.html")
    assert OTHER in (tmp_path / "report.html").read_text(encoding="utf-8"), written
    scores = run.folder / run.with_data(other).scores_name
    with pytest.warns(UserWarning, match=f"{scores.name}: {OTHER}$"):
        compare([scores])


def test_another_equation_is_named(run):
    waves = make("advection")
    line = (
        "The data solve another equation, advection; the model was trained on "
        "diffusion-reaction-1d."
    )
    with pytest.warns(UserWarning, match=f"^{line}$"):
        fino.evaluate(run, waves, part="test", baselines=False)
    with pytest.raises(ValueError, match=f"^{line}$"):
        fino.rollout(run, waves.test[0], 2, strict=True)


def test_numerics_and_starts_are_no_other_equation(run):
    """Cells, frames, the solver's own settings and the kind of start are guarded elsewhere."""
    ours = Equation.of_model(run.model)
    for settings in ({"step": 0.5}, {"modes": 2}, {"window": 0.5}, {"points": 64}, {"frames": 6}):
        assert ours.difference(Equation.of_card(make(**settings).card)) == "", settings


def test_data_without_an_equation_on_their_card_are_taken_as_they_are(run):
    frames = make(nu=2.0).read(range(4)).numpy()
    arrays = fino.from_array(
        frames, dt=run.data.dt, extent=run.data.grid.extent, boundary="periodic"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compare_equations(run.model, arrays.card) == ""
        fino.evaluate(run, arrays, part="all", baselines=False)


def test_a_model_of_a_strangers_arrays_warns_of_no_equation():
    draw = np.random.default_rng(0)
    data = fino.from_array(
        draw.normal(size=(8, 12, 1, 32)), dt=0.1, extent=(0, 1), boundary="periodic"
    )
    model = fino.build("fino", data, width=4, levels=0)
    model.trust = {"equation": Equation.of_card(data.card).facts}
    assert compare_equations(model, make().card) == ""


def test_a_parameter_that_varies_is_guarded_by_its_range_alone():
    data = make(vary={"nu": (0.2, 1.0)})
    model = fino.build("fino", data, width=4, levels=0)
    model.trust = {"equation": Equation.of_card(data.card).facts}
    assert model.trust["equation"]["coefficients"] == {"rho": 1.0}
    assert compare_equations(model, make(vary={"nu": (2.0, 3.0)}).card) == ""
    assert compare_equations(model, make(vary={"nu": (0.2, 1.0)}, rho=2.0).card) == (
        "The data were made with rho = 2, the model was trained on rho = 1."
    )


@pytest.mark.parametrize("name", PRETRAINED)
def test_shipped_models_are_silent_on_their_own_test_part_and_know_their_coefficients(name):
    run = PRETRAINED[name]
    card = run.data_card
    if card.name in PROBLEMS:  # what the test part is solved again with
        card = plan_again(card).card
    assert compare_equations(run.model, card) == ""
    for coefficient, value in Equation.of_card(card).coefficients.items():
        other = "set3" if coefficient == "tissue" else 2 * value + 1
        changed = card.changed(parameters={**card.parameters, coefficient: other})
        assert f"made with {coefficient} = " in compare_equations(run.model, changed)


def test_a_word_is_compared_as_a_word():
    heart = PRETRAINED["heart"]
    card = heart.data_card.changed(parameters={**heart.data_card.parameters, "tissue": "set3"})
    assert compare_equations(heart.model, card) == (
        "The data were made with tissue = set3, the model was trained on tissue = set6."
    )
