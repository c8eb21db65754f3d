"""What `build` chooses from the data alone: reach first, then the shape that did best."""

import numpy as np
import pytest
import torch

import fino
from fino.model import MODELS


def wave(cells_a_step: float, points: int = 64, frames: int = 14):
    """Waves of three lengths that run to the right on a ring, the fastest so many cells a step."""
    x, t = np.arange(points) / points, np.arange(frames)
    draw = np.random.default_rng(0)
    u = np.zeros((12, frames, 1, points))
    for sample in u:
        for k, speed in ((1, 1.0), (3, 0.8), (7, 0.9)):
            shift = speed * cells_a_step / points * t[:, None] + draw.random()
            sample[:, 0] += draw.normal() * np.sin(2 * np.pi * k * (x - shift)) ** 3
    return fino.from_array(u, dt=1.0, extent=(0, 1), boundary="periodic")


def steady():
    """Unrelated inputs and outputs between walls: only the shape matters."""
    pairs = torch.randn(8, 2, 1, 32, 32)
    return fino.from_array(pairs, dt=1.0, extent=(0, 1), boundary="dirichlet", steady=True)


def shape(model):
    s = model.network.settings
    return s.levels, s.blocks, s.width, s.activation


def test_slow_data_get_no_levels_and_the_papers_activation():
    model = fino.build("fino", wave(0.5), predict="increment", history=2)
    assert shape(model) == (0, 2, 16, "relu")


def test_fast_data_get_levels_that_see_far_enough_and_are_smooth():
    data = wave(12.0)
    model = fino.build("fino", data, predict="increment", history=2)
    levels, blocks, width, activation = shape(model)
    assert levels > 0 and (blocks, width, activation) == (1, 16, "gelu")
    fewer = fino.build("fino", data, predict="increment", history=2, levels=levels - 1)
    assert fewer.locality.radius[0] < 12 <= model.locality.radius[0]


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        (64, (0, 3, 16, "relu")),
        (128, (0, 3, 16, "relu")),
        (255, (0, 3, 16, "relu")),
        (512, (2, 1, 16, "gelu")),
    ],
)
def test_on_a_combination_of_frames_levels_only_make_fine_grids_coarse(points, expected):
    assert shape(fino.build("fino", wave(12.0, points), predict="linear")) == expected


def test_a_steady_problem_gets_every_level_its_grid_allows():
    model = fino.build("fino", steady())
    assert shape(model) == (3, 1, 16, "gelu")
    assert model.settings.coordinates


@pytest.mark.parametrize("name", sorted(MODELS))
@pytest.mark.parametrize("kind", ["linear", "increment", "steady"])
def test_every_model_is_built_from_data_alone_and_the_control_has_finos_shape(name, kind):
    data, base = (steady(), {}) if kind == "steady" else (wave(0.5), {"predict": kind})
    model = fino.build(name, data, **base)
    if name == "plain":
        assert shape(model) == shape(fino.build("fino", data, **base))


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"activation": "relu"}, (3, 1, 16, "relu")),
        ({"levels": 1}, (1, 1, 32, "relu")),
        ({"size": "large"}, (3, 1, 64, "relu")),
    ],
)
def test_what_is_said_comes_before_what_would_be_chosen(said, expected):
    assert shape(fino.build("fino", steady(), **said)) == expected


def test_one_frame_is_shown_where_parameters_vary_and_a_frame_is_the_whole_state():
    small = {"points": 16, "frames": 13, "duration": 0.1}
    fisher = fino.generate("diffusion-reaction-1d", 8, vary={"rho": (0.5, 4)}, **small)
    assert fisher.history == 6 and fino.build("fino", fisher, width=4).settings.history == 1
    assert fino.build("fino", fisher, width=4, history=3).settings.history == 3
    alike = fino.generate("diffusion-reaction-1d", 8, **small)
    assert fino.build("fino", alike, width=4).settings.history == 6
    hidden = fino.generate("shallow-water", 8, vary={"gravity": (0.5, 2)}, **small)
    assert fino.build("fino", hidden, width=4).settings.history == 6


@pytest.mark.parametrize(("points", "width", "activation"), [(16, 32, "gelu"), (64, 16, "relu")])
def test_on_a_grid_of_few_cells_the_network_is_wider(points, width, activation):
    x, t = np.arange(points) / points, np.arange(12)[:, None]
    k = np.arange(1, 9)[:, None, None]
    u = np.sin(2 * np.pi * (k * x - 0.1 * t)) + 0.1 * np.cos(2 * np.pi * (x + 0.05 * k * t))
    data = fino.from_array(u[:, :, None], dt=0.1, extent=(0, 1), boundary="periodic")
    network = fino.build("fino", data, predict="linear").network.settings
    assert (network.width, network.levels, network.blocks) == (width, 0, 3)
    assert network.activation == activation


def test_the_longest_stride_keeps_the_motion_within_reach_and_enough_steps():
    slow = fino.generate("advection", 6, points=64, frames=65, duration=0.5, beta=1.0)
    moved = 1.0 * (0.5 / 64) * 64  # speed · Δt in cells of the unit interval
    assert moved == pytest.approx(0.5)
    assert fino.longest_stride(slow) == 8  # 8 steps are left; the motion alone would allow 16
    quick = fino.generate("advection", 6, points=64, frames=65, duration=2.0, beta=1.0)
    assert fino.longest_stride(quick) == 4  # 8 cells
    assert fino.longest_stride(steady()) == 1


def test_a_network_that_sees_little_allows_short_steps_only():
    few = fino.generate("advection", 6, points=6, frames=65, duration=20.0, beta=0.2)
    reach = min(fino.Fino(1, 1, 1, width=1, levels=0).locality.radius)
    moved = 0.2 * (20.0 / 64) * 6
    assert fino.longest_stride(few) == int(reach / 1.2 / moved) < 8
