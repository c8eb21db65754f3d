"""The tables of docs/trust.md, and the sets that they are measured on."""

import fino
from fino.model.pretrained import plan_again
from lab.trust import SHIFTS, _tables


def _found(levels, far):
    coverage = {"levels": levels, "held": [0.5, 0.81, 0.902, 0.951][: len(levels)]}
    coverage |= {"width": [1.0, 2.0, 3.0, 4.0][: len(levels)], "mean_error": 0.5}
    test = {"alarms": 0.04, "alarms_mirror": 0.05, "card": "", "error": 1.0}
    guards = {"auc": 0.95, "sets": {"test": test}}
    return {"coverage": coverage, "guards": guards} | ({"coverage_far": coverage} if far else {})


def test_what_was_not_measured_is_a_dash():
    rows = _tables({"a": _found([0.5, 0.8, 0.9, 0.95], True), "b": _found([0.5, 0.8, 0.9], False)})
    assert rows["bands"][2:] == [
        "| a | 50.0 | 81.0 | 90.2 | 95.1 | 90.2 | 6.0 |",
        "| b | 50.0 | 81.0 | 90.2 | – | – | 6.0 |",
    ]
    assert rows["guards"][2] == "| a | 0.950 | – | – | 4.0 %, 5.0 % |  |"
    assert len(rows["spots"]) == len(rows["mirror"]) == 2


def test_estimates_are_a_row_for_each_model_that_can_be_asked():
    found = _found([0.5, 0.8, 0.9], False)
    found["mirror"] = {"samples": 24, "within": 0.958, "median": 1.04, "correlation": 0.9}
    found["guards"] |= {"auc_mirror": 0.97, "auc_card": 0.98}
    rows = _tables({"a": found})
    assert rows["mirror"][2] == "| a | 24 | 96 % | 1.04 | 0.90 |"
    assert rows["guards"][2] == "| a | 0.950 | 0.970 | 0.980 | 4.0 %, 5.0 % |  |"


def test_other_gases_have_ratios_of_heat_capacities_that_training_has_not_seen():
    card = fino.PRETRAINED["euler-2d"].data_card
    again = plan_again(card, **SHIFTS["euler-2d"]["other gases"])
    assert again.card.points == card.points and tuple(again.card.varying) == tuple(card.varying)
    trained = plan_again(card).conditions.parameters
    assert again.conditions.parameters.min() >= 2 > trained.max()
