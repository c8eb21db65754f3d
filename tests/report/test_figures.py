"""Figures: drawn for lines, planes, volumes and steady fields, the same bytes every time."""

import base64
import io
import shutil
import subprocess

import numpy as np
import pytest
from PIL import Image

from fino.grid import Grid
from fino.report import curves, look
from fino.report.movie import (
    gradient,
    movie_frames,
    player_content,
    write_movie,
    write_rollout_movie,
)
from fino.report.scene import Scene, draw_fields, draw_space_time


def scene(points=(24,), frames=5, channels=1, **facts):
    stream = np.random.default_rng(0)
    truth = stream.normal(size=(frames, channels, *points)).cumsum(axis=2)
    prediction = truth + 0.1 * stream.normal(size=truth.shape)
    grid = Grid(points, ((0.0, 1.0),) * len(points), "periodic")
    fields = ("u", "v", "w")[:channels]
    return Scene(truth, prediction, 0.1 * np.arange(frames), grid, fields, **facts)


def test_truth_and_prediction_share_one_scale_and_the_error_is_centred():
    figure = draw_fields(scene((8, 8)), count=2)
    images = [axes.images[0] for axes in figure.axes if axes.images]
    limits = [image.get_clim() for image in images]
    assert len(images) == 6
    assert len(set(limits[:4])) == 1
    low, high = limits[5]
    assert low == -high


@pytest.mark.parametrize("points", [(24,), (8, 12), (6, 6, 4)])
def test_fields_are_drawn_in_any_dimension(points, tmp_path):
    path = look.save(draw_fields(scene(points), count=2), tmp_path / "fields.png")
    with Image.open(path) as image:
        assert min(image.size) > 300
        assert len(np.unique(np.asarray(image.convert("L")))) > 20


def test_steady_fields_show_what_was_given():
    steady = scene((8, 8), frames=1, steady=True, given=np.ones((1, 8, 8)))
    titles = [axes.get_title() for axes in draw_fields(steady).axes if axes.images]
    assert titles == ["input", "truth", "model", "error"]


def test_axes_carry_names_and_units():
    figure = draw_fields(scene(units=("m",)))
    assert figure.axes[0].get_ylabel() == "u (m)"
    assert scene(units=("1",)).label(0) == "u"
    figure = draw_space_time(scene())
    assert figure.axes[0].get_ylabel() == "time"
    with pytest.raises(ValueError, match="not in 2D"):
        draw_space_time(scene((8, 8)))


def test_north_is_up_on_a_sphere():
    grid = Grid((3, 4), ((90.0, -90.0), (0.0, 360.0)), ("neumann", "periodic"))
    field = np.arange(12.0).reshape(1, 1, 3, 4)
    world = Scene(field, field, [0.0], grid, ("p",), sphere=True)
    np.testing.assert_array_equal(world.picture(field[0, 0])[0], [0, 1, 2, 3])
    assert world.tallness == 0.5
    flat = scene((3, 4))
    np.testing.assert_array_equal(flat.picture(field[0, 0])[-1], [0, 4, 8])


def test_axes_are_drawn_as_the_file_names_them():
    """Where the axes are (latitude, longitude) or (y, x), the first one goes upwards."""
    grid = Grid((3, 4), ((50.0, 53.0), (0.0, 8.0)), "neumann")
    field = np.arange(12.0).reshape(1, 1, 3, 4)
    sea = Scene(field, field, [0.0], grid, ("sst",), axis_names=("latitude", "longitude"))
    np.testing.assert_array_equal(sea.picture(field[0, 0])[-1], [0, 1, 2, 3])
    assert sea.axes == (("longitude", 0.0, 8.0), ("latitude", 50.0, 53.0))
    assert sea.place == "latitude ∈ [50, 53], longitude ∈ [0, 8]" and sea.tallness == 0.5
    images = [axes.images[0] for axes in draw_fields(sea, count=1).axes if axes.images]
    assert images[0].get_extent() == [0, 8, 50, 53]
    turned = Scene(field, field, [0.0], grid, ("sst",), axis_names=("x", "y"))
    assert turned.axes == (("x", 50.0, 53.0), ("y", 0.0, 8.0))


def test_times_are_shown_with_their_unit():
    sea = scene((8, 8), time_unit="days")
    titles = {axes.get_title() for axes in draw_fields(sea, count=2).axes}
    assert "t = 0.4 days" in titles
    assert player_content(sea)["facts"]["times"][1] == "0.1 days"
    assert scene((8,)).title(1) == "t = 0.1" and scene((8,), 1, steady=True).title(0) == "steady"


