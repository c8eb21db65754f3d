"""How far data move in a step: known by the card, or read from the numbers alone."""

import math

import numpy as np
import pytest

import fino
from fino.data.lightcone import light_cone
from fino.report.words import describe_light_cone


def sliding(cells: float, points: int = 128, frames: int = 41, samples: int = 12):
    """Random profiles of a few waves, shifted exactly by `cells` a frame, as PDEBench's are."""
    draw = np.random.default_rng(0)
    x = np.arange(points) / points
    u = np.zeros((samples, frames, 1, points))
    for sample in range(samples):
        for wave in draw.choice([1, 2, 3, 4, 6, 8], size=2):
            phase, size = draw.uniform(0, 2 * np.pi), draw.uniform()
            turn = cells / points * np.arange(frames)[:, None]
            u[sample, :, 0] += size * np.sin(2 * np.pi * wave * (x - turn) + phase)
        u[sample] += draw.normal()
    return fino.from_array(u, dt=0.05, extent=(0, 1), boundary="periodic")


def test_the_card_is_believed_where_it_knows(wave):
    data = fino.generate(wave, samples=3, beta=0.5)
    cone = light_cone(data)
    assert cone.source == "card" and cone.cells == (0.5 * 0.2 * 16,)
    assert cone.length == pytest.approx(0.1)
    assert describe_light_cone(cone, data) == (
        "the data move 1.6 cells a step (0.1 in length), by the card's wave speed."
    )
    assert light_cone(data.strided(time=2)).cells == (3.2,)


def test_steady_data_need_every_reach_there_is():
    u = np.random.default_rng(0).normal(size=(4, 2, 1, 8, 8))
    data = fino.from_array(u, dt=1, extent=(0, 1), boundary="dirichlet", steady=True)
    cone = light_cone(data)
    assert cone.source == "steady" and cone.cells == (math.inf, math.inf)
    assert "no finite reach is enough" in describe_light_cone(cone, data)


@pytest.mark.parametrize("cells", [25.6, -25.6, 0.3, 3.0, 50.0])
def test_a_shift_is_found_even_when_five_steps_go_round(cells):
    cone = light_cone(sliding(cells))
    assert cone.source == "estimated"
    assert cone.cells[0] == pytest.approx(abs(cells), rel=0.05)
    assert cone.length == pytest.approx(abs(cells) / 128, rel=0.05)


def test_each_axis_has_its_own_reach():
    u = sliding(4.0, points=32).read(range(12)).numpy()[..., None] * np.ones(16)
    data = fino.from_array(u, dt=1, extent=((0, 1), (0, 1)), boundary="periodic")
    x, y = light_cone(data).cells
    assert x == pytest.approx(4, rel=0.05) and y == 0


def test_spreading_counts_as_moving():
    x = (np.arange(128) + 0.5) / 128
    draw = np.random.default_rng(0)
    times = np.arange(20)[:, None] * 1e-4
    u = np.zeros((8, 20, 1, 128))
    for sample in range(8):
        for wave in range(1, 12):
            fade = np.exp(-((2 * np.pi * wave) ** 2) * times)
            u[sample, :, 0] += (
                draw.normal() * fade * np.cos(2 * np.pi * wave * (x + draw.uniform()))
            )
    data = fino.from_array(u, dt=1e-4, extent=(0, 1), boundary="periodic")
    assert light_cone(data).cells[0] == pytest.approx(2 * math.sqrt(2e-4) * 128, rel=0.05)


def test_the_trajectory_that_spreads_most_counts_where_parameters_vary():
    nu = np.geomspace(1e-3, 5e-2, 16)
    x, t = np.arange(128) / 128, 0.05 * np.arange(21)
    u = np.ones((16, 21, 1, 128))
    draw = np.random.default_rng(0)
    for wave in (1, 2, 3, 4):
        k = 2 * np.pi * wave
        decay = np.exp(-(k**2) * nu[:, None] * t)
        shape = np.sin(k * x + draw.uniform(0, 2 * np.pi, (16, 1)))
        u[:, :, 0] += decay[:, :, None] * shape[:, None]
    facts = {"dt": 0.05, "extent": (0, 1), "boundary": "periodic"}
    widest = 2 * math.sqrt(2 * nu.max() * 0.05) * 128
    varied = fino.from_array(u, parameters={"nu": nu}, **facts)
    assert light_cone(varied).cells[0] == pytest.approx(widest, rel=0.1)
    assert light_cone(fino.from_array(u, **facts)).cells[0] < widest / 2


def test_what_was_estimated_is_not_estimated_again(monkeypatch):
    u = np.random.default_rng(0).normal(size=(2, 4, 1, 16))
    data = fino.from_array(u, dt=0.1, extent=(0, 1), boundary="periodic")
    found = light_cone(data)
    monkeypatch.setattr("fino.data.lightcone._lines", lambda data: pytest.fail("read again"))
    assert light_cone(data) is found and found.source == "estimated"


def test_still_data_do_not_move():
    data = fino.from_array(np.ones((3, 5, 1, 16)), dt=1, extent=(0, 1), boundary="neumann")
    assert light_cone(data).cells == (0.0,)


def test_pdebench_advection_is_found_from_the_data_alone():
    data = fino.generate(
        "advection", samples=12, beta=4.0, points=256, stride_space=2, stride_time=5
    )
    assert light_cone(data).cells[0] == pytest.approx(25.6)
    assert light_cone(data, estimate=True).cells[0] == pytest.approx(25.6, rel=0.2)


def test_the_fastest_wave_of_compressible_flow_is_found_within_half():
    data = fino.generate("compressible-1d", samples=12, points=128, frames=21)
    density, pressure, velocity = data.train.all().double().unbind(dim=2)
    fastest = (velocity.abs() + (5 / 3 * pressure / density).sqrt()).max()
    cells = float(fastest) * data.dt / data.grid.spacing[0]
    cone = light_cone(data)
    assert cone.source == "estimated"
    assert 1 / 1.5 < cone.cells[0] / cells < 1.5


@pytest.mark.parametrize("stride", [1, 10])
def test_the_fastest_wave_of_shallow_water_is_found_within_half(stride):
    data = fino.generate("shallow-water", samples=5, points=48, stride_time=stride)
    known, found = light_cone(data), light_cone(data, estimate=True)
    for a, b in zip(known.cells, found.cells, strict=True):
        assert 1 / 1.5 < b / a < 1.5
