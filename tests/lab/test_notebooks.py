"""The gallery says what the examples say, and its notebooks run."""

from __future__ import annotations

import json

import pytest

from lab.notebooks import EXAMPLES, ROOT, make_notebook, make_page, split_cells


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_notebook_and_page_are_those_of_the_example(path):
    book = ROOT / f"examples/notebooks/{path.stem}.ipynb"
    assert book.read_text() == make_notebook(path.read_text())
    assert (ROOT / f"docs/gallery/{path.stem}.md").read_text() == make_page(path)
    assert (ROOT / f"docs/figures/gallery/{path.stem}.png").stat().st_size < 300_000


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_cells_hold_the_whole_script_and_can_be_compiled_one_by_one(path):
    cells = split_cells(path.read_text())
    assert cells[0][0] == "markdown" and len(cells) > 2
    for number, (_, code) in enumerate(cells[1:]):
        compile(code, f"cell {number}", "exec")
    squeezed = "".join("".join(code for _, code in cells).split())
    assert squeezed == "".join(path.read_text().replace('"""', "", 2).split())


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_notebook_runs_cell_by_cell(path, tmp_path, monkeypatch, tables):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    book = json.loads((ROOT / f"examples/notebooks/{path.stem}.ipynb").read_text())
    names: dict[str, object] = {"__name__": "__main__"}
    for cell in book["cells"]:
        if cell["cell_type"] == "code":
            # Without this file's own `from __future__ import annotations`, as in Jupyter.
            code = compile("".join(cell["source"]), path.stem, "exec", dont_inherit=True)
            exec(code, names)