def test_cells_outside_of_a_mask_are_blank():
    """Transparent in the player and NaN in a movie of a rollout, not the colour of a value."""
    values = np.arange(12.0).reshape(1, 1, 3, 4)
    values[..., 1, 2] = np.nan
    grid = Grid((3, 4), ((0.0, 1.0), (0.0, 1.0)), "neumann")
    content = player_content(Scene(values, values, [0.0], grid, ("u",), is_masked=True))
    strip = content["facts"]["fields"][0]["strips"]["truth"].partition(",")[2]
    with Image.open(io.BytesIO(base64.b64decode(strip))) as image:
        alpha = np.asarray(image.convert("RGBA"))[..., 3]
    assert (alpha == 0).sum() == 1 and alpha[1, 1] == 0


def test_errors_grow_on_a_logarithmic_axis():
    figure = curves.error_over_time(
        [0, 1, 2], {"a": [0, 1, 2], "b": [None, 2, 3]}, ([0] * 3, [1] * 3)
    )
    (axes,) = figure.axes
    assert axes.get_yscale() == "log"
    assert [line.get_label() for line in axes.get_lines()] == ["a", "b"]
    assert len({line.get_linestyle() for line in axes.get_lines()}) == 2


def test_spectra_and_training_are_drawn():
    figure = curves.spectra(
        [0, 1, 2], {"truth": [1, 0.1, 0.0], "m": [1, 0.1, 0.01], "error": [0.1] * 3}
    )
    assert len(figure.axes[0].get_lines()) == 3
    records = [
        {
            "cpu_seconds": i,
            "loss": 1 / (i + 1),
            "nrmse": 0.5 if i % 2 else None,
            "horizon": 1 + i // 2,
        }
        for i in range(4)
    ]
    labels = [line.get_label() for line in curves.training_curve(records).axes[0].get_lines()]
    assert labels[:2] == ["validation, nRMSE of the rollout", "training loss"]


def test_the_pareto_line_joins_what_nothing_beats():
    rows = [
        {"name": "small", "cost": 1.0, "error": 3.0},
        {"name": "wasteful", "cost": 2.0, "error": 4.0},
        {"name": "large", "cost": 3.0, "error": 1.0, "spread": 0.1},
        {"name": "unknown", "cost": None, "error": 1.0},
    ]
    (axes,) = curves.pareto(rows, ("cost", "error")).axes
    line = axes.get_lines()[0]
    assert list(line.get_xdata()) == [1.0, 3.0]
    assert {text.get_text() for text in axes.texts} == {"small", "wasteful", "large"}


def test_figures_are_the_same_bytes_every_time(tmp_path):
    for ending in ("svg", "png"):
        path = tmp_path / f"a.{ending}"
        first, again = (
            look.save(draw_fields(scene(), count=1), path).read_bytes() for _ in range(2)
        )
        assert first == again


def test_inline_figures_take_the_ink_of_the_page():
    svg = look.inline(draw_fields(scene((8, 8)), count=1), "maps")
    assert svg.startswith("<svg") and svg.rstrip().endswith("</svg>")
    assert "currentColor" in svg and look.INK not in svg
    assert 'id="maps-' in svg and "<metadata>" not in svg
    opening = svg[: svg.index(">")]
    assert "viewBox" in opening and " width=" not in opening


def test_drawing_leaves_matplotlib_as_it_was():
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    look.inline(draw_fields(scene(), count=1), "x")
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize("points", [(24,), (8, 8)])
def test_a_movie_has_a_picture_for_every_frame(points, tmp_path):
    path = write_movie(scene(points), tmp_path / "movie.gif")
    with Image.open(path) as image:
        assert image.n_frames == 5
    drawn = list(movie_frames(scene(points)))
    assert len({frame.shape for frame in drawn}) == 1
    assert not np.array_equal(drawn[0], drawn[-1])


