"""`python -m lab pages`: the pages that the docs link to."""

import json
import re

import pytest

import fino
from fino.export.page import SOLVERS
from fino.export.program import describe
from lab.pages import PAGES

KEPT = sorted(PAGES.glob("*.html"))


def test_every_shipped_model_with_a_solver_has_a_page():
    playable = [name for name, run in fino.PRETRAINED.items() if run.data_card.name in SOLVERS]
    assert sorted(path.stem for path in KEPT) == sorted(playable)
    assert len(KEPT) >= 2


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_a_kept_page_has_the_shipped_weights_and_is_small(path):
    text = path.read_text("utf-8")
    facts = json.loads(re.search(r'id="facts">(.*?)</script>', text, re.DOTALL).group(1))
    program = describe(fino.pretrained(path.stem))
    assert facts["program"]["shift"] == program.shift.tolist()
    assert facts["program"]["scale"] == program.scale.tolist()
    assert len(facts["program"]["operations"]) == len(program.operations)
    assert path.stat().st_size < 1e6
