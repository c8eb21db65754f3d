"""The random profiles: their quirks, and what is published about PDEBench's files."""

from __future__ import annotations

import numpy as np
import pytest

from fino.grid import Grid
from fino.pde.advection import Advection
from fino.pde.compressible import Compressible
from fino.pde.initial import LINE, Family, draw_line_waves, draw_released_waves, draw_waves
from fino.streams import numpy_stream

UNIT = Grid((1024,), ((0.0, 1.0),), "periodic")


def streams(count):
    return [numpy_stream(5, "initial", i) for i in range(count)]


@pytest.fixture(scope="module")
def released_profiles():
    return draw_line_waves(LINE.modes, LINE.window, "pdebench", 0, range(10_000))


def test_a_quarter_of_the_released_profiles_drew_a_mode_twice(released_profiles):
    assert (released_profiles.count == 2).any(1).mean() == pytest.approx(0.25, abs=0.005)


def test_released_profiles_have_the_published_size(released_profiles):
    size = np.sqrt((released_profiles.on(UNIT) ** 2).mean(1))
    assert size.mean() == pytest.approx(0.7305, abs=1e-4)
    assert np.median(size) == pytest.approx(0.704, abs=5e-4)
    assert 1 / np.mean(1 / size) == pytest.approx(0.538, abs=5e-4)


def test_released_windows_are_where_the_reused_key_put_them(released_profiles):
    left, right = released_profiles.edges
    windows = left[released_profiles.windowed]
    assert windows.min() >= 0.100 and windows.max() <= 0.135
    np.testing.assert_allclose(right - left, 0.45)


def test_the_mean_density_of_9000_released_samples_is_the_published_one():
    """5.8750033 was computed by others from the genuine file."""
    problem = Compressible(initial="pdebench")
    means = [
        problem.draw(problem.grid, 0, range(start, start + 1000))[:, 0].mean()
        for start in range(0, 9000, 1000)
    ]
    assert np.mean(means) == pytest.approx(5.8750033, abs=1e-6)


def test_our_profiles_follow_the_same_distribution():
    ours = draw_waves(streams(4000), LINE)
    size = np.sqrt((ours.on(UNIT.strided(8)) ** 2).mean(1))
    assert size.mean() == pytest.approx(0.7305, abs=0.02)
    assert (ours.count == 2).any(1).mean() == pytest.approx(0.25, abs=0.03)
    assert ours.windowed.mean() == pytest.approx(LINE.window, abs=0.02)
    assert ours.folded.mean() == pytest.approx(0.1, abs=0.02)
    assert ours.negative.mean() == pytest.approx(0.5, abs=0.025)


def test_a_coarser_grid_samples_the_same_profiles():
    ours = draw_waves(streams(20), LINE)
    np.testing.assert_array_equal(ours.on(UNIT)[:, ::8], ours.on(UNIT.strided(8)))
    np.testing.assert_array_equal(
        ours.between_0_and_1(UNIT)[:, ::8], ours.between_0_and_1(UNIT.strided(8))
    )


def test_scaled_profiles_touch_zero_and_one():
    scaled = draw_waves(streams(20), LINE).between_0_and_1(UNIT)
    np.testing.assert_array_equal(scaled.min(1), 0)
    np.testing.assert_array_equal(scaled.max(1), 1)


def test_every_profile_is_a_wave_never_a_constant():
    assert (draw_waves(streams(500), LINE).on(UNIT).std(1) > 1e-3).all()


def test_without_windows_and_with_one_mode_a_profile_is_one_sine():
    waves = draw_waves(streams(50), Family(modes=1, window=0.0, domain=(0.0, 1.0)))
    assert (waves.count == 2).all() and not waves.windowed.any()
    (x,) = UNIT.coordinates()
    turns = 2 * x / (1023 / 1024) + waves.phase
    wave = waves.amplitude * np.sin(2 * np.pi * turns)
    wave = np.where(waves.folded[:, None], np.abs(wave), wave)
    wave = np.where(waves.negative[:, None], -wave, wave)
    np.testing.assert_allclose(waves.on(UNIT), wave, atol=1e-12)


def test_a_released_row_does_not_depend_on_the_rows_asked_for_with_it():
    one, key = draw_released_waves(2022, 10_000, [77], LINE)
    many, same = draw_released_waves(2022, 10_000, [3, 77, 9_999], LINE)
    assert key == same
    np.testing.assert_array_equal(one.on(UNIT)[0], many.on(UNIT)[1])


def test_released_profiles_of_other_modes_are_refused():
    problem = Advection(initial="pdebench", modes=5)
    with pytest.raises(ValueError, match=r"modes=4 and window=0\.1"):
        problem.draw(problem.grid, 0, [0])