def test_a_movie_shows_every_field_with_its_scale_and_the_truth_as_far_as_it_is_known(tmp_path):
    one, two = (next(movie_frames(scene((8, 12), channels=c))) for c in (1, 2))
    assert two.shape[0] > 1.5 * one.shape[0] and two.shape[1] == one.shape[1]
    path = tmp_path / "rollout.gif"
    frames, grid = (
        np.random.default_rng(0).normal(size=(4, 2, 6, 9)),
        Grid((6, 9), ((0, 2), (0, 3)), "periodic"),
    )
    write_rollout_movie(frames, path, grid, [1, 2, 3, 4], ("u", "v"), truth=frames[:2])
    with Image.open(path) as image:
        beside = image.size
    write_rollout_movie(frames, path, grid, [1, 2, 3, 4], ("u", "v"))
    with Image.open(path) as image:
        assert image.n_frames == 4 and image.size[0] < beside[0] and image.size[1] == beside[1]


def test_a_movie_of_a_rollout_has_the_units_of_the_data(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr("fino.report.movie.write_movie", lambda scene, *_: drawn.append(scene))
    frames, grid = np.zeros((2, 1, 6, 9)), Grid((6, 9), ((0, 2), (0, 3)), "neumann")
    units = {"units": ("degC",), "time_unit": "days"}
    write_rollout_movie(frames, tmp_path / "a.gif", grid, [1, 2], ("sst",), **units)
    assert drawn[0].label(0) == "sst (degC)" and drawn[0].title(1) == "t = 2 days"


def test_fields_that_are_not_square_are_the_right_way_round():
    """x to the right, y upwards: what is high at large x and low y is at the bottom right."""
    x, y = np.meshgrid(np.arange(12), np.arange(5), indexing="ij")
    values = np.where((x > 9) & (y < 2), 1.0, 0.0)[None, None]
    grid = Grid((12, 5), ((0.0, 12.0), (0.0, 5.0)), "periodic")
    wide = Scene(values, values, [0.0], grid, ("u",))
    picture = wide.picture(values[0, 0])
    assert picture.shape == (5, 12) and picture[-1, -1] == 1 and picture[0, 0] == 0
    assert wide.tallness == 0.5 and wide.axes == (("x", 0, 12), ("y", 0, 5))
    images = [axes.images[0] for axes in draw_fields(wide, count=1).axes if axes.images]
    assert images[0].get_extent() == [0, 12, 0, 5]


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="no ffmpeg")
def test_a_movie_can_be_mp4(tmp_path):
    path = write_movie(scene((8, 8)), tmp_path / "movie.mp4")
    words = ["ffprobe", "-v", "error", "-count_frames", "-show_entries", "stream=nb_read_frames"]
    said = subprocess.run([*words, "-of", "csv=p=0", path], capture_output=True, text=True)
    assert said.stdout.strip() == "5"


def test_movies_of_another_kind_are_refused(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"should end in .gif or .mp4"):
        write_movie(scene(), tmp_path / "movie.avi")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ValueError, match="mp4 needs ffmpeg"):
        write_movie(scene(), tmp_path / "movie.mp4")


def test_the_player_takes_lines_as_numbers_and_planes_as_strips():
    lines = player_content(scene())
    assert lines["kind"] == "lines"
    truth = lines["facts"]["fields"][0]["lines"]["truth"]
    assert len(truth) == 5 and len(truth[0]) == 24
    maps = player_content(scene((8, 12)))
    assert maps["kind"] == "maps"
    assert (maps["across"], maps["up"]) == (["x", "0", "1"], ["y", "0", "1"])
    several = player_content(scene((8, 12), channels=3))["facts"]["fields"]
    assert [field["label"] for field in several] == ["u", "v", "w"]
    for field in [*maps["facts"]["fields"], *several]:
        assert all(strip.startswith("data:image/png;base64,") for strip in field["strips"].values())
    assert gradient("viridis").count("rgb(") == 12


def test_a_blow_up_can_still_be_drawn(tmp_path):
    broken = scene((8, 8))
    broken.prediction[2:] = np.nan
    look.save(draw_fields(broken, count=2), tmp_path / "broken.png")
    assert player_content(broken)["kind"] == "maps"
    assert (tmp_path / "broken.png").stat().st_size > 1000


def test_a_scene_that_does_not_fit_is_refused():
    grid = Grid((4,), ((0, 1),), "periodic")
    with pytest.raises(ValueError, match="the shape of the truth"):
        Scene(np.zeros((2, 1, 4)), np.zeros((3, 1, 4)), [0, 1], grid, ("u",))
    with pytest.raises(ValueError, match="with 3 times on a"):
        Scene(np.zeros((2, 1, 4)), np.zeros((2, 1, 4)), [0, 1, 2], grid, ("u",))
