"""The picture of the problems."""

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
