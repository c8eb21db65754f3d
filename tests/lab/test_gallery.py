"""The picture of the problems."""

from pathlib import Path

import pytest

from lab import gallery as room


def test_a_line_a_plane_and_a_steady_problem_are_drawn(monkeypatch):
    def small(name, samples, seed):
        points = 64 if name == "advection" else 16
        return generate(name, samples=samples, seed=seed, points=points)

    generate = room.generate
    monkeypatch.setattr(room, "generate", small)
    monkeypatch.setattr(room, "_SHOWN", ("advection",))
    monkeypatch.setattr(room, "_SHOWN_2D", ("shallow-water", "darcy"))
    figure = room.draw_gallery()
    rows = figure.subfigs
    assert [row.get_suptitle().split(":")[0] for row in rows] == [
        "Linear advection",
        "Shallow water, radial dam break",
        "Darcy flow",
    ]
    labels = [axes.get_ylabel() for axes in rows[2].axes]
    assert "given: ν(x, y)" in labels and "follows: u(x, y)" in labels


def test_a_picture_is_not_overwritten_without_being_asked(tmp_path):
    (tmp_path / "problems.png").touch()
    with pytest.raises(ValueError, match=r"exists already\. Choose another name, or pass --over"):
        room.gallery(tmp_path / "problems.png")


def test_every_problem_has_a_card_with_its_picture():
    page = (Path(__file__).parents[2] / "docs" / "problems.md").read_text()
    assert room.problem_cards() in page


def test_a_problem_is_drawn_by_itself(monkeypatch):
    generate = room.generate
    monkeypatch.setattr(
        room, "generate", lambda name, **facts: generate(name, **facts, points=32, frames=4)
    )
    labels = [axes.get_ylabel() for axes in room.draw_problem("advection").axes]
    assert "u(x, t)" in labels
