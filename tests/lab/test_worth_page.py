"""The pages on worth and on parameters, built from figures alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lab.bench_parameters import CASES, draw_parameters
from lab.worth import _factors, _same_start, draw_worth, headline, worth_page


def one(seconds: float, matched: float | None, error: float = 0.01) -> dict[str, Any]:
    solver = {"points": [64, 64], "settings": {}, "nrmse": error, "seconds": matched or 1.0}
    rough = {"points": [32, 32], "settings": {}, "nrmse": 5 * error, "seconds": 0.1}
    gain = None if matched is None else matched / seconds
    return {
        **{"nrmse": error, "truth_error": None, "seconds": seconds, "seconds_batched": seconds},
        **{"curve": [rough, solver], "matched": matched, "matched_batched": matched},
        **{"solver": solver, "data": 100.0, "training": 500.0, "batch": 16},
        **{"speed_up": gain, "speed_up_batched": gain},
    }


def facts(**engines: dict[str, Any]) -> dict[str, Any]:
    return {**engines, "title": "", "load": 0.2, "machine": {}}


def test_the_page_says_who_wins_and_when_it_pays_off() -> None:
    page = worth_page(
        {
            "slow": facts(torch=one(0.4, 0.1)),
            "quick": facts(torch=one(0.1, 0.2), c=one(0.05, 0.2)),
            "alone": facts(torch=one(0.1, None)),
        }
    )
    rows = [line for line in page.splitlines() if line.startswith("| ") and "64" in line]
    assert [row.split(" | ")[0] for row in rows] == ["| quick", "| slow", "| alone"]
    # The faster engine counts: 0.2 s of solving against 0.05 s, so 600 s are back after 4 000.
    assert "| 200 | 100 | 50 | 4 | 4 | 4,000 |" in rows[0]
    assert rows[1].endswith("| never |")
    assert "**slow**: use the solver: it is 4 times cheaper at the same error." in page
    assert "**quick**: 4 times cheaper than the solver of the same error." in page
    assert "**alone**: no solver that was tried is as good (nRMSE 0.01)." in page


def test_pictures_are_drawn_from_the_figures(tmp_path: Path) -> None:
    draw_worth({"a": facts(torch=one(0.4, 0.1)), "b": facts(torch=one(1, 2))}, tmp_path / "w.png")
    kept = {
        name: {
            "rows": [
                *({"theta": list(v), "over_all": 0.02, "single": 0.01} for v in case.inside),
                *({"theta": list(v), "over_all": 0.2, "single": None} for v in case.outside),
            ]
        }
        for name, case in CASES.items()
    }
    draw_parameters(kept, tmp_path / "p.png")
    assert (tmp_path / "w.png").stat().st_size > 5000
    assert (tmp_path / "p.png").stat().st_size > 5000


def test_the_readme_shows_wins_and_losses_alike() -> None:
    kept = {"slow": facts(torch=one(0.4, 0.1)), "quick": facts(torch=one(0.1, 0.2))}
    rows = [line for line in headline(kept).splitlines() if line.startswith("| ")][2:]
    assert rows == [
        "| quick | 0.01 | 200 | 100 | **2 times cheaper** |",
        "| slow | 0.01 | 100 | 400 | use the solver, 4 times cheaper |",
    ]


def test_the_speed_up_is_told_as_cells_times_their_cost():
    """A solver of 128² where the model has 32² cells, ten times dearer: 16 cells by 0.625."""
    found = facts(torch=one(1.0, 10.0)) | {"points": [32, 32]}
    solver = {"points": [128, 128], "settings": {}, "nrmse": 0.1, "seconds": 10.0}
    found["torch"] |= {"solver": solver, "matched": 10.0}
    assert _factors("gas", found) == ["gas", "32 × 32", "128 × 128", "16", "0.62", "10"]
    assert _factors("gas", facts(torch=one(1.0, 10.0))) is None


def test_both_from_the_same_start_are_told_where_the_truth_is_finer():
    found = facts(torch=one(0.5, 1.0) | {"same_start": 4.0}) | {"refine": 8}
    assert _same_start("gas", found) == ["gas", "0.01", "500", "4e+03", "8"]
    found["torch"]["same_start"] = None
    assert _same_start("gas", found)[-2:] == ["none is as good", "–"]
    assert _same_start("gas", found | {"refine": 1}) is None
